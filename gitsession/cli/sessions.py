"""How sessions look: as rows of a table, as objects in a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gitsession.cli.output import clock, columns, on_a_line, pad, paint, shorten, width

if TYPE_CHECKING:
    from gitsession.index.catalogue import Row

_TITLE_MIN = 12
_BEGUN = "↳ "
"""Before the title of a session that another one began, or that continues another one."""

_WIDE = 130
"""From how many columns on there is room for the folder, too."""

_NARROW = 100
"""Below so many columns the time is a date, and the entries are left out."""


def table(rows: Sequence[Row]) -> list[str]:
    """One line a session, columns as wide as they need to be."""
    wide, narrow = width() >= _WIDE, width() < _NARROW
    names = ("AGENT", "UPDATED", *([] if narrow else ["ENTRIES"]), "TOKENS", *(["FOLDER"] if wide else []))
    cells = [("SESSION", *names, "TITLE")]
    for row in rows:
        updated = clock(row.updated_ms)[: len("2026-02-01") if narrow else None]
        sizes = [*([] if narrow else [f"{row.entries:,}"]), short(row.tokens)]
        folder = [shorten(row.project or "-", _WIDE // 4)] if wide else []
        title = f"{_BEGUN}{row.name}" if row.parent or row.continues else row.name
        cells.append((row.sid, on_a_line(row.agent), updated, *sizes, *folder, title))
    widths = [max(columns(cell[column]) for cell in cells) for column in range(len(names) + 1)]
    room = max(width() - sum(widths) - 2 * len(widths), _TITLE_MIN)
    lines = []
    for number, (*row_cells, title) in enumerate(cells):
        padded = [
            cell.rjust(size) if name in ("ENTRIES", "TOKENS") else pad(cell, size)
            for name, cell, size in zip(("SESSION", *names), row_cells, widths, strict=True)
        ]
        first = paint(padded[0], fg="yellow") if number else padded[0]
        text = "  ".join([first, *padded[1:], shorten(title, room)])
        lines.append(text if number else paint(text, bold=True))
    return lines


def short(tokens: int) -> str:
    """``812``, ``61k``, ``1.2M``; ``-`` where nobody counted."""
    for size, unit in ((10**6, "M"), (10**3, "k")):
        if tokens >= size:
            return f"{tokens / size:.1f}{unit}" if tokens < 10 * size else f"{tokens // size}{unit}"
    return str(tokens) if tokens else "-"


def as_object(row: Row) -> dict[str, Any]:
    """What ``ls`` says of a session. Times in ms since 1970."""
    return {
        "session": row.sid,
        "title": row.title,
        "first_words": row.first_words,
        "agent": row.agent,
        "source_id": row.source_id,
        "project": row.project,
        "identity": row.identity,
        "parent": f"{row.agent}:{row.parent}" if row.parent else None,
        "continues": row.continues,
        "created": row.created_ms,
        "updated": row.updated_ms,
        "entries": row.entries,
        "branches": dict(row.branches),
        "active": row.active,
        "tokens": row.tokens,
    }
