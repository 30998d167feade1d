"""``gitsession restore``"""

from __future__ import annotations

import click

from gitsession.cli.opening import App, with_app
from gitsession.cli.output import emit, json_option, say


@click.command()
@click.argument("session")
@json_option
@with_app
def command(app: App, session: str, as_json: bool) -> None:
    """Take a session out of the trash, or out of the archive. SESSION: a unique part of its id, as `ls --trash` or
    `ls --archived` lists it.
    """
    sid = app.store().restore(session)
    if as_json:
        emit("restore", {"session": sid})
    else:
        say(f"{sid} is back")
