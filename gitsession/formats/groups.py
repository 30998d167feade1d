"""Records of several lines: what is no part of the conversation rides with the line of the conversation behind it.

Agents that log everything (token counts, settings, user-interface events) write more lines about a conversation than
of it. Each line an entry would cost twice the disk and bury what was said; so a record is a line that *speaks* and the
lines before it that *ride*, verbatim, with the line ends between them. Which lines ride is frozen under the view
number, as what is lifted is: it decides what the entries are. Behind the last line that speaks, riding lines wait for
the next one: they are the file's ``tail``, kept on ``meta``, so that no entry depends on a later line
(docs/decisions/0014).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gitsession.formats.jsonl import Failure, Object, parse

LF = b"\n"


class Group(NamedTuple):
    """``payload``: the lines; ``line``: the number of the one that speaks; ``spoken``: what that one says."""

    line: int
    payload: bytes
    spoken: Object | Failure


def group(lines: Iterable[tuple[int, bytes]], rides: Callable[[Object], bool]) -> tuple[list[Group], bytes | None]:
    """Groups of numbered lines, and the tail: the lines behind the last that speaks, ``None`` if there are none.

    A line that is no object speaks: it is a problem, and shown as one.
    """
    groups: list[Group] = []
    waiting: list[bytes] = []
    for number, line in lines:
        said = parse(line)
        waiting.append(line)
        if isinstance(said, Failure) or not rides(said):
            groups.append(Group(number, LF.join(waiting), said))
            waiting = []
    return groups, LF.join(waiting) if waiting else None


def spoken(payload: bytes) -> bytes:
    """The line of a record that speaks: its last."""
    return payload.rpartition(LF)[2]


def riding(payload: bytes) -> list[bytes]:
    """The lines of a record that ride with it."""
    return payload.split(LF)[:-1]
