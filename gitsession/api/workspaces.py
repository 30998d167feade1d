"""The workspace of a session: the folder that is meant, and it opened."""

from __future__ import annotations

import os
from pathlib import Path

from gitsession.api.opened import OpenStore
from gitsession.checkpoints import history, workspace_turn
from gitsession.discovery import discover, projects
from gitsession.errors import NotFound
from gitsession.workspace.root import WorkspaceRoot

Given = str | Path | None
"""The folder that the caller names; ``None``: the one that the session was held in."""


def open_root(
    opened: OpenStore, sid: str, given: Given = None, *, recorded: str | None = None, writes: bool = False
) -> WorkspaceRoot:
    """Open the workspace of a session, as ``find`` finds it. Raises ``NotFound``, ``Refused``."""
    folder = find(opened, sid, given, recorded=recorded, writes=writes)
    return WorkspaceRoot.open(folder, home=Path.home(), store=opened.objects.git_dir)


def find(
    opened: OpenStore, sid: str, given: Given = None, *, recorded: str | None = None, writes: bool = False
) -> Path:
    """Return the workspace of a session: the one named; else where we stand, if that is it or the same project; else
    the one that was recorded. Raises ``NotFound``.

    ``writes``: to write there. What was recorded came with the session, perhaps from somebody else, who may have said
    any folder at all: it is believed only where this store has looked itself, or where we stand.
    """
    if given is not None:
        return Path(given)
    row = opened.catalogues.get().session(sid)
    newest = history.readable(opened.objects, sid)
    recorded = recorded or (newest.entry.workspace if newest else None) or (row.project if row else None)
    here = _here()
    real = Path(os.path.realpath(recorded)) if recorded else None
    is_believed = real is not None and (
        not writes or here == real or workspace_turn.folder_of(opened.objects, real).is_dir()
    )
    if here is not None:
        if recorded and real is not None and is_believed and here.is_relative_to(real):
            return Path(recorded)
        if row is not None and row.identity is not None and projects.identity_of(here) == row.identity:
            return discover.top(here)
    if recorded and os.path.isdir(recorded):
        if is_believed:
            return Path(recorded)
        raise NotFound(
            f"no workspace for session {sid}: it says {recorded}, where this store has never looked",
            hint="name the folder: --workspace DIR",
        )
    where = f"{recorded} is not there" if recorded else "nothing says where it was held"
    raise NotFound(f"no workspace for session {sid}: {where}", hint="name the folder: --workspace DIR")


def _here() -> Path | None:
    try:
        return Path(os.path.realpath(os.getcwd()))
    except FileNotFoundError:
        return None
