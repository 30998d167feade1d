"""How sessions look: as rows of a table, as objects in a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gitsession.cli.output import clock, paint, shorten, width

if TYPE_CHECKING:
    from gitsession.index.catalogue import Row

_TITLE_MIN = 20


def table(rows: Sequence[Row]) -> list[str]:
    """One line a session, columns as wide as they need to be."""
    cells = [("SESSION", "AGENT", "UPDATED", "ENTRIES", "TITLE")]
    cells += [(row.sid, row.agent, clock(row.updated_ms), f"{row.entries:,}", row.name) for row in rows]
    widths = [max(len(cell[column]) for cell in cells) for column in range(4)]
    room = max(width() - sum(widths) - 8, _TITLE_MIN)
    lines = []
    for number, (sid, agent, updated, entries, title) in enumerate(cells):
        text = "  ".join(
            [
                paint(sid.ljust(widths[0]), fg="yellow" if number else None),
                agent.ljust(widths[1]),
                updated.ljust(widths[2]),
                entries.rjust(widths[3]),
                shorten(title, room),
            ]
        )
        lines.append(text if number else paint(text, bold=True))
    return lines


def as_object(row: Row) -> dict[str, Any]:
    """What ``ls`` says of a session. Times in ms since 1970."""
    return {
        "session": row.sid,
        "title": row.title,
        "first_words": row.first_words,
        "agent": row.agent,
        "source_id": row.source_id,
        "project": row.project,
        "created": row.created_ms,
        "updated": row.updated_ms,
        "entries": row.entries,
        "branches": dict(row.branches),
        "active": row.active,
        "tokens": row.tokens,
    }
