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
    incomplete_line,
    place_nodes,
    quoted,
    record_of,
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

    def find(self, records: Sequence[Record], at_id: dict[str, int], messages: Collection[int]) -> int | None:
        """Return the line number of the leaf, or ``None`` if the leaf is the last record or is not found.

        ``at_id``: the line numbers of the records, by id. ``messages``: the line numbers of the messages.
        """
        parents = {record.line: record.parent for record in records}
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


def _is_descendant(line: int, above: int, parents: dict[int, int | None]) -> bool:
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
    lines, waiting, ends_with_newline = jsonl.split_lines(data, final=final)
    session_path = parse_path(name)
    parts = _Parts(session_path)
    parts.add_lines(lines)
    started_ms = parts.started_ms
    if started_ms is None:
        if not final:
            raise Malformed("no line has a timestamp yet", hint="pass --final if the file will not grow")
        started_ms = 0
    records, problems = parts.records()
    if waiting:
        problems.append(incomplete_line(len(lines) + 1, waiting))
    return Source(
        agent=AGENT,
        source_id=_source_id(session_path, parts.session),
        started_ms=started_ms,
        records=records,
        waiting=waiting,
        ends_with_newline=ends_with_newline,
        tail=parts.tail,
        leaf=parts.leaf_of(records),
        header=_header(parts, session_path),
        problems=tuple(sorted(problems, key=lambda problem: problem.line)),
    )


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

    ``groups`` and ``nodes`` contain one item for each record.
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

    def add_lines(self, lines: Sequence[bytes]) -> None:
        self._leaf = LeafFinder(of_agent=self.session_path.is_subagent)
        self._boundaries: dict[int, Object] = {}  # line number of a summary -> its boundary line
        self._repaired: dict[int, str] = {}
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
                continue
            self.groups.append(grouped(lines, first, number, parsed))
            first = number
        self.tail = LF.join(lines[first:])

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
        turns = ParallelCalls()
        stated = {uuid for group in self.groups for uuid in self._ids(group)}
        seen: set[str] = set()
        compaction_of: dict[str, str] = {}  # parent id in later lines -> the id of the compaction that is the parent
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
                if parent not in stated and is_sidechain(group.parsed) in before:
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

    def _ids(self, group: Group | StoredGroup) -> Iterator[str]:
        boundary = self._boundaries.get(group.line)
        own = None if isinstance(group.parsed, LineFailure) else uuid_of(group.parsed)
        yield from [uuid for uuid in (own, uuid_of(boundary) if boundary else None) if uuid is not None]

    def records(self) -> tuple[tuple[Record, ...], list[SourceProblem]]:
        found = tuple([self._record(placed) for placed in place_nodes(self.nodes)])
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

    def leaf_of(self, records: tuple[Record, ...]) -> int | None:
        at_id = {uuid: group.line for group in self.groups for uuid in self._ids(group)}
        messages = {
            group.line
            for group in self.groups
            if not isinstance(line := group.parsed, LineFailure) and line.get("type") in MESSAGES
        }
        return self._leaf.find(records, at_id, messages)


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
