"""``gitsession ls``"""

from __future__ import annotations

from pathlib import Path

import click

from gitsession.cli import exits
from gitsession.cli.context import App, here, no_such_agent, with_app
from gitsession.cli.output import clock, emit, json_option, paged, shorten, warn
from gitsession.cli.sessions import as_object, table
from gitsession.cli.time_argument import Since


@click.command()
@click.option("-n", "number", type=click.IntRange(1), help="At most so many.")
@click.option("--agent", help="Only of this agent.")
@click.option("--project", metavar="DIR", help="Only of the project of this folder, or held below it.")
@click.option("--here", "held_here", is_flag=True, help="Only held in this folder or above it, or of its project.")
@click.option("--since", type=Since(), help="Only with entries since a date, or since 12h, 3d, 2w ago.")
@click.option("--trash", "in_trash", is_flag=True, help="What is in the trash.")
@click.option("--archived", "in_archive", is_flag=True, help="What is archived.")
@json_option
@with_app
def command(
    app: App,
    number: int | None,
    agent: str | None,
    project: str | None,
    held_here: bool,
    since: int | None,
    in_trash: bool,
    in_archive: bool,
    as_json: bool,
) -> int:
    """List sessions, the newest first."""
    if in_trash or in_archive:
        if agent or project or held_here or (in_trash and in_archive):
            raise click.UsageError("--trash, or --archived, goes with -n and --since")
        return _away(app, number, since, archive=in_archive, as_json=as_json)
    rows = found = app.catalogue().sessions()
    if agent:
        rows = [row for row in rows if row.agent == agent]
    if project:
        from gitsession.discovery.projects import identity_of
        from gitsession.index.current_folder import is_of

        identity = identity_of(Path(project))
        rows = [row for row in rows if is_of(row, project, identity)]
    if held_here:
        from gitsession.index.current_folder import of_folder

        rows = of_folder(rows, here())
    if since is not None:
        rows = [row for row in rows if row.updated_ms >= since]
    rows = rows[:number]
    if as_json:
        emit("ls", {"sessions": [as_object(row) for row in rows]})
    elif rows:
        paged(table(rows))
    else:
        warn(no_such_agent(agent or "", found) or "no sessions")
    app.warn_of_damage()
    return exits.OK if rows else exits.NOTHING


def _away(app: App, number: int | None, since: int | None, *, archive: bool, as_json: bool) -> int:
    """What is in the trash, or archived."""
    found = app.store().archive.list(None if since is not None else number) if archive else app.store().trash.list()
    rows = [row for row in found if since is None or row.updated_ms >= since][:number]
    if as_json:
        documents = [
            {"session": row.sid, "title": row.name, "entries": row.entries, "updated": row.updated_ms} for row in rows
        ]
        emit("ls-archived" if archive else "ls-trash", {"sessions": documents})
    elif rows:
        paged([f"{row.sid}  {clock(row.updated_ms)}  {row.entries:>7,}  {shorten(row.name, 60)}" for row in rows])
    else:
        warn("nothing is archived" if archive else "the trash is empty")
    return exits.OK if rows else exits.NOTHING
