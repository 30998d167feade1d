"""What a benchmark found: values only, which a page, a plot and a file of results are made of."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Spread:
    """One figure over several runs."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        found = sorted(values)
        return cls(statistics.median(found), found[0], found[-1])


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison. ``unit``: of ``ours`` and ``theirs``: ``s``, ``bytes``, ``fsyncs``, ``/s``.

    ``ratio`` is ours by theirs, ``None`` where the peer could not be asked: ``why`` says so then. ``bar`` is the most
    that the ratio may be, ``None`` where nothing was promised.
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
    def verdict(self) -> str:
        """Whether the bar holds in every run, in the middle one only, or not."""
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
    """Figures that have more columns than a comparison."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a plot: ``points`` are ``(x, y)``, ascending in x."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Plot:
    """Curves over a logarithmic x axis and a logarithmic y axis. ``name``: of the file, without its ending."""

    name: str
    title: str
    x: str
    y: str
    curves: Sequence[Curve]


@dataclass(frozen=True, slots=True)
class Found:
    """All that one row family found. ``size`` and ``date``: how it was run, and when.

    ``machine``: where, if it was measured alone and not in the last run of all rows.
    """

    size: str
    date: str
    lines: Sequence[Line] = field(default_factory=list)
    tables: Sequence[Table] = field(default_factory=list)
    plots: Sequence[Plot] = field(default_factory=list)
    machine: str = ""
