"""``gitsession redo``"""

from __future__ import annotations

from pathlib import Path

import click

from gitsession.cli.commands.checkpoint_ import workspace_option
from gitsession.cli.opening import App, with_app
from gitsession.cli.operations import refuse_unfinished, tell_done, told_if_stopped
from gitsession.cli.output import json_option


@click.command()
@workspace_option
@json_option
@with_app
def command(app: App, workspace: Path | None, as_json: bool) -> None:
    """Do again what `undo` took back last."""
    refuse_unfinished(app, workspace)
    with told_if_stopped(app):
        done = app.store().redo(workspace)
    tell_done("redo", "done again", done, as_json=as_json)
