"""The lock of a workspace, and the folder in a store for gitsession's files about the workspace."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from gitsession.durable import make_directories
from gitsession.errors import Unavailable
from gitsession.store.lock import StoreLock

WORKSPACES = "gitsession/workspaces"
WAIT_SECONDS = 60.0


def folder_in(git_dir: Path, workspace: Path) -> Path:
    """Return the folder in a store for gitsession's files about a workspace. ``workspace`` must be a real path."""
    return git_dir / WORKSPACES / hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]


@contextmanager
def hold_workspace_lock(git_dir: Path, workspace: Path, *, wait_seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """Hold the lock of a workspace.

    Every process must hold the lock while it takes and records a snapshot of the workspace or restores files. If
    snapshots overlapped, the attribution of changes would be wrong. Raises ``Unavailable``.
    """
    folder = folder_in(git_dir, workspace)
    try:
        make_directories(folder)
        lock = StoreLock(folder / "turn", wait_seconds=wait_seconds)
    except OSError as error:
        raise Unavailable(f"cannot write to '{folder}': {error.strerror}") from error
    with closing(lock):
        try:
            lock.acquire()
        except Unavailable as error:
            raise Unavailable(
                f"cannot lock the workspace '{workspace}': another process is using it",
                hint="try again when that process has finished",
            ) from error
        try:
            yield
        finally:
            lock.release()
