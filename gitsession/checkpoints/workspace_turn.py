"""``workspace.workspace_lock`` of an opened store."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from gitsession.store.git_store import GitStore
from gitsession.workspace import workspace_lock
from gitsession.workspace.workspace_lock import WAIT_SECONDS, WORKSPACES

__all__ = ["WAIT_SECONDS", "WORKSPACES", "folder_of", "turn"]


def folder_of(store: GitStore, workspace: Path) -> Path:
    """See ``workspace_lock.folder_in``."""
    return workspace_lock.folder_in(store.git_dir, workspace)


def turn(store: GitStore, workspace: Path, *, wait_seconds: float = WAIT_SECONDS) -> AbstractContextManager[None]:
    """See ``workspace_lock.turn_in``."""
    return workspace_lock.turn_in(store.git_dir, workspace, wait_seconds=wait_seconds)
