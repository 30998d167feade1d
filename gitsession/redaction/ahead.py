"""Which of many payloads may hold secrets: a look at some at once takes far less than one at each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gitsession.redaction.scan import Scanner

_BYTES = 1 << 20


class Ahead:
    """A look that goes some way on from the payload that is asked for, in ``payloads`` from the first to the last."""

    def __init__(self, scanner: Scanner, payloads: Sequence[bytes]) -> None:
        self._scanner = scanner
        self._payloads = payloads
        self._from = self._to = 0
        self._suspects: set[int] = set()

    def may_hold(self, number: int) -> bool:
        """See ``Scanner.may_hold``; of the payload of this number."""
        if not self._from <= number < self._to:
            self._look(number)
        return number in self._suspects

    def _look(self, number: int) -> None:
        size, end = 0, number
        while end < len(self._payloads) and size < _BYTES:
            size += len(self._payloads[end])
            end += 1
        self._from, self._to = number, end
        self._suspects = {number + each for each in self._scanner.suspects(self._payloads[number:end])}
