"""Alternating time measurement of two steps, over several runs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from benchmarks.figures import Line, Spread

Step: TypeAlias = Callable[[int], object]
Fold: TypeAlias = Callable[[Sequence[float]], float]


def seconds(step: Step, number: int = 0) -> float:
    """Return the duration of one call in seconds."""
    start = time.perf_counter()
    step(number)
    return time.perf_counter() - start


def in_turn(ours: Step, theirs: Step, rounds: int, *, warm_up: int = 0) -> tuple[list[float], list[float]]:
    """Call both steps alternately and return their times in seconds, so that a slow moment of the machine affects both.

    The order changes from round to round, because an fsync can also write data that the previous step left in the
    cache.
    """
    mine: list[float] = []
    peer: list[float] = []
    for number in range(warm_up + rounds):
        if number % 2:
            peer.append(seconds(theirs, number))
            mine.append(seconds(ours, number))
        else:
            mine.append(seconds(ours, number))
            peer.append(seconds(theirs, number))
    return mine[warm_up:], peer[warm_up:]


@dataclass(slots=True)
class Duel:
    """The times of several runs of one comparison."""

    runs: list[tuple[Sequence[float], Sequence[float]]] = field(default_factory=list)

    def add(self, mine: Sequence[float], peer: Sequence[float]) -> None:
        self.runs.append((mine, peer))

    def line(
        self, what: str, peer: str, bar: float | None = None, *, fold: Fold = statistics.median, unit: str = "s"
    ) -> Line:
        """Return the comparison.

        Args:
            fold: Function that reduces the times of a run to one. The default is the median.
        """
        folded = [(fold(mine), fold(theirs)) for mine, theirs in self.runs]
        return Line(
            what,
            peer,
            bar,
            Spread.of(mine / theirs for mine, theirs in folded),
            statistics.median(mine for mine, _ in folded),
            statistics.median(theirs for _, theirs in folded),
            unit,
        )


def duel(ours: Step, theirs: Step, *, runs: int, rounds: int, warm_up: int = 1) -> Duel:
    """Measure ``runs`` runs with ``rounds`` alternating calls of each step."""
    found = Duel()
    for _ in range(runs):
        found.add(*in_turn(ours, theirs, rounds, warm_up=warm_up))
    return found


def percentile(times: Sequence[float], part: float) -> float:
    """Return the time that is not exceeded by the fraction ``part`` (0 to 1) of all times."""
    found = sorted(times)
    return found[min(int(len(found) * part), len(found) - 1)]
