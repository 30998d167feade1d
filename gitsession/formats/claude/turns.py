"""Parallel tool calls on one line. FROZEN with view 1: it decides what a record hangs below.

Claude Code writes a line for each block of an answer, and hangs each result below the line of its call: calls that are
made together fork the tree, and a walk from the end back meets one of them. It puts the others in again by the id of
their answer. Here they hang below one another as they were written, so that every walk meets them all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gitsession.formats.base.jsonl import Object
from gitsession.formats.claude.records import MESSAGES, answer_id, results_in


@dataclass
class _Turn:
    """An answer, the results of its calls, and what was noted between. ``tip``: the id of its last record."""

    answer: str
    tip: str
    answered: set[str] = field(default_factory=set)


class ParallelCalls:
    """Told of every record in file order."""

    def __init__(self) -> None:
        self._of: dict[str, _Turn] = {}

    def parent(self, said: Object, own: str | None, stated: str | None) -> str | None:
        """What the record ``own`` hangs below, which says that it hangs below ``stated``."""
        turn = self._of.get(stated) if stated is not None else None
        if own is None or own in self._of:
            return stated
        answer, results = answer_id(said), results_in(said)
        if answer is not None:
            if turn is None or turn.answer != answer:
                self._of[own] = _Turn(answer, own)
                return stated
        elif turn is None:
            return stated
        elif results:
            if results & turn.answered:
                return stated  # called once more: another history
            turn.answered |= results
        elif said.get("type") in MESSAGES or stated != turn.tip:
            return stated
        below, turn.tip = turn.tip, own
        self._of[own] = turn
        return below
