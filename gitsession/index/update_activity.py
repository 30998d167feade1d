"""Insertion of tool calls, their results, and changes of files into the catalog (``index.activity`` reads them)."""

from __future__ import annotations

import posixpath
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from gitsession.git.types import Oid
from gitsession.index.derived import storable
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Entry, Fork, Message, SessionHeader
from gitsession.model.file_edits import PATH_CHARS_MAX, FileEdit
from gitsession.model.results import result_in
from gitsession.model.tool_actions import action_of, edits_of, outcome_of
from gitsession.sessions.node import Node

_TITLE_CHARS_MAX = 200

_DISTANCE_MAX = 256
"""Maximum number of entries between a tool call and its result if the agent used the id of the call several times.

It is also the maximum number of results in one entry that are distinguished in this case.
"""


class CallKey(NamedTuple):
    """The identity of a tool call: its entry, and the number of its block there. Agents can repeat their own ids."""

    oid: Oid
    block: int


class ActivityRecorder:
    """The rows of new entries of one session, which ``insert`` writes together.

    Args:
        db: The database of the catalog.
        sid: The id of the session.
        folder: The working directory of the session; "" if it is unknown.
        parent_of: A function that returns the parent of an entry; ``None`` if there is none or it cannot be read.
    """

    def __init__(self, db: sqlite3.Connection, sid: str, folder: str, parent_of: Callable[[Oid], Oid | None]) -> None:
        self._db = db
        self._sid = sid
        self._folder = folder
        self._parent_of = parent_of
        self._calls: list[tuple[object, ...]] = []
        self._results: list[tuple[object, ...]] = []
        self._changes: list[tuple[object, ...]] = []
        self._parents: dict[Oid, Oid | None] = {}
        self._keys: dict[str, list[CallKey]] = {}
        """The recorded calls by the agent's id."""
        self._keys_in: dict[tuple[Oid, str], list[CallKey]] = {}
        """The same calls by their entry and the agent's id."""
        self._answered: dict[Oid, list[CallKey]] = {}
        """The calls whose results are in each recorded entry."""

    def record(self, node: Node, entry: Entry, *, copied: bool) -> None:
        """Record the tool calls, the results, and the changes of files in an entry. Entries follow their parents.

        Args:
            node: The entry.
            entry: The content of the entry.
            copied: Whether the entry is a copy of an entry of another session.
        """
        self._parents[node.oid] = node.parent
        if isinstance(entry, SessionHeader | Fork):
            self._folder = entry.cwd or self._folder
        if not isinstance(entry, Message):
            return
        if entry.role == "tool":
            self._record_result(node.oid, 0, entry)
        elif entry.role == "assistant":
            self._record_answer(node.oid, entry, copied=copied)

    def _record_answer(self, oid: Oid, entry: Message, *, copied: bool) -> None:
        for number, block in enumerate(entry.content):
            if isinstance(block, ToolCall):
                action = action_of(block, self._folder)
                edits = action.edits
                call, title = storable(block.id), storable(action.title[:_TITLE_CHARS_MAX])
                for keys in (self._keys.setdefault(call, []), self._keys_in.setdefault((oid, call), [])):
                    keys.append(CallKey(oid, number))
                self._calls.append((self._sid, oid, number, call, storable(action.tool), title, copied))
            else:
                edits, result = edits_of(block, self._folder), result_in(block)
                if result is not None:
                    self._record_result(oid, number, result)
            for at, change in enumerate(self._changes_in(edits)):
                self._changes.append((self._sid, oid, number, at, *change, copied))

    def _changes_in(self, edits: Iterable[FileEdit]) -> Iterator[tuple[object, ...]]:
        """Yield the values of each changed path. The lines of a moved file count only for its old path."""
        for edit in edits:
            for path, change in changed_paths(edit):
                counts = (edit.added, edit.removed) if path == edit.path else (0, 0)
                yield absolute(storable(path), self._folder), change, *counts

    def _record_result(self, oid: Oid, number: int, result: Message) -> None:
        outcome, call = outcome_of(result), storable(result.tool_call_id or "")
        key = self._call_of(oid, call)
        if key is not None:
            self._answered.setdefault(oid, []).append(key)
        row = (self._sid, oid, number, call, *(key or (None, None)), outcome.failed, outcome.text)
        self._results.append(row)

    def _call_of(self, oid: Oid, call: str) -> CallKey | None:
        """Return the call with the result in an entry.

        This is the only call with the agent's id ``call``, or else the newest one in the history of the entry that has
        no result there (as in ``context.call_results``).
        """
        query = "SELECT oid, block FROM calls WHERE sid = ? AND call = ? LIMIT 2"
        known = (CallKey(*row) for row in self._db.execute(query, (self._sid, call)))
        found = {*known, *self._keys.get(call, [])[:2]}
        if len(found) < 2:
            return next(iter(found), None)
        taken: set[CallKey] = set()
        at: Oid | None = oid
        for _ in range(_DISTANCE_MAX):
            if at is None:
                break
            taken.update(self._answered_in(at))
            key = next((key for key in self._calls_in(at, call) if key not in taken), None)
            if key is not None:
                return key
            at = self._parents[at] if at in self._parents else self._parent_of(at)
        return None

    def _calls_in(self, oid: Oid, call: str) -> list[CallKey]:
        if oid in self._parents:
            return self._keys_in.get((oid, call), [])
        query = "SELECT oid, block FROM calls WHERE sid = ? AND oid = ? AND call = ? ORDER BY block"
        return [CallKey(*row) for row in self._db.execute(query, (self._sid, oid, call))]

    def _answered_in(self, oid: Oid) -> list[CallKey]:
        if oid in self._parents:
            return self._answered.get(oid, [])[-_DISTANCE_MAX:]
        query = "SELECT call_oid, call_block FROM results WHERE sid = ? AND oid = ? AND call_oid IS NOT NULL"
        return [CallKey(*row) for row in self._db.execute(query, (self._sid, oid))]

    def insert(self) -> None:
        """Write the recorded rows to the database."""
        self._db.executemany("INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?, ?, ?)", self._calls)
        self._db.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?)", self._results)
        self._db.executemany("INSERT OR REPLACE INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", self._changes)


def changed_paths(edit: FileEdit) -> list[tuple[str, str]]:
    """Return each path that an edit changes, with the change. Each path has a row, in this order."""
    pairs = ((edit.path, edit.change), (edit.moved_to, "write"))
    return [(path, change) for path, change in pairs if path and len(path) <= PATH_CHARS_MAX]


def absolute(path: str, folder: str) -> str:
    """Return a normalized path. A relative path is relative to ``folder``, if this is known."""
    return posixpath.normpath(posixpath.join(folder, path) if folder else path)
