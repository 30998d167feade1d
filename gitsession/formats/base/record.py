"""A session file taken apart: its records, each with its bytes and its place. Values only; no store, no oids.

``place`` makes a tree that every reader can walk of the ids and parents that a file states, the same for every agent
whose lines name their parents. The cases, in the order in which they are tried:

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from gitsession.formats.base.jsonl import FileSpan
from gitsession.model.entries import SessionHeader


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


TAIL = (1 << 31) - 1
"""The line number of a file's tail on ``meta``: behind every line (``formats.base.jsonl``)."""

WHOLE = TAIL - 1
"""The line number, on ``meta``, of a document that cannot be laid out from its records as it is: all of its bytes."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of an agent's file, verbatim.

    ``line``: its number in the file, from 1 for the header (an omp title slot before the header is 0, so that gaining
    one renumbers nothing). ``parent``: the line of the record it hangs below, ``None`` for the root. ``source_id``: the
    agent's own id for it. ``claimed_parent``: the parent the file names where that is not where it hangs (missing,
    cut from a cycle). ``problem``: what is wrong with it, for the report; "" if nothing.
    """

    line: int
    payload: bytes
    parent: int | None = None
    source_id: str | None = None
    claimed_parent: str | None = None
    problem: str = ""


class StoredRecord(Record):
    """A record of a large file: its payload is read each time it is asked for."""

    __slots__ = ("_span",)
    _span: FileSpan

    @property
    def payload(self) -> bytes:
        return self._span.read()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and _told(self) == _told(other)

    __hash__ = Record.__hash__


def _told(record: Record) -> tuple[object, ...]:
    return (*(getattr(record, name) for name in ("line", "payload", "parent", "source_id", "claimed_parent")),)


def record_of(
    line: int,
    payload: bytes | FileSpan,
    parent: int | None = None,
    source_id: str | None = None,
    claimed_parent: str | None = None,
    problem: str = "",
) -> Record:
    """The record, with its payload in memory or where it is stored."""
    if isinstance(payload, bytes):
        return Record(line, payload, parent, source_id, claimed_parent, problem)
    made = StoredRecord.__new__(StoredRecord)
    values = (("line", line), ("_span", payload), ("parent", parent), ("source_id", source_id))
    for name, value in (*values, ("claimed_parent", claimed_parent), ("problem", problem)):
        object.__setattr__(made, name, value)
    return made


class Base(NamedTuple):
    """Where a file goes on from another session's, which it does not repeat.

    ``source_id``: of that session, or of the segment of one; ``end``: the agent's own number of the first line of it
    that is not shared, and ``number``: gives that number of a record's last line, ``None`` where it has none.
    """

    source_id: str
    end: int
    number: Callable[[bytes], int | None]


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """Something to tell the user: where in the file, and what. ``waits``: what stands there was not taken in yet."""

    line: int
    what: str
    waits: bool = False


def waits(line: int, rest: bytes) -> SourceProblem:
    """That ``rest`` is no whole line yet."""
    size, its, it = ("1 byte", "its", "it") if len(rest) == 1 else (f"{len(rest):,} bytes", "their", "them")
    what = f"not taken in: {size} after the last line end, to wait for the rest of {its} line; --final takes {it}"
    return SourceProblem(line, what, waits=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A session as an agent's file has it.

    ``records`` stand in an order in which every parent comes before its children (file order, but for a record whose
    parent stands further down). ``meta``: the lines that the agent rewrites in place (header, title slot), in file
    order, and, in a document, what stands there in place of a record, under the record's line. ``tail``: the lines
    behind the last record that wait for the next (``formats.base.jsonl``); ``None`` for an agent whose lines are all
    records. ``waiting``: bytes after the last line end that are no whole record yet.
    ``ends_with_newline``: whether the bytes taken in end with a line end. ``version``: the file's own format version,
    for the report.
    ``leaf``: the line of the record that the agent goes on from, where that is not the last one.
    ``base``: the session that this one was forked from, where the file holds only what came since.
    ``segment``: the agent's id for this file, where a session has several and this is not the first: its first record
    hangs below the last one that it shares with ``base``, or, without one, where the session begins.
    ``header``: what the session is, where the file has no header of its own to say it (no agent, no times in it).
    """

    agent: str
    source_id: str
    started_ms: int
    records: tuple[Record, ...]
    meta: tuple[Record, ...] = ()
    waiting: bytes = b""
    ends_with_newline: bool = True
    version: int = 0
    tail: bytes | None = None
    leaf: int | None = None
    header: SessionHeader | None = None
    base: Base | None = None
    segment: str | None = None
    problems: tuple[SourceProblem, ...] = field(default=())

    def payloads(self) -> Iterator[bytes]:
        """Of its records, in the order of the file, and of its tail."""
        yield from (record.payload for record in sorted(self.records, key=lambda record: record.line))
        if self.tail:
            yield self.tail
