"""``workspace.turns`` of an opened store."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from gitsession.store.git_store import GitStore
from gitsession.workspace import turns
from gitsession.workspace.turns import WAIT_SECONDS, WORKSPACES

__all__ = ["WAIT_SECONDS", "WORKSPACES", "folder_of", "turn"]


def folder_of(store: GitStore, workspace: Path) -> Path:
    """See ``turns.folder_in``."""
    return turns.folder_in(store.git_dir, workspace)


def turn(store: GitStore, workspace: Path, *, wait_seconds: float = WAIT_SECONDS) -> AbstractContextManager[None]:
    """See ``turns.turn_in``."""
    return turns.turn_in(store.git_dir, workspace, wait_seconds=wait_seconds)
