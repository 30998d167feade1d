"""The history of one file over all sessions: the entries that changed it, and the origin of each line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gitsession.checkpoints import history as checkpoint_history
from gitsession.checkpoints.attribution import CheckpointStep, attributed
from gitsession.codec.digest import from_base64url
from gitsession.discovery import projects
from gitsession.discovery.discover import top_folder
from gitsession.errors import GitSessionError
from gitsession.git.types import Oid
from gitsession.index.catalogue import Catalogue, Row
from gitsession.index.file_changes import LAST_MS, RecordedChange, changes_of
from gitsession.index.update_activity import changed_paths
from gitsession.model.blame import TextChange, attribute
from gitsession.model.blocks import Text, ToolCall
from gitsession.model.entries import Checkpoint, Message
from gitsession.model.file_edits import FileEdit, edits_in_text
from gitsession.model.tool_actions import action_of
from gitsession.sessions import graph
from gitsession.sessions.content import entry_of
from gitsession.sessions.node import load
from gitsession.store.interface import ObjectStore
from gitsession.workspace.trees import CachedTrees, State


class TrackedFile(NamedTuple):
    """A file whose history is requested.

    Attributes:
        path: The absolute path.
        name: The path relative to the top folder of the project.
        identity: The identity of the project; ``None`` if it has none.
    """

    path: str
    name: str
    identity: str | None = None

    @classmethod
    def at(cls, path: str) -> TrackedFile:
        """Return the file with a path, which need not exist."""
        absolute = os.path.abspath(path)
        folder = Path(os.path.dirname(absolute))
        try:
            top = top_folder(folder)
        except (OSError, ValueError):
            top = folder
        return cls(absolute, os.path.relpath(absolute, top), projects.identity_of(top))

    @property
    def top(self) -> str:
        """The top folder of the project."""
        return self.path.removesuffix(self.name).rstrip("/")

    def is_same(self, row: Row | None, path: str, name: str) -> bool:
        """Return whether ``path``, which ends with ``name``, is this file in another folder with the same project.

        The folder of a project without an identity must have the same name.
        """
        if row is None:
            return False
        if row.identity is not None or self.identity is not None:
            return row.identity == self.identity
        folder = path.removesuffix(name).rstrip("/") or row.project or ""
        return os.path.basename(folder) == os.path.basename(self.top)


class LineOrigin(NamedTuple):
    """The entry that wrote a line.

    Attributes:
        sid: The id of the session.
        oid: The oid of the entry.
        at_ms: The time of the entry, Unix time in ms.
        agent: The name of the agent.
        prompt: The first words of the prompt that led to the entry; "" if there is none.
    """

    sid: str
    oid: Oid
    at_ms: int
    agent: str
    prompt: str


class FileHistory:
    """The history of ``file`` in the store ``objects`` with the up-to-date catalog ``catalogue``."""

    def __init__(self, catalogue: Catalogue, objects: ObjectStore, file: TrackedFile) -> None:
        self._db = catalogue.db
        self._objects = objects
        self._file = file
        self._rows = {row.sid: row for row in catalogue.sessions()}
        self._origins: dict[tuple[str, Oid], LineOrigin] = {}

    def changes(self, until_ms: int = LAST_MS) -> list[RecordedChange]:
        """Return the changes, the newest first. ``until_ms``: the time of the last change, Unix time in ms."""

        def is_same(sid: str, path: str, name: str) -> bool:
            return self._file.is_same(self._rows.get(sid), path, name)

        return changes_of(self._db, self._file.path, self._file.name, is_same, until_ms=until_ms)

    def blame(self, text: str, until_ms: int = LAST_MS) -> list[LineOrigin | None]:
        """Return the origin of each line of ``text``; ``None`` for a line that no session wrote.

        ``until_ms``: the time of the last change, Unix time in ms.
        """
        changes = self.changes(until_ms)
        deleted = next((at for at, it in enumerate(changes) if (it.path, it.change) == (self._file.path, "delete")), -1)
        since_ms = changes[deleted].at_ms if deleted >= 0 else 0
        edits = [
            (change.at_ms, part)
            for change in reversed(changes if deleted < 0 else changes[:deleted])
            for part in self._parts(change)
        ]
        recorded = [(at_ms, part) for at_ms, part in self._recorded_states() if since_ms <= at_ms <= until_ms]
        merged = sorted([*edits, *recorded], key=lambda found: found[0])
        found = attribute(text, [change for _, change in merged])
        return [None if key is None else self.origin(*key) for key in found]

    def newest_recorded(self) -> tuple[int, str] | None:
        """Return the text of the file after its newest change in a checkpoint that is attributed to a session.

        Returns:
            The time of the checkpoint, Unix time in ms, and the text; ``None`` if there is no such checkpoint.
        """
        states = ((at_ms, change.new) for at_ms, change in self._recorded_states())
        return max(states, key=lambda state: state[0], default=None)

    def _parts(self, change: RecordedChange) -> Iterator[TextChange[tuple[str, Oid]]]:
        """Yield the parts of a change that a tool call made, if the entry can be read."""
        try:
            entry = entry_of(self._objects, load(self._objects, change.oid))
        except GitSessionError:
            return
        edits = [edit for edit in _edits(entry) for _ in changed_paths(edit)]
        edit = edits[change.number] if change.number < len(edits) else None
        if edit is None or (edit.moved_to and change.change == "write"):
            return
        for old, new, everywhere in edit.parts:
            is_whole = edit.change == "write"
            yield TextChange((change.sid, change.oid), None if is_whole else old, new, is_whole, everywhere)

    def _recorded_states(self) -> Iterator[tuple[int, TextChange[tuple[str, Oid]]]]:
        """Yield the changes of the file between checkpoints that are attributed to their session, with their times."""
        for sid, row in self._rows.items():
            is_near = self._file.path.startswith(f"{(row.project or '/').rstrip('/')}/")
            if not is_near and (row.identity is None or row.identity != self._file.identity):
                continue
            try:
                yield from self._states_of(sid, row)
            except GitSessionError:
                continue  # a damaged checkpoint; the tool calls remain

    def _states_of(self, sid: str, row: Row) -> Iterator[tuple[int, TextChange[tuple[str, Oid]]]]:
        trees = CachedTrees(self._objects)
        points = checkpoint_history.history(self._objects, sid)
        steps, before = [], None
        for point in points:
            name = self._name_in(point.entry.workspace or "", row)
            state = trees.look_up(point.files, [name])[name] if name else None
            steps.append(CheckpointStep(point.entry, {name: (before, state)} if before != state else {}))
            before = state
        for step, by_session in zip(steps, attributed(steps), strict=True):
            for path in by_session:
                old, new = (self._text(state) for state in step.changes[path])
                oid = self._entry_of(sid, step.entry)
                if oid is not None and new is not None:
                    yield step.entry.at_ms, TextChange((sid, oid), old or "", new, is_whole=True)

    def _name_in(self, workspace: str, row: Row) -> str:
        """Return the path of the file in a workspace; "" if it is not there."""
        top = f"{workspace.rstrip('/')}/"
        if workspace and self._file.path.startswith(top):
            return self._file.path.removeprefix(top)
        return self._file.name if row.identity is not None and row.identity == self._file.identity else ""

    def _text(self, state: State) -> str | None:
        return None if state is None else self._objects.read(state[1])[1].decode("utf-8", "replace")

    def _entry_of(self, sid: str, checkpoint: Checkpoint) -> Oid | None:
        """Return the entry with the tool call to which a checkpoint belongs, or else the entry itself."""
        if checkpoint.target is None:
            return None
        chain = from_base64url(checkpoint.target)
        call = "SELECT oid FROM calls WHERE sid = ? AND call = ?"
        target = "SELECT oid FROM entries WHERE sid = ? AND chain = ?"
        found = self._db.execute(call, (sid, checkpoint.call)).fetchone() if checkpoint.call else None
        found = found or self._db.execute(target, (sid, chain)).fetchone()
        return found[0] if found else None

    def origin(self, sid: str, oid: Oid) -> LineOrigin:
        """Return an entry as the origin of lines."""
        if (sid, oid) in self._origins:
            return self._origins[sid, oid]
        found = self._db.execute("SELECT at_ms FROM entries WHERE sid = ? AND oid = ?", (sid, oid)).fetchone()
        row = self._rows.get(sid)
        agent = row.agent if row is not None else ""
        origin = LineOrigin(sid, oid, found[0] if found else 0, agent, self.prompt(sid, oid))
        return self._origins.setdefault((sid, oid), origin)

    def prompt(self, sid: str, oid: Oid) -> str:
        """Return the first words of the prompt that led to an entry; "" if there is none or it cannot be read."""
        query = "SELECT words FROM entries WHERE sid = ? AND oid = ?"
        try:
            for node in graph.history(self._objects, oid):
                found = self._db.execute(query, (sid, node.oid)).fetchone()
                if found and found[0]:
                    return str(found[0])
        except GitSessionError:
            pass
        return ""


def _edits(entry: object) -> Iterator[FileEdit]:
    """Yield the changes of files in an entry, in the order of the catalog."""
    for block in entry.content if isinstance(entry, Message) else ():
        if isinstance(block, ToolCall):
            yield from action_of(block).edits
        elif isinstance(block, Text):
            yield from edits_in_text(block.text)
