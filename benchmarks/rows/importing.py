"""Import session files into a new store, then again unchanged, then with one file ten lines longer.

The peer is the least work of a program that keeps the files: ``json.loads`` of every line and
``zlib`` of its bytes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path

from benchmarks.data import grown
from benchmarks.figures import Line
from benchmarks.measure import Duel, seconds
from benchmarks.workshop import Workshop, bring_all
from gitsession import Store

TITLE = "Import"

BAR = 4.0
PEER = "json.loads and zlib of every line"


def measure(shop: Workshop) -> Iterator[Line]:
    taken = shop.files()
    first, again, ten = Duel(), Duel(), Duel()
    longest = max((path for path in taken if path.parent.name != "omp"), key=lambda path: len(taken[path]))
    for _ in range(shop.pick(1, shop.runs, max(shop.runs, 5))):
        with Store.create(shop.folder() / "store.git") as store:
            theirs = seconds(lambda _: _read(taken))
            first.add([seconds(lambda _, store=store: bring_all(store, taken))], [theirs])
            again.add([seconds(lambda _, store=store: bring_all(store, taken))], [theirs])
            one = {longest: grown(taken[longest], 10)}
            theirs = seconds(lambda _, one=one: _read(one))
            ten.add([seconds(lambda _, store=store, one=one: bring_all(store, one))], [theirs])
    size = sum(map(len, taken.values())) / 1e6
    yield first.line(f"import of {len(taken)} files, {size:.0f} MB", PEER, BAR)
    yield again.line(f"import of {len(taken)} files again, nothing new", PEER)
    yield ten.line(f"import of a file of {len(taken[longest]) / 1e6:.1f} MB, ten lines longer", PEER)


def _read(taken: dict[Path, bytes]) -> None:
    for data in taken.values():
        for line in data.split(b"\n"):
            if line:
                json.loads(line)
                zlib.compress(line)
