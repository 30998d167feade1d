"""``gitsession name``"""

from __future__ import annotations

import click

from gitsession.cli.context import App, with_app
from gitsession.cli.output import emit, json_option, say


@click.command()
@click.argument("session", metavar="SESSION")
@click.argument("text")
@json_option
@with_app
def command(app: App, session: str, text: str, as_json: bool) -> None:
    """Name a session. An empty TEXT takes the name away."""
    found = app.session(session)
    found.rename(text)
    text = found.names().title or ""
    if as_json:
        place = {"session": found.id, "branch": found.branch_name, "leaf": found.resolve("leaf").oid}
        emit("name", {**place, "title": text})
    else:
        say(f"{found.id} is {text!r}" if text.strip() else f"{found.id} has no name")
