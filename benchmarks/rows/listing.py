"""List all sessions, compared with ``git for-each-ref`` of the same refs.

Refs are loose, or packed by ``maintain``. The list is measured as a whole command, which
includes the start of Python, and in a process that has the store open: ``Store.sessions()``,
with the catalog up to date from the call before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import commands
from benchmarks.figures import Line
from benchmarks.measure import Step, duel
from benchmarks.workshop import Workshop
from gitsession import Message, Store
from gitsession.index import catalogue

TITLE = "List"

BAR = 3.0


def measure(shop: Workshop) -> Iterator[Line]:
    for sessions in shop.pick([5], [1000], [1000, 10_000]):
        path = shop.copy(shop.many_sessions(sessions))
        yield from _compared(shop, path, f"{sessions:,} sessions, refs loose")
        with Store.open(path) as store:
            store.maintain()
        yield from _compared(shop, path, f"{sessions:,} sessions, refs packed")
    for sessions in shop.pick([5], [1000], [1000, 3000]):
        path = _talks(shop, sessions)
        peer = commands.git(path, "for-each-ref", "refs/heads/sessions")
        first = duel(_first_list(path), peer, runs=shop.runs, rounds=1)
        yield first.line(f"the first list of {sessions:,} sessions of 8 entries", "git for-each-ref")


def _compared(shop: Workshop, path: Path, what: str) -> Iterator[Line]:
    rounds, peer = shop.pick(1, 7, 9), commands.git(path, "for-each-ref", "refs/heads/sessions")
    commands.ours(path, "ls")(0)
    whole = duel(commands.ours(path, "ls"), peer, runs=shop.runs, rounds=rounds)
    yield whole.line(f"gitsession ls, {what}", "git for-each-ref", BAR)
    with Store.open(path) as store:
        inside = duel(lambda _: store.sessions(), peer, runs=shop.runs, rounds=rounds)
    yield inside.line(f"Store.sessions(), {what}", "git for-each-ref, a process")


def _talks(shop: Workshop, count: int) -> Path:
    """Return a new store of ``count`` sessions with eight entries each."""
    path = shop.folder() / "store.git"
    with Store.create(path) as store:
        for number in range(count):
            session = store.new_session(agent="bench", cwd=str(shop.place))
            for at in range(4):
                session.append(Message.user(f"Question {number}, {at}"))
                session.append(Message.assistant(f"Answer {number}, {at}"))
    return path


def _first_list(path: Path) -> Step:
    """Return a step that lists the sessions of a store without a catalog, as after a library wrote them."""
    ls = commands.ours(path, "ls")

    def step(number: int) -> None:
        for beside in ("", "-wal", "-shm"):
            Path(f"{path / catalogue.FILE}{beside}").unlink(missing_ok=True)
        ls(number)

    return step
