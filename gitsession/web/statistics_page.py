"""The page of statistics: a table with a bar for each group."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlencode

from gitsession.index.statistics import GROUPS, TIMES, Price, Statistics, statistics
from gitsession.redaction.guard import Guard
from gitsession.web.selection import SessionSelection, counted, page_of, short_project
from gitsession.web.serving import Answer, StoreReader

_COLUMNS: Mapping[str, Callable[[Statistics], str]] = {
    "Tokens": lambda row: _number(row.tokens),
    "Input": lambda row: _number(row.input_tokens),
    "Output": lambda row: _number(row.output_tokens),
    "Cache read": lambda row: _number(row.cache_read_tokens),
    "Cache written": lambda row: _number(row.cache_write_tokens),
    "Cost": lambda row: f"${row.cost:,.2f}" if row.cost else "",
    "Prompts": lambda row: _number(row.prompts),
    "Calls": lambda row: _number(row.calls),
    "Failed": lambda row: _number(row.failures),
    "Active": lambda row: _duration(row.active_seconds),
    "Added": lambda row: f"+{row.added:,}" if row.added else "",
    "Removed": lambda row: f"−{row.removed:,}" if row.removed else "",
    "Sessions": lambda row: _number(row.sessions),
}


class StatisticsRow(NamedTuple):
    """A row of the table.

    Attributes:
        name: The name of the group.
        address: The page of the group; "" if there is none.
        size: The length of the bar, in percent of the longest one.
        cells: The values of the columns.
    """

    name: str
    address: str
    size: int
    cells: list[str]


def statistics_page(store: StoreReader, guard: Guard, prices: Mapping[str, Price], values: Mapping[str, str]) -> Answer:
    """Return the statistics of the selected sessions. Groups by time are in reverse order, the others by size."""
    catalogue = store.catalogue()
    selection = SessionSelection(catalogue.sessions(), values, guard)
    by = values.get("by", "")
    by = by if by in GROUPS else "day"
    since, until = values.get("since", ""), values.get("until", "")
    report = statistics(
        catalogue.db, (row.sid for row in selection.rows), by,
        since_ms=_day_ms(since), until_ms=_day_ms(until, days=1), prices=prices,
    )  # fmt: skip
    found = sorted(report.groups, key=lambda row: row.key if by in TIMES else (row.tokens, row.calls, row.key))[::-1]
    amounts = {row.key: row.calls if by == "tool" else row.tokens for row in found}
    longest = max(amounts.values(), default=0) or 1
    columns = {name: text for name, text in _COLUMNS.items() if any(map(text, found))}
    names = {row.sid: row.name for row in selection.rows}
    shown, pager = page_of(found, "/stats", values)
    rows = [
        StatisticsRow(
            guard.excerpt(_name(by, row.key, names)), _address(by, row.key), round(100 * amounts[row.key] / longest),
            [text(row) for text in columns.values()],
        )
        for row in shown
    ]  # fmt: skip
    return Answer.page(
        "stats.html", "/stats", selection=selection, by=by, is_time=by in TIMES, groups=GROUPS, since=since,
        until=until, rows=rows, columns=list(columns), total=[text(report.total) for text in columns.values()],
        pager=pager, found=counted(len(found), len(found), by),
    )  # fmt: skip


def _day_ms(text: str, days: int = 0) -> int | None:
    """Return the beginning of a day of local time plus ``days``, Unix time in ms; ``None`` if ``text`` is no date."""
    with contextlib.suppress(ValueError, OverflowError):
        return int((datetime.strptime(text, "%Y-%m-%d") + timedelta(days)).timestamp() * 1000)
    return None


def _name(by: str, key: str, names: Mapping[str, str]) -> str:
    name = names.get(key, key) if by == "session" else short_project(key)
    return name or "(unknown)"


def _address(by: str, key: str) -> str:
    if by == "session":
        return f"/session/{key}"
    return f"/?{urlencode({by: key})}" if key and by in ("agent", "project") else ""


def _number(number: int) -> str:
    return f"{number:,}" if number else ""


def _duration(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds % 3600 // 60:02} h" if seconds >= 60 else ""
