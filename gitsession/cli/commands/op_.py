"""``gitsession op log``"""

from __future__ import annotations

import click

from gitsession.cli import exits
from gitsession.cli.context import App, with_app
from gitsession.cli.operations import as_line, as_object
from gitsession.cli.output import emit, json_option, paged, warn


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> int | None:
    """What commands did to branches. Without more: `op log`."""
    return ctx.invoke(log) if ctx.invoked_subcommand is None else None


@command.command()
@click.option("-n", "number", type=click.IntRange(1), help="At most so many.")
@json_option
@with_app
def log(app: App, number: int | None, as_json: bool) -> int:
    """List the commands that moved branches, the newest first."""
    operations = app.store().operations()[:number]
    if as_json:
        emit("op-log", {"operations": [as_object(operation) for operation in operations]})
    elif operations:
        paged([as_line(operation) for operation in operations])
    else:
        warn("no operations yet")
    return exits.OK if operations else exits.NOTHING
