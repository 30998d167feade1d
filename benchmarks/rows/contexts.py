"""Compute the context of a long session without a compaction.

The model receives one entry in twelve. The peer is SQLite: rows with the same JSON and with
columns that describe each row. One query over an index returns all that the model receives, and
each row is parsed.

- *Opened anew*: store and database are opened for each context, and nothing is cached.
- *A turn*: both stay open, and a message is appended before each context, durably on both sides.

gitsession hashes every object that it reads, turns the objects into entries, and counts tokens.
The peer does none of that.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.data import made_line, messages
from benchmarks.figures import Curve, Line, Plot
from benchmarks.measure import Duel, duel
from benchmarks.workshop import Workshop
from gitsession import Store
from gitsession.formats.pi.agent import pi

TITLE = "Context without a compaction"

BAR, BAR_AT = 2.0, 14_179
SHOWN = 1_140 / 14_179
PEER = "SQLite rows with metadata columns"
QUERY = "SELECT json FROM entries WHERE session = 's' AND shows ORDER BY seq"


def measure(shop: Workshop) -> Iterator[Line | Plot]:
    points: dict[str, list[tuple[float, float]]] = {
        name: [] for name in ("gitsession, opened anew", "gitsession, a turn", "SQLite rows, opened anew")
    }
    for entries in shop.pick([20, 40], [1000, 14_179], [1000, 5000, 14_179, 50_000]):
        place = shop.folder()
        shown = _fill(place, entries)
        bar = BAR if entries == BAR_AT else None
        what = f"{shown:,} of {entries:,} entries"
        anew = duel(partial(_ours, place), partial(_theirs, place), runs=shop.runs, rounds=shop.pick(1, 7, 9))
        once = anew.line(f"context of {what}, opened anew", PEER, bar)
        turn = _turns(shop, place).line(f"a turn, and the context of {what}", PEER, bar)
        yield from (once, turn)
        for name, seconds in zip(points, (once.ours, turn.ours, once.theirs), strict=True):
            points[name].append((entries, seconds * 1e3))
    yield Plot("context", TITLE, "entries in the session", "ms, median", [Curve(*curve) for curve in points.items()])


def _ours(place: Path, _: int) -> int:
    with Store.open(place / "store.git") as store:
        return len(store.session(store.sessions()[0].sid).context().items)


def _theirs(place: Path, _: int) -> int:
    with closing(sqlite3.connect(place / "peer.db")) as database:
        return len([json.loads(text) for (text,) in database.execute(QUERY)])


def _turns(shop: Workshop, place: Path) -> Duel:
    with Store.open(place / "store.git") as store, closing(sqlite3.connect(place / "peer.db")) as database:
        database.isolation_level = None
        database.execute("PRAGMA synchronous = FULL")
        session = store.session(store.sessions()[0].sid)

        def ours(number: int) -> None:
            session.append(messages()[number % len(messages())].message)
            session.context()

        def theirs(number: int) -> None:
            text = json.dumps(messages()[number % len(messages())].plain)
            database.execute("INSERT INTO entries (session, kind, shows, json) VALUES ('s', 'message', 1, ?)", (text,))
            [json.loads(text) for (text,) in database.execute(QUERY)]

        return duel(ours, theirs, runs=shop.runs, rounds=shop.pick(2, 9, 15))


def _fill(place: Path, entries: int) -> int:
    """Build the same session as a store and as rows. Return the number of entries in the context."""
    lines = list(_lines(entries))
    head = {"type": "session", "version": 3, "id": "made", "timestamp": "2026-02-01T00:00:00.000Z", "cwd": "/w"}
    data = b"\n".join([json.dumps(head).encode(), *lines, b""])
    Store.create(place / "store.git").close()
    with Store.open(place / "store.git", durability="none", flush_on_close=False) as store:
        store.agents.import_data(pi, data, name="made")
        store.flush()
        store.maintain()
        store.catalogue()
    with closing(sqlite3.connect(place / "peer.db", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(
            "CREATE TABLE entries (seq INTEGER PRIMARY KEY, session TEXT, id TEXT, parent TEXT, kind TEXT, role TEXT, "
            "shows INTEGER, json TEXT)"
        )
        database.execute("CREATE INDEX entries_shown ON entries (session, shows, seq)")
        database.execute("BEGIN")
        database.executemany("INSERT INTO entries VALUES (?, 's', ?, ?, ?, ?, ?, ?)", map(_row, range(entries), lines))
        database.execute("COMMIT")
    return sum(b'"type":"message"' in line for line in lines)


def _lines(entries: int) -> Iterator[bytes]:
    for number in range(entries):
        above = number - 1 if number else None
        if int((number + 1) * SHOWN) > int(number * SHOWN):
            yield made_line(number, parent=above)
        else:
            yield json.dumps(_noise(number, above), separators=(",", ":")).encode()


def _noise(number: int, above: int | None) -> dict[str, object]:
    return {
        "type": "custom",
        "id": f"{number:08x}",
        "parentId": None if above is None else f"{above:08x}",
        "timestamp": "2026-02-01T00:00:00.000Z",
        "customType": "progress",
        "data": {"step": number, "note": f"running {number * 7919 % 10_007}"},
    }


def _row(number: int, line: bytes) -> tuple[object, ...]:
    said = json.loads(line)
    is_message = said["type"] == "message"
    role = said["message"]["role"] if is_message else None
    return number, said["id"], said["parentId"], said["type"], role, is_message, line.decode()
