"""Open a session that was compacted near its end and compute its context.

An agent that continues a session does this. The peer is pi's own ``SessionManager`` on the file
from which the session was imported: once as a call in a running process, with the store opened
anew each time, and once as whole processes. The context has 30 messages, however long the
session is. pi 0.87 and node 22 are used if they are in ``$LAB``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import commands, pi_manager
from benchmarks.data import made_file, made_line
from benchmarks.figures import Curve, Line, Plot
from benchmarks.measure import duel
from benchmarks.workshop import Workshop
from gitsession import Store
from gitsession.formats.pi.agent import pi

TITLE = "Resume behind a compaction"

KEPT, AFTER = 20, 10
FLAT_BAR, PEER_BAR, PEER_BAR_FROM = 1.5, 1 / 20, 50_000


def measure(shop: Workshop) -> Iterator[Line | Plot]:
    lengths = shop.pick([40, 80], [1000, 10_000], [1000, 10_000, 50_000, 100_000])
    made = {entries: _made(shop.folder(), entries) for entries in lengths}
    points: dict[str, list[tuple[float, float]]] = {"gitsession": [], "pi's SessionManager": []}
    for entries, (file, store) in made.items():
        line = _inside(shop, file, store, entries)
        yield line
        if line.ratio is not None:
            for name, seconds in zip(points, (line.ours, line.theirs), strict=True):
                points[name].append((entries, seconds * 1e3))
            yield _whole(shop, file, store, entries)
    long, short = (partial(_ours, made[entries][1]) for entries in (lengths[-1], lengths[0]))
    flat = duel(long, short, runs=shop.runs, rounds=shop.pick(2, 9, 15))
    yield flat.line(f"resume {lengths[-1]:,} entries", f"resume {lengths[0]:,} entries", FLAT_BAR)
    yield Plot("resume", TITLE, "entries in the session", "ms, median", [Curve(*curve) for curve in points.items()])


def _inside(shop: Workshop, file: Path, store: Path, entries: int) -> Line:
    what, bar = f"resume {entries:,} entries", PEER_BAR if entries >= PEER_BAR_FROM else None
    version = pi_manager.version()
    if version is None:
        return Line(what, "pi's SessionManager", bar, why="not installed")
    with pi_manager.running(shop.folder()) as count:
        assert count(file) == _ours(store, 0)
        found = duel(partial(_ours, store), lambda _: count(file), runs=shop.runs, rounds=shop.pick(1, 5, 7))
    return found.line(what, f"pi {version}'s SessionManager", bar)


def _whole(shop: Workshop, file: Path, store: Path, entries: int) -> Line:
    with Store.open(store) as opened:
        sid = opened.sessions()[0].sid
    ours, theirs = commands.ours(store, "context", sid, "--json"), pi_manager.whole(file)
    found = duel(ours, theirs, runs=shop.runs, rounds=shop.pick(1, 3, 5))
    return found.line(f"gitsession context --json, {entries:,} entries", "node and pi's SessionManager, a process")


def _ours(path: Path, _: int) -> int:
    with Store.open(path) as store:
        return len(store.session(store.sessions()[0].sid).context().items)


def _made(place: Path, entries: int) -> tuple[Path, Path]:
    """Build a session file of pi with a compaction near its end, and a store with the imported file."""
    before = entries - AFTER - 1
    compaction = {
        "type": "compaction",
        "id": "c0000000",
        "parentId": f"{before - 1:08x}",
        "timestamp": "2026-02-02T00:00:00.000Z",
        "summary": "What was done so far. " * 50,
        "firstKeptEntryId": f"{before - KEPT:08x}",
        "tokensBefore": 100_000,
    }
    after = [json.loads(made_line(before + number, parent=before + number - 1)) for number in range(AFTER)]
    after[0]["parentId"] = compaction["id"]
    added = [json.dumps(line, separators=(",", ":")).encode() for line in (compaction, *after)]
    data = made_file(0, before) + b"\n".join([*added, b""])
    (place / "session.jsonl").write_bytes(data)
    Store.create(place / "store.git").close()
    with Store.open(place / "store.git", durability="none", flush_on_close=False) as store:
        store.agents.import_data(pi, data, name="session")
        store.flush()
        store.maintain()
        store.catalogue()
    return place / "session.jsonl", place / "store.git"
