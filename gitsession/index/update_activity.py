"""Insertion of tool calls, their results, and changes of files into the catalog (``index.activity`` reads them)."""

from __future__ import annotations

import posixpath
import sqlite3
from collections.abc import Iterable, Iterator

from gitsession.git.types import Oid
from gitsession.index.derived import storable
from gitsession.model.blocks import Text, ToolCall
from gitsession.model.entries import Entry, Fork, Message, SessionHeader
from gitsession.model.file_edits import PATH_CHARS_MAX, FileEdit, edits_in_text
from gitsession.model.results import result_in
from gitsession.model.tool_actions import action_of, outcome_of

_TITLE_CHARS_MAX = 200


class ActivityRecorder:
    """The rows of new entries of one session, which ``insert`` writes together."""

    def __init__(self, sid: str, folder: str) -> None:
        """Create a recorder. ``folder``: the working directory of the session; "" if it is unknown."""
        self._sid = sid
        self._folder = folder
        self._calls: list[tuple[object, ...]] = []
        self._results: list[tuple[object, ...]] = []
        self._changes: list[tuple[object, ...]] = []

    def record(self, oid: Oid, entry: Entry, *, copied: bool) -> None:
        """Record the tool calls, the results, and the changes of files in an entry.

        Args:
            oid: The oid of the entry.
            entry: The content of the entry.
            copied: Whether the entry is a copy of an entry of another session.
        """
        if isinstance(entry, SessionHeader | Fork):
            self._folder = entry.cwd or self._folder
        if not isinstance(entry, Message):
            return
        if entry.role == "tool":
            self._record_result(oid, 0, entry)
        elif entry.role == "assistant":
            self._record_answer(oid, entry, copied=copied)

    def _record_answer(self, oid: Oid, entry: Message, *, copied: bool) -> None:
        changes: list[tuple[object, ...]] = []
        for number, block in enumerate(entry.content):
            if isinstance(block, ToolCall):
                action = action_of(block, self._folder)
                title = storable(action.title[:_TITLE_CHARS_MAX])
                row = (oid, number, self._sid, storable(block.id), storable(action.tool), title, copied)
                self._calls.append(row)
                changes += self._changes_in(action.edits, call=storable(block.id))
            elif isinstance(block, Text):
                changes += self._changes_in(edits_in_text(block.text), call="")
            elif (result := result_in(block)) is not None:
                self._record_result(oid, number, result)
        self._changes += [(self._sid, oid, number, *change, copied) for number, change in enumerate(changes)]

    def _changes_in(self, edits: Iterable[FileEdit], *, call: str) -> Iterator[tuple[object, ...]]:
        """Yield a row for each path in ``edits``. The lines of a moved file count only in the row of its old path."""
        for edit in edits:
            for path, change in changed_paths(edit):
                counts = (edit.added, edit.removed) if path == edit.path else (0, 0)
                yield call, absolute(storable(path), self._folder), change, *counts

    def _record_result(self, oid: Oid, number: int, result: Message) -> None:
        outcome = outcome_of(result)
        call = storable(result.tool_call_id or "")
        self._results.append((oid, number, self._sid, call, outcome.failed, outcome.text))

    def insert(self, db: sqlite3.Connection) -> None:
        """Write the recorded rows to the database of the catalog."""
        db.executemany("INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?, ?, ?)", self._calls)
        db.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?)", self._results)
        db.executemany("INSERT OR REPLACE INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", self._changes)


def changed_paths(edit: FileEdit) -> list[tuple[str, str]]:
    """Return each path that an edit changes, with the change. Each path has a row, in this order."""
    pairs = ((edit.path, edit.change), (edit.moved_to, "write"))
    return [(path, change) for path, change in pairs if path and len(path) <= PATH_CHARS_MAX]


def absolute(path: str, folder: str) -> str:
    """Return a normalized path. A relative path is relative to ``folder``, if this is known."""
    return posixpath.normpath(posixpath.join(folder, path) if folder else path)
