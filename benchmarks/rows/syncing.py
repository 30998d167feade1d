"""Measure bytes on the wire and time of a push of one entry, and of a first clone, pull and push.

A push of one new entry in a store of many sessions is compared with plain `git push` with the
refspecs of a new store, and a clone with `git clone --mirror`. The server is a bare repository
on the same disk. A replacement of ssh counts the bytes. Every push costs the list of the
server's refs, 88 bytes each, with git alone too. The table shows the size of that list, and what
remains of it if all but a few sessions are archived.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks import wire
from benchmarks.figures import Line, Table
from benchmarks.measure import Duel, seconds
from benchmarks.workshop import Workshop
from gitsession import Message, Store

TITLE = "Sync"

BAR = 0.5
FIRST_BAR = 1.5
"""The bar of a clone, of a first pull, and of a first push."""
BEYOND_MAX = 4096


def measure(shop: Workshop) -> Iterator[Line | Table]:
    sizes = shop.pick([5], [100, 1000], [100, 1000, 10_000])
    rows = []
    for sessions in sizes:
        store, hub = _synced(shop, sessions)
        yield _entries(shop, store, hub, f"{sessions:,} sessions")
        rows += _on_the_wire(shop, store, hub, f"{sessions:,}")
        yield _clones(shop, hub, sessions)
        yield _pulls(shop, hub, sessions)
        if sessions == sizes[-1]:
            old = sessions - max(sessions // 20, 1)
            took = _archived(store, hub, old)
            row = [f"{sessions:,}", f"{old:,}", took]
            yield Table("A sync that archives", ["sessions", "archived", "it takes"], [row])
            what = f"{sessions:,}, {old:,} of them archived"
            yield _entries(shop, store, hub, what)
            rows += _on_the_wire(shop, store, hub, what)
        if sessions <= 1000:
            yield _first_push(shop, sessions)
        for path in (store, hub):
            shutil.rmtree(path)
    columns = ["sessions", "one new entry", "up", "down", "of it the list of refs", "beyond it"]
    yield Table("Bytes on the wire", columns, rows)


def _hub(path: Path) -> Path:
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(path)], check=True)
    return path


def _synced(shop: Workshop, sessions: int) -> tuple[Path, Path]:
    """Build a store of many sessions and a server that has all of them."""
    path = shop.copy(shop.many_sessions(sessions))
    hub = _hub(shop.folder() / "hub.git")
    with Store.open(path) as store:
        store.maintain()
        store.remotes.add("origin", str(hub))
        store.remotes.sync()
    for repository in (path, hub):
        subprocess.run(["git", f"--git-dir={repository}", "pack-refs", "--all"], check=True)
    return path, hub


def _say(store: Store, number: int) -> None:
    store.session(store.sessions()[0].sid).append(Message.user(f"one more, {number}"))
    store.flush()


def _runs(shop: Workshop, sessions: int) -> range:
    """Return the runs of a comparison. A comparison that takes tens of seconds runs only once."""
    return range(shop.runs if sessions <= 1000 else 1)


def _archived(path: Path, hub: Path, number: int) -> str:
    """Return the time to archive ``number`` sessions and to delete their refs on a server without hooks."""
    with Store.open(path) as store:
        store.remotes.remove("origin")
        store.remotes.add("origin", str(hub))
        store.remotes.sync()
        sids = sorted(row.sid for row in store.sessions())[:number]
        took = seconds(lambda _: (store.archive.put(*sids), store.remotes.sync()))
        store.maintain()
    return f"{took:.1f} s"


def _entries(shop: Workshop, path: Path, hub: Path, what: str) -> Line:
    """Push one new entry, with gitsession and with git alternately."""
    found = Duel()
    rounds = shop.pick(1, 5, 7)
    with Store.open(path) as store:
        for _ in range(shop.runs):
            ours, theirs = [], []
            for number in range(rounds):
                _say(store, number)
                ours.append(seconds(lambda _: store.remotes.push()))
                _say(store, number)
                theirs.append(seconds(lambda _: _git(path, "push", "-q", "origin")))
            found.add(ours, theirs)
    return found.line(f"push of one entry, {what}", "git push", BAR)


def _on_the_wire(shop: Workshop, path: Path, hub: Path, sessions: str) -> Iterator[list[str]]:
    told = subprocess.run(
        ["git", f"--git-dir={hub}", "receive-pack", "--advertise-refs", str(hub)], capture_output=True
    )
    listed = len(told.stdout)
    with Store.open(path) as store, wire.counted(shop.folder()) as since:
        store.remotes.remove("origin")
        store.remotes.add("origin", f"ssh://stand-in{hub}")
        store.remotes.sync()
        store.maintain()
        since()
        works = {
            "gitsession push": lambda: store.remotes.push(),
            "git push": lambda: _git(path, "push", "-q", "origin"),
            "gitsession sync": lambda: store.remotes.sync(),
        }
        for number, (what, work) in enumerate(works.items()):
            _say(store, 100 + number)
            work()
            went = since()
            beyond = went.up + went.down - listed
            told_as = f"{beyond:,}" if "push" in what else f"{beyond:,} (it fetches too)"
            yield [sessions, what, f"{went.up:,}", f"{went.down:,}", f"{listed:,}", told_as]


def _clones(shop: Workshop, hub: Path, sessions: int) -> Line:
    found = Duel()
    for _ in _runs(shop, sessions):
        places = shop.folder(), shop.folder()
        ours = seconds(lambda _, place=places[0]: Store.clone(str(hub), place / "store.git")[0].close())
        theirs = seconds(
            lambda _, place=places[1]: subprocess.run(
                ["git", "clone", "-q", "--mirror", "--no-local", str(hub), str(place / "mirror.git")], check=True
            )
        )
        found.add([ours], [theirs])
        for place in places:
            shutil.rmtree(place)
    return found.line(f"clone of {sessions:,} sessions", "git clone --mirror", FIRST_BAR)


def _pulls(shop: Workshop, hub: Path, sessions: int) -> Line:
    """Pull into an existing, empty store."""
    found = Duel()
    for _ in _runs(shop, sessions):
        places = shop.folder(), shop.folder()
        path, mirror = places[0] / "store.git", _hub(places[1] / "mirror.git")
        with Store.create(path) as store:
            store.remotes.add("origin", str(hub))
            ours = seconds(lambda _, store=store: store.remotes.pull())
        theirs = seconds(lambda _, mirror=mirror: _git(mirror, "fetch", "-q", str(hub), "+refs/heads/*:refs/heads/*"))
        found.add([ours], [theirs])
        for place in places:
            shutil.rmtree(place)
    return found.line(f"first pull of {sessions:,} sessions", "git fetch", FIRST_BAR)


def _first_push(shop: Workshop, sessions: int) -> Line:
    found = Duel()
    for _ in range(shop.runs):
        path = shop.copy(shop.many_sessions(sessions))
        one, other = (_hub(shop.folder() / "hub.git") for _ in range(2))
        with Store.open(path) as store:
            store.remotes.add("origin", str(one))
            ours = seconds(lambda _, store=store: store.remotes.push())
        theirs = seconds(
            lambda _, path=path, other=other: _git(path, "push", "-q", str(other), "refs/heads/*:refs/heads/*")
        )
        found.add([ours], [theirs])
    return found.line(f"first push of {sessions:,} sessions", "git push", FIRST_BAR)


def _git(path: Path, *words: str) -> None:
    subprocess.run(["git", f"--git-dir={path}", *words], check=True)
