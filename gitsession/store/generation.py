"""How often objects were dropped from a store: who looked before a drop may hold names of what is gone.

A file that is replaced at each drop; what tells one from another is the file, not what is in it.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from gitsession.store.durable import replace

FILE = "gitsession/dropped"

Generation = tuple[int, int, int]


def of(git_dir: Path) -> Generation | None:
    """``None`` where nothing was ever dropped."""
    try:
        stat = os.stat(git_dir / FILE)
    except FileNotFoundError:
        return None
    return stat.st_mtime_ns, stat.st_ino, stat.st_size


def begin_next(git_dir: Path) -> None:
    """For a holder of the store's lock, before anything is dropped. Raises ``OSError``."""
    replace(git_dir / FILE, secrets.token_hex(8).encode(), by=git_dir / f"{FILE}.tmp")
