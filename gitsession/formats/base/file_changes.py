"""What an agent's own records say of the files that it changed: values only. Times are milliseconds since 1970, UTC."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias


class RecordedCopy(NamedTuple):
    """A file's bytes, where the agent keeps its copies, under ``name``."""

    name: str


class RecordedTree(NamedTuple):
    """All files of a folder, as git's tree of that name (40 digits) among the objects that the agent keeps."""

    name: str


class RecordedBackup(NamedTuple):
    """What paths were before the agent touched them; ``None``: not there. ``entry``: its own id of the entry that this
    belongs to, or the number of that one's line. A path is as the agent says it: relative to the session's folder, or
    absolute.
    """

    said: bytes
    at_ms: int | None
    entry: str | int | None
    files: Mapping[str, RecordedCopy | None]


class RecordedEdit(NamedTuple):
    """What a call made of one file. ``was``: its whole text before, ``None``: not there; with LF for its line ends, as
    ``became`` is. ``rewrites``: the line ends too are as ``became`` has them, if the file had no others.
    """

    said: bytes
    at_ms: int | None
    entry: str | int | None
    call: str | None
    path: str
    was: str | None
    became: str
    rewrites: bool


class RecordedReplacement(NamedTuple):
    """What a call made of one file that was there. ``was``: its whole text before, line ends and all, as ``became`` is;
    ``None``: gone.
    """

    said: bytes
    at_ms: int | None
    entry: str | int | None
    call: str | None
    path: str
    was: str
    became: str | None


class RecordedRun(NamedTuple):
    """The files of the folder ``root`` before and after calls ran. ``paths``: the only ones that these calls can have
    changed, as the agent says them; ``None``: any.
    """

    said: bytes
    at_ms: int | None
    entry: str | int | None
    call: str | None
    root: str
    before: RecordedTree
    after: RecordedTree
    paths: tuple[str, ...] | None


RecordedChange: TypeAlias = RecordedBackup | RecordedEdit | RecordedReplacement | RecordedRun
"""One of these, from the line ``said``: what is kept of it follows from that."""


_HUNK = re.compile(r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+[0-9]{1,9}(?:,([0-9]{1,9}))? @@[^\n]*\n")
_NO_END = "\\ No newline at end of file"


def patched(held: str, diff: str) -> str | None:
    """What a unified ``diff`` makes of ``held``; ``None`` where it is not of that: each line it shows must stand there.

    Of the lines that it does not show it says nothing; whoever compares the outcome with a file compares those too.
    """
    rows = iter(_rows(diff))
    old, at = _lines(held), 0
    became: list[str] = []
    for row in rows:
        hunk = _HUNK.fullmatch(row)
        if hunk is None:
            return None
        start, lost, gained = int(hunk[1]), int(hunk[2] or 1), int(hunk[3] or 1)
        start -= lost > 0  # of no lines, it is the one before them
        if not at <= start <= len(old):
            return None
        became += old[at:start]
        at = start
        while lost > 0 or gained > 0:
            line = next(rows, "")
            mark, text = line[:1], line[1:]
            if mark not in (" ", "-", "+") or (mark != "+" and old[at : at + 1] != [text]):
                return None
            at, lost = at + (mark != "+"), lost - (mark != "+")
            gained -= mark != "-"
            became += [text] if mark != "-" else []
        if lost or gained:
            return None
    return "".join([*became, *old[at:]])


def _rows(diff: str) -> list[str]:
    """The lines of a diff; one that has no end in the file has none here."""
    rows: list[str] = []
    for row in _lines(diff):
        if not row.startswith(_NO_END):
            rows.append(row)
        elif rows:
            rows[-1] = rows[-1].removesuffix("\n")
    return rows


def _lines(text: str) -> list[str]:
    """With their ends, which are LF alone."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
