"""The session file that pi invented and omp shares: a header, then one entry a line, each naming its parent.

omp puts a slot of fixed size for the title before the header. Slot and header are rewritten in place, so they are
``meta``; everything else is a record. Lines are numbered as they stand in the file, from 1, not counting the slot.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from gitsession.errors import Malformed
from gitsession.formats.base import jsonl
from gitsession.formats.base.fields import storable, to_ms
from gitsession.formats.base.format import Sidecar
from gitsession.formats.base.jsonl import Data, FileSpan, LineFailure, Lines, Object, StoredFile, joined
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

_BLOB = re.compile(rb"blob:sha256:([0-9a-f]{64})(?![0-9a-f])")
_BLOBS_UP = 4
"""How far above a session file omp's blob folder can lie: agent/blobs beside agent/sessions/<bucket>/<file>."""


def header_in(head: bytes) -> tuple[Object, Object | None] | None:
    """The header among the lines of ``head``, and the title slot if one stands before it. ``None``: no header."""
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


def beside(data: Data) -> list[Sidecar]:
    """The contents that omp keeps in a folder of blobs, above the session file's."""
    parts = Lines(data) if isinstance(data, StoredFile) else (data,)
    wanted = sorted({found.decode() for part in parts for found in _BLOB.findall(part)})
    above = ["/".join([*[".."] * levels, "blobs"]) for levels in range(_BLOBS_UP)]
    return [Sidecar(f"blob:sha256:{name}", [f"{folder}/{name}" for folder in above], sha256=name) for name in wanted]


def moved(data: bytes, id: str, cwd: str) -> bytes:
    """``Resumable.moved``: another id and another folder in the header."""
    lines = data.split(b"\n")
    for at, line in enumerate(lines):
        header = jsonl.parse(line) if b'"session"' in line else None
        if isinstance(header, dict) and _is_header(header):
            if header != (said := {**header, "id": id, "cwd": cwd}):
                lines[at] = jsonl.dumps(said)
            break
    return b"\n".join(lines)


def split(data: Data, *, agent: str, name: str, final: bool) -> Source:
    """``Format.split`` for both agents."""
    if not data:
        raise Malformed("an empty file is no session")
    lines, waiting, ends_with_newline = jsonl.cut(data, final=final)
    if not lines:
        raise Malformed("no session header yet, only the beginning of a line", hint="try again when it is written")
    parts = _take_apart(lines)
    source_id, problems = _source_id(parts.header, name.rpartition("/")[2])
    records, more = _records(parts)
    problems += more
    if waiting:
        problems.append(waits(len(lines) + 1, waiting))
    return Source(
        agent=agent,
        source_id=source_id,
        started_ms=to_ms(parts.header.get("timestamp")) or 0,
        records=records,
        meta=parts.meta,
        waiting=waiting,
        ends_with_newline=ends_with_newline,
        version=_version(parts.header),
        problems=tuple(sorted(problems, key=lambda problem: problem.line)),
    )


class _Parts(NamedTuple):
    """A file's lines sorted out: ``nodes``, ``payloads`` and ``reasons`` run side by side, one for each record."""

    header: Object
    meta: tuple[Record, ...]
    nodes: list[LineLink]
    payloads: list[bytes | FileSpan]
    reasons: list[str]
    slots: int


def _take_apart(lines: Sequence[bytes]) -> _Parts:
    header: Object | None = None
    meta: list[Record] = []
    nodes: list[LineLink] = []
    payloads: list[bytes | FileSpan] = []
    reasons: list[str] = []
    slots = 0
    for index, payload in enumerate(lines):
        parsed = jsonl.parse(payload)
        reason = ""
        if isinstance(parsed, LineFailure):
            node, reason = NOTHING._replace(line=index + 1 - slots), _unread(parsed)
        elif index == 0 and _is_slot(parsed):
            slots = 1
            meta.append(Record(0, payload))
            continue
        elif not _is_header(parsed):
            node = _node(index + 1 - slots, parsed)
            reason = _unplaced(node, parsed, _version(header or {}))
        elif header is None:
            header = parsed
            meta.append(Record(index + 1 - slots, payload))
            continue
        else:
            node, reason = NOTHING._replace(line=index + 1 - slots), "a second header"
        nodes.append(node)
        payloads.append(joined(lines, index, index + 1))
        reasons.append(reason)
    return _Parts(header or {}, tuple(meta), nodes, payloads, reasons, slots)


def _records(parts: _Parts) -> tuple[tuple[Record, ...], list[SourceProblem]]:
    records = tuple([_record(parts, placed) for placed in place(parts.nodes)])
    # A title slot has no number among the lines that the store knows; for whoever opens the file it is line 1.
    return records, [SourceProblem(record.line + parts.slots, record.problem) for record in records if record.problem]


def _record(parts: _Parts, placed: PlacedLine) -> Record:
    at = placed.at
    problem = parts.reasons[at] or placed.problem
    return record_of(placed.line, parts.payloads[at], placed.parent, parts.nodes[at].id, placed.claimed, problem)


def _source_id(header: Object, name: str) -> tuple[str, list[SourceProblem]]:
    stated = header.get("id")
    if isinstance(stated, str) and stated:
        return storable(stated), []
    what = "the header states no id" if header else "no session header"
    if not name:
        raise Malformed(what, hint="give the session a name")
    name = storable(name)
    return name, [SourceProblem(1, f"{what}: taken as session {quoted(name)}")]


def _node(line: int, entry: Object) -> LineLink:
    own = entry.get("id")
    if not isinstance(own, str) or not own:
        own = None
    parent = entry.get("parentId", Field.ABSENT)
    if parent is not None and not isinstance(parent, str | Field):
        parent = json.dumps(parent)  # a number or worse: names nothing, and is shown as it stands
    return LineLink(line, own, parent)


def _unread(failure: LineFailure) -> str:
    """Return why a line is no entry, and what the agents do with it if that differs from what is shown here."""
    if not failure.reason.startswith("not JSON: Extra data"):
        return failure.reason
    return f"{failure.reason}: the line is kept and not shown; pi skips it, omp reads its first value"


def _unplaced(node: LineLink, entry: Object, version: int) -> str:
    """Return what to report of an entry without id, and of a message that names no parent either, since version 2."""
    if version < 2 or entry.get("id"):  # pi takes a number for an id
        return ""
    if node.parent is not Field.ABSENT:
        return "an entry without id: no other can name it as its parent; pi shows it only while it is the last one"
    if entry.get("type") != "message":
        return ""
    return "a message without id and parentId: shown below the line before it; pi and omp start a new branch with it"


def _is_header(line: Object) -> bool:
    return line.get("type") == "session"


def _is_slot(line: Object) -> bool:
    return line.get("type") == "title" and "v" in line


def _version(header: Object) -> int:
    """1 where it is not stated. pi itself takes any number, and "3" for 3."""
    stated = header.get("version", 1)
    if isinstance(stated, str) and stated.isascii() and stated.isdigit() and len(stated) < 10:
        return int(stated)
    return stated if type(stated) is int else 1
