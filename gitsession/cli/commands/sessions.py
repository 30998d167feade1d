"""The command ``gitsession ls``, and the table of sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

import gitsession
from gitsession.cli.invocation import App, Since, here, no_such_agent
from gitsession.cli.options import command, option
from gitsession.cli.output import json_option, print_list
from gitsession.cli.text import clock, columns, count, on_a_line, pad, paint, shorten, width
from gitsession.index.current_folder import is_of, of_folder


@command()
@option("-n", "number", type=click.IntRange(1), metavar="N", help="Show at most this many sessions.")
@option("--agent", metavar="AGENT", help="Show only sessions of this agent.")
@option(
    "--project",
    metavar="PROJECT",
    help="Show only sessions of this project: a folder, or an identity such as github.com/owner/name.",
)
@option(
    "--here",
    "in_folder",
    is_flag=True,
    help="Show only sessions of the current folder, its parent folders, and its project.",
)
@option(
    "--since",
    type=Since(),
    help="Show only sessions with entries since WHEN: a date (2026-11-21) or an age (12h, 3d, 2w).",
)
@option("--trash", "in_trash", is_flag=True, help="List the sessions in the trash.")
@option("--archived", "in_archive", is_flag=True, help="List the sessions in the archive.")
@json_option
@click.pass_obj
def ls_command(
    app: App,
    number: int | None,
    agent: str | None,
    project: str | None,
    in_folder: bool,
    since: int | None,
    in_trash: bool,
    in_archive: bool,
) -> int:
    """List sessions, newest first."""
    if in_trash or in_archive:
        if agent or project or in_folder or (in_trash and in_archive):
            raise click.UsageError("--trash and --archived can be combined only with -n and --since")
        return _away(app, number, since, archive=in_archive)
    rows = found = app.catalogue().sessions()
    if agent:
        rows = [row for row in rows if row.agent == agent]
    if project:
        from pathlib import Path

        from gitsession.discovery.projects import identity_of

        identity = identity_of(Path(project))
        rows = [row for row in rows if is_of(row, project, identity)]
    if in_folder:
        rows = of_folder(rows, here())
    if since is not None:
        rows = [row for row in rows if row.updated_ms >= since]
    rows = rows[:number]
    total = count(len(found), "session")
    nothing = no_such_agent(agent or "", found) or f"no sessions found ({total} in {app.location})"
    code = print_list("ls", "sessions", map(as_object, rows), table(rows), nothing=nothing)
    app.warn_of_damage()
    return code


def _away(app: App, number: int | None, since: int | None, *, archive: bool) -> int:
    """List the sessions in the trash or the archive."""
    found = app.store().archive.list(None if since is not None else number) if archive else app.store().trash.list()
    rows = [row for row in found if since is None or row.updated_ms >= since][:number]
    schema, nothing = ("ls-archived", "the archive is empty") if archive else ("ls-trash", "the trash is empty")
    objects = [
        {"session": row.sid, "title": row.name, "entries": row.entries, "updated": row.updated_ms} for row in rows
    ]
    lines = [f"{row.sid}  {clock(row.updated_ms)}  {row.entries:>7,}  {shorten(row.name, 60)}" for row in rows]
    return print_list(schema, "sessions", objects, lines, nothing=nothing)


_TITLE_MIN = 12
_BEGUN = "↳ "
"""Mark before the title of a session that another session started or that continues another session."""

_WIDE = 130
"""Minimum number of columns for a table with folders."""

_NARROW = 100
"""Minimum number of columns for a table with times and numbers of entries. A narrower table has only dates."""


def table(rows: Sequence[gitsession.Row]) -> Iterator[str]:
    """Yield a header and a line for each session. If there are no sessions, yield nothing."""
    if not rows:
        return
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
    for number, (*row_cells, title) in enumerate(cells):
        padded = [
            cell.rjust(size) if name in ("ENTRIES", "TOKENS") else pad(cell, size)
            for name, cell, size in zip(("SESSION", *names), row_cells, widths, strict=True)
        ]
        first = paint(padded[0], fg="yellow") if number else padded[0]
        text = "  ".join([first, *padded[1:], shorten(title, room)])
        yield text if number else paint(text, bold=True)


def short(tokens: int) -> str:
    """Return a number of tokens as short text, such as ``812``, ``61k`` or ``1.2M``; ``-`` if it is 0."""
    for size, unit in ((10**6, "M"), (10**3, "k")):
        if tokens >= size:
            return f"{tokens / size:.1f}{unit}" if tokens < 10 * size else f"{tokens // size}{unit}"
    return str(tokens) if tokens else "-"


def as_object(row: gitsession.Row) -> dict[str, Any]:
    """Return the JSON object of a session in the output of ``ls``. Times are Unix times in ms."""
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
