"""``gitsession sync``"""

from __future__ import annotations

import click

from gitsession.cli import syncing, watching
from gitsession.cli.context import App, with_app
from gitsession.cli.output import json_option


@click.command()
@click.argument("remote", default="")
@syncing.dry_run_option
@syncing.yes_option
@json_option
@with_app
def command(app: App, remote: str, dry_run: bool, consent: bool, as_json: bool) -> int:
    """Take in what REMOTE has and send what it lacks, until both have the same. By default the home remote."""
    if dry_run:
        return syncing.tell_plan(app, remote, as_json=as_json)
    syncing.ask_first(app, remote, consent=consent)
    with watching.progress(quiet=as_json):
        report = app.store().remotes.sync(remote, talk=syncing.talk())
    return syncing.tell(app, "sync", report, as_json=as_json)
