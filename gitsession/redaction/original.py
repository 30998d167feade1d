"""What a payload was before secrets were taken out of it, and how what stands in their place begins.

Apart from the rules, which who only reads need not load.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

OPENS = "[redacted:"
"""How a placeholder begins."""


@dataclass(frozen=True, slots=True)
class Original:
    """A payload as its writer wrote it. ``digest`` and ``chain``: of the entry that has it redacted, 32 bytes each.

    ``source``: ``<agent> <id> <line>`` of an entry that was imported, else "".
    """

    digest: bytes
    chain: bytes
    payload: bytes
    source: str = ""


def matches(redacted: bytes, rows: Iterable[tuple[int, int, str]], original: bytes) -> bool:
    """Return whether ``original``, with something hidden at each of ``rows``, can be ``redacted``.

    Placeholders stand for anything. Rules differ between releases and users: an entry that was stored by other rules is
    the same entry all the same.
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
