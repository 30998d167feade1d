"""A session file taken apart: its records, each with its bytes and its place. Values only; no store, no oids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from gitsession.formats.base.lines import FileSpan
from gitsession.model.entries import SessionHeader

TAIL = (1 << 31) - 1
"""The line number of a file's tail on ``meta``: behind every line (``formats.base.groups``)."""

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
    behind the last record that wait for the next (``formats.base.groups``); ``None`` for an agent whose lines are all
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
