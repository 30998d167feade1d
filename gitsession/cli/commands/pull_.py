"""``gitsession pull``"""

from __future__ import annotations

import click

from gitsession.cli import syncing, watching
from gitsession.cli.context import App, with_app
from gitsession.cli.output import json_option


@click.command()
@click.argument("remote", default="")
@json_option
@with_app
def command(app: App, remote: str, as_json: bool) -> int:
    """Take in what REMOTE has, by default the home remote. Where both went on, both lines are kept."""
    with watching.progress(quiet=as_json):
        report = app.store().remotes.pull(remote, talk=syncing.talk())
    return syncing.tell(app, "pull", report, as_json=as_json)
