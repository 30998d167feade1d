"""``gitsession ls``"""

from __future__ import annotations

import os
import time

import click

from gitsession.cli import exits
from gitsession.cli.opening import App, with_app
from gitsession.cli.output import current_folder, emit, json_option, paged, warn
from gitsession.cli.sessions import as_object, table

_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class Since(click.ParamType[int]):
    """A date, or how long ago: 2026-11-21, 30m, 12h, 3d, 2w. Gives ms since 1970."""

    name = "when"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value[-1:] in _UNITS and value[:-1].isdigit() and len(value) < 10:
            return int((time.time() - int(value[:-1]) * _UNITS[value[-1]]) * 1000)
        try:
            return int(time.mktime(time.strptime(value, "%Y-%m-%d")) * 1000)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is neither a date (2026-11-21) nor a time ago (30m, 12h, 3d, 2w)", param, ctx)


@click.command()
@click.option("-n", "number", type=click.IntRange(1), help="At most so many.")
@click.option("--agent", help="Only of this agent.")
@click.option("--project", metavar="DIR", help="Only held in this folder or below it.")
@click.option("--here", is_flag=True, help="Only held in this folder or above it.")
@click.option("--since", type=Since(), help="Only with entries since a date, or since 12h, 3d, 2w ago.")
@json_option
@with_app
def command(
    app: App, number: int | None, agent: str | None, project: str | None, here: bool, since: int | None, as_json: bool
) -> int:
    """List sessions, the newest first."""
    rows = app.catalogue().sessions()
    if agent:
        rows = [row for row in rows if row.agent == agent]
    if project:
        folder = os.path.abspath(project)
        rows = [row for row in rows if row.project and f"{row.project}/".startswith(f"{folder.rstrip('/')}/")]
    if here:
        from gitsession.index.catalogue import is_here

        rows = [row for row in rows if is_here(row, current_folder())]
    if since is not None:
        rows = [row for row in rows if row.updated_ms >= since]
    rows = rows[:number]
    if as_json:
        emit("ls", {"sessions": [as_object(row) for row in rows]})
    elif rows:
        paged(table(rows))
    else:
        warn("no sessions")
    app.warn_of_damage()
    return exits.OK if rows else exits.NOTHING
