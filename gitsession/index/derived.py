"""SQLite files with derived data. Damaged files are deleted and built again.

This module imports only the standard library.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path

PATIENCE_SECONDS = 30


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Return whether an error indicates a damaged file, not a locked file or a disk failure."""
    if not isinstance(error, sqlite3.OperationalError):
        return True
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def remove(path: Path) -> None:
    """Remove the database and the files beside it: SQLite would apply a remaining log to the next database."""
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        with contextlib.suppress(OSError):
            name.unlink()


def begin_log(db: sqlite3.Connection) -> None:
    """Enable the write-ahead log, and wait for locks, because SQLite does not wait in this statement."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.002)
