"""SQLite, write-ahead log, synchronous=FULL: one row of JSON for each message, one fsync for each row."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.peers.peer import Append, Peer


def connect(path: Path) -> sqlite3.Connection:
    """A database with an empty table of entries, or the one that is there."""
    database = sqlite3.connect(path, isolation_level=None, timeout=60)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, session TEXT, json TEXT)")
    return database


@contextmanager
def opened(place: Path) -> Iterator[Append]:
    with closing(connect(place / "peer.db")) as database:
        insert = "INSERT INTO entries (session, json) VALUES ('s', ?)"
        yield lambda said: database.execute(insert, (json.dumps(said.plain),))


PEERS = (Peer("SQLite WAL, synchronous=FULL", opened),)
