"""Workspaces of sessions: find and open the workspace of a session, and limit an undo to a folder."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gitsession.api.opened import OpenStore
from gitsession.checkpoints import history
from gitsession.discovery import discover, projects
from gitsession.errors import NotFound
from gitsession.git.types import Oid, RefValue
from gitsession.index.catalogue import Row
from gitsession.index.current_folder import CurrentFolder, is_at_or_above, is_of
from gitsession.model.entries import Fork
from gitsession.sessions import graph
from gitsession.sessions.content import entry_of
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.meta import meta_of
from gitsession.sessions.operation_log import Operation, UndoScope
from gitsession.store import refs
from gitsession.store.interface import ObjectStore, StoreProxy
from gitsession.workspace import workspace_lock
from gitsession.workspace.root import WorkspaceRoot

WorkspacePath = str | Path | None
"""The folder that the caller selects; ``None`` selects the folder that is recorded in the session."""


def open_root(
    opened: OpenStore, sid: str, path: WorkspacePath = None, *, recorded: str | None = None, writes: bool = False
) -> WorkspaceRoot:
    """Open the workspace of a session; see ``find`` for the arguments. Raises ``NotFound`` or ``Refused``."""
    folder = find(opened, sid, path, recorded=recorded, writes=writes)
    return WorkspaceRoot.open(folder, home=Path.home(), store=opened.objects.git_dir)


def find(
    opened: OpenStore, sid: str, path: WorkspacePath = None, *, recorded: str | None = None, writes: bool = False
) -> Path:
    """Return the workspace of a session.

    The workspace is the first of these folders:

    1. ``path``;
    2. the recorded folder, if the working directory of this process is in that folder;
    3. the top folder of the current repository, if the working directory belongs to the session's project, unless the
       recorded folder exists and belongs to another project;
    4. the recorded folder, if it exists.

    If ``writes`` is true, the recorded folder is used only if this store has captured it before, or if it is the
    working directory. A session from another machine can contain the path of any folder. Raises ``NotFound`` if there
    is no workspace.
    """
    if path is not None:
        return Path(path)
    row = opened.catalogues.get().session(sid)
    newest = history.readable(opened.objects, sid)
    recorded = recorded or (newest.entry.workspace if newest else None) or (row.project if row else None)
    current = _current_directory()
    real = Path(os.path.realpath(recorded)) if recorded else None
    is_trusted = real is not None and (
        not writes or current == real or workspace_lock.folder_in(opened.objects.git_dir, real).is_dir()
    )
    if current is not None:
        if recorded and real is not None and is_trusted and current.is_relative_to(real):
            return Path(recorded)
        identity = None if row is None else row.identity
        if identity is not None and projects.identity_of(current) == identity:
            is_elsewhere = is_trusted and real is not None and real.is_dir() and projects.identity_of(real) != identity
            return Path(recorded) if recorded and is_elsewhere else discover.top_folder(current)
    if recorded and os.path.isdir(recorded):
        if is_trusted:
            return Path(recorded)
        reason = f"this store has no snapshot of the recorded folder {recorded!r}"
    else:
        missing = f"the recorded folder {recorded!r} does not exist"
        reason = missing if recorded else "the session has no recorded folder"
    raise NotFound(f"cannot find the workspace of session {sid}: {reason}", hint="pass --workspace DIR")


def _current_directory() -> Path | None:
    try:
        return Path(os.path.realpath(os.getcwd()))
    except FileNotFoundError:
        return None


class _SessionLocation(NamedTuple):
    sid: str
    project: str | None
    identity: str | None


class _MovedRefsView(StoreProxy):
    """A read-only view of a store in which a session's refs have the values that operations set."""

    def __init__(self, store: ObjectStore, values: Mapping[str, Oid]) -> None:
        super().__init__(store)
        self._values = values

    def ref(self, name: str) -> RefValue | None:
        return self._values.get(name)


def of_session(sid: str) -> UndoScope:
    """Return the scope that contains only one session."""
    return lambda changed, _: changed == sid


def of_folder(store: ObjectStore, rows: Sequence[Row], folder: CurrentFolder) -> UndoScope:
    """Return a scope with the sessions of a folder, of folders above or below it, and of its project.

    A session whose folder is unknown is in every scope. ``rows``: the sessions in the catalog. If an operation removed
    a session, that session is not in the catalog, and its folder is read from the entries to which its refs pointed.
    """
    known = {row.sid: _SessionLocation(row.sid, row.project, row.identity) for row in rows}
    identity = functools.cache(folder.identity)

    def is_within(sid: str, unit: Sequence[Operation]) -> bool:
        location = known.get(sid) or _read_location(store, sid, unit)
        is_below = folder.cwd.rstrip("/") not in folder.shared_folders and is_of(location, folder.cwd)
        if location.project is None or is_at_or_above(location.project, folder) or is_below:
            return True
        return location.identity is not None and location.identity == identity()

    return is_within


def _read_location(store: ObjectStore, sid: str, unit: Sequence[Operation]) -> _SessionLocation:
    """Return the folder and the project of a session from the old and new values of its refs in operations."""
    values: dict[str, Oid] = {}
    for move in (move for operation in unit for move in operation.moves):
        value = move.new or move.old
        if refs.session_at(move.ref) == sid and value is not None and refs.target(value) is None:
            values[refs.untrashed(move.ref) if move.ref.startswith(refs.TRASH) else move.ref] = value
    try:
        meta = meta_of(_MovedRefsView(store, values), sid)
        if meta.header is not None:
            return _SessionLocation(sid, meta.header.cwd, meta.project)
        for value in values.values():
            for node in graph.history(store, value):
                entry = entry_of(store, node) if node.kind == Fork.kind else None
                if isinstance(entry, Fork) and entry.session == sid:
                    return _SessionLocation(sid, entry.cwd, None)
    except DAMAGE:
        pass  # `verify` reports unreadable entries
    return _SessionLocation(sid, None, None)
