"""Random schedules of stores with real git between them: thousands of runs, longer than those of the suite."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from faults.shim import scratch
from simulation import simulate

from benchmarks.deep import Fault

PROMISES = ("P42",)
STEPS = 60
HOOKS_EVERY = 5


def faults(seed: int) -> Iterator[Fault]:
    folder = Path(scratch())
    try:
        for number in count(seed * 1_000_000 + 1000):
            yield lambda number=number: one(number, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def one(seed: int, folder: Path) -> None:
    outcome = simulate(seed, folder, STEPS, hooks=seed % HOOKS_EVERY == 0)
    assert outcome.is_good, f"seed {seed}: {outcome}"
