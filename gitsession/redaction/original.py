"""The original of a redacted payload, and placeholders.

This module is separate from the rules, because programs that only read sessions need not load the rules.
"""

from __future__ import annotations

from collections.abc import Iterable

from gitsession.dataclass import dataclass

OPENS = "[redacted:"
"""The beginning of a placeholder."""


def placeholder(rule: str) -> bytes:
    """Return the placeholder of a secret.

    It contains only the name of the rule, because anything else would reveal a part of the secret.
    """
    return f"{OPENS}{rule}]".encode()


@dataclass(frozen=True, slots=True)
class Original:
    """A payload as its writer wrote it.

    Attributes:
        digest: Digest of the redacted entry, 32 bytes.
        chain: Chain digest of the redacted entry, 32 bytes.
        payload: The original payload.
        source: ``<agent> <id> <line>`` of an imported entry, else "".
    """

    digest: bytes
    chain: bytes
    payload: bytes
    source: str = ""


def matches(redacted: bytes, rows: Iterable[tuple[int, int, str]], original: bytes) -> bool:
    """Return whether ``redacted`` can be ``original`` with placeholders at the offsets and lengths in ``rows``.

    A placeholder matches any text. Rules differ between releases and users, but an entry that was redacted by other
    rules is still the same entry.
    """
    parts: list[bytes] = []
    at = 0
    for offset, length, _ in rows:
        parts.append(redacted[at:offset])
        at = offset + length
    last = redacted[at:]
    if not parts:
        return redacted == original
    if not original.startswith(parts[0]):
        return False
    at = len(parts[0])
    for part in parts[1:]:
        at = original.find(part, at + 1)
        if at < 0:
            return False
        at += len(part)
    return original.endswith(last) and len(original) - len(last) > at
