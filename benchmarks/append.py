"""A durable append against SQLite (WAL, synchronous=FULL), a row of the same JSON each."""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from pathlib import Path

from measure import in_turn, report

from gitsession import Message, Store

ROUNDS = 3000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        database = sqlite3.connect(place / "peer.db", isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("CREATE TABLE entries (id INTEGER PRIMARY KEY, json TEXT)")
        with Store.create(place / "store.git") as store:
            session = store.new_session(agent="bench", cwd=folder)
            session.append(Message.user("begin"))

            def ours(number: int) -> None:
                session.append(Message.assistant(words(number), provider="p", model="m"))

            def theirs(number: int) -> None:
                content = [{"type": "text", "text": words(number)}]
                row = {"role": "assistant", "content": content, "provider": "p", "model": "m"}
                database.execute("INSERT INTO entries (json) VALUES (?)", (json.dumps(row),))

            mine, peer = in_turn(ours, theirs, ROUNDS, warm_up=ROUNDS // 3)
            report("append, 1 KB, median", "1.5", mine, peer)
            report("append, 1 KB, all-in, flushes at 256 included", "3", mine, peer, all_in=True)


def words(number: int) -> str:
    return (f"word{number} " * 200)[:900]


if __name__ == "__main__":
    sys.exit(main())
