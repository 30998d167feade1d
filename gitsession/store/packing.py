"""One of ours at a time puts packs in the place of others: who packs anew must not bring back what another one drops.

Not the store's lock: packing takes long, and writers go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gitsession.errors import Unavailable
from gitsession.store import create
from gitsession.store.lock import StoreLock

LOCK = f"{create.CONTROL}/packing"


@contextmanager
def packing(git_dir: Path, *, wait_seconds: float = 60.0) -> Iterator[None]:
    """Raises ``Unavailable`` where another process is at it for too long, or no lock can be made."""
    try:
        lock = StoreLock(git_dir / LOCK, wait_seconds=wait_seconds)
    except OSError as error:
        raise Unavailable(f"cannot lock {git_dir}: {error.strerror}") from error
    try:
        lock.acquire()
        try:
            yield
        finally:
            lock.release()
    finally:
        lock.close()
