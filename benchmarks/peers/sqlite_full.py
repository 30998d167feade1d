"""SQLite with a write-ahead log and synchronous=FULL: one row of JSON and one fsync for each message."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.peers.peer import Append, Peer


def connect(path: Path) -> sqlite3.Connection:
    """Open a database with a table of entries. Create it if it does not exist."""
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
