"""Values for the file changes that an agent's records state. Times are milliseconds since 1970, UTC."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias


class RecordedCopy(NamedTuple):
    """The bytes of a file, which the agent stores as a copy under ``name``."""

    name: str


class RecordedTree(NamedTuple):
    """The files of a folder: the git tree ``name`` (40 digits) among the objects that the agent keeps."""

    name: str


class RecordedBackup(NamedTuple):
    """The state of files before the agent changed them.

    ``files``: the copies by path, ``None`` for a file that did not exist. Paths are as the agent states them: relative
    to the session's folder, or absolute. ``entry``: the agent's id of the entry that this belongs to, or the line
    number of that entry.
    """

    said: bytes
    at_ms: int | None
    entry: str | int | None
    files: Mapping[str, RecordedCopy | None]


class RecordedEdit(NamedTuple):
    """The change that a tool call made to one file.

    ``was``: its whole text before, with LF as line ends; ``None`` if it did not exist. ``became``: its text after,
    likewise. ``rewrites``: the call wrote the whole text with its line ends. If the file had other line ends before,
    those after the call are unknown.
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
    """The change that a tool call made to one existing file.

    ``was``: its whole text before, with its line ends. ``became``: its text after, likewise; ``None`` if it was
    deleted.
    """

    said: bytes
    at_ms: int | None
    entry: str | int | None
    call: str | None
    path: str
    was: str
    became: str | None


class RecordedRun(NamedTuple):
    """The files of the folder ``root`` before and after tool calls.

    ``paths``: the only paths that these calls can have changed, as the agent states them; ``None`` if any path.
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
"""A recorded change. The payload of its checkpoint follows from the line ``said``."""


_HUNK = re.compile(r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+[0-9]{1,9}(?:,([0-9]{1,9}))? @@[^\n]*\n")
_NO_END = "\\ No newline at end of file"


def patched(held: str, diff: str) -> str | None:
    """Apply a unified ``diff`` to ``held``. Returns ``None`` if a context or removed line does not match.

    Lines that the diff does not show are not checked. Callers that compare the result with a file check them too.
    """
    rows = iter(_rows(diff))
    old, at = _lines(held), 0
    became: list[str] = []
    for row in rows:
        hunk = _HUNK.fullmatch(row)
        if hunk is None:
            return None
        start, lost, gained = int(hunk[1]), int(hunk[2] or 1), int(hunk[3] or 1)
        start -= lost > 0  # a hunk that removes no lines states the line before it
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
    """Return the lines of a diff, without the line end of a line that has none in the file."""
    rows: list[str] = []
    for row in _lines(diff):
        if not row.startswith(_NO_END):
            rows.append(row)
        elif rows:
            rows[-1] = rows[-1].removesuffix("\n")
    return rows


def _lines(text: str) -> list[str]:
    """Return the lines of ``text`` with their line ends. Only LF is a line end."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
