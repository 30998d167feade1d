"""Open a store and read the last 50 entries of its only session.

An agent that continues a session does this. The peers are SQLite rows, and a JSONL file that is
read whole. ``Session.history()`` is not used, because it walks to the root.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path

from benchmarks.data import messages
from benchmarks.figures import Curve, Line, Plot
from benchmarks.measure import duel
from benchmarks.peers import sqlite_full
from benchmarks.workshop import Workshop
from gitsession import Store
from gitsession.sessions import graph

TITLE = "Open, and read the last 50 entries"

LAST = 50
FLAT_BAR = 1.5


def measure(shop: Workshop) -> Iterator[Line | Plot]:
    lengths = shop.pick([10, 20], [1000, 10_000], [1000, 10_000, 100_000])
    points: dict[str, list[tuple[float, float]]] = {"gitsession": [], "JSONL read whole": [], "SQLite rows": []}
    for entries in lengths:
        ours, place = partial(_ours, shop.long_session(entries)), shop.folder()
        _fill(place, entries)
        for name, peer, rounds in (
            ("JSONL read whole", partial(_from_file, place / "peer.jsonl"), shop.pick(1, 3, 2)),
            ("SQLite rows", partial(_from_rows, place / "peer.db"), shop.pick(2, 5, 10)),
        ):
            line = duel(ours, peer, runs=shop.runs, rounds=rounds).line(f"last {LAST} of {entries:,} entries", name)
            yield line
            points[name].append((entries, line.theirs * 1e3))
        points["gitsession"].append((entries, line.ours * 1e3))
    long, short = (partial(_ours, shop.long_session(entries)) for entries in (lengths[-1], lengths[0]))
    flat = duel(long, short, runs=shop.runs, rounds=shop.pick(2, 5, 10))
    yield flat.line(f"last {LAST} of {lengths[-1]:,} entries", f"last {LAST} of {lengths[0]:,} entries", FLAT_BAR)
    curves = [Curve(name, found) for name, found in points.items()]
    yield Plot("open", TITLE, "entries in the session", "ms, median", curves)


def _ours(path: Path, _: int) -> None:
    with Store.open(path) as store:
        session = store.session(store.sessions()[0].sid)
        leaf = session.leaf
        assert leaf is not None
        for node in islice(graph.history(store.objects, leaf.oid), LAST):
            session.read(node)


def _from_file(path: Path, _: int) -> None:
    [json.loads(line) for line in path.read_bytes().splitlines()][-LAST:]


def _from_rows(path: Path, _: int) -> None:
    with closing(sqlite3.connect(path)) as database:
        for (found,) in database.execute("SELECT json FROM entries ORDER BY id DESC LIMIT ?", (LAST,)):
            json.loads(found)


def _fill(place: Path, entries: int) -> None:
    plain = [json.dumps(said.plain) for said in messages()]
    lines = [plain[number % len(plain)] for number in range(entries)]
    (place / "peer.jsonl").write_text("\n".join(lines) + "\n")
    with closing(sqlite_full.connect(place / "peer.db")) as database:
        database.execute("BEGIN")
        database.executemany("INSERT INTO entries (session, json) VALUES ('s', ?)", ((line,) for line in lines))
        database.execute("COMMIT")
