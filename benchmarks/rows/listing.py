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
from benchmarks.measure import duel
from benchmarks.workshop import Workshop
from gitsession import Store

TITLE = "List"

BAR = 3.0


def measure(shop: Workshop) -> Iterator[Line]:
    for sessions in shop.pick([5], [1000], [1000, 10_000]):
        path = shop.copy(shop.many_sessions(sessions))
        yield from _compared(shop, path, f"{sessions:,} sessions, refs loose")
        with Store.open(path) as store:
            store.maintain()
        yield from _compared(shop, path, f"{sessions:,} sessions, refs packed")


def _compared(shop: Workshop, path: Path, what: str) -> Iterator[Line]:
    rounds, peer = shop.pick(1, 7, 9), commands.git(path, "for-each-ref", "refs/heads/sessions")
    commands.ours(path, "ls")(0)
    whole = duel(commands.ours(path, "ls"), peer, runs=shop.runs, rounds=rounds)
    yield whole.line(f"gitsession ls, {what}", "git for-each-ref", BAR)
    with Store.open(path) as store:
        inside = duel(lambda _: store.sessions(), peer, runs=shop.runs, rounds=rounds)
    yield inside.line(f"Store.sessions(), {what}", "git for-each-ref, a process")
