"""Every state of the disk that a power cut can leave, from more and more subsets of unsynced writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import count

from faults.bench import Bench
from faults.crash import Model
from faults.work import REPLAYED

from benchmarks.deep import Fault

PROMISES = ("P2", "P8", "P9")
MODELS: tuple[Model, ...] = ("ext4", "posix")
SAMPLES = 100


def faults(seed: int) -> Iterator[Fault]:
    """Yield faults in rounds over all workloads and models. Each round draws other subsets.

    Within a round, no disk state occurs twice.
    """
    with closing(Bench()) as bench:
        for turn in count(seed * 1000):
            for work in REPLAYED:
                for model in MODELS:
                    for crash in bench.recording(work).crashes(model, samples=SAMPLES, seed=turn):
                        yield lambda work=work, crash=crash: bench.cut(work, crash)
