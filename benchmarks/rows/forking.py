"""Fork a whole session, compared with a copy of its file.

A fork is one ref and one entry, however long the history is. The copy is ``shutil.copyfile`` of
a file with as many lines, and an fsync. A fork is durable when it returns. Without the fsync of
the copy, that of the fork would also write what the copy left in the cache of the file system.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.data import messages
from benchmarks.figures import Curve, Line, Plot
from benchmarks.measure import Step, duel
from benchmarks.workshop import Workshop
from gitsession import Store

TITLE = "Fork"

FLAT_BAR = 1.5


def measure(shop: Workshop) -> Iterator[Line | Plot]:
    lengths = shop.pick([10, 20], [1000, 10_000], [1000, 10_000, 50_000])
    rounds = shop.pick(2, 10, 20)
    ours, theirs = list[tuple[float, float]](), list[tuple[float, float]]()
    for entries in lengths:
        with _forking(shop, entries) as fork:
            line = duel(fork, _copying(shop, entries), runs=shop.runs, rounds=rounds).line(
                f"fork of {entries:,} entries", "copy of the file"
            )
        yield line
        ours.append((entries, line.ours * 1e3))
        theirs.append((entries, line.theirs * 1e3))
    with _forking(shop, lengths[-1]) as long, _forking(shop, lengths[0]) as short:
        flat = duel(long, short, runs=shop.runs, rounds=rounds)
    yield flat.line(f"fork of {lengths[-1]:,} entries", f"fork of {lengths[0]:,} entries", FLAT_BAR)
    curves = [Curve("gitsession", ours), Curve("copy of the file", theirs)]
    yield Plot("fork", "A fork as a session grows", "entries in the session", "ms, median", curves)


@contextmanager
def _forking(shop: Workshop, entries: int) -> Iterator[Step]:
    with Store.open(shop.copy(shop.long_session(entries))) as store:
        session = store.session(store.sessions()[0].sid)
        yield lambda _: session.fork()


def _copying(shop: Workshop, entries: int) -> Step:
    place = shop.folder()
    plain = [json.dumps(said.plain) + "\n" for said in messages()]
    (place / "session.jsonl").write_text("".join(plain[number % len(plain)] for number in range(entries)))

    def copy(_: int) -> None:
        shutil.copyfile(place / "session.jsonl", place / "copy.jsonl")
        with open(place / "copy.jsonl", "rb") as copied:
            os.fsync(copied.fileno())

    return copy
