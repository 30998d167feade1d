"""``gitsession redo``"""

from __future__ import annotations

from pathlib import Path

import click

from gitsession.cli.commands.checkpoint_ import workspace_option
from gitsession.cli.context import App, with_app
from gitsession.cli.operations import refuse_unfinished, scope_arguments, scope_of, tell_done, told_if_stopped
from gitsession.cli.output import json_option


@click.command()
@scope_arguments
@workspace_option
@json_option
@with_app
def command(app: App, session: str | None, everywhere: bool, workspace: Path | None, as_json: bool) -> None:
    """Do again what `undo` took back last, on a session of this folder or its project, or on SESSION."""
    refuse_unfinished(app, workspace)
    with told_if_stopped(app):
        done = app.store().redo(workspace, **scope_of(session, everywhere))
    tell_done("redo", "done again", done, as_json=as_json)
