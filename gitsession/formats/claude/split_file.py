"""Splitter of Claude Code's session files. It determines the record lines, their parents, and the leaf.

The selection of accompanying lines and the parent of each record are FROZEN under view 1 (docs/reference/format.md,
"Claude Code"). Lines with a ``uuid`` form a tree. Most other lines are only a log. A compaction consists of two lines,
a boundary and the summary, which are one record.

Claude Code writes one line per block of an answer, and places each result below the line of its call. So parallel calls
fork the tree, and a walk from the last line to the root includes only one of them. Claude Code finds the others by the
id of their answer. In the store, each of them is below the previous one in file order (``ParallelCalls``), so that
every walk includes all of them.

Claude Code continues at the line in ``last-prompt``, unless newer lines are below that line (``Leaf``).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gitsession.errors import Malformed
from gitsession.formats.base import jsonl
from gitsession.formats.base.fields import storable, to_ms
from gitsession.formats.base.jsonl import LF, Data, Group, LineFailure, Object, StoredGroup, grouped
from gitsession.formats.base.record import (
    NOTHING,
    Field,
    LineLink,
    PlacedLine,
    Record,
    Source,
    SourceProblem,
    place,
    quoted,
    record_of,
    waits,
)
from gitsession.formats.claude.files import SessionPath, place_of
from gitsession.formats.claude.records import (
    MESSAGES,
    answer_id,
    is_boundary,
    is_linked,
    is_sidechain,
    is_summary_of,
    preserved_by,
    results_in,
    rides,
    text,
    uuid_of,
)
from gitsession.model.entries import SessionHeader


@dataclass
class _Turn:
    """An answer, the results of its calls, and the records between them.

    ``tip``: the id of the last of these records.
    """

    answer: str
    tip: str
    answered: set[str] = field(default_factory=set)


class ParallelCalls:
    """The parents of the records of parallel calls. ``parent`` must be called for every record in file order."""

    def __init__(self) -> None:
        self._of: dict[str, _Turn] = {}

    def parent(self, said: Object, own: str | None, stated: str | None) -> str | None:
        """Return the parent of the record with the id ``own``. ``stated``: the parent id in its line."""
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
                return stated  # the call was repeated on another branch
            turn.answered |= results
        elif said.get("type") in MESSAGES or stated != turn.tip:
            return stated
        below, turn.tip = turn.tip, own
        self._of[own] = turn
        return below


class Leaf:
    """The leaf of a file. ``see`` must be called for every line in file order.

    ``of_agent``: whether the file belongs to a sub-agent. All lines of such a file are in a sidechain.
    """

    def __init__(self, *, of_agent: bool) -> None:
        self._of_agent = of_agent
        self._newest: str | None = None
        self._named: str | None = None
        self._pinned = False

    def see(self, line: Object) -> None:
        if is_linked(line):
            if self._of_agent or not is_sidechain(line):
                self._newest = uuid_of(line)
                self._pinned = False
            if is_boundary(line):
                self._named = None
        elif line.get("type") == "last-prompt" and "leafUuid" in line:
            named, chosen = text(line["leafUuid"]), line.get("explicit") is True
            if named is not None or chosen:
                self._pinned = named is not None and (chosen or (self._pinned and named == self._named))
                self._named = named

    def of(self, records: Sequence[Record], at_id: dict[str, int], messages: Collection[int]) -> int | None:
        """Return the line of the leaf, or ``None`` if it is the last line.

        ``at_id``: line numbers by id; ``messages``: the line numbers of messages.
        """
        parents = {record.line: record.parent for record in records}
        leaf = at_id.get(self._named) if self._named is not None else None
        newest = at_id.get(self._newest) if self._newest is not None else None
        if leaf is None or (not self._pinned and newest is not None and _is_below(newest, leaf, parents)):
            leaf = newest
        if leaf is None:
            return None
        notes: dict[int, int] = {}  # parent -> the last line below it that is not a message
        for line, parent in parents.items():
            if parent is not None and line not in messages:
                notes[parent] = max(line, notes.get(parent, 0))
        while leaf in notes:
            leaf = notes[leaf]
        return None if leaf == max(parents) else leaf


def _is_below(line: int, above: int, parents: dict[int, int | None]) -> bool:
    at: int | None = line
    while at is not None and at != above:
        at = parents.get(at)
    return at is not None


LINES_READ = 50

QWEN = "Qwen Code"


def agent_of(head: bytes) -> str:
    """Return the name of the unsupported agent whose file begins with ``head``; "" if none is recognized."""
    lines = (jsonl.parse(line) for line in head.split(b"\n")[:LINES_READ] if b'"sessionId"' in line)
    return QWEN if any(isinstance(line, dict) and _is_qwen(line) for line in lines) else ""


def _is_qwen(line: Object) -> bool:
    """Return whether a line has Claude Code's fields and a message in Gemini's format (``parts``, not ``content``)."""
    if not isinstance(line.get("uuid"), str):
        return False
    message = line.get("message")
    has_parts = isinstance(message, dict) and isinstance(message.get("parts"), list) and "content" not in message
    return has_parts or "systemPayload" in line or "toolCallResult" in line


AGENT = "claude"
LINES_ASKED = 50
HEAD_BYTES = 64 * 1024
_TELLING = (b'"parentUuid"', b'"leafUuid"', b'"sessionId"')

_HEADERS = frozenset({"session", "session_meta", "title"})
"""The types of the first line in files of pi, omp and codex.

These files can contain lines that were copied from Claude Code, with all fields, including ``sessionId``.
"""


def is_ours(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` belongs to Claude Code.

    The first line of the file may be longer than ``head``.
    """
    if agent_of(head):
        return False
    lines = head.split(LF)[:LINES_ASKED]
    first = jsonl.parse(lines[0])
    if not isinstance(first, LineFailure) and text(first.get("type")) in _HEADERS:
        return False
    for line in lines:
        if not any(mark in line for mark in _TELLING):
            continue
        said = jsonl.parse(line)
        if isinstance(said, LineFailure):
            if len(lines) == 1 and b'"parentUuid"' in line:
                return True
        elif isinstance(said.get("type"), str) and any(
            text(said.get(name)) for name in ("parentUuid", "leafUuid", "sessionId")
        ):
            return True
    return False


def split(data: Data, *, name: str = "", final: bool = False) -> Source:
    """Split a file as ``Format.split`` does."""
    if not data:
        raise Malformed("the file is empty")
    if other := agent_of(data[:HEAD_BYTES]):
        raise Malformed(f"a session of {other}, not of Claude Code")
    lines, waiting, ends_with_newline = jsonl.cut(data, final=final)
    where = place_of(name)
    parts = _Parts(where)
    parts.take(lines)
    started_ms = parts.started_ms
    if started_ms is None:
        if not final:
            raise Malformed("no line has a time yet", hint="pass --final if the file will not grow")
        started_ms = 0
    records, problems = parts.records()
    if waiting:
        problems.append(waits(len(lines) + 1, waiting))
    return Source(
        agent=AGENT,
        source_id=_source_id(where, parts.session),
        started_ms=started_ms,
        records=records,
        waiting=waiting,
        ends_with_newline=ends_with_newline,
        tail=parts.tail,
        leaf=parts.leaf_of(records),
        header=_header(parts, where),
        problems=tuple(sorted(problems, key=lambda problem: problem.line)),
    )


def _source_id(where: SessionPath, session: str | None) -> str:
    """Return the session's id, which is the name of the file. For a sub-agent, the id of its session precedes the name.

    The ids in the lines are not used if the file has a name, because lines of a fork can contain the id of the original
    session.
    """
    if where.is_agents:
        session = where.session or session
        found = f"{session}/{where.file}" if session else where.file
    else:
        found = where.file or session or ""
    if not found:
        raise Malformed("no line has the id of the session", hint="pass a name for the session")
    return storable(found)


def _header(parts: _Parts, where: SessionPath) -> SessionHeader | None:
    """Return a header with the first value of each field. These values do not change when the file grows."""
    parent = (where.session or parts.session) if where.is_agents else parts.forked_from
    if parts.cwd is None and parent is None and parts.version is None:
        return None
    extra = {} if parts.version is None else {"version": parts.version}
    return SessionHeader(agent=AGENT, cwd=parts.cwd, parent=parent, extra=extra)


@dataclass
class _Parts:
    """The grouped lines of a file, and the values of the session. ``groups`` and ``nodes`` have the same indexes."""

    where: SessionPath
    groups: list[Group | StoredGroup] = field(default_factory=list)
    nodes: list[LineLink] = field(default_factory=list)
    tail: bytes = b""
    started_ms: int | None = None
    session: str | None = None
    cwd: str | None = None
    version: str | None = None
    forked_from: str | None = None

    def take(self, lines: Sequence[bytes]) -> None:
        self._leaf = Leaf(of_agent=self.where.is_agents)
        self._boundaries: dict[int, Object] = {}  # line of the summary -> boundary
        self._repaired: dict[int, str] = {}
        self._group(lines)
        self._link()

    def _group(self, lines: Sequence[bytes]) -> None:
        """Group the lines as ``jsonl.group`` does, and a boundary with its summary if that is the next record line."""
        first = 0  # index of the first line of the next group
        held: tuple[int, Object] | None = None  # the line number of a boundary, and the boundary
        for number, line in enumerate(lines, 1):
            said = jsonl.parse(line)
            if not isinstance(said, LineFailure):
                self._see(said)
                if rides(said):
                    continue
            if held is not None:
                at, boundary = held
                held = None
                if not isinstance(said, LineFailure) and is_summary_of(said, boundary):
                    self._boundaries[number] = boundary
                else:
                    self.groups.append(grouped(lines, first, at, boundary))
                    first = at
            if not isinstance(said, LineFailure) and is_boundary(said):
                held = number, said
                continue
            self.groups.append(grouped(lines, first, number, said))
            first = number
        self.tail = LF.join(lines[first:])

    def _see(self, line: Object) -> None:
        self._leaf.see(line)
        if self.started_ms is None:
            self.started_ms = to_ms(line.get("timestamp"))
        self.session = self.session or text(line.get("sessionId"))
        self.cwd = self.cwd or text(line.get("cwd"))
        self.version = self.version or text(line.get("version"))
        forked = line.get("forkedFrom")
        if self.forked_from is None and isinstance(forked, dict):
            self.forked_from = text(forked.get("sessionId"))

    def _link(self) -> None:
        """Determine the parent of each record from the ids in the lines (docs/reference/format.md, "Claude Code")."""
        turns = ParallelCalls()
        stated = {uuid for group in self.groups for uuid in self._ids(group)}
        seen: set[str] = set()
        stands_for: dict[str, str] = {}  # id -> the compaction that it refers to in later lines
        before: dict[bool, str] = {}  # whether in a sidechain -> the id of the previous record
        above: dict[str, str] = {}  # id -> the id of its actual parent
        for group in self.groups:
            if isinstance(group.spoken, LineFailure):
                self.nodes.append(NOTHING._replace(line=group.line))
                continue
            own = uuid_of(group.spoken)
            boundary = self._boundaries.get(group.line) or (group.spoken if is_boundary(group.spoken) else None)
            parent = _parent(boundary or group.spoken, seen)
            if isinstance(parent, str):
                parent = stands_for.get(parent, parent)
                if parent not in stated and is_sidechain(group.spoken) in before:
                    self._repaired[group.line] = parent
                    parent = before[is_sidechain(group.spoken)]
                if boundary is not None:
                    parent = _below_kept(boundary, parent, above)
                parent = turns.parent(group.spoken, own, parent)
            else:
                turns.parent(group.spoken, own, None)
            if parent is None and not seen:
                parent = Field.ABSENT  # titles before the conversation do not form a separate branch
            self.nodes.append(LineLink(group.line, own, parent))
            if own is not None:
                if isinstance(parent, str):
                    above[own] = parent
                before[is_sidechain(group.spoken)] = own
                seen.update(self._ids(group))
                stands_for.pop(own, None)  # the line was written again at its new position
                if boundary is not None:
                    stands_for |= dict.fromkeys([*self._ids(group), *preserved_by(boundary)], own)

    def _ids(self, group: Group | StoredGroup) -> Iterator[str]:
        boundary = self._boundaries.get(group.line)
        own = None if isinstance(group.spoken, LineFailure) else uuid_of(group.spoken)
        yield from [uuid for uuid in (own, uuid_of(boundary) if boundary else None) if uuid is not None]

    def records(self) -> tuple[tuple[Record, ...], list[SourceProblem]]:
        found = tuple([self._record(placed) for placed in place(self.nodes)])
        return found, [SourceProblem(record.line, record.problem) for record in found if record.problem]

    def _record(self, placed: PlacedLine) -> Record:
        group, own = self.groups[placed.at], self.nodes[placed.at].id
        claimed, problem = placed.claimed, placed.problem
        if isinstance(group.spoken, LineFailure):
            problem = group.spoken.reason
        elif group.line in self._repaired:
            claimed = self._repaired[group.line]
            missing = f"the parent {quoted(claimed)} is not in the file: the line before is used instead"
            problem = "; ".join(filter(None, (missing, problem)))
        return record_of(group.line, group.payload, placed.parent, own, claimed, problem)

    def leaf_of(self, records: tuple[Record, ...]) -> int | None:
        at_id = {uuid: group.line for group in self.groups for uuid in self._ids(group)}
        messages = {
            group.line
            for group in self.groups
            if not isinstance(said := group.spoken, LineFailure) and said.get("type") in MESSAGES
        }
        return self._leaf.of(records, at_id, messages)


def _below_kept(boundary: Object, parent: str, above: Mapping[str, str]) -> str:
    """Return the last kept message of a compaction if the kept messages follow ``parent``, otherwise ``parent``.

    The command "Summarize up to here" cuts the history before the kept messages. They are on the branch of the
    compaction only if the compaction is below them.
    """
    kept = preserved_by(boundary)
    left, at = set(kept), kept[-1] if kept else parent
    while at in left and at in above:
        left.discard(at)
        at = above[at]
    return kept[-1] if kept and at == parent else parent


def _parent(line: Object, seen: set[str]) -> str | Field | None:
    """Return the parent id in a line.

    For a compaction, this is the id of the line at which the history was cut, if the file contains that line.
    """
    parent = line.get("parentUuid", Field.ABSENT)
    if parent is None:
        logical = text(line.get("logicalParentUuid"))
        return logical if logical in seen else None
    if not isinstance(parent, str | Field):
        return json.dumps(parent)
    return parent
