"""How often objects were dropped from a store: who looked before a drop may hold names of what is gone.

A file that is one byte longer after each drop. Its size tells one from another: two files that replace each other
within a tick of the clock may have the same times and the same inode.
"""

from __future__ import annotations

import os
from pathlib import Path

from gitsession.durable import read_regular, replace

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
    replace(git_dir / FILE, (read_regular(git_dir / FILE) or b"") + b".", by=git_dir / f"{FILE}.tmp")
