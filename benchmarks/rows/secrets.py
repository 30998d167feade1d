"""Measure the cost of redaction.

- *Scan*: programs and pages as they occur in sessions (Python's library), compared with ``zlib``
  of the same bytes, which every entry needs anyway.
- *Import*: the same files into a store with redaction and into one with
  ``gitsession.redact = false``.
- *An entry* of 1 KB without a secret: redaction, compared with the encoding of the entry alone.
"""

from __future__ import annotations

import sysconfig
import zlib
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Line, Table
from benchmarks.measure import Duel, duel, seconds
from benchmarks.workshop import Workshop, bring_all
from gitsession import Message, Store
from gitsession.codec import payload
from gitsession.git import process
from gitsession.redaction.guard import Guard
from gitsession.redaction.scan import Scanner

TITLE = "Secrets"

BAR_OF_IMPORT = 1.5
SCAN = "zlib of the same bytes"
OFF = "the same with gitsession.redact = false"
ALONE = "its encoding alone"
NONCE = bytes(16)


def measure(shop: Workshop) -> Iterator[Line | Table]:
    texts = _texts(shop.pick(1 << 18, 3 << 20, 8 << 20))
    size, scanner = sum(map(len, texts)) / 1e6, Scanner()
    scan = lambda _: [scanner.scan_bytes(text) for text in texts]  # noqa: E731
    yield duel(scan, lambda _: [zlib.compress(text) for text in texts], runs=shop.runs, rounds=1).line(
        f"scan of {size:.1f} MB of programs", SCAN
    )
    took = min(seconds(scan) for _ in range(shop.runs))
    hits = sum(len(scanner.scan_bytes(text)) for text in texts)
    yield Table("Scan", ["MB", "MB/s", "hits in a MB"], [[f"{size:.1f}", f"{size / took:.1f}", f"{hits / size:.2f}"]])
    yield _import(shop)
    entry = Message.user("words that say nothing of what is hidden " * 25)
    data = payload.encode(entry, NONCE)
    rounds, guard = shop.pick(10, 1_000, 1_000), Guard(scanner)
    yield duel(
        lambda _: guard.redact("cbor", data), lambda _: payload.encode(entry, NONCE), runs=shop.runs, rounds=rounds
    ).line(f"an entry of {len(data):,} bytes without a secret", ALONE)


def _import(shop: Workshop) -> Line:
    taken, both = shop.files(), Duel()
    for _ in range(shop.pick(1, shop.runs, max(shop.runs, 5))):
        took = []
        for redacts in (True, False):
            with Store.create(shop.folder() / "store.git") as store:
                if not redacts:
                    process.run(store.objects.git_dir, "config", "gitsession.redact", "false")
                took.append(seconds(lambda _, store=store: bring_all(store, taken)))
        both.add([took[0]], [took[1]])
    size = sum(map(len, taken.values())) / 1e6
    return both.line(f"import of {len(taken)} files, {size:.0f} MB", OFF, BAR_OF_IMPORT)


def _texts(most: int) -> list[bytes]:
    found: list[bytes] = []
    for file in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        found.append(file.read_bytes())
        if sum(map(len, found)) > most:
            break
    return found
