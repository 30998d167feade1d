"""Formatting of figures for people."""

from __future__ import annotations

from benchmarks.figures import Line, Spread


def ratio(spread: Spread) -> str:
    """Return a ratio with the minimum and the maximum of the runs: ``1.62x (1.55–1.71)``."""
    if spread.least == spread.most:
        return times(spread.median)
    return f"{times(spread.median)} ({_short(spread.least)}–{_short(spread.most)})"


def times(value: float) -> str:
    return f"{_short(value)}x"


def bar(value: float | None) -> str:
    """Return a bar as text. A bar below 0.5 is a fraction."""
    if value is None:
        return ""
    return f"≤ {times(value)}" if value >= 0.5 else f"≤ 1/{1 / value:.0f}"


def quantity(value: float, unit: str) -> str:
    if unit == "bytes":
        return f"{value / 1e6:.2f} MB" if value >= 100_000 else f"{value:,.0f} B"
    if unit == "fsyncs":
        return f"{value:.2f} fsyncs"
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e3:.3f} ms"


def columns(line: Line) -> list[str]:
    """Return a comparison as a row with the columns of ``HEAD``."""
    if line.ratio is None:
        return [line.what, line.peer, "", bar(line.bar), "", "", line.verdict]
    ours, theirs = (quantity(value, line.unit) for value in (line.ours, line.theirs))
    return [line.what, line.peer, ratio(line.ratio), bar(line.bar), ours, theirs, line.verdict]


HEAD = ("what", "against", "ratio", "bar", "ours", "theirs", "the bar")


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value < 0.1 else f"{value:.2f}"
