"""Every system call of every workload fails, once or from then on, with each error; then a retry."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

from faults.bench import Bench
from faults.shim import Fault as At
from faults.work import SHARES, TRIED_AGAIN, WORKLOADS

from benchmarks.deep import Fault

PROMISES = ("P4", "P10")


def faults(seed: int) -> Iterator[Fault]:
    with closing(Bench()) as bench:
        fail = [
            partial(bench.fail, work, At(mode, at))
            for work in WORKLOADS
            for mode in SHARES
            for at in bench.points(work, mode, 1.0)
        ]
        retry: list[Callable[[], None]] = [
            partial(bench.retry, work, At("eio", at, length=length))
            for work in TRIED_AGAIN
            for length in (1, 2, 3)
            for at in bench.points(work, "eio", 1.0)
        ]
        todo = [*fail, *retry]
        random.Random(seed).shuffle(todo)
        yield from todo
