"""The chart of ``stats --svg``: columns along an axis of time, or one bar for each group."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date

from gitsession.cli import svg
from gitsession.cli.text import changed_lines, short_duration, short_number
from gitsession.index.statistics import Statistics, StatisticsReport, add_up
from gitsession.line_text import columns, count, shorten

WIDTH, MARGIN, TOP = 720, 16, 84
AXIS_LEFT, PLOT_HEIGHT, COLUMN_MAX, LABEL_WIDTH = 56, 240, 40, 110
BAR_STEP, BAR_HEIGHT, NAME_MAX, CHAR_WIDTH, VALUE_WIDTH = 22, 14, 36, 7, 116
BARS_MAX = 40
"""Maximum number of bars. Further groups are added up in one bar."""

STYLE = """
.ground { fill: #ffffff } text { fill: #24292f; font: 12px system-ui, sans-serif }
.title { font-size: 15px; font-weight: 600 } .small { fill: #57606a } .grid { stroke: #d0d7de }
.a { fill: #0969da } .b { fill: #bc4c00 } .c { fill: #a5b1bd } .d { fill: #8250df } .e { fill: #cf222e }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117 } text { fill: #e6edf3 } .small { fill: #8d96a0 } .grid { stroke: #30363d }
.a { fill: #4493f8 } .b { fill: #f0883e } .c { fill: #656d76 } .d { fill: #ab7df8 } .e { fill: #f85149 } }
"""

_Kinds = Mapping[str, Callable[[Statistics], int]]
"""The parts of a bar: functions that return the amount of a group, by the name in the legend."""

_TOKENS: _Kinds = {
    "input": lambda group: group.input_tokens,
    "output": lambda group: group.output_tokens,
    "read from cache": lambda group: group.cache_read_tokens,
    "written to cache": lambda group: group.cache_write_tokens,
}
_PROMPTS: _Kinds = {"prompts": lambda group: group.prompts}
_CALLS: _Kinds = {"succeeded": lambda group: group.calls - group.failures, "failed": lambda group: group.failures}
_CLASSES = {"prompts": "a", "succeeded": "a", "failed": "e", **dict(zip(_TOKENS, "abcd", strict=True))}


def chart(by: str, report: StatisticsReport) -> str:
    """Return an SVG image of statistics, which are grouped by ``by``. Without groups, the image has only a title."""
    if by == "tool":
        name, kinds = "Tool calls", _CALLS
    else:
        name, kinds = ("Tokens", _TOKENS) if report.total.tokens else ("Prompts", _PROMPTS)
    kinds = {kind: amount for kind, amount in kinds.items() if amount(report.total)}
    if by in _POSITIONS and any(group.key for group in report.groups):
        parts, bottom = _columns(by, report.groups, kinds)
    else:
        parts, bottom = _bars(report.groups, kinds)
    title = f"{name} by {by}"
    heading = [svg.text(MARGIN, 26, title, "title"), svg.text(MARGIN, 45, _figures(report.total), "small")]
    return svg.image(title, WIDTH, bottom + MARGIN, STYLE, [*heading, *_legend(kinds), *parts])


def _legend(kinds: Iterable[str]) -> list[str]:
    parts, x = [], float(MARGIN)
    for kind in kinds:
        parts += [svg.rectangle(x, TOP - 28, 10, 10, _CLASSES[kind]), svg.text(x + 15, TOP - 19, kind, "small")]
        x += 15 + CHAR_WIDTH * len(kind) + 16
    return parts


def _figures(group: Statistics) -> str:
    """Return the figures of a group that are not zero."""
    texts = {
        count(group.sessions, "session"): group.sessions,
        count(group.prompts, "prompt"): group.prompts,
        f"{short_number(group.tokens)} tokens": group.tokens,
        f"${group.cost:,.2f}": group.cost,
        count(group.calls, "tool call"): group.calls,
        f"{short_duration(group.active_seconds)} active": group.active_seconds,
        f"{changed_lines(group.added, group.removed)} lines": group.added or group.removed,
    }
    return " · ".join(text for text, amount in texts.items() if amount)


# ---- one bar for each group


def _bars(groups: Sequence[Statistics], kinds: _Kinds) -> tuple[list[str], float]:
    """Return the parts of the image, and the position of their lower end."""
    rest = groups[BARS_MAX:]
    shown = [*groups[:BARS_MAX], *([add_up(count(len(rest), "other"), rest)] if rest else [])]
    names = [shorten(group.key or "(unknown)", NAME_MAX) for group in shown]
    left = MARGIN + CHAR_WIDTH * max(map(columns, names), default=0) + 8
    most = max((_amount(group, kinds) for group in shown), default=0) or 1
    scale = (WIDTH - VALUE_WIDTH - left) / most
    parts = []
    for number, (group, name) in enumerate(zip(shown, names, strict=True)):
        y, x = float(TOP + BAR_STEP * number), float(left)
        inside = [svg.text(left - 8, y + 11, name, anchor="end")]
        for kind, amount in kinds.items():
            inside.append(svg.rectangle(x, y, amount(group) * scale, BAR_HEIGHT, _CLASSES[kind]))
            x += amount(group) * scale
        cost = f" · ${group.cost:,.2f}" if group.cost else ""
        inside.append(svg.text(x + 6, y + 11, f"{short_number(_amount(group, kinds))}{cost}", "small"))
        parts.append(svg.titled(f"{group.key or '(unknown)'}: {_figures(group)}", inside))
    return parts, TOP + BAR_STEP * len(shown)


def _amount(group: Statistics, kinds: _Kinds) -> int:
    return sum(amount(group) for amount in kinds.values())


# ---- columns along an axis of time

_POSITIONS: Mapping[str, tuple[Callable[[str], int], Callable[[int], str]]] = {
    "day": (lambda key: date.fromisoformat(key).toordinal(), lambda at: date.fromordinal(at).isoformat()),
    "week": (
        lambda key: (date.fromisoformat(key).toordinal() - 1) // 7,
        lambda at: date.fromordinal(at * 7 + 1).isoformat(),
    ),
    "month": (lambda key: int(key[:4]) * 12 + int(key[5:]) - 1, lambda at: f"{at // 12:04}-{at % 12 + 1:02}"),
}
"""Functions that convert the key of a day, week, or month to its position on the axis, and back."""


def _columns(by: str, groups: Sequence[Statistics], kinds: _Kinds) -> tuple[list[str], float]:
    """Return the parts of the image, and the position of their lower end. Times without events have no column."""
    position, key = _POSITIONS[by]
    placed = {position(group.key): group for group in groups if group.key}
    first, number = min(placed), max(placed) - min(placed) + 1
    slot = min((WIDTH - MARGIN - AXIS_LEFT) / number, COLUMN_MAX * 1.25)
    ticks = _ticks(max(_amount(group, kinds) for group in placed.values()))
    base = float(TOP + PLOT_HEIGHT)
    scale = PLOT_HEIGHT / ticks[-1]
    parts = []
    for tick in ticks:
        y = base - tick * scale
        parts += [svg.line(AXIS_LEFT, y, WIDTH - MARGIN, y, "grid")]
        parts += [svg.text(AXIS_LEFT - 8, y + 4, short_number(tick, zero="0"), "small", anchor="end")]
    for at, group in placed.items():
        y, inside = base, []
        for kind, amount in kinds.items():
            height = amount(group) * scale
            y -= height
            inside.append(
                svg.rectangle(AXIS_LEFT + (at - first + 0.1) * slot, y, max(slot * 0.8, 1), height, _CLASSES[kind])
            )
        parts.append(svg.titled(f"{group.key}: {_figures(group)}", inside))
    for at in range(0, number, math.ceil(LABEL_WIDTH / slot)):
        x = AXIS_LEFT + (at + 0.5) * slot
        anchor = "start" if x < AXIS_LEFT + LABEL_WIDTH / 2 else "end" if x > WIDTH - LABEL_WIDTH / 2 else "middle"
        parts.append(
            svg.text(AXIS_LEFT if anchor == "start" else x, base + 18, key(at + first), "small", anchor=anchor)
        )
    unknown = next((group for group in groups if not group.key), None)
    if unknown is not None:
        parts.append(svg.text(AXIS_LEFT, base + 38, f"without a time: {_figures(unknown)}", "small"))
    return parts, base + (44 if unknown is not None else 24)


def _ticks(most: int) -> list[int]:
    """Return round numbers from 0 to at least ``most``, seven at most."""
    most = max(most, 1)
    power = 10 ** (len(str(most)) - 1)
    step = next(step for step in (power // 5, power // 2, power, power * 2) if most <= step * 5)
    return list(range(0, most + step, step))
