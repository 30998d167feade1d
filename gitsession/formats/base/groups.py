"""Records of several lines: what is no part of the conversation rides with the line of the conversation behind it.

Agents that log everything (token counts, settings, user-interface events) write more lines about a conversation than
of it. Each line an entry would cost twice the disk and bury what was said; so a record is a line that *speaks* and the
lines before it that *ride*, verbatim, with the line ends between them. Which lines ride is frozen under the view
number, as what is lifted is: it decides what the entries are. Behind the last line that speaks, riding lines wait for
the next one: they are the file's ``tail``, kept on ``meta``, so that no entry depends on a later line
(docs/decisions/0014).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gitsession.formats.base.jsonl import LineFailure, Object, parse
from gitsession.formats.base.lines import LF as LF
from gitsession.formats.base.lines import FileSpan, joined


class Group(NamedTuple):
    """``payload``: the lines; ``line``: the number of the one that speaks; ``spoken``: what that one says."""

    line: int
    payload: bytes
    spoken: Object | LineFailure


class StoredGroup:
    """The same of a large file: ``spoken`` is parsed when it is asked for, and only the newest is remembered."""

    __slots__ = ("line", "payload")

    def __init__(self, line: int, payload: FileSpan) -> None:
        self.line = line
        self.payload = payload

    @property
    def spoken(self) -> Object | LineFailure:
        data, start = self.payload.data, self.payload.start
        if data.newest[0] != start:
            data.newest = start, parse(spoken(self.payload.read()))
        said: Object | LineFailure = data.newest[1]
        return said


def grouped(lines: Sequence[bytes], first: int, last: int, said: Object | LineFailure) -> Group | StoredGroup:
    """The group of the lines from ``first`` up to ``last``, of which the last one says ``said``."""
    payload = joined(lines, first, last)
    return Group(last, payload, said) if isinstance(payload, bytes) else StoredGroup(last, payload)


def group(
    lines: Sequence[bytes], start: int, rides: Callable[[Object], bool]
) -> tuple[list[Group | StoredGroup], bytes | None]:
    """Groups of the lines from ``start`` on, and the tail: those behind the last that speaks, ``None`` without any.

    A line that is no object speaks: it is a problem, and shown as one.
    """
    groups: list[Group | StoredGroup] = []
    first = start
    for at in range(start, len(lines)):
        said = parse(lines[at])
        if isinstance(said, LineFailure) or not rides(said):
            groups.append(grouped(lines, first, at + 1, said))
            first = at + 1
    return groups, LF.join(lines[first:]) if first < len(lines) else None


def spoken(payload: bytes) -> bytes:
    """The line of a record that speaks: its last."""
    return payload.rpartition(LF)[2]


def riding(payload: bytes) -> list[bytes]:
    """The lines of a record that ride with it."""
    return payload.split(LF)[:-1]
