"""``gitsession fork``"""

from __future__ import annotations

import click

from gitsession.cli.context import App, with_app
from gitsession.cli.output import emit, json_option, say


@click.command()
@click.argument("session", metavar="SESSION[@ENTRY]")
@json_option
@with_app
def command(app: App, session: str, as_json: bool) -> None:
    """Begin a session of its own on the line of another. What came before is shared, not copied."""
    found, node = app.entry(session)
    forked = found.fork(node)
    leaf = forked.resolve("leaf")
    if as_json:
        emit("fork", {"session": forked.id, "branch": forked.branch_name, "leaf": leaf.oid})
    else:
        say(f"{forked.id} begins at {node.oid[:8]} {node.subject}")
