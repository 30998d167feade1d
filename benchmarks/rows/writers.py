"""Append from several processes at once, to one session or to one session each.

The figures are the entries per second in total and the longest wait. The peer is a SQLite database
with as many processes, rows of the same JSON, and synchronous=FULL. The ratio is that of the
seconds per entry, so less than 1 is faster.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.data import messages
from benchmarks.figures import Curve, Line, Plot, Table
from benchmarks.measure import Duel
from benchmarks.peers import sqlite_full
from benchmarks.workshop import Workshop
from gitsession import Message, Store

TITLE = "Several writers"

BARS = {8: 2.0}
"""Bars by the number of writers."""

_spawn = multiprocessing.get_context("spawn")
Outcome: TypeAlias = tuple[float, float, list[float]]
"""The start and the end of a process, and the duration of each of its appends, in seconds."""


def measure(shop: Workshop) -> Iterator[Line | Table | Plot]:
    details: list[Sequence[str]] = []
    curves: dict[str, list[tuple[float, float]]] = {}
    for shared in (True, False):
        what = "one session" if shared else "one session each"
        for processes in shop.pick([2], [1, 4], [1, 2, 4, 8]):
            each = shop.pick(5, 800, 4000) // processes
            found, waits = Duel(), (list[float](), list[float]())
            for _ in range(shop.runs):
                ours = _together(_ours, _sessions(shop.folder(), processes, shared), each)
                theirs = _together(_theirs, _tables(shop.folder(), processes, shared), each)
                found.add(*([_per_entry(outcomes, each)] for outcomes in (ours, theirs)))
                for outcomes, longest in zip((ours, theirs), waits, strict=True):
                    longest.append(max(max(took) for _, _, took in outcomes))
            line = found.line(f"{processes} writers, {what}", f"SQLite, {processes} writers", BARS.get(processes))
            yield line
            details += [
                [f"{name}, {what}", str(processes), f"{1 / took:,.0f}", f"{max(longest) * 1e3:.0f} ms"]
                for name, took, longest in zip(("gitsession", "SQLite"), (line.ours, line.theirs), waits, strict=True)
            ]
            for name, took in (("gitsession", line.ours), ("SQLite", line.theirs)):
                curves.setdefault(f"{name}, {what}", []).append((processes, 1 / took))
    yield Table("Writers in figures", ["who", "processes", "entries a second in all", "longest wait"], details)
    told = [Curve(name, points) for name, points in curves.items()]
    yield Plot("writers", "Appends a second, all processes together", "processes", "entries a second", told)


def _sessions(place: Path, processes: int, shared: bool) -> list[tuple[Path, str]]:
    with Store.create(place / "store.git") as store:
        held = [store.new_session(agent="bench") for _ in range(1 if shared else processes)]
        for session in held:
            session.append(Message.user("begin"))
        store.catalogue()
        return [(place / "store.git", held[number % len(held)].id) for number in range(processes)]


def _tables(place: Path, processes: int, shared: bool) -> list[tuple[Path, str]]:
    sqlite_full.connect(place / "peer.db").close()
    return [(place / "peer.db", "s" if shared else f"s{number}") for number in range(processes)]


def _together(work: Any, places: Sequence[tuple[Path, str]], each: int) -> list[Outcome]:
    barrier, results = _spawn.Barrier(len(places)), _spawn.Queue()
    children = [_spawn.Process(target=work, args=(*place, each, barrier, results)) for place in places]
    for child in children:
        child.start()
    outcomes = [results.get(timeout=300) for _ in children]
    for child in children:
        child.join()
    return outcomes


def _per_entry(outcomes: Sequence[Outcome], each: int) -> float:
    """Return the seconds per entry, from the first start to the last end."""
    took = max(end for _, end, _ in outcomes) - min(start for start, _, _ in outcomes)
    return took / (each * len(outcomes))


def _ours(path: Path, sid: str, count: int, barrier: Barrier, results: Any) -> None:
    with Store.open(path) as store:
        session = store.session(sid)
        results.put(_timed(lambda number: session.append(messages()[number % len(messages())].message), count, barrier))


def _theirs(path: Path, sid: str, count: int, barrier: Barrier, results: Any) -> None:
    insert = "INSERT INTO entries (session, json) VALUES (?, ?)"
    with closing(sqlite_full.connect(path)) as database:
        results.put(
            _timed(
                lambda number: database.execute(insert, (sid, json.dumps(messages()[number % len(messages())].plain))),
                count,
                barrier,
            )
        )


def _timed(append: Any, count: int, barrier: Barrier) -> Outcome:
    messages()
    barrier.wait(timeout=120)
    took, start = [], time.monotonic()
    for number in range(count):
        began = time.perf_counter()
        append(number)
        took.append(time.perf_counter() - began)
    return start, time.monotonic(), took
