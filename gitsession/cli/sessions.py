"""How sessions look: as rows of a table, as objects in a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gitsession.cli.output import clock, paint, shorten, width

if TYPE_CHECKING:
    from gitsession.index.catalogue import Row

_TITLE_MIN = 20
_BEGUN = "↳ "
"""Before the title of a session that another one began, or that continues another one."""

_WIDE = 130
"""From how many columns on there is room for the folder, too."""


def table(rows: Sequence[Row]) -> list[str]:
    """One line a session, columns as wide as they need to be."""
    wide = width() >= _WIDE
    cells = [("SESSION", "AGENT", "UPDATED", "ENTRIES", "TOKENS", *(["FOLDER"] if wide else []), "TITLE")]
    for row in rows:
        folder = [shorten(row.project or "-", _WIDE // 4)] if wide else []
        sizes = f"{row.entries:,}", short(row.tokens)
        title = f"{_BEGUN}{row.name}" if row.parent or row.continues else row.name
        cells.append((row.sid, row.agent, clock(row.updated_ms), *sizes, *folder, title))
    widths = [max(len(cell[column]) for cell in cells) for column in range(len(cells[0]) - 1)]
    room = max(width() - sum(widths) - 2 * len(widths), _TITLE_MIN)
    lines = []
    for number, (sid, agent, updated, entries, tokens, *folder, title) in enumerate(cells):
        first = sid.ljust(widths[0])
        rest = [agent.ljust(widths[1]), updated.ljust(widths[2]), entries.rjust(widths[3]), tokens.rjust(widths[4])]
        rest += [cell.ljust(widths[5]) for cell in folder]
        text = "  ".join([paint(first, fg="yellow") if number else first, *rest, shorten(title, room)])
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
