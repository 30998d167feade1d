"""``gitsession undo``"""

from __future__ import annotations

import click

from gitsession.cli.opening import App, with_app
from gitsession.cli.operations import as_object, tell
from gitsession.cli.output import emit, json_option


@click.command()
@json_option
@with_app
def command(app: App, as_json: bool) -> None:
    """Take back the last command that moved branches. Nothing is lost: `redo` does it again."""
    operation = app.store().undo()
    if as_json:
        emit("undo", {"operations": [as_object(operation)]})
    else:
        tell("undone", operation)
