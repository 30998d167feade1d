"""Splitter of the session files of pi and omp.

A file consists of a header line and one line for each entry. The line of an entry contains the id of the parent entry.
Before the header, omp also writes a title slot, which is a line of fixed size with the title of the session. The agents
rewrite the title slot and the header in place, so both are stored on the session's ``meta`` ref. All other lines are
records. Line numbers begin at 1 and do not count the title slot.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from gitsession.errors import Malformed
from gitsession.formats.base import jsonl
from gitsession.formats.base.fields import storable, to_ms
from gitsession.formats.base.jsonl import Data, FileLines, Group, LineFailure, Object, StoredGroup, grouped
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


def header_in(head: bytes) -> tuple[Object, Object | None] | None:
    """Return the session header in ``head`` and the title slot before the header.

    If there is no title slot, the second value is ``None``. If there is no header, the result is ``None``.
    """
    slot: Object | None = None
    for line in head.split(b"\n"):
        if b'"session"' not in line and b'"title"' not in line:
            continue
        found = jsonl.parse(line)
        if isinstance(found, LineFailure):
            continue
        if _is_header(found) and isinstance(found.get("id"), str):
            return found, slot
        if slot is None and _is_slot(found):
            slot = found
    return None


def relocate(data: bytes, id: str, cwd: str) -> bytes:
    """Return ``data`` with the session id ``id`` and the folder ``cwd`` in the header."""
    lines = data.split(b"\n")
    for at, line in enumerate(lines):
        header = jsonl.parse(line) if b'"session"' in line else None
        if isinstance(header, dict) and _is_header(header):
            if header != (new_header := {**header, "id": id, "cwd": cwd}):
                lines[at] = jsonl.dumps(new_header)
            break
    return b"\n".join(lines)


def split(data: Data, *, agent: str, name: str, final: bool) -> Source:
    """Split a file of pi or omp as ``Format.split`` does."""
    if not data:
        raise Malformed("the file is empty")
    file = jsonl.split_lines(data, final=final)
    if not file.lines:
        raise Malformed("the file has no complete line yet", hint="try again when the agent has written more")
    return _source(_parse_lines(file.lines), _Earlier(), data, file, agent=agent, name=name)


def split_rest(data: bytes, state: SplitState, *, agent: str, name: str) -> Source | None:
    """Split the rest of a file as ``Growing.split_rest`` does."""
    file = jsonl.split_lines(data[state.size :], final=False)
    if not file.lines:
        return None
    heads, count, *known = state.values
    parts = _parse_lines([*data.split(b"\n", heads)[:heads], *file.lines])
    nodes = [node._replace(line=node.line + count - heads) for node in parts.nodes]
    earlier = _Earlier(count, state.records, KnownLines(*known))
    source = _source(parts._replace(nodes=nodes), earlier, data, file, agent=agent, name=name)
    return None if has_problem(source) else source


class _Earlier(NamedTuple):
    """The lines that were split before: the number of lines and records, and those to which later lines can refer."""

    lines: int = 0
    records: int = 0
    known: KnownLines = KnownLines({})


def _source(parts: _Parts, earlier: _Earlier, data: Data, file: FileLines, *, agent: str, name: str) -> Source:
    source_id, problems = _source_id(parts.header, name.rpartition("/")[2])
    records, record_problems = _records(parts, earlier.known)
    problems += record_problems
    count = earlier.lines + len(file.lines)
    if file.waiting:
        problems.append(incomplete_line(count + 1, file.waiting))
    source = Source(
        agent=agent,
        source_id=source_id,
        started_ms=to_ms(parts.header.get("timestamp")) or 0,
        records=records,
        meta=parts.meta,
        waiting=file.waiting,
        ends_with_newline=file.ends_with_newline,
        version=_version(parts.header),
        problems=tuple(sorted(problems, key=lambda problem: problem.line)),
        earlier=earlier.records,
    )
    heads = [record.line for record in parts.meta]
    if heads not in ([1], [0, 1]):
        return source
    return with_state(source, data, [len(heads), count, *earlier.known.after(parts.nodes)])


class _Parts(NamedTuple):
    """The classified lines of a file.

    ``meta``: the title slot and the header. ``nodes``, ``groups`` and ``reasons``: the ids, the line and the problem of
    each record; the problem is "" if there is none. ``slots``: the number of title slots, 0 or 1.
    """

    header: Object
    meta: tuple[Record, ...]
    nodes: list[LineLink]
    groups: list[Group | StoredGroup]
    reasons: list[str]
    slots: int


def _parse_lines(lines: Sequence[bytes]) -> _Parts:
    header: Object | None = None
    meta: list[Record] = []
    nodes: list[LineLink] = []
    groups: list[Group | StoredGroup] = []
    reasons: list[str] = []
    slots = 0
    for index, payload in enumerate(lines):
        parsed = jsonl.parse(payload)
        reason = ""
        if isinstance(parsed, LineFailure):
            node, reason = NOTHING._replace(line=index + 1 - slots), _parse_reason(parsed)
        elif index == 0 and _is_slot(parsed):
            slots = 1
            meta.append(Record(0, payload))
            continue
        elif not _is_header(parsed):
            node = _node(index + 1 - slots, parsed)
            reason = _placement_reason(node, parsed, _version(header or {}))
        elif header is None:
            header = parsed
            meta.append(Record(index + 1 - slots, payload))
            continue
        else:
            node, reason = NOTHING._replace(line=index + 1 - slots), "a second header"
        nodes.append(node)
        groups.append(grouped(lines, index, index + 1, parsed))
        reasons.append(reason)
    return _Parts(header or {}, tuple(meta), nodes, groups, reasons, slots)


def _records(parts: _Parts, known: KnownLines) -> tuple[tuple[Record, ...], list[SourceProblem]]:
    records = tuple([_record(parts, placed) for placed in known.place(parts.nodes)])
    # Line numbers in the store do not count the title slot, but the line numbers of a text editor do.
    return records, [SourceProblem(record.line + parts.slots, record.problem) for record in records if record.problem]


def _record(parts: _Parts, placed: PlacedLine) -> Record:
    at = placed.at
    problem = parts.reasons[at] or placed.problem
    return record_of(placed.line, parts.groups[at], placed.parent, parts.nodes[at].id, placed.claimed, problem)


def _source_id(header: Object, name: str) -> tuple[str, list[SourceProblem]]:
    stated = header.get("id")
    if isinstance(stated, str) and stated:
        return storable(stated), []
    what = "the header has no id" if header else "no session header"
    if not name:
        raise Malformed(what, hint="pass a name for the session")
    name = storable(name)
    return name, [SourceProblem(1, f"{what}: imported as session {quoted(name)}")]


def _node(line: int, entry: Object) -> LineLink:
    own = entry.get("id")
    if not isinstance(own, str) or not own:
        own = None
    # pi-agent-core 0.80 to 0.83 writes a line of the type "leaf" below the old leaf, and continues at its target.
    is_move = entry.get("type") == "leaf" and "targetId" in entry
    parent = entry.get("targetId" if is_move else "parentId", Field.ABSENT)
    if parent is not None and not isinstance(parent, str | Field):
        parent = json.dumps(parent)  # such a value, for example a number, matches no id; the report contains the value
    return LineLink(line, own, parent)


def _parse_reason(failure: LineFailure) -> str:
    """Return the reason why a line cannot be parsed. If pi or omp reads such a line differently, the text says how."""
    if not failure.reason.startswith("not JSON: Extra data"):
        return failure.reason
    return f"{failure.reason}: the line is stored but not shown (pi skips it, omp reads its first value)"


def _placement_reason(node: LineLink, entry: Object, version: int) -> str:
    """Return the problem that a missing id causes in a file of version 2 or later; "" if there is no problem."""
    if version < 2 or entry.get("id"):  # pi accepts a number as an id
        return ""
    if node.parent is not Field.ABSENT:
        return "an entry without id: no other can name it as its parent, and pi shows it only while it is the last one"
    if entry.get("type") != "message":
        return ""
    return "a message without id and parentId: shown below the line before it (pi and omp start a new branch with it)"


def _is_header(line: Object) -> bool:
    return line.get("type") == "session"


def _is_slot(line: Object) -> bool:
    return line.get("type") == "title" and "v" in line


def _version(header: Object) -> int:
    """Return the format version in ``header``, or 1 if ``header`` contains no integer version.

    Like pi, accept a string of digits, such as "3".
    """
    stated = header.get("version", 1)
    if isinstance(stated, str) and stated.isascii() and stated.isdigit() and len(stated) < 10:
        return int(stated)
    return stated if type(stated) is int else 1
