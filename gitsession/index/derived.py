"""SQLite databases with derived data. A damaged database is deleted and built again.

This module imports only the standard library.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterable

PATIENCE_SECONDS = 30
TIME_MIN, TIME_MAX = -(2**63), 2**63 - 1


def connect(path: str, prepare: Callable[[sqlite3.Connection], None], tables: Iterable[str]) -> sqlite3.Connection:
    """Open a database. Raises ``sqlite3.DatabaseError`` if the file is damaged or one of ``tables`` is missing.

    ``path``: the path of the file, or ":memory:". ``prepare``: a function that creates the tables if necessary.
    """
    if path != ":memory:" and not os.path.exists(path) and os.access(os.path.dirname(path), os.W_OK):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    db = sqlite3.connect(path, timeout=PATIENCE_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        prepare(db)
        for table in tables:
            db.execute(f"SELECT * FROM {table} LIMIT 0")
    except UnicodeDecodeError as error:  # damaged: the name of a column is not valid text
        db.close()
        raise sqlite3.DatabaseError(str(error)) from None
    except BaseException:
        db.close()
        raise
    return db


def create_tables(db: sqlite3.Connection, schema: str, version: int) -> None:
    for statement in schema.split(";"):
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {version}")


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Return whether an error indicates a damaged file, not a locked file or a disk failure."""
    if not isinstance(error, sqlite3.OperationalError):
        return True
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def remove(path: str | os.PathLike[str]) -> None:
    """Remove a database with its log files, because SQLite would apply an old log to the next database."""
    for name in (path, f"{path}-wal", f"{path}-shm"):
        with contextlib.suppress(OSError):
            os.unlink(name)


def begin_log(db: sqlite3.Connection) -> None:
    """Enable the write-ahead log. Wait for locks here, because SQLite does not wait in this statement."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.002)


def clamped(at_ms: int) -> int:
    """Return ``at_ms``, limited to SQLite's range of signed 64-bit integers."""
    return min(max(at_ms, TIME_MIN), TIME_MAX)


def storable(text: str) -> str:
    """Return ``text`` with lone surrogates, which SQLite does not accept, replaced by question marks."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text
