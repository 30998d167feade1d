"""``gitsession redo``"""

from __future__ import annotations

import click

from gitsession.cli.opening import App, with_app
from gitsession.cli.operations import as_object, tell
from gitsession.cli.output import emit, json_option


@click.command()
@json_option
@with_app
def command(app: App, as_json: bool) -> None:
    """Do again what `undo` took back last."""
    operation = app.store().redo()
    if as_json:
        emit("redo", {"operations": [as_object(operation)]})
    else:
        tell("done again", operation)
