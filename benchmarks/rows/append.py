"""Append messages of about 1 KB to a growing session, with gitsession and with a peer in turn.

Both run in one process. The median is that of the second half of each length (10,001 to 20,000 of
20,000), so that growth is visible. *All-in* is the total time of that half, compared with that
of the peer, with the flushes that are due every 256 entries. Times include encoding on both
sides. Fsyncs are counted in a separate run: over 128 entries, where no flush is due, and over
512.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from benchmarks import fsyncs
from benchmarks.data import messages
from benchmarks.figures import Curve, Line, Plot, Spread, Table
from benchmarks.measure import Duel, Step, in_turn, percentile
from benchmarks.peers import OURS, PEERS, Peer
from benchmarks.peers.peer import Append
from benchmarks.workshop import Workshop

TITLE = "Durable append"

OURSELVES = OURS["gitsession"]
SQLITE = PEERS["SQLite WAL, synchronous=FULL"]
FSYNCED = PEERS["pygit2, a fsynced commit per entry"]

BARS: dict[str, float] = {
    SQLITE.name: 1.3,
    "LangGraph SqliteSaver.put": 1.0,
    "LangGraph SqliteSaver.put, all messages in the state": 1.0,
    "OpenAI Agents SQLiteSession.add_items": 1.0,
    FSYNCED.name: 1 / 15,
}
ALL_IN_BARS = {SQLITE.name: 2.0}
FEWER_FSYNCS_BAR = 1 / 8

Counted: TypeAlias = tuple[float, float] | None


def measure(shop: Workshop) -> Iterator[Line | Table | Plot]:
    lengths = shop.pick([20], [500, 2000], [500, 2000, 20_000])
    details: list[Sequence[str]] = []
    curves: list[Curve] = []
    counted = {name: fsyncs.of_append(name) for name in ({**OURS, **PEERS} if shop.size != "tiny" else ())}
    for peer in [*PEERS.values(), *OURS.values()]:
        if peer is OURSELVES:
            continue
        if peer.version is None:
            yield Line("append", peer.name, BARS.get(peer.name), why="not installed")
            continue
        reached = [length for length in lengths if length <= peer.entries_max]
        found = _grow(shop, peer, reached)
        for length in reached:
            yield from _lines(peer, length, found[length])
        if peer is SQLITE:
            details += [_detail(OURSELVES, n, [mine for mine, _ in found[n].runs], counted) for n in reached]
            curves.append(Curve(OURSELVES.name, _medians(found, 0)))
        details += [_detail(peer, n, [theirs for _, theirs in found[n].runs], counted) for n in reached]
        curves.append(Curve(peer.name, _medians(found, 1)))
    yield from _fsyncs(counted)
    head = ["who", "entries", "median", "p99", "worst", "all-in per entry", "fsyncs per entry"]
    yield Table("Appends in figures", head, details)
    yield Plot("append", "One durable append as a session grows", "entries in the session", "ms, median", curves)


def _grow(shop: Workshop, peer: Peer, lengths: Sequence[int]) -> dict[int, Duel]:
    """Return the times of the second half of each length.

    Every run goes to the second-longest length. The longest session is built only once.
    """
    found = {length: Duel() for length in lengths}
    for run in range(shop.runs):
        wanted = lengths if run == 0 or lengths[-1] <= 10_000 else lengths[:-1]
        with OURSELVES.open(shop.folder()) as ours, peer.open(shop.folder()) as theirs:
            times = in_turn(_step(ours), _step(theirs), wanted[-1])
        for length in wanted:
            found[length].add(*(half[length // 2 : length] for half in times))
    return found


def _step(append: Append) -> Step:
    said = messages()
    return lambda number: append(said[number % len(said)])


def _lines(peer: Peer, length: int, found: Duel) -> Iterator[Line]:
    yield found.line(f"append, {length:,} entries", peer.name, BARS.get(peer.name))
    yield found.line(
        f"append, {length:,} entries, all-in", peer.name, ALL_IN_BARS.get(peer.name), fold=statistics.fmean
    )


def _fsyncs(counted: dict[str, Counted]) -> Iterator[Line]:
    for peer, bar in ((SQLITE, None), (FSYNCED, FEWER_FSYNCS_BAR)):
        ours, theirs = counted.get(OURSELVES.name), counted.get(peer.name)
        if ours is None or theirs is None:
            yield Line("fsyncs of an append", peer.name, bar, why="not counted")
            continue
        for what, asked, mine, peers in (
            ("fsyncs of an append", bar, ours[0], theirs[0]),
            ("fsyncs of an append, all-in", None, ours[1], theirs[1]),
        ):
            ratio = mine / peers
            yield Line(what, peer.name, asked, Spread(ratio, ratio, ratio), mine, peers, "fsyncs")


def _detail(who: Peer, length: int, runs: Sequence[Sequence[float]], counted: dict[str, Counted]) -> Sequence[str]:
    fsyncs_each = counted.get(who.name)
    figures = (
        statistics.median(map(statistics.median, runs)),
        statistics.median(percentile(times, 0.99) for times in runs),
        max(map(max, runs)),
        statistics.median(map(statistics.fmean, runs)),
    )
    told = [f"{figure * 1e3:.3f} ms" for figure in figures]
    return [who.name, f"{length:,}", *told, "not counted" if fsyncs_each is None else f"{fsyncs_each[1]:.2f}"]


def _medians(found: dict[int, Duel], side: int) -> list[tuple[float, float]]:
    return [
        (length, statistics.median(statistics.median(run[side]) for run in duel.runs) * 1e3)
        for length, duel in found.items()
    ]
