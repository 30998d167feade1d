"""Keep sessions of five frameworks, with gitsession's adapter and with the framework's default store in turn.

*Put* appends one message of about 1 KB to a session. *Get* reads all of its messages in an open store, as before each
turn of an agent. *List* lists the sessions of a user, if the framework has this operation. *Resume* opens the store
anew and reads all messages. The size is that of packs after ``maintain``, and that of the peer's files. The peer of
the Claude Agent SDK is the file of Claude Code, appended with ``fdatasync``. Pydantic AI ships only a store in memory,
which cannot be opened again.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.figures import Line, Spread
from benchmarks.measure import Duel, Step, in_turn
from benchmarks.peers.frameworks import FRAMEWORKS, Framework
from benchmarks.peers.frameworks.framework import Open, Sessions, store_in
from benchmarks.workshop import Workshop

TITLE = "Sessions of frameworks"


def measure(shop: Workshop) -> Iterator[Line]:
    for framework in FRAMEWORKS:
        if framework.missing:
            yield Line(f"{framework.name}: put", framework.peer, why=f"not installed: {', '.join(framework.missing)}")
        else:
            yield from _compared(shop, framework)


def _compared(shop: Workshop, framework: Framework) -> Iterator[Line]:
    count, sessions = shop.pick(4, 200, 800), shop.pick(2, 20, 100)
    put, get, listed, resumed = Duel(), Duel(), Duel(), Duel()
    for _ in range(shop.runs):
        mine, peers = shop.folder(), shop.folder()
        with framework.ours(mine) as ours, framework.theirs(peers) as theirs:
            put.add(*in_turn(_putting(ours), _putting(theirs), count))
            assert ours.get("s") == theirs.get("s") == count
            get.add(*in_turn(lambda _, get=ours.get: get("s"), lambda _, get=theirs.get: get("s"), 5, warm_up=1))
            for number in range(1, sessions):
                for side in (ours, theirs):
                    side.put(f"s{number}", 0)
            if ours.list is not None and theirs.list is not None:
                assert ours.list() == theirs.list() == sessions
                listed.add(*in_turn(_without_number(ours.list), _without_number(theirs.list), 3))
        with store_in(mine) as store:
            store.maintain()
            store.sessions()
        if framework.is_durable:
            resumed.add(*in_turn(_resuming(framework.ours, mine), _resuming(framework.theirs, peers), 3))
    name, peer = framework.name, framework.peer
    yield put.line(f"{name}: put, {count} messages", peer, fold=statistics.fmean)
    yield get.line(f"{name}: get {count} messages", peer)
    if listed.runs:
        yield listed.line(f"{name}: list {sessions} sessions", peer)
    if framework.is_durable:
        yield resumed.line(f"{name}: resume {count} messages", peer)
        size = _bytes(mine / "store.git/objects/pack"), _bytes(peers)
        ratio = size[0] / size[1]
        yield Line(f"{name}: disk, {count} messages", peer, None, Spread(ratio, ratio, ratio), *size, "bytes")


def _putting(sessions: Sessions) -> Step:
    return lambda number: sessions.put("s", number)


def _without_number(step: Callable[[], int]) -> Step:
    return lambda _: step()


def _resuming(open_store: Open, place: Path) -> Step:
    def resume(_: int) -> None:
        with open_store(place) as sessions:
            sessions.get("s")

    return resume


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
