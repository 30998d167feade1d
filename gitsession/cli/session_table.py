"""The table of sessions that ``ls`` prints, and short ids of sessions."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from gitsession.cli.text import paint, short_number, width
from gitsession.index.catalogue import SHORT_ID_CHARS, Row
from gitsession.line_text import ago, columns, pad, shorten

_TITLE_MIN = 12
_BEGUN = "↳ "
"""Mark before the title of a session that another session started or that continues another session."""

_WIDE = 100
"""Minimum number of columns for a table with numbers. A narrower table has only times, agents, and projects."""

_AGENT_MAX, _PROJECT_MAX = 12, 20

_NUMBERS = frozenset({"TOKENS", "ENTRIES", "BRANCHES", "FILES", "COST"})
"""The columns that are aligned to the right."""


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a header and a line for each session. If there are no sessions, yield nothing."""
    if not rows:
        return
    shorts = short_ids(rows)
    now_ms = time.time_ns() // 1_000_000
    shown: dict[str, list[str]] = {
        "SESSION": [shorts[row.sid] for row in rows],
        "UPDATED": [ago(row.updated_ms, now_ms) for row in rows],
        "AGENT": [shorten(row.agent, _AGENT_MAX) for row in rows],
    }
    has_projects = len({row.project for row in rows}) > 1
    if has_projects:
        shown["PROJECT"] = [shorten(os.path.basename(row.project or "") or "-", _PROJECT_MAX) for row in rows]
    if width() >= _WIDE or not has_projects:
        shown["TOKENS"] = [short_number(row.tokens) for row in rows]
    if width() >= _WIDE:
        shown["ENTRIES"] = [f"{row.entries:,}" for row in rows]
        if any(len(row.branches) > 1 for row in rows):
            shown["BRANCHES"] = [str(len(row.branches)) for row in rows]
        if any(row.changed for row in rows):
            shown["FILES"] = [str(row.changed or "-") for row in rows]
        if any(row.cost for row in rows):
            shown["COST"] = [f"${row.cost:,.2f}" if row.cost else "-" for row in rows]
    widths = [max(map(columns, [name, *cells])) for name, cells in shown.items()]
    room = max(width() - sum(widths) - 2 * len(widths), _TITLE_MIN)
    titles = [f"{_BEGUN}{row.name}" if row.parent or row.continues else row.name for row in rows]
    for number, (*cells, title) in enumerate([(*shown, "TITLE"), *zip(*shown.values(), titles, strict=True)]):
        padded = [
            cell.rjust(size) if name in _NUMBERS else pad(cell, size)
            for name, cell, size in zip(shown, cells, widths, strict=True)
        ]
        first = paint(padded[0], fg="yellow") if number else padded[0]
        text = "  ".join([first, *padded[1:], shorten(title, room)])
        yield text if number else paint(text, bold=True)


class HasId(Protocol):
    """An object with the id of a session."""

    @property
    def sid(self) -> str: ...


def short_ids(rows: Iterable[HasId]) -> dict[str, str]:
    """Return a short id of each session: the beginning of the part after the date that no other of ``rows`` has.

    Seven characters have 2**35 values, so a session that is not in ``rows`` hardly ever begins in the same way.
    """
    parts = {row.sid: row.sid.rpartition("-")[2] for row in rows}
    length = SHORT_ID_CHARS
    while len({part[:length] for part in parts.values()}) < len(parts) and length < max(map(len, parts.values())):
        length += 1
    return {sid: part[:length] for sid, part in parts.items()}
