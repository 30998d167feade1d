"""What the benchmarks share: two things timed in turn, and the ratio of their medians."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

Step = Callable[[int], object]


def in_turn(ours: Step, theirs: Step, rounds: int, *, warm_up: int = 0) -> tuple[list[float], list[float]]:
    """Seconds of each, one round after the other, so that a slow moment of the machine hits both."""
    mine: list[float] = []
    peer: list[float] = []
    for number in range(warm_up + rounds):
        for step, times in ((ours, mine), (theirs, peer)):
            start = time.perf_counter()
            step(number)
            times.append(time.perf_counter() - start)
    return mine[warm_up:], peer[warm_up:]


def report(what: str, bar: str, mine: list[float], peer: list[float], *, all_in: bool = False) -> None:
    """One row: the ratio of medians (``all_in``: of sums), and both in milliseconds."""
    fold = sum if all_in else statistics.median
    ours, theirs = fold(mine), fold(peer)
    print(f"{what:<46}  {ours / theirs:6.2f}x  (bar {bar})  ours {ours * 1e3:9.3f} ms  peer {theirs * 1e3:9.3f} ms")


def shared_sessions() -> list[Path]:
    """Real session files, where they are at hand (``$GITSESSION_SHARED``, else beside the checkout)."""
    place = Path(os.environ.get("GITSESSION_SHARED") or Path(__file__).resolve().parents[2] / "shared")
    return sorted([*(place / "sessions/pi").glob("*.jsonl"), *(place / "sessions/omp").glob("*.jsonl")])
