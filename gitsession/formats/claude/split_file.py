"""Splitter of Claude Code's session files. The splitter determines the records, their parents, and the leaf.

The selection of accompanying lines and the parent of each record are FROZEN under view 1 (docs/reference/format.md,
"Claude Code"). Lines with a ``uuid`` form a tree. Most other lines are log lines. A compaction consists of two lines, a
boundary line and a summary, which form one record.

Claude Code writes one line for each block of an answer. The parent of a result is the line of its call. So parallel
calls fork the tree, and the path from the last line to the root does not include all calls and results. Claude Code
finds the missing ones by the id of the answer. In the store, the calls and results of an answer are below one another
in file order (``ParallelCalls``). So the path includes all of them.

Claude Code continues at the line that the last ``last-prompt`` line names, or at a newer line below that line
(``LeafFinder``).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gitsession.errors import Malformed
from gitsession.formats.base import jsonl
from gitsession.formats.base.fields import storable, to_ms
from gitsession.formats.base.jsonl import LF, Data, FileLines, Group, LineFailure, Object, StoredGroup, grouped
from gitsession.formats.base.record import (
    NOTHING,
    Field,
    KnownLines,
    LineLink,
    PlacedLine,
    Record,
    Source,
    SourceProblem,
    SplitState,
    has_problem,
    incomplete_line,
    quoted,
    record_of,
    with_state,
)
from gitsession.formats.claude.files import SessionPath, parse_path
from gitsession.formats.claude.records import (
    MESSAGES,
    answer_id,
    is_attached,
    is_boundary,
    is_linked,
    is_sidechain,
    is_summary_of,
    preserved_by,
    results_in,
    text,
    uuid_of,
)
from gitsession.model.entries import SessionHeader


@dataclass
class _Turn:
    """One answer: the records of its blocks, the results of its calls, and the records between them.

    ``answer``: the id of the answer. ``tip``: the id of the last record so far. ``answered``: the ids of the calls
    whose results have been found.
    """

    answer: str
    tip: str
    answered: set[str] = field(default_factory=set)


class ParallelCalls:
    """A finder of parents that places the records of parallel calls on one branch.

    Call ``parent`` for each record, in file order.
    """

    def __init__(self) -> None:
        self._of: dict[str, _Turn] = {}

    def to_json(self) -> list[Any]:
        """Return all answers, each with the ids of its records."""
        members: dict[int, list[str]] = {}
        for own, turn in self._of.items():
            members.setdefault(id(turn), []).append(own)
        turns = {id(turn): turn for turn in self._of.values()}
        return [[turns[key].answer, turns[key].tip, sorted(turns[key].answered), own] for key, own in members.items()]

    @classmethod
    def from_json(cls, turns: list[Any]) -> ParallelCalls:
        made = cls()
        for answer, tip, answered, members in turns:
            made._of |= dict.fromkeys(members, _Turn(answer, tip, set(answered)))
        return made

    def parent(self, line: Object, own: str | None, stated: str | None) -> str | None:
        """Return the id of a record's parent in the store.

        ``line``: the parsed record line. ``own``: the id of the record. ``stated``: the id of the parent if the
        record is not one of parallel calls.
        """
        turn = self._of.get(stated) if stated is not None else None
        if own is None or own in self._of:
            return stated
        answer, results = answer_id(line), results_in(line)
        if answer is not None:
            if turn is None or turn.answer != answer:
                self._of[own] = _Turn(answer, own)
                return stated
        elif turn is None:
            return stated
        elif results:
            if results & turn.answered:
                return stated  # the call already has a result, so this result is on another branch
            turn.answered |= results
        elif line.get("type") in MESSAGES or stated != turn.tip:
            return stated
        previous_tip, turn.tip = turn.tip, own
        self._of[own] = turn
        return previous_tip


class LeafFinder:
    """A finder of the leaf of a file. Call ``add_line`` for each line in file order, and then ``find``.

    ``of_agent``: whether the file belongs to a sub-agent. All lines of such a file are in a sidechain, so these lines
    are not skipped.
    """

    def __init__(self, *, of_agent: bool) -> None:
        self._of_agent = of_agent
        self._newest_id: str | None = None
        self._named_id: str | None = None
        self._pinned = False

    @property
    def state(self) -> tuple[str | None, str | None, bool]:
        return self._newest_id, self._named_id, self._pinned

    @state.setter
    def state(self, state: tuple[str | None, str | None, bool]) -> None:
        self._newest_id, self._named_id, self._pinned = state

    def add_line(self, line: Object) -> None:
        if is_linked(line):
            if self._of_agent or not is_sidechain(line):
                self._newest_id = uuid_of(line)
                self._pinned = False
            if is_boundary(line):
                self._named_id = None
        elif line.get("type") == "last-prompt" and "leafUuid" in line:
            leaf_id, is_explicit = text(line["leafUuid"]), line.get("explicit") is True
            if leaf_id is not None or is_explicit:
                self._pinned = leaf_id is not None and (is_explicit or (self._pinned and leaf_id == self._named_id))
                self._named_id = leaf_id

    def find(
        self, parents: Mapping[int, int | None], at_id: Mapping[str, int], messages: Collection[int]
    ) -> int | None:
        """Return the line number of the leaf, or ``None`` if the leaf is the last record or is not found.

        ``parents``: the line number of the parent of each record, by line number. ``at_id``: the line numbers of the
        records, by id. ``messages``: the line numbers of the messages.
        """
        leaf = at_id.get(self._named_id) if self._named_id is not None else None
        newest = at_id.get(self._newest_id) if self._newest_id is not None else None
        if leaf is None or (not self._pinned and newest is not None and _is_descendant(newest, leaf, parents)):
            leaf = newest
        if leaf is None:
            return None
        notes: dict[int, int] = {}  # parent -> its last child that is not a message
        for line, parent in parents.items():
            if parent is not None and line not in messages:
                notes[parent] = max(line, notes.get(parent, 0))
        while leaf in notes:
            leaf = notes[leaf]
        return None if leaf == max(parents) else leaf


def _is_descendant(line: int, above: int, parents: Mapping[int, int | None]) -> bool:
    at: int | None = line
    while at is not None and at != above:
        at = parents.get(at)
    return at is not None


HEAD_LINES = 50
HEAD_BYTES = 64 * 1024
QWEN = "Qwen Code"


def agent_of(head: bytes) -> str:
    """Return the name of the unsupported agent whose file begins with ``head``, or "" if no agent is recognized."""
    lines = (jsonl.parse(line) for line in head.split(LF)[:HEAD_LINES] if b'"sessionId"' in line)
    return QWEN if any(isinstance(line, dict) and _is_qwen(line) for line in lines) else ""


def _is_qwen(line: Object) -> bool:
    """Return whether Qwen Code wrote ``line``.

    The lines of Qwen Code contain a ``uuid``, as those of Claude Code do. A message is in Gemini's format (``parts``
    instead of ``content``). Other lines contain a field that Claude Code does not use.
    """
    if not isinstance(line.get("uuid"), str):
        return False
    message = line.get("message")
    has_parts = isinstance(message, dict) and isinstance(message.get("parts"), list) and "content" not in message
    return has_parts or "systemPayload" in line or "toolCallResult" in line


AGENT = "claude"
_ID_FIELDS = (b'"parentUuid"', b'"leafUuid"', b'"sessionId"')

_HEADERS = frozenset({"session", "session_meta", "title"})
"""The types of the first line of a file of pi, omp or codex.

Such a file can contain lines that were copied from a file of Claude Code with all fields, including ``sessionId``.
"""


def claims(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` belongs to Claude Code.

    If the first line is longer than ``head``, the file is recognized by the field ``parentUuid``.
    """
    if agent_of(head):
        return False
    lines = head.split(LF)[:HEAD_LINES]
    first = jsonl.parse(lines[0])
    if not isinstance(first, LineFailure) and text(first.get("type")) in _HEADERS:
        return False
    for line in lines:
        if not any(mark in line for mark in _ID_FIELDS):
            continue
        parsed = jsonl.parse(line)
        if isinstance(parsed, LineFailure):
            if len(lines) == 1 and b'"parentUuid"' in line:
                return True
        elif isinstance(parsed.get("type"), str) and any(
            text(parsed.get(name)) for name in ("parentUuid", "leafUuid", "sessionId")
        ):
            return True
    return False


def split(data: Data, *, name: str = "", final: bool = False) -> Source:
    """Split a file as ``Format.split`` does."""
    if not data:
        raise Malformed("the file is empty")
    if other := agent_of(data[:HEAD_BYTES]):
        raise Malformed(f"this is a {other} session, not a Claude Code session")
    file = jsonl.split_lines(data, final=final)
    parts = _Parts(parse_path(name))
    parts.add_lines(file.lines)
    if parts.started_ms is None:
        if not final:
            raise Malformed("no line has a timestamp yet", hint="pass --final if the file will not grow")
        return replace(_source(parts, data, file, 0), state=None)
    return _source(parts, data, file, 0)


def split_rest(data: bytes, state: SplitState, *, name: str = "") -> Source | None:
    """Split the rest of a file as ``Growing.split_rest`` does.

    The result is ``None`` if the boundary of a compaction is in the rest, because the parent of a compaction can depend
    on all earlier lines.
    """
    if state.size < HEAD_BYTES and agent_of(data[:HEAD_BYTES]):
        return None
    file = jsonl.split_lines(data[state.size :], final=False)
    parts = _Parts.restored(parse_path(name), state.values)
    parts.add_lines(file.lines)
    if parts.has_boundary:
        return None
    source = _source(parts, data, file, state.records)
    return None if has_problem(source) else source


def _source(parts: _Parts, data: Data, file: FileLines, earlier: int) -> Source:
    """Return the session with the lines in ``parts``. ``earlier``: the number of records that were split before."""
    records, problems = parts.records()
    if file.waiting:
        problems.append(incomplete_line(parts.lines_before + len(file.lines) + 1, file.waiting))
    source = Source(
        agent=AGENT,
        source_id=_source_id(parts.session_path, parts.session),
        started_ms=parts.started_ms or 0,
        records=records,
        waiting=file.waiting,
        ends_with_newline=file.ends_with_newline,
        tail=parts.tail,
        leaf=parts.leaf(),
        header=_header(parts, parts.session_path),
        problems=tuple(sorted(problems, key=lambda problem: problem.line)),
        earlier=earlier,
    )
    return with_state(source, data, parts.state()) if parts.is_resumable else source


def _source_id(session_path: SessionPath, session: str | None) -> str:
    """Return the id of the session, which is the name of the file.

    For a sub-agent, the id of the parent session precedes the name. ``session``: the session id in the lines. This id
    is used only if the path does not contain the id, because lines of a fork can contain the id of the original
    session.
    """
    if session_path.is_subagent:
        session = session_path.session or session
        found = f"{session}/{session_path.file}" if session else session_path.file
    else:
        found = session_path.file or session or ""
    if not found:
        raise Malformed("no line has the session id", hint="pass a name for the session")
    return storable(found)


def _header(parts: _Parts, session_path: SessionPath) -> SessionHeader | None:
    """Return a header with the first value of each field in the file, or ``None`` if no field is found.

    The first values are used because they do not change when the file grows.
    """
    parent = (session_path.session or parts.session) if session_path.is_subagent else parts.forked_from
    if parts.cwd is None and parent is None and parts.version is None:
        return None
    extra = {} if parts.version is None else {"version": parts.version}
    return SessionHeader(agent=AGENT, cwd=parts.cwd, parent=parent, extra=extra)


@dataclass
class _Parts:
    """The lines of a file, grouped by record, and the values for the header.

    ``groups`` and ``nodes`` contain one item for each record. ``lines_before``: the number of lines that were split
    before. The fields from ``known`` on describe the records, including those that were split before: the lines to
    which the ids refer, the line numbers of the records by id, the parents by line number, and the line numbers of the
    messages. ``compaction_of``: for a parent id in later lines, the id of the compaction that is the parent.
    """

    session_path: SessionPath
    groups: list[Group | StoredGroup] = field(default_factory=list)
    nodes: list[LineLink] = field(default_factory=list)
    tail: bytes = b""
    started_ms: int | None = None
    session: str | None = None
    cwd: str | None = None
    version: str | None = None
    forked_from: str | None = None
    lines_before: int = 0
    has_boundary: bool = False
    known: KnownLines = field(default_factory=lambda: KnownLines({}))
    at_id: dict[str, int] = field(default_factory=dict)
    parents: dict[int, int | None] = field(default_factory=dict)
    messages: set[int] = field(default_factory=set)
    compaction_of: dict[str, str] = field(default_factory=dict)
    turns: ParallelCalls = field(default_factory=ParallelCalls)

    def __post_init__(self) -> None:
        self._leaf = LeafFinder(of_agent=self.session_path.is_subagent)
        self._leaf_state, self._kept_facts = self._leaf.state, self._facts  # after the last record
        self._boundaries: dict[int, Object] = {}  # line number of a summary -> its boundary line
        self._repaired: dict[int, str] = {}

    @classmethod
    def restored(cls, session_path: SessionPath, values: Any) -> _Parts:
        """Return the parts with the state ``values``, which ``state`` returned."""
        lines, facts, leaf, parents, messages, at_id, (moved, newest, last), compaction_of, turns = values
        parts = cls(session_path, lines_before=lines, at_id=at_id, compaction_of=compaction_of)
        parts.started_ms, parts.session, parts.cwd, parts.version, parts.forked_from = facts
        parts.known = KnownLines(at_id | moved, newest, last)
        parts.parents, parts.messages = dict(parents), set(messages)
        parts.turns = ParallelCalls.from_json(turns)
        parts._leaf.state = parts._leaf_state = tuple(leaf)
        parts._kept_facts = parts._facts
        return parts

    def state(self) -> Any:
        """Return the state after the last record as a JSON value."""
        known = self.known.after(self.nodes)
        moved = {id: line for id, line in known.ids.items() if self.at_id[id] != line}
        return [
            self.groups[-1].line if self.groups else self.lines_before,
            self._facts,
            self._leaf_state,
            list(self.parents.items()),
            sorted(self.messages),
            self.at_id,
            [moved, known.newest, known.last],
            self.compaction_of,
            self.turns.to_json(),
        ]

    @property
    def is_resumable(self) -> bool:
        """Return whether ``split_rest`` can continue after the last record.

        It cannot before the first record with an id, after a boundary line without a summary, if the id of a boundary
        line does not refer to a compaction, and if a value for the header is only in the tail, which the agent can
        replace.
        """
        has_facts = self._kept_facts == self._facts
        return has_facts and self._pending is None and bool(self._seen) and self._seen == self.at_id.keys()

    @property
    def _facts(self) -> tuple[int | str | None, ...]:
        return self.started_ms, self.session, self.cwd, self.version, self.forked_from

    def add_lines(self, lines: Sequence[bytes]) -> None:
        self._group(lines)
        self._link()

    def _group(self, lines: Sequence[bytes]) -> None:
        """Group the lines as ``jsonl.group`` does, except that a compaction is one group.

        If the next record line after a boundary line is the summary of the same compaction, both lines are in one
        group.
        """
        first = 0  # index of the first line of the next group
        pending: tuple[int, Object] | None = None  # the number of a boundary line, and the line
        for number, line in enumerate(lines, 1):
            parsed = jsonl.parse(line)
            if not isinstance(parsed, LineFailure):
                self._update_facts(parsed)
                if is_attached(parsed):
                    continue
            if pending is not None:
                at, boundary = pending
                pending = None
                if not isinstance(parsed, LineFailure) and is_summary_of(parsed, boundary):
                    self._boundaries[number] = boundary
                else:
                    self.groups.append(grouped(lines, first, at, boundary))
                    first = at
            if not isinstance(parsed, LineFailure) and is_boundary(parsed):
                pending = number, parsed
                self.has_boundary = True
                continue
            self.groups.append(grouped(lines, first, number, parsed))
            self._leaf_state, self._kept_facts = self._leaf.state, self._facts
            first = number
        self.tail = LF.join(lines[first:])
        self._pending = pending
        if self.lines_before:
            self.groups = [
                each._replace(line=each.line + self.lines_before) for each in self.groups if isinstance(each, Group)
            ]

    def _update_facts(self, line: Object) -> None:
        self._leaf.add_line(line)
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
        turns, compaction_of, seen = self.turns, self.compaction_of, set(self.at_id)
        self.at_id |= {uuid: group.line for group in self.groups for uuid in self._ids(group)}
        self.messages |= {
            group.line
            for group in self.groups
            if not isinstance(line := group.parsed, LineFailure) and line.get("type") in MESSAGES
        }
        before: dict[bool, str] = {}  # whether records are in a sidechain -> the id of the last such record
        above: dict[str, str] = {}  # id of a record -> id of its parent in the store
        for group in self.groups:
            if isinstance(group.parsed, LineFailure):
                self.nodes.append(NOTHING._replace(line=group.line))
                continue
            own = uuid_of(group.parsed)
            boundary = self._boundaries.get(group.line) or (group.parsed if is_boundary(group.parsed) else None)
            parent = _parent(boundary or group.parsed, seen)
            if isinstance(parent, str):
                parent = compaction_of.get(parent, parent)
                if parent not in self.at_id and is_sidechain(group.parsed) in before:
                    self._repaired[group.line] = parent
                    parent = before[is_sidechain(group.parsed)]
                if boundary is not None:
                    parent = _parent_after_kept(boundary, parent, above)
                parent = turns.parent(group.parsed, own, parent)
            else:
                turns.parent(group.parsed, own, None)
            if parent is None and not seen:
                parent = Field.ABSENT  # so that a title before the conversation is not a separate branch
            self.nodes.append(LineLink(group.line, own, parent))
            if own is not None:
                if isinstance(parent, str):
                    above[own] = parent
                before[is_sidechain(group.parsed)] = own
                seen.update(self._ids(group))
                compaction_of.pop(own, None)  # from here on, the id refers to this record again
                if boundary is not None:
                    compaction_of |= dict.fromkeys([*self._ids(group), *preserved_by(boundary)], own)
        self._seen = seen

    def _ids(self, group: Group | StoredGroup) -> Iterator[str]:
        boundary = self._boundaries.get(group.line)
        own = None if isinstance(group.parsed, LineFailure) else uuid_of(group.parsed)
        yield from [uuid for uuid in (own, uuid_of(boundary) if boundary else None) if uuid is not None]

    def records(self) -> tuple[tuple[Record, ...], list[SourceProblem]]:
        found = tuple([self._record(placed) for placed in self.known.place(self.nodes)])
        self.parents |= {record.line: record.parent for record in found}
        return found, [SourceProblem(record.line, record.problem) for record in found if record.problem]

    def _record(self, placed: PlacedLine) -> Record:
        group, own = self.groups[placed.at], self.nodes[placed.at].id
        claimed, problem = placed.claimed, placed.problem
        if isinstance(group.parsed, LineFailure):
            problem = group.parsed.reason
        elif group.line in self._repaired:
            claimed = self._repaired[group.line]
            missing = f"the parent {quoted(claimed)} is not in the file: the line before is used instead"
            problem = "; ".join(filter(None, (missing, problem)))
        return record_of(group.line, group, placed.parent, own, claimed, problem)

    def leaf(self) -> int | None:
        return self._leaf.find(self.parents, self.at_id, self.messages)


def _parent_after_kept(boundary: Object, parent: str, above: Mapping[str, str]) -> str:
    """Return the id of a compaction's parent in the store: the last kept message, or ``parent``.

    The command "Summarize up to here" cuts the history before the messages that the compaction keeps. To place these
    messages on the branch of the compaction, the last of them becomes the parent. If the kept messages do not form a
    chain below ``parent``, the result is ``parent``.

    ``parent``: the id of the line at which the history was cut. ``above``: the ids of the records' parents, by id.
    """
    kept_ids = preserved_by(boundary)
    remaining_ids, at = set(kept_ids), kept_ids[-1] if kept_ids else parent
    while at in remaining_ids and at in above:
        remaining_ids.discard(at)
        at = above[at]
    return kept_ids[-1] if kept_ids and at == parent else parent


def _parent(line: Object, seen: set[str]) -> str | Field | None:
    """Return the parent id in a line: ``None`` if the field is null, and ``Field.ABSENT`` if there is no such field.

    If the field is null and ``logicalParentUuid`` is the id of an earlier line, return that id. In a boundary line,
    ``logicalParentUuid`` is the id of the line at which the history was cut.

    ``seen``: the ids of the earlier lines.
    """
    parent = line.get("parentUuid", Field.ABSENT)
    if parent is None:
        logical = text(line.get("logicalParentUuid"))
        return logical if logical in seen else None
    if not isinstance(parent, str | Field):
        return json.dumps(parent)
    return parent
