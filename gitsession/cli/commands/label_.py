"""``gitsession label``"""

from __future__ import annotations

import click

from gitsession.cli.context import App, with_app
from gitsession.cli.output import emit, json_option, say


@click.command()
@click.argument("entry", metavar="SESSION@ENTRY")
@click.argument("text")
@json_option
@with_app
def command(app: App, entry: str, text: str, as_json: bool) -> None:
    """Name an entry. An empty TEXT takes the name away."""
    session, node = app.entry(entry)
    before = session.names().labels.get(node.oid)
    session.label(node, text)
    text = session.names().labels.get(node.oid, "")
    if as_json:
        place = {"session": session.id, "branch": session.branch_name, "leaf": session.resolve("leaf").oid}
        emit("label", {**place, "id": node.oid, "label": text})
        return
    was = f", no longer {before!r}" if before and before != text else ""
    say(f"{node.oid[:8]} {node.subject}" + (f" is {text!r}{was}" if text.strip() else f" has no label{was}"))
