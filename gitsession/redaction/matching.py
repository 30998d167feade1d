"""Whether a redacted payload is one of which the original is at hand: placeholders stand for anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gitsession.redaction.payloads import Row


def matches(redacted: bytes, rows: Iterable[Row], original: bytes) -> bool:
    """Whether ``original``, with something hidden at each of ``rows``, can be ``redacted``.

    Rules differ between releases and users: an entry that was stored by other rules is the same entry all the same.
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
