"""The command ``gitsession ls``, and the table of sessions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

import gitsession
from gitsession.cli import exits
from gitsession.cli.invocation import App, Since, here, no_such_agent, project_identity
from gitsession.cli.options import command, option
from gitsession.cli.output import json_option, print_list
from gitsession.cli.text import paint, width
from gitsession.index.catalogue import SHORT_ID_CHARS, Catalogue
from gitsession.index.current_folder import is_of, of_folder
from gitsession.line_text import ago, clock, columns, count, on_a_line, pad, shorten
from gitsession.pattern import pattern

_SORTS: Mapping[str, Callable[[gitsession.Row], Any]] = {
    "updated": lambda row: row.updated_ms,
    "created": lambda row: row.created_ms,
    "entries": lambda row: row.entries,
    "tokens": lambda row: row.tokens,
    "cost": lambda row: row.cost,
    "files": lambda row: row.changed,
    "title": lambda row: row.name.casefold(),
    "agent": lambda row: row.agent,
    "project": lambda row: row.project or "",
}


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
@option("--until", type=Since(), help="Show only sessions that began before WHEN.")
@option("--model", metavar="TEXT", help="Show only sessions with answers of a model whose name contains TEXT.")
@option("--file", metavar="FILE", help="Show only sessions that changed this file, or a file in this folder.")
@option("--branch", metavar="NAME", help="Show only sessions with a branch of this name.")
@option("--label", metavar="TEXT", help="Show only sessions with a label that contains TEXT.")
@option("--commit", metavar="REV", help="Show only the sessions that a commit of the current repository names.")
@option(
    "--sort",
    type=click.Choice([*_SORTS, *(f"-{name}" for name in _SORTS)]),
    metavar="KEY",
    default="-updated",
    help=f"Sort by KEY: {', '.join(_SORTS)}. Prefix KEY with - for descending order. Default: -updated.",
)
@option("--format", metavar="FORMAT", help="Print each session in this format, such as '%(session) %(title)'.")
@option("-z", "nul", is_flag=True, help="With --format, end each line with a NUL byte.")
@option("--trash", "in_trash", is_flag=True, help="List the sessions in the trash.")
@option("--archived", "in_archive", is_flag=True, help="List the sessions in the archive.")
@json_option
@click.pass_obj
def ls_command(
    app: App, /, number: int | None, sort: str, format: str | None, nul: bool, in_trash: bool, in_archive: bool,
    **filters: Any,
) -> int:  # fmt: skip
    """List sessions, newest first."""
    if in_trash or in_archive:
        others = any(value for name, value in filters.items() if name != "since") or format or sort != "-updated"
        if others or (in_trash and in_archive):
            raise click.UsageError("--trash and --archived can be combined only with -n and --since")
        return _away(app, number, filters["since"], archive=in_archive)
    if nul and format is None:
        raise click.UsageError("-z can be combined only with --format")
    is_filtered = sort != "-updated" or any(value for value in filters.values())
    rows = found = app.sessions(None if is_filtered else number)
    if is_filtered:
        rows = list(_filtered(app.catalogue(), found, **filters))
    if sort != "-updated":
        rows.sort(key=_SORTS[sort.removeprefix("-")], reverse=sort.startswith("-"))
    rows = rows[:number]
    if format is not None:
        for row in rows:
            click.echo(formatted(row, format) + ("\0" if nul else "\n"), nl=False)
        return exits.OK if rows else exits.NOTHING
    total = count(len(found), "session")
    nothing = no_such_agent(filters["agent"] or "", found) or f"no sessions found ({total} in {app.location})"
    code = print_list("ls", "sessions", map(as_object, rows), table(rows), nothing=nothing)
    app.warn_of_damage()
    return code


def _filtered(
    catalogue: Catalogue, rows: Sequence[gitsession.Row], *, agent: str | None, project: str | None, in_folder: bool,
    since: int | None, until: int | None, model: str | None, file: str | None, branch: str | None, label: str | None,
    commit: str | None,
) -> Iterator[gitsession.Row]:  # fmt: skip
    """Yield the sessions that pass all filters, in the order of ``rows``."""
    if in_folder:
        rows = of_folder(rows, here())
    identity = project_identity(project)
    selected = [_sessions_of_commit(commit)] if commit else []
    if model or file or label:
        from gitsession.index import activity, names

        selected += [
            *([activity.sessions_with_model(catalogue.db, model)] if model else []),
            *([activity.sessions_that_changed(catalogue.db, os.path.abspath(file), file)] if file else []),
            *([names.sessions_with_label(catalogue, label)] if label else []),
        ]
    for row in rows:
        if (
            (not agent or row.agent == agent)
            and (not project or is_of(row, project, identity))
            and (since is None or row.updated_ms >= since)
            and (until is None or row.created_ms < until)
            and (not branch or branch in row.branches)
            and all(row.sid in sids for sids in selected)
        ):
            yield row


def _sessions_of_commit(commit: str) -> set[str]:
    """Return the ids of the sessions that a commit's message names. Raises ``UsageError`` for an unknown commit."""
    from gitsession.sync import commit_trailers

    found = commit_trailers.sessions_of(os.getcwd(), commit)
    if found is None:
        raise click.UsageError(f"unknown commit '{commit}' in the current folder")
    return found


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

_WIDE = 100
"""Minimum number of columns for a table with numbers. A narrower table has only times, agents, and projects."""

_AGENT_MAX, _PROJECT_MAX = 12, 20


def table(rows: Sequence[gitsession.Row]) -> Iterator[str]:
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
        shown["TOKENS"] = [short(row.tokens) for row in rows]
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


_NUMBERS = frozenset({"TOKENS", "ENTRIES", "BRANCHES", "FILES", "COST"})


def short_ids(rows: Iterable[gitsession.Row]) -> dict[str, str]:
    """Return a short id of each session: the beginning of the part after the date that no other of ``rows`` has.

    A session that is not in ``rows`` hardly ever begins in the same way.
    """
    parts = {row.sid: row.sid.rpartition("-")[2] for row in rows}
    length = SHORT_ID_CHARS
    while len({part[:length] for part in parts.values()}) < len(parts) and length < max(map(len, parts.values())):
        length += 1
    return {sid: part[:length] for sid, part in parts.items()}


# ---- formats


def formatted(row: gitsession.Row, format: str) -> str:
    """Return the fields of a session in the format of the user, such as ``%(session) %(title)``.

    Raises ``UsageError`` if the format has an unknown field.
    """
    return _ATOM.sub(lambda found: "%" if found[0] == "%%" else on_a_line(_field(row, found[1])), format)


_ATOM = pattern(r"%%|%\(([^()]*)\)")
FIELDS: Mapping[str, Callable[[gitsession.Row], object]] = {
    "session": lambda row: row.sid,
    "title": lambda row: row.name,
    "agent": lambda row: row.agent,
    "source_id": lambda row: row.source_id,
    "project": lambda row: row.project,
    "identity": lambda row: row.identity,
    "created": lambda row: clock(row.created_ms),
    "created:unix": lambda row: row.created_ms // 1000,
    "updated": lambda row: clock(row.updated_ms),
    "updated:relative": lambda row: ago(row.updated_ms, time.time_ns() // 1_000_000),
    "updated:unix": lambda row: row.updated_ms // 1000,
    "entries": lambda row: row.entries,
    "branches": lambda row: len(row.branches),
    "branch": lambda row: row.active,
    "tip": lambda row: row.branches.get(row.active),
    "tokens": lambda row: row.tokens,
    "cost": lambda row: f"{row.cost:.4f}",
    "files": lambda row: row.changed,
    "parent": lambda row: row.parent,
    "continues": lambda row: row.continues,
}
"""The fields of ``--format``."""


def _field(row: gitsession.Row, name: str) -> str:
    if name not in FIELDS:
        raise click.UsageError(f"unknown field '{name}' in --format (fields: {', '.join(FIELDS)})")
    value = FIELDS[name](row)
    return "" if value is None else str(value)


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
        "cost": row.cost,
        "files": row.changed,
    }
