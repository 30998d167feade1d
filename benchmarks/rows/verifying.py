"""Check a store completely, compared with ``git fsck --strict`` of the same store.

gitsession runs git's own check too and also reads every entry, so the ratio cannot be below 1.
It may use several processors: git's check and its own run in parallel, and processes share the
entries of a large store.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import commands
from benchmarks.figures import Line
from benchmarks.measure import duel
from benchmarks.workshop import Workshop
from gitsession import Store

TITLE = "Verify"

BAR = 2.0


def measure(shop: Workshop) -> Iterator[Line]:
    entries = shop.pick(20, 3000, 10_000)
    for what, store in (
        ("the imported files", shop.imported()),
        (f"{entries:,} appended entries", shop.long_session(entries)),
    ):
        found = duel(
            lambda _, store=store: _verify(store),
            commands.git(store, "fsck", "--strict", "--no-dangling", "--no-progress"),
            runs=shop.runs,
            rounds=shop.pick(1, 1, 3),
            warm_up=0,
        )
        yield found.line(f"verify of {what}", "git fsck --strict", BAR)


def _verify(path: Path) -> None:
    with Store.open(path) as store:
        report = store.verify()
    assert not report.problems, report.problems
