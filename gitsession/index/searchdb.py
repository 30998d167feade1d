"""The file of the words that are searched: made, opened, thrown away. What is in it: ``index.search``."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from gitsession.errors import Unavailable
from gitsession.index.derived import PATIENCE_SECONDS, begin_log, is_damage, remove

FILE = Path("gitsession") / "search.db"
VERSION = 3

_SCHEMA = """
CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE seen (sid TEXT PRIMARY KEY, branches TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE docs (
    id INTEGER PRIMARY KEY, sid TEXT NOT NULL, oid TEXT NOT NULL, role TEXT NOT NULL, at_ms INTEGER NOT NULL);
CREATE UNIQUE INDEX docs_place ON docs (oid, sid);
CREATE VIRTUAL TABLE words USING fts5 (
    asked, summary, answer, work, content='', tokenize="unicode61 remove_diacritics 2")
"""


def open_at(path: Path) -> sqlite3.Connection:
    """The index, ready to use; a damaged or older one is made anew, one that cannot be written lives in memory.

    Raises ``Unavailable`` where this SQLite has no FTS5, or another process has held the file for half a minute.
    """
    for place in (str(path), str(path), ":memory:"):
        try:
            return _connect(place)
        except sqlite3.OperationalError as error:
            if "fts5" in str(error):
                raise Unavailable("this SQLite has no full-text search (FTS5)") from None
            if "locked" in str(error):
                raise Unavailable("another process is making the index", hint="try again") from None
            if is_damage(error):
                remove(path)
        except sqlite3.DatabaseError:
            remove(path)
        except OSError:
            continue
    raise Unavailable("no index can be made")


def _connect(place: str) -> sqlite3.Connection:
    if place != ":memory:" and not os.path.exists(place):
        os.close(os.open(place, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    db = sqlite3.connect(place, timeout=PATIENCE_SECONDS, isolation_level=None)
    try:
        found = db.execute("PRAGMA user_version").fetchone()[0]
        if found not in (0, VERSION):
            raise sqlite3.DatabaseError(f"version {found}")
        db.execute("PRAGMA synchronous = OFF")  # what a power cut damages is made anew
        if found == 0:
            begin_log(db)
            _make(db)
        for table in ("state", "seen", "docs", "words"):
            db.execute(f"SELECT * FROM {table} LIMIT 0")
    except BaseException:
        db.close()
        raise
    return db


def _make(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    if db.execute("PRAGMA user_version").fetchone()[0] == 0:
        for statement in _SCHEMA.split(";"):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {VERSION}")
    db.execute("COMMIT")
