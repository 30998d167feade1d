"""The history of files over all sessions: the entries that changed them, and the origin of each line."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gitsession.checkpoints import history as checkpoint_history
from gitsession.checkpoints import lookup
from gitsession.checkpoints.attribution import attributed
from gitsession.codec.digest import from_base64url
from gitsession.discovery import projects
from gitsession.discovery.discover import top_folder
from gitsession.errors import GitSessionError
from gitsession.git.types import Oid
from gitsession.index import file_changes
from gitsession.index.catalogue import Catalogue, Row
from gitsession.index.derived import storable
from gitsession.index.file_changes import LAST_MS, RecordedChange
from gitsession.index.update_activity import changed_paths
from gitsession.model.blame import TextChange, attribute
from gitsession.model.entries import Checkpoint, Message
from gitsession.model.tool_actions import edits_of
from gitsession.sessions import graph
from gitsession.sessions.content import entry_of
from gitsession.sessions.node import load
from gitsession.store.interface import ObjectStore
from gitsession.workspace.names import escape_path
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

    def name_in(self, workspace: str, row: Row) -> str:
        """Return the path of the file in checkpoints of a session with this workspace; "" if it is not there."""
        top = f"{workspace.rstrip('/')}/"
        if workspace and self.path.startswith(top):
            name = self.path.removeprefix(top)
        else:
            name = self.name if row.identity is not None and row.identity == self.identity else ""
        return escape_path(os.fsencode(name)) if name else ""

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


class _States(NamedTuple):
    """The changes of files between checkpoints that are attributed to a session, by workspace and path."""

    workspaces: frozenset[str]
    changes: Mapping[tuple[str, str], Sequence[tuple[Checkpoint, State, State]]]


class FileHistory:
    """The history of files in the store ``objects`` with the up-to-date catalog ``catalogue``."""

    def __init__(self, catalogue: Catalogue, objects: ObjectStore) -> None:
        self._db = catalogue.db
        self._objects = objects
        self._rows = {row.sid: row for row in catalogue.sessions()}
        self._origins: dict[tuple[str, Oid], LineOrigin] = {}
        self._states: dict[str, _States] = {}

    @functools.cached_property
    def _names(self) -> set[str]:
        """The names of all files that tool calls changed."""
        return file_changes.changed_names(self._db)

    def is_known(self, file: TrackedFile) -> bool:
        """Return whether a session can have changed a file: one of its name, or this one between checkpoints."""
        is_named = storable(os.path.basename(file.path)) in self._names
        return is_named or any(True for _ in self._checkpoint_changes(file))

    def changes(self, file: TrackedFile, until_ms: int = LAST_MS) -> list[RecordedChange]:
        """Return the changes of a file by tool calls that did not fail, the newest first.

        ``until_ms``: the time of the last change, Unix time in ms.
        """
        if storable(os.path.basename(file.path)) not in self._names:
            return []

        def is_same(sid: str, path: str, name: str) -> bool:
            return file.is_same(self._rows.get(sid), path, name)

        return file_changes.changes_of(self._db, file.path, file.name, is_same, until_ms=until_ms)

    def blame(self, file: TrackedFile, text: str, until_ms: int = LAST_MS) -> list[LineOrigin | None]:
        """Return the origin of each line of ``text``, the content of a file; ``None`` for a line that no session wrote.

        ``until_ms``: the time of the last change, Unix time in ms.
        """
        changes = self.changes(file, until_ms)
        deleted = next((at for at, it in enumerate(changes) if (it.path, it.change) == (file.path, "delete")), -1)
        since_ms = changes[deleted].at_ms if deleted >= 0 else 0
        edits = [
            (change.at_ms, part)
            for change in reversed(changes if deleted < 0 else changes[:deleted])
            for part in self._parts(change)
        ]
        recorded = [(at_ms, part) for at_ms, part in self._recorded_states(file) if since_ms <= at_ms <= until_ms]
        merged = sorted([*edits, *recorded], key=lambda found: found[0])
        found = attribute(text, [change for _, change in merged])
        return [None if key is None else self.origin(*key) for key in found]

    def newest_recorded(self, file: TrackedFile) -> tuple[int, str] | None:
        """Return the text of a file after its newest change in a checkpoint that is attributed to a session.

        Returns:
            The time of the checkpoint, Unix time in ms, and the text; ``None`` if there is no such checkpoint.
        """
        states = ((at_ms, change.new) for at_ms, change in self._recorded_states(file))
        return max(states, key=lambda state: state[0], default=None)

    def _parts(self, change: RecordedChange) -> Iterator[TextChange[tuple[str, Oid]]]:
        """Yield the parts of a change, if the entry can be read."""
        try:
            entry = entry_of(self._objects, load(self._objects, change.oid))
        except GitSessionError:
            return
        block = entry.content[change.block : change.block + 1] if isinstance(entry, Message) else ()
        edits = [edit for each in block for edit in edits_of(each) for _ in changed_paths(edit)]
        edit = edits[change.number] if change.number < len(edits) else None
        if edit is None or (edit.moved_to and change.change == "write"):
            return
        for old, new, everywhere in edit.parts:
            is_whole = edit.change == "write"
            yield TextChange((change.sid, change.oid), None if is_whole else old, new, is_whole, everywhere)

    def _recorded_states(self, file: TrackedFile) -> Iterator[tuple[int, TextChange[tuple[str, Oid]]]]:
        """Yield the changes of a file between checkpoints that are attributed to their session, with their times."""
        for sid, entry, old, new in self._checkpoint_changes(file):
            oid, (before, after) = self._entry_of(sid, entry), map(self._text, (old, new))
            if oid is not None and after is not None:
                yield entry.at_ms, TextChange((sid, oid), before or "", after, is_whole=True)

    def _checkpoint_changes(self, file: TrackedFile) -> Iterator[tuple[str, Checkpoint, State, State]]:
        for sid, row in self._rows.items():
            is_near = file.path.startswith(f"{(row.project or '/').rstrip('/')}/")
            if not is_near and (row.identity is None or row.identity != file.identity):
                continue
            states = self._states_of(sid)
            for workspace in states.workspaces:
                changes = states.changes.get((workspace, file.name_in(workspace, row)), ())
                yield from ((sid, *change) for change in changes)

    def _states_of(self, sid: str) -> _States:
        """Return the changes between checkpoints that are attributed to a session; none if a checkpoint is damaged."""
        if sid not in self._states:
            changes: dict[tuple[str, str], list[tuple[Checkpoint, State, State]]] = {}
            try:
                steps = lookup.steps(CachedTrees(self._objects), checkpoint_history.history(self._objects, sid))
                for step, by_session in zip(steps, attributed(steps), strict=True):
                    for path in by_session:
                        found = changes.setdefault((step.entry.workspace or "", path), [])
                        found.append((step.entry, *step.changes[path]))
            except GitSessionError:
                pass  # the tool calls remain
            self._states[sid] = _States(frozenset(workspace for workspace, _ in changes), changes)
        return self._states[sid]

    def _text(self, state: State) -> str | None:
        """Return the text of a file; ``None`` if it does not exist or cannot be read."""
        try:
            return None if state is None else self._objects.read(state.oid)[1].decode("utf-8", "replace")
        except GitSessionError:
            return None

    def _entry_of(self, sid: str, checkpoint: Checkpoint) -> Oid | None:
        """Return the entry with the tool call to which a checkpoint belongs, or else the entry itself.

        Agents can use the id of a call again. The call is then the nearest one to the entry of the checkpoint.
        """
        if checkpoint.target is None:
            return None
        chain = from_base64url(checkpoint.target)
        target = "SELECT oid, depth FROM entries_by_chain c JOIN entries USING (sid, oid) WHERE sid = ? AND c.chain = ?"
        found = self._db.execute(target, (sid, chain)).fetchone()
        call = (
            "SELECT oid FROM calls JOIN entries USING (sid, oid) WHERE sid = ? AND call = ? "
            "ORDER BY abs(depth - ?), depth LIMIT 1"
        )
        values = (sid, storable(checkpoint.call or ""), found[1] if found else 0)
        found = (self._db.execute(call, values).fetchone() if checkpoint.call else None) or found
        return found[0] if found else None

    def sessions_that_changed(self, file: TrackedFile, since_ms: int, until_ms: int) -> set[str]:
        """Return the ids of the sessions that changed a file after ``since_ms`` and until ``until_ms``.

        Times are Unix times in ms.
        """
        changes = [(change.at_ms, change.sid) for change in self.changes(file, until_ms)]
        states = [(entry.at_ms, sid) for sid, entry, _, _ in self._checkpoint_changes(file)]
        return {sid for at_ms, sid in [*changes, *states] if since_ms < at_ms <= until_ms}

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
