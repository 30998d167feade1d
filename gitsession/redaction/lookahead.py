"""Which of many payloads may hold secrets: a look at some at once takes far less than one at each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gitsession.redaction.scan import Scanner

_BYTES = 1 << 20


class SecretLookahead:
    """A look that goes some way on from the payload that is asked for, of ``count`` payloads.

    ``payload`` reads one by its number, once for each look.
    """

    def __init__(self, scanner: Scanner, count: int, payload: Callable[[int], bytes]) -> None:
        self._scanner = scanner
        self._count, self._payload = count, payload
        self._from = self._to = 0
        self._suspects: set[int] = set()

    def may_hold(self, number: int) -> bool:
        """See ``Scanner.may_hold``; of the payload of this number."""
        if not self._from <= number < self._to:
            self._look(number)
        return number in self._suspects

    def _look(self, number: int) -> None:
        payloads: list[bytes] = []
        size = 0
        while number + len(payloads) < self._count and size < _BYTES:
            payloads.append(self._payload(number + len(payloads)))
            size += len(payloads[-1])
        self._from, self._to = number, number + len(payloads)
        self._suspects = {number + each for each in self._scanner.suspects(payloads)}
