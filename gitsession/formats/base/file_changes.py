"""Values that represent the file changes in an agent's records. Times are Unix times in ms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from gitsession.pattern import pattern


class RecordedCopy(NamedTuple):
    """The content of a file. ``name``: the name of the copy that the agent stores."""

    name: str


class RecordedTree(NamedTuple):
    """The files of a folder. ``name``: the object id (40 digits) of a git tree that the agent stores."""

    name: str


class RecordedBackup(NamedTuple):
    """The state of files before an agent changed them.

    ``files``: the copies by path. The copy is ``None`` if the file did not exist. Each path is written as in the
    agent's record: relative to the session's folder, or absolute. ``entry``: the agent's id, or the line number, of the
    entry to which the state belongs.
    """

    raw: bytes
    at_ms: int | None
    entry: str | int | None
    files: Mapping[str, RecordedCopy | None]


class RecordedEdit(NamedTuple):
    """The change that a tool call made to one file.

    ``before``: the whole text of the file before the call, with LF line endings; ``None`` if the file did not exist.
    ``after``: the whole text of the file after the call, also with LF line endings. ``rewrites``: whether the call
    wrote the whole file, including the line endings. If ``rewrites`` is true and the file did not have LF line endings
    before the call, the line endings after the call are unknown.
    """

    raw: bytes
    at_ms: int | None
    entry: str | int | None
    call: str | None
    path: str
    before: str | None
    after: str
    rewrites: bool


class RecordedReplacement(NamedTuple):
    """The change that a tool call made to one existing file.

    ``before``: the whole text of the file before the call. ``after``: the whole text of the file after the call;
    ``None`` if the call deleted the file. Both texts have the line endings of the file.
    """

    raw: bytes
    at_ms: int | None
    entry: str | int | None
    call: str | None
    path: str
    before: str
    after: str | None


class RecordedRun(NamedTuple):
    """The files of the folder ``root`` before and after tool calls.

    ``paths``: the paths that the calls may have changed, as written in the agent's record; ``None`` if the calls may
    have changed any path.
    """

    raw: bytes
    at_ms: int | None
    entry: str | int | None
    call: str | None
    root: str
    before: RecordedTree
    after: RecordedTree
    paths: tuple[str, ...] | None


RecordedChange: TypeAlias = RecordedBackup | RecordedEdit | RecordedReplacement | RecordedRun
"""A recorded change. The payload of the checkpoint for the change is derived from ``raw``, the line of the record."""


_HUNK = pattern(r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+[0-9]{1,9}(?:,([0-9]{1,9}))? @@[^\n]*\n")
_NO_END = "\\ No newline at end of file"


def apply_diff(content: str, diff: str) -> str | None:
    """Apply the unified diff ``diff`` to ``content`` and return the result.

    If a context line or a removed line does not match ``content``, return ``None``. Lines that are not in the diff are
    not checked.
    """
    rows = iter(_rows(diff))
    old, at = _lines(content), 0
    after: list[str] = []
    for row in rows:
        hunk = _HUNK.fullmatch(row)
        if hunk is None:
            return None
        start, lost, gained = int(hunk[1]), int(hunk[2] or 1), int(hunk[3] or 1)
        start -= lost > 0  # if a hunk removes no lines, its start is the number of the line before the hunk
        if not at <= start <= len(old):
            return None
        after += old[at:start]
        at = start
        while lost > 0 or gained > 0:
            line = next(rows, "")
            mark, text = line[:1], line[1:]
            if mark not in (" ", "-", "+") or (mark != "+" and old[at : at + 1] != [text]):
                return None
            at, lost = at + (mark != "+"), lost - (mark != "+")
            gained -= mark != "-"
            after += [text] if mark != "-" else []
        if lost or gained:
            return None
    return "".join([*after, *old[at:]])


def _rows(diff: str) -> list[str]:
    """Return the lines of a diff, without the marker lines for a missing newline at the end of the file.

    The line before such a marker line is returned without its newline.
    """
    rows: list[str] = []
    for row in _lines(diff):
        if not row.startswith(_NO_END):
            rows.append(row)
        elif rows:
            rows[-1] = rows[-1].removesuffix("\n")
    return rows


def _lines(text: str) -> list[str]:
    """Return the lines of ``text`` with their line endings. Only LF ends a line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
