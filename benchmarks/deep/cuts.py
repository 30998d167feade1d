"""Real power cuts under ext4, xfs and btrfs, as far as this machine can make them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from faults import powercut

from benchmarks.deep import Fault

PROMISES = ("P1",)
CUTS = 20


def faults(seed: int) -> Iterator[Fault]:
    for number in count(seed * 1000):
        for kind in powercut.available():
            yield lambda kind=kind, number=number: len(list(powercut.cuts(kind, CUTS, seed=number)))
        if not powercut.available():
            return
