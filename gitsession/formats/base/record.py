"""Values that represent the records of a session file: their bytes and their positions, independent of any store.

``place_nodes`` builds a tree from the ids and parent ids in a file. The rules are the same for every agent whose lines
contain parent ids. The result never contains a cycle. The parent of a line depends on the line's id and parent field:

1. no id and no parent field       -> the previous line
2. an id, but no parent field      -> the previous line
3. the parent field is null        -> the root
4. an earlier line has the id      -> the line to which the id refers, as described below
5. only a later line has the id    -> the first such line; this line is moved after its parent
6. the line is the first line of a cycle that case 5 formed (a line can be its own parent) -> the root
7. no line has the id              -> the root

Duplicate ids are kept. In case 4, the id refers to the latest earlier line with this id. If lines of case 1 directly
follow that line, the id refers to the last of these lines. If a file grows, a line can get another parent only if its
parent was missing before (cases 5 and 6).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from enum import Enum
from typing import Any, NamedTuple

from gitsession.dataclass import dataclass
from gitsession.formats.base.jsonl import Data, FileSpan, Group, LineFailure, Object, StoredGroup
from gitsession.model.entries import SessionHeader


class Field(Enum):
    """The marker for an absent parent field. ``None`` represents a parent field that is null."""

    ABSENT = "absent"


class LineLink(NamedTuple):
    """The number, the id and the parent id of a line, as in the file."""

    line: int
    id: str | None
    parent: str | Field | None


class PlacedLine(NamedTuple):
    """The position of a line in the tree.

    ``at``: the index of the line in the input. ``parent``: the number of the parent line; ``None`` for the root.
    ``claimed``: the parent id that the line contains, if the line was placed below another parent. ``problem``: the
    description of a problem for the report; "" if there is none.
    """

    at: int
    line: int
    parent: int | None
    claimed: str | None = None
    problem: str = ""


NOTHING = LineLink(0, None, Field.ABSENT)
"""The link of a line that has neither an id nor a parent field, such as a blank line or a line that is not JSON."""


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


class KnownLines(NamedTuple):
    """The earlier lines of a file to which later lines can refer.

    ``ids``: for each id, the number of the line to which the id refers now. ``newest``: the id of the newest line with
    an id or a parent field, if it has an id. ``last``: the number of the last line; 0 if there is none.
    """

    ids: dict[str, int]
    newest: str | None = None
    last: int = 0

    def after(self, nodes: Iterable[LineLink]) -> KnownLines:
        """Return the known lines after ``nodes``, by the rules of ``place_nodes``."""
        ids, newest, last = dict(self.ids), self.newest, self.last
        for last, own, parent in nodes:
            if own is None and parent is Field.ABSENT:
                if newest is not None:
                    ids[newest] = last
                continue
            newest = own
            if own is not None:
                ids[own] = last
        return KnownLines(ids, newest, last)

    def place(self, nodes: Sequence[LineLink]) -> list[PlacedLine]:
        """Return the positions of ``nodes``, which follow the known lines.

        The result is that of ``place_nodes`` for all lines, without the known ones. Only those known lines are placed
        again to which ``nodes`` refer.
        """
        if not self.last:
            return place_nodes(nodes)
        wanted = {id for node in nodes for id in (node.id, node.parent) if isinstance(id, str) and id in self.ids}
        found = sorted((self.ids[id], id) for id in wanted - {self.newest})
        before = [*(LineLink(line, id, None) for line, id in found), LineLink(self.last, self.newest, None)]
        placed = place_nodes([*before, *nodes])
        return [line._replace(at=line.at - len(before)) for line in placed if line.at >= len(before)]


def quoted(value: object) -> str:
    """Return the id ``value`` in quotes for a report. A long id is truncated, and only ASCII characters are used."""
    text = str(value)
    return ascii(text if len(text) <= 60 else f"{text[:57]}...")


_ROOT = -1


def _link(nodes: Sequence[LineLink]) -> tuple[list[int], dict[str, list[int]], list[int], set[int]]:
    """Link the nodes by their ids.

    Returns:
        The index of the parent of each node, the indexes of the nodes by missing parent id, the indexes of the nodes
        whose parent is a later node, and the indexes of the nodes that repeat an id.
    """
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
    """Make the first node of every cycle a child of the root. Return the indexes of these nodes.

    Every cycle contains a node of ``forward``, whose parent is a later line. So the search starts only from these
    nodes.
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
"""The line number of a file's tail on ``meta``. It is greater than the number of any line (``formats.base.jsonl``)."""

WHOLE = TAIL - 1
"""The line number, on ``meta``, of the full content of a document that cannot be built from its records."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of an agent's file, verbatim.

    ``line``: the line number in the file. The header is line 1. omp's title slot before the header is line 0, so the
    other numbers do not change if omp adds a title slot. ``parent``: the line number of the parent record; ``None`` if
    the parent is the root. ``source_id``: the agent's own id for the record. ``claimed_parent``: the parent id in the
    record, if ``parent`` is a different record because the stated parent is missing or would form a cycle.
    ``problem``: a description of the problem with the record, for the report; "" if there is none. ``parsed``: the
    result of parsing the record line, so that ``Format.headline`` need not parse the line again; ``None`` if it is not
    kept.
    """

    line: int
    payload: bytes
    parent: int | None = None
    source_id: str | None = None
    claimed_parent: str | None = None
    problem: str = ""
    parsed: Object | LineFailure | None = field(default=None, compare=False, repr=False)


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
    group: Group | StoredGroup,
    parent: int | None = None,
    source_id: str | None = None,
    claimed_parent: str | None = None,
    problem: str = "",
) -> Record:
    """Return a record with the lines of ``group`` and the given fields.

    If the lines are in a stored file, the record is a ``StoredRecord``. Such a record does not keep ``parsed``, because
    the parsed lines of a large file do not fit in memory.
    """
    if isinstance(group, Group):
        return Record(line, group.payload, parent, source_id, claimed_parent, problem, group.parsed)
    made = StoredRecord.__new__(StoredRecord)
    values = (("line", line), ("_span", group.payload), ("parent", parent), ("source_id", source_id))
    for name, value in (*values, ("claimed_parent", claimed_parent), ("problem", problem), ("parsed", None)):
        object.__setattr__(made, name, value)
    return made


class Base(NamedTuple):
    """The point in another file at which a file continues a session without repeating the lines before this point.

    ``source_id``: the agent's id for the other file. ``end``: the agent's number of the first line of the other file
    that the two files do not share. ``number``: a function that takes the payload of a record and returns the agent's
    number of its last line, or ``None`` if this line has no number.
    """

    source_id: str
    end: int
    number: Callable[[bytes], int | None]


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """A message for the user about a line of a session file.

    ``is_incomplete``: whether the line is incomplete and therefore not imported yet.
    """

    line: int
    what: str
    is_incomplete: bool = False


def incomplete_line(line: int, rest: bytes) -> SourceProblem:
    """Return the problem that reports ``rest``, an incomplete line at the end of a file. ``line``: its number."""
    size = "1 byte" if len(rest) == 1 else f"{len(rest):,} bytes"
    what = f"not imported: {size} after the last line end, an incomplete line (pass --final to import it)"
    return SourceProblem(line, what, is_incomplete=True)


class SplitState(NamedTuple):
    """The state of a splitter after the first ``size`` bytes of a file, which end with a newline.

    ``records``: the number of records in these bytes. ``values``: a JSON value that only the splitter interprets.
    """

    size: int
    records: int
    values: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """The content of an agent's session file.

    ``records``: the records, parents before children. They are in file order, except for a record whose parent is a
    later line. ``meta``: the lines that the agent rewrites in place (header, title slot), in file order. For a
    document, ``meta`` also contains the replacements of records, with the line numbers of these records. ``tail``: the
    lines after the last record, which become part of the next record (``formats.base.jsonl``); ``None`` for an agent
    whose lines are all records. ``waiting``: the bytes after the last newline if they are an incomplete record.
    ``ends_with_newline``: whether the imported bytes end with a newline. ``version``: the version of the file's format,
    for the report. ``leaf``: the line number of the record at which the agent continues, if it is not the last record.
    ``base``: the point in another file at which this file continues a session, if this file does not repeat the shared
    lines. ``segment``: the agent's id for this file, if the session has several files and this is not the first file.
    The parent of the first record of such a file is the last record that it shares with the file in ``base``. Without
    ``base``, the first record is at the beginning of the session. ``header``: a header without a time, if the file
    itself has no header. ``state``: the state from which ``Growing.split_rest`` can read a longer version of the file;
    ``None`` if it must be read whole. ``earlier``: the number of records before ``records``, which ``split_rest`` left
    out.
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
    state: SplitState | None = field(default=None, compare=False)
    earlier: int = 0

    def payloads(self) -> Iterator[bytes]:
        """Yield the payloads of the records in file order, then the tail."""
        yield from (record.payload for record in sorted(self.records, key=lambda record: record.line))
        if self.tail:
            yield self.tail


def has_problem(source: Source) -> bool:
    """Return whether ``source`` has a problem other than an incomplete last line."""
    return any(not problem.is_incomplete for problem in source.problems)


def with_state(source: Source, data: Data, values: Any) -> Source:
    """Return ``source`` with the state that has the given ``values``.

    The state of a file with a problem is ``None``, because the problem is reported by each import, and so is that of a
    file whose last line has no line end or that is not in memory. ``data``: the content of the file.
    """
    if has_problem(source) or not source.ends_with_newline or not isinstance(data, bytes):
        return source
    size = len(data) - len(source.waiting) - (len(source.tail) + 1 if source.tail else 0)
    records = source.earlier + len(source.records)
    return replace(source, state=SplitState(size, records, values))
