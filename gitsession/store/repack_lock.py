"""One of ours at a time puts packs in the place of others: who packs anew must not bring back what another one drops.

Not the store's lock: packing takes long, and writers go on meanwhile.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from gitsession.store import create
from gitsession.store.lock import alone

LOCK = f"{create.CONTROL}/packing"


def packing(git_dir: Path, *, wait_seconds: float = 60.0) -> AbstractContextManager[None]:
    """Raises ``Unavailable`` where another process is at it for too long, or no lock can be made."""
    return alone(git_dir / LOCK, wait_seconds=wait_seconds)
