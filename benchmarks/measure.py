"""Two things timed in turn, several runs over; how long, how evenly, and how many fsyncs."""

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
    """How long one call takes."""
    start = time.perf_counter()
    step(number)
    return time.perf_counter() - start


def in_turn(ours: Step, theirs: Step, rounds: int, *, warm_up: int = 0) -> tuple[list[float], list[float]]:
    """Seconds of each, one call after the other, so that a slow moment of the machine hits both.

    Who goes first changes from round to round: what a write leaves to the file system, the next fsync may pay for.
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
        """The comparison of what ``fold`` makes of each run's times: a median where nothing else is said."""
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
    """``runs`` times ``rounds`` calls of each, in turn."""
    found = Duel()
    for _ in range(runs):
        found.add(*in_turn(ours, theirs, rounds, warm_up=warm_up))
    return found


def percentile(times: Sequence[float], part: float) -> float:
    """The time that ``part`` (0 to 1) of all stay at or under."""
    found = sorted(times)
    return found[min(int(len(found) * part), len(found) - 1)]
