"""Where things hang: from the ids and parents that a file states to a tree that every reader can walk.

Pure and the same for every agent whose lines name their parents. The cases, in the order in which they are tried:

1. no id and no parent field: no place of its own  -> below the previous line; later children of that line hang below it
2. parent field absent                             -> below the previous line
3. parent null                                     -> the root
4. parent stated by an earlier line                -> below the line that answers to the id now
5. parent stated by a later line only              -> below the first such line, and it comes out after it
6. that closes a cycle (or names itself)           -> the root, for the line of the cycle that comes first
7. parent stated by no line                        -> the root

A duplicate id is kept: the later line answers from there on. Lines are placed in one pass, each by what stands before
it, so a file that grows moves nothing but lines whose parent was not there yet (5 and 6).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple


class Field(Enum):
    """A parent field that is not there at all, as opposed to ``None``, which names the root."""

    ABSENT = "absent"


class LineLink(NamedTuple):
    """What a line says about itself: its number, its own id, and the id of its parent."""

    line: int
    id: str | None
    parent: str | Field | None


class PlacedLine(NamedTuple):
    """Where a line hangs: below line ``parent``, or below the root. ``at``: its place in what was handed in.

    ``claimed``: the parent it names, where that is not where it hangs. ``problem``: for the report; "" if none.
    """

    at: int
    line: int
    parent: int | None
    claimed: str | None = None
    problem: str = ""


NOTHING = LineLink(0, None, Field.ABSENT)
"""What a line without a place of its own says: unparsable, blank, bookkeeping."""


def place(nodes: Sequence[LineLink]) -> list[PlacedLine]:
    """Give every node a place. Parents come out before their children, otherwise in the order handed in."""
    parents, waiting, forward, duplicate = _link(nodes)
    cut = _cut_cycles(parents, forward)
    missing = {index for indexes in waiting.values() for index in indexes}
    placed: list[PlacedLine] = []
    for index in _order(parents, forward):
        node, parent = nodes[index], parents[index]
        below = nodes[parent].line if parent >= 0 else None
        claimed, problem = None, ""
        if index in missing:
            claimed, problem = str(node.parent), f"its parent {quoted(node.parent)} is not in the file"
        elif index in cut:
            claimed, problem = str(node.parent), f"its parent {quoted(node.parent)} is itself or hangs below it"
        if index in duplicate:
            again = f"a second entry with the id {quoted(node.id)}: both are listed"
            problem = f"{problem}; {again}" if problem else again
        placed.append(PlacedLine(index, node.line, below, claimed, problem))
    return placed


def quoted(value: object) -> str:
    """An id for a report: any text, cut, on one line and printable."""
    text = str(value)
    return ascii(text if len(text) <= 60 else f"{text[:57]}...")


_ROOT = -1


def _link(nodes: Sequence[LineLink]) -> tuple[list[int], dict[str, list[int]], list[int], set[int]]:
    """Parents by index, the nodes still waiting for theirs by its id, those that found it later, and duplicates."""
    parents = [_ROOT] * len(nodes)
    holder: dict[str, int] = {}  # who answers to an id by now
    waiting: dict[str, list[int]] = {}
    forward: list[int] = []
    duplicate: set[int] = set()
    answers: str | None = None  # the id that the previous line answers to
    for index, (_, own, parent) in enumerate(nodes):
        if parent is Field.ABSENT:
            parents[index] = index - 1
            if own is None:
                if answers is not None:
                    holder[answers] = index
                continue
        elif parent is not None:
            found = holder.get(parent)
            if found is None:
                waiting.setdefault(parent, []).append(index)
            else:
                parents[index] = found
        answers = own
        if own is not None:
            if own in holder:
                duplicate.add(index)
            holder[own] = index
            for earlier in waiting.pop(own, ()):
                parents[earlier] = index
                forward.append(earlier)
    return parents, waiting, forward, duplicate


def _cut_cycles(parents: list[int], forward: list[int]) -> set[int]:
    """Hang the first node of every cycle on the root. A cycle has a parent that came later, so look from those only."""
    cut: set[int] = set()
    walked: dict[int, int] = {}  # node -> the walk that met it
    for start in forward:
        at = start
        while at != _ROOT and at not in walked:
            walked[at] = start
            at = parents[at]
        if at != _ROOT and walked[at] == start:
            first = _first_of_cycle(parents, at)
            parents[first] = _ROOT
            cut.add(first)
    return cut


def _first_of_cycle(parents: list[int], member: int) -> int:
    first, at = member, parents[member]
    while at != member:
        first, at = min(first, at), parents[at]
    return first


def _order(parents: list[int], forward: list[int]) -> Sequence[int]:
    """Every index, parents first; where there is a choice, the lower index first."""
    if not forward:
        return range(len(parents))
    order: list[int] = []
    out = [False] * len(parents)
    held: dict[int, list[int]] = {}  # children whose parent is not out yet
    for index, parent in enumerate(parents):
        if parent != _ROOT and not out[parent]:
            held.setdefault(parent, []).append(index)
            continue
        ready = [index]
        while ready:
            at = heapq.heappop(ready)
            order.append(at)
            out[at] = True
            for child in held.pop(at, ()):
                heapq.heappush(ready, child)
    return order
