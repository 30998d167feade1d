"""kill -9 before, after and within every system call of every workload, with or without its git children."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing

from faults.bench import Bench
from faults.shim import Fault as At
from faults.work import WORKLOADS

from benchmarks.deep import Fault

PROMISES = ("P7", "P8", "P9")


def faults(seed: int) -> Iterator[Fault]:
    with closing(Bench()) as bench:
        points = [
            (work, At(mode, at, group=group))
            for work in WORKLOADS
            for mode in ("kill-before", "kill-after", "torn")
            for group in ((False, True) if work in ("maintain", "undo") else (False,))
            for at in bench.points(work, mode, 1.0)
        ]
        random.Random(seed).shuffle(points)
        for work, at in points:
            yield lambda work=work, at=at: bench.kill(work, at)
