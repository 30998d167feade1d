"""``gitsession switch``"""

from __future__ import annotations

import click

from gitsession.cli.context import App, with_app
from gitsession.cli.output import emit, json_option, say


@click.command()
@click.argument("session", metavar="SESSION")
@click.argument("branch")
@json_option
@with_app
def command(app: App, session: str, branch: str, as_json: bool) -> None:
    """Go on with another branch of a session, on this machine."""
    found = app.session(session)
    leaf = found.switch(branch)
    if as_json:
        emit("switch", {"session": found.id, "branch": branch, "leaf": leaf.oid})
    else:
        say(f"{found.id} is on {branch}: {leaf.oid[:8]} {leaf.subject}")
