"""Disks of several sizes, filled beyond their capacity with entries of several sizes, repeatedly."""

from __future__ import annotations

import random
from collections.abc import Iterator

from faults.full import FAILURES, SIZES, fill_disk

from benchmarks.deep import Fault

PROMISES = ("P12",)


def faults(seed: int) -> Iterator[Fault]:
    chance = random.Random(seed)
    while True:
        for kind in SIZES:
            entry_bytes = chance.randrange(50, 2500)
            yield lambda kind=kind, entry_bytes=entry_bytes: fill_disk(kind, entry_bytes) or FAILURES
