"""Values that represent the records of a session file: their bytes and their positions, independent of any store.

``place_nodes`` builds a tree from the ids and parents in a file. The rules are the same for every agent whose lines
contain parent ids. The result is always a tree without cycles. The position of a line depends on its id and its parent
field:

1. no id and no parent field         -> below the previous line; later children of that line are below this line
2. parent field absent               -> below the previous line
3. parent null                       -> the root
4. parent id in an earlier line      -> below the latest earlier line with that id (or its follower by case 1)
5. parent id only in a later line    -> below the first such line, and ordered after it
6. closes a cycle, even with itself  -> the root, for the first line of the cycle
7. parent id in no line              -> the root

Duplicate ids are kept. After a line that repeats an id, the id refers to that line. Lines are placed in one pass, and
the position of each line depends on the lines before it. If a file grows, only lines whose parent was missing before
can move (cases 5 and 6).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from gitsession.formats.base.jsonl import FileSpan
from gitsession.model.entries import SessionHeader


class Field(Enum):
    """The value of a parent field that is absent, as opposed to ``None``, which means the root."""

    ABSENT = "absent"


class LineLink(NamedTuple):
    """The number of a line, its id, and its parent id, as in the file."""

    line: int
    id: str | None
    parent: str | Field | None


class PlacedLine(NamedTuple):
    """The position of a line: below line ``parent``, or below the root if ``parent`` is ``None``.

    ``at``: the index of the line in the input. ``claimed``: the parent id that the line contains, if the line has
    another parent. ``problem``: the description of a problem for the report; "" if there is none.
    """

    at: int
    line: int
    parent: int | None
    claimed: str | None = None
    problem: str = ""


NOTHING = LineLink(0, None, Field.ABSENT)
"""The link of a line that has no position of its own because it cannot be parsed, is blank, or is not an entry."""


def place_nodes(nodes: Sequence[LineLink]) -> list[PlacedLine]:
    """Return the positions of the nodes.

    Each parent precedes its children; otherwise, the order of the input is kept.
    """
    parents, waiting, forward, duplicate = _link(nodes)
    cut = _cut_cycles(parents, forward)
    missing = {index for indexes in waiting.values() for index in indexes}
    placed: list[PlacedLine] = []
    for index in _order(parents, forward):
        node, parent = nodes[index], parents[index]
        parent_line = nodes[parent].line if parent >= 0 else None
        claimed, problem = None, ""
        if index in missing:
            claimed, problem = str(node.parent), f"the parent {quoted(node.parent)} is not in the file"
        elif index in cut:
            claimed, problem = str(node.parent), f"the parent {quoted(node.parent)} is the entry itself or below it"
        if index in duplicate:
            duplicate_note = f"a second entry with the id {quoted(node.id)}: both are imported"
            problem = f"{problem}; {duplicate_note}" if problem else duplicate_note
        placed.append(PlacedLine(index, node.line, parent_line, claimed, problem))
    return placed


def quoted(value: object) -> str:
    """Return the id ``value`` in a form for reports: in quotes, printable, on one line, and truncated."""
    text = str(value)
    return ascii(text if len(text) <= 60 else f"{text[:57]}...")


_ROOT = -1


def _link(nodes: Sequence[LineLink]) -> tuple[list[int], dict[str, list[int]], list[int], set[int]]:
    """Return the parent indexes, the nodes by missing parent id, the nodes with a later parent, and the duplicates."""
    parents = [_ROOT] * len(nodes)
    holder: dict[str, int] = {}  # the node that an id refers to at this line
    waiting: dict[str, list[int]] = {}
    forward: list[int] = []
    duplicate: set[int] = set()
    newest_id: str | None = None  # the id of the newest line with an id or a parent field
    for index, (_, own, parent) in enumerate(nodes):
        if parent is Field.ABSENT:
            parents[index] = index - 1
            if own is None:
                if newest_id is not None:
                    holder[newest_id] = index
                continue
        elif parent is not None:
            found = holder.get(parent)
            if found is None:
                waiting.setdefault(parent, []).append(index)
            else:
                parents[index] = found
        newest_id = own
        if own is not None:
            if own in holder:
                duplicate.add(index)
            holder[own] = index
            for child in waiting.pop(own, ()):
                parents[child] = index
                forward.append(child)
    return parents, waiting, forward, duplicate


def _cut_cycles(parents: list[int], forward: list[int]) -> set[int]:
    """Make the first node of every cycle a child of the root.

    Every cycle contains a node whose parent is a later line, so the search starts only from such nodes.
    """
    cut: set[int] = set()
    walked: dict[int, int] = {}  # node -> the start of the walk that reached it
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
    """Return all indexes, parents before children. If several orders are possible, lower indexes come first."""
    if not forward:
        return range(len(parents))
    order: list[int] = []
    is_ordered = [False] * len(parents)
    waiting: dict[int, list[int]] = {}  # children whose parent is not in the order yet
    for index, parent in enumerate(parents):
        if parent != _ROOT and not is_ordered[parent]:
            waiting.setdefault(parent, []).append(index)
            continue
        ready = [index]
        while ready:
            at = heapq.heappop(ready)
            order.append(at)
            is_ordered[at] = True
            for child in waiting.pop(at, ()):
                heapq.heappush(ready, child)
    return order


TAIL = (1 << 31) - 1
"""The line number of a file's tail on ``meta``. It is greater than that of any line (``formats.base.jsonl``)."""

WHOLE = TAIL - 1
"""The line number, on ``meta``, of the full content of a document that cannot be built from its records."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of an agent's file, verbatim.

    ``line``: the line number in the file, from 1 for the header. omp's title slot before the header is line 0, so the
    other numbers do not change if omp adds a slot. ``parent``: the line of the parent record; ``None`` if the parent is
    the root. ``source_id``: the agent's own id for the record. ``claimed_parent``: the parent id that the record gives,
    if ``parent`` is a different record because the given parent is missing or would form a cycle. ``problem``: a
    description of the problem with the record, for the report; "" if there is none.
    """

    line: int
    payload: bytes
    parent: int | None = None
    source_id: str | None = None
    claimed_parent: str | None = None
    problem: str = ""


class StoredRecord(Record):
    """A record of a large file. Its payload is read on each access."""

    __slots__ = ("_span",)
    _span: FileSpan

    @property
    def payload(self) -> bytes:
        return self._span.read()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and _fields_of(self) == _fields_of(other)

    __hash__ = Record.__hash__


def _fields_of(record: Record) -> tuple[object, ...]:
    return record.line, record.payload, record.parent, record.source_id, record.claimed_parent


def record_of(
    line: int,
    payload: bytes | FileSpan,
    parent: int | None = None,
    source_id: str | None = None,
    claimed_parent: str | None = None,
    problem: str = "",
) -> Record:
    """Return a record whose payload is in memory or in a stored file."""
    if isinstance(payload, bytes):
        return Record(line, payload, parent, source_id, claimed_parent, problem)
    made = StoredRecord.__new__(StoredRecord)
    values = (("line", line), ("_span", payload), ("parent", parent), ("source_id", source_id))
    for name, value in (*values, ("claimed_parent", claimed_parent), ("problem", problem)):
        object.__setattr__(made, name, value)
    return made


class Base(NamedTuple):
    """The point in another session's file at which a file continues that session without repeating its content.

    ``source_id``: the id of the other session, or of one of its segments. ``end``: the number, assigned by the agent,
    of the first line of the other session that is not shared. ``number``: a function that returns the agent's number of
    the last line of a record, or ``None`` if the line has no number.
    """

    source_id: str
    end: int
    number: Callable[[bytes], int | None]


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """A message for the user about a line of a session file.

    ``is_incomplete``: whether the line is not imported yet because it is incomplete.
    """

    line: int
    what: str
    is_incomplete: bool = False


def incomplete_line(line: int, rest: bytes) -> SourceProblem:
    """Return the problem of an incomplete line ``rest`` at the end of a file."""
    size = "1 byte" if len(rest) == 1 else f"{len(rest):,} bytes"
    what = f"not imported: {size} after the last line end, an incomplete line (pass --final to import it)"
    return SourceProblem(line, what, is_incomplete=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """The content of an agent's session file.

    ``records``: the records, parents before children. They are in file order, except for a record whose parent is a
    later line. ``meta``: the lines that the agent rewrites in place (header, title slot), in file order. For a
    document, ``meta`` also contains the replacements of records, under the lines of these records. ``tail``: the lines
    after the last record that will be part of the next one (``formats.base.jsonl``); ``None`` for an agent whose lines
    are all records. ``waiting``: the bytes after the last newline that are not a complete record yet.
    ``ends_with_newline``: whether the imported bytes end with a newline. ``version``: the version of the file's format,
    for the report. ``leaf``: the line of the record at which the agent continues, if it is not the last record.
    ``base``: the point in another session's file at which this file continues that session, if it does not repeat the
    shared part. ``segment``: the agent's id for this file, if the session has several files and this is not the first.
    The first record of a segment is below the last record that it shares with ``base``, or, without ``base``, at the
    beginning of the session. ``header``: the session's header, without a time, if the file has no header.
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
    problems: tuple[SourceProblem, ...] = ()

    def payloads(self) -> Iterator[bytes]:
        """Yield the payloads of the records in file order, then the tail."""
        yield from (record.payload for record in sorted(self.records, key=lambda record: record.line))
        if self.tail:
            yield self.tail
