"""SQLite files of what can be derived: damaged ones are thrown away and made anew. Loads the standard library only."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path

PATIENCE_SECONDS = 30


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether it says that the file is not what we wrote, and not that it is busy or that the disk says no."""
    if not isinstance(error, sqlite3.OperationalError):
        return True
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def remove(path: Path) -> None:
    """The database and what SQLite keeps beside it: a log that stayed would be played into the next one."""
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        with contextlib.suppress(OSError):
            name.unlink()


def begin_log(db: sqlite3.Connection) -> None:
    """For this one statement SQLite does not wait for others that have the file in hand, so we do."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.002)
