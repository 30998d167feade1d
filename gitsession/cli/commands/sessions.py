"""The command ``gitsession ls``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from gitsession.cli import exits
from gitsession.cli.invocation import App, Since, here, no_such_agent, project_identity
from gitsession.cli.options import agent_option, command, file_option, here_option, option, project_option
from gitsession.cli.output import json_option, print_list
from gitsession.cli.session_table import table
from gitsession.index.catalogue import Catalogue, Row
from gitsession.index.current_folder import is_of, of_folder
from gitsession.line_text import clock, count, shorten

if TYPE_CHECKING:
    from gitsession.api.trash import RemovedSession

_SORTS: Mapping[str, Callable[[Row], Any]] = {
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


class SortKey(click.Choice[str]):
    """The key of ``--sort``. The keys are listed in the help, because they are too many for an error message."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            raise click.UsageError(f"unknown key '{value}' in --sort", ctx)
        return super().convert(value, param, ctx)


@command()
@option("-n", "number", type=click.IntRange(1), metavar="N", help="Show at most this many sessions.")
@agent_option
@project_option
@here_option
@option(
    "--since",
    type=Since(),
    help="Show only sessions with entries since WHEN: a date (2026-11-21) or an age (12h, 3d, 2w).",
)
@option("--until", type=Since(), help="Show only sessions that began before WHEN.")
@option("--model", metavar="TEXT", help="Show only sessions with answers of a model whose name contains TEXT.")
@file_option
@option("--branch", metavar="NAME", help="Show only sessions with a branch of this name.")
@option("--label", metavar="TEXT", help="Show only sessions with a label that contains TEXT.")
@option("--todo", "has_todo", is_flag=True, help="Show only sessions whose todo list has open items.")
@option("--mark", metavar="NAME", help="Show only sessions with this mark, such as shared or archived.")
@option("--commit", metavar="REV", help="Show only the sessions that a commit of the current repository names.")
@option(
    "--sort",
    type=SortKey([*_SORTS, *(f"-{name}" for name in _SORTS)]),
    metavar="KEY",
    default="-updated",
    help=f"Sort by KEY: {', '.join(_SORTS)}. Prefix KEY with - for descending order. Default: -updated.",
)
@option("--format", metavar="FORMAT", help="Print each session in this format, such as '%(session) %(title)'. "
        "Fields: session, title, agent, source_id, project, identity, created, created:unix, updated, "
        "updated:relative, updated:unix, entries, branches, branch, tip, tokens, cost, files, added, removed, mode, "
        "todo, marks, parent, continues.")  # fmt: skip
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
    if nul and format is None:
        raise click.UsageError("-z can be combined only with --format")
    if in_trash and in_archive:
        raise click.UsageError("--trash and --archived cannot be combined")
    is_filtered = sort != "-updated" or any(value for value in filters.values())
    catalogue: Catalogue | None
    if in_trash or in_archive:
        store, name = app.store(), "archive" if in_archive else "trash"
        if not is_filtered and format is None:
            removed = store.archive.list(number) if in_archive else store.trash.list()[:number]
            return _print_removed(removed, in_archive=in_archive, nothing=f"the {name} is empty")
        catalogue = (store.archive if in_archive else store.trash).catalogue()
        found = catalogue.sessions()
        nothing = f"no sessions found ({count(len(found), 'session')} in the {name})"
    else:
        found = app.sessions(None if is_filtered else number)
        catalogue = app.catalogue() if is_filtered else None
        nothing = f"no sessions found ({count(len(found), 'session')} in {app.location})"
    rows = found if catalogue is None else list(_filtered(catalogue, found, **filters))
    if sort != "-updated":
        rows.sort(key=_SORTS[sort.removeprefix("-")], reverse=sort.startswith("-"))
    rows = rows[:number]
    if format is not None:
        return _print_formatted(rows, format, end="\0" if nul else "\n")
    nothing = no_such_agent(filters["agent"], found) or nothing
    if in_trash or in_archive:
        return _print_removed(rows, in_archive=in_archive, nothing=nothing)
    code = print_list("ls", "sessions", map(as_object, rows), table(rows), nothing=nothing)
    app.warn_of_damage()
    return code


def _filtered(
    catalogue: Catalogue, rows: Sequence[Row], *, agent: str, project: str, in_folder: bool,
    since: int | None, until: int | None, model: str | None, file: str, branch: str | None, label: str | None,
    has_todo: bool, mark: str | None, commit: str | None,
) -> Iterator[Row]:  # fmt: skip
    """Yield the sessions that pass all filters, in the order of ``rows``."""
    if in_folder:
        rows = of_folder(rows, here())
    identity = project_identity(project)
    selected = [_sessions_of_commit(commit)] if commit else []
    if model or file or label:
        from gitsession.index import activity, file_changes, names

        selected += [
            *([activity.sessions_with_model(catalogue.db, model)] if model else []),
            *([file_changes.sessions_that_changed(catalogue.db, os.path.abspath(file), file)] if file else []),
            *([names.sessions_with_label(catalogue, label)] if label else []),
        ]
    for row in rows:
        if (
            (not agent or row.agent == agent)
            and (not project or is_of(row, project, identity))
            and (since is None or row.updated_ms >= since)
            and (until is None or row.created_ms < until)
            and (not branch or branch in row.branches)
            and (not has_todo or row.done < row.todos)
            and (not mark or mark in row.marked.split())
            and all(row.sid in sids for sids in selected)
        ):
            yield row


def _sessions_of_commit(commit: str) -> set[str]:
    """Return the ids of the sessions that a commit's message names. Raises ``UsageError`` for an unknown commit."""
    from gitsession.sync import code_commits

    found = code_commits.sessions_of(os.getcwd(), commit)
    if found is None:
        raise click.UsageError(f"unknown commit '{commit}' in the current folder")
    return found


def _print_formatted(rows: Iterable[Row], format: str, *, end: str) -> int:
    from gitsession.cli.session_format import formatted

    code = exits.NOTHING
    for row in rows:
        click.echo(formatted(row, format) + end, nl=False)
        code = exits.OK
    return code


def _print_removed(rows: Sequence[Row | RemovedSession], *, in_archive: bool, nothing: str) -> int:
    """Print sessions in the archive or in the trash."""
    objects = [
        {"session": row.sid, "title": row.name, "entries": row.entries, "updated": row.updated_ms} for row in rows
    ]
    lines = [f"{row.sid}  {clock(row.updated_ms)}  {row.entries:>7,}  {shorten(row.name, 60)}" for row in rows]
    return print_list("ls-archived" if in_archive else "ls-trash", "sessions", objects, lines, nothing=nothing)


def as_object(row: Row) -> dict[str, Any]:
    """Return the JSON object of a session in the output of ``ls``. Times are Unix times in ms."""
    return {
        "session": row.sid,
        "title": row.title,
        "first_words": row.first_words,
        "agent": row.agent,
        "source_id": row.source_id or row.key,
        "project": row.project,
        "identity": row.identity,
        "parent": f"{row.agent}:{row.parent}" if row.parent and row.source_id else row.parent,
        "continues": row.continues,
        "created": row.created_ms,
        "updated": row.updated_ms,
        "entries": row.entries,
        "branches": dict(row.branches),
        "active": row.active,
        "tokens": row.tokens,
        "cost": row.cost,
        "files": row.changed,
        "added": row.added,
        "removed": row.removed,
        "mode": row.mode,
        "todo": {"done": row.done, "items": row.todos} if row.todos else None,
        "marks": row.marked.split(),
    }
