"""Plots as SVG, with text elements, without scripts or fonts, and with the reader's light or dark background."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.figures import Plot
from gitsession.cli import svg

WIDTH, LEFT, RIGHT, TOP = 720, 70, 20, 44
PLOT_HEIGHT, LEGEND_LINE = 300, 18

STYLE = """
.ground { fill: #ffffff } text { fill: #24292f; font: 12px system-ui, sans-serif }
.title { font-size: 14px; font-weight: 600 }
.grid { stroke: #d0d7de } .bar { stroke: #cf222e; stroke-width: 1.5 } path { fill: none; stroke-width: 2 }
.holds { fill: #1a7f37 } .misses { fill: #cf222e }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117 } text { fill: #e6edf3 } .grid { stroke: #30363d } .bar { stroke: #ff7b72 }
.holds { fill: #3fb950 } .misses { fill: #ff7b72 } }
"""

COLOURS = ("#0969da", "#bc4c00", "#1a9a48", "#8250df", "#d4a72c", "#cf4592", "#1b9ab0", "#8c6d5a", "#7d8590", "#57ab5a")
"""Colors that are visible on both backgrounds. The first one is the color of gitsession."""


def curves(plot: Plot) -> str:
    """Return a plot with two logarithmic axes. The legend is below the plot, in the order of the last points."""
    points = [point for curve in plot.curves for point in curve.points]
    x = _Axis(LEFT, WIDTH - RIGHT, [x for x, _ in points], whole_decades=False)
    y = _Axis(TOP + PLOT_HEIGHT, TOP, [y for _, y in points], whole_decades=True)
    parts = [svg.text(12, 22, plot.title, "title"), svg.text(12, 38, plot.y)]
    for value in y.ticks():
        parts.append(svg.line(LEFT, y.at(value), WIDTH - RIGHT, y.at(value), "grid"))
        parts.append(svg.text(LEFT - 6, y.at(value) + 4, _number(value), anchor="end"))
    for value in sorted({x for x, _ in points}):
        parts.append(svg.line(x.at(value), TOP, x.at(value), TOP + PLOT_HEIGHT, "grid"))
        parts.append(svg.text(x.at(value), TOP + PLOT_HEIGHT + 16, _number(value), anchor="middle"))
    legend = TOP + PLOT_HEIGHT + 34
    parts.append(svg.text((LEFT + WIDTH - RIGHT) / 2, legend, plot.x, anchor="middle"))
    for number, curve in enumerate(plot.curves):
        colour = COLOURS[number % len(COLOURS)]
        way = " ".join(f"{'L' if n else 'M'}{x.at(a):.1f} {y.at(b):.1f}" for n, (a, b) in enumerate(curve.points))
        parts.append(f'<path d="{way}" stroke="{colour}"/>')
        parts += [f'<circle cx="{x.at(a):.1f}" cy="{y.at(b):.1f}" r="3" fill="{colour}"/>' for a, b in curve.points]
        row = legend + LEGEND_LINE * (number + 1)
        parts.append(f'<rect x="{LEFT}" y="{row - 9}" width="14" height="4" fill="{colour}"/>')
        last = f", {_number(curve.points[-1][1])} at {_number(curve.points[-1][0])}" if curve.points else ""
        parts.append(svg.text(LEFT + 22, row - 3, curve.name + last))
    return svg.image(plot.title, WIDTH, legend + LEGEND_LINE * (len(plot.curves) + 1), STYLE, parts)


def bars(title: str, rows: Sequence[tuple[str, float]]) -> str:
    """Return a chart of each ratio divided by its bar, on a logarithmic axis. Ratios left of the line at 1 hold."""
    left, step = 400, 20
    axis = _Axis(left + 40, WIDTH - 60, [value for _, value in rows] + [0.1, 2.0], whole_decades=False)
    bottom = TOP + step * len(rows)
    parts = [svg.text(12, 22, title, "title")]
    for number, (name, value) in enumerate(rows):
        row, start, end = TOP + step * number, *sorted((axis.at(1), axis.at(value)))
        side = "holds" if value <= 1 else "misses"
        parts.append(svg.text(left - 8, row + 13, name, anchor="end"))
        parts.append(f'<rect class="{side}" x="{start:.1f}" y="{row + 3}" width="{end - start:.1f}" height="13"/>')
        beside, anchor = (start - 6, "end") if value <= 1 else (end + 6, "start")
        parts.append(svg.text(beside, row + 13, f"{value:.2f}", anchor=anchor))
    parts.append(svg.line(axis.at(1), TOP - 4, axis.at(1), bottom + 4, "bar"))
    parts.append(svg.text(axis.at(1), bottom + 18, "the bar", anchor="middle"))
    return svg.image(title, WIDTH, bottom + 30, STYLE, parts)


class _Axis:
    """A logarithmic scale between two pixel positions."""

    def __init__(self, start: float, end: float, values: Sequence[float], *, whole_decades: bool) -> None:
        logs = [math.log10(value) for value in values if value > 0] or [0.0]
        low, high = min(logs), max(logs)
        if whole_decades:
            low, high = math.floor(low), math.ceil(high)
        self._low, self._high = low, high if high > low else low + 1
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        part = (math.log10(max(value, 1e-9)) - self._low) / (self._high - self._low)
        return self._start + part * (self._end - self._start)

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(math.ceil(self._low), math.floor(self._high) + 1)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
