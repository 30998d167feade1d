"""Benchmark results as plain values: the input for the page, the plots and the results file."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Spread:
    """The median, the minimum and the maximum of a figure over several runs."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        found = sorted(values)
        return cls(statistics.median(found), found[0], found[-1])


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison.

    Attributes:
        bar: Highest accepted ratio; ``None`` if there is no promise.
        ratio: ``ours`` divided by ``theirs``; ``None`` if the peer could not be measured.
        unit: Unit of ``ours`` and ``theirs``: ``s``, ``bytes``, ``fsyncs`` or ``/s``.
        why: Reason for a missing ratio.
    """

    what: str
    peer: str
    bar: float | None = None
    ratio: Spread | None = None
    ours: float = 0.0
    theirs: float = 0.0
    unit: str = "s"
    why: str = ""

    @property
    def name(self) -> str:
        """The two sides, which identify the comparison in its family."""
        return f"{self.what} : {self.peer}"

    @property
    def verdict(self) -> str:
        """Return whether the bar holds in every run, only in the median, or not."""
        if self.ratio is None:
            return self.why
        if self.bar is None:
            return ""
        if self.ratio.most <= self.bar:
            return "holds"
        if self.ratio.median <= self.bar:
            return "holds in the median only"
        return "misses"


@dataclass(frozen=True, slots=True)
class Table:
    """Figures with more columns than a comparison."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Curve:
    """One curve of a plot. ``points`` are ``(x, y)`` pairs with increasing ``x``."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Plot:
    """Curves on two logarithmic axes. ``name`` is the file name without its extension."""

    name: str
    title: str
    x: str
    y: str
    curves: Sequence[Curve]


@dataclass(frozen=True, slots=True)
class Found:
    """The results of one family of benchmarks.

    Attributes:
        size: Size of the run.
        date: Date of the run.
        machine: The machine, if the family was measured alone and not in the last run of all rows.
    """

    size: str
    date: str
    lines: Sequence[Line] = field(default_factory=list)
    tables: Sequence[Table] = field(default_factory=list)
    plots: Sequence[Plot] = field(default_factory=list)
    machine: str = ""
