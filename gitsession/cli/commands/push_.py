"""``gitsession push``"""

from __future__ import annotations

import click

from gitsession.cli import syncing, watching
from gitsession.cli.context import App, with_app
from gitsession.cli.output import json_option
from gitsession.errors import NotFound


@click.command()
@click.argument("remote", default="")
@click.argument("sessions", metavar="[SESSION]...", nargs=-1)
@syncing.yes_option
@json_option
@with_app
def command(app: App, remote: str, sessions: tuple[str, ...], consent: bool, as_json: bool) -> int:
    """Send what REMOTE lacks, of all sessions or of those named. Nothing is forced, nothing is taken in."""
    try:
        if not sessions:  # who names sessions has chosen what to send
            syncing.ask_first(app, remote, consent=consent)
        with watching.progress(quiet=as_json):
            report = app.store().remotes.push(remote, sessions=sessions, talk=syncing.talk())
    except NotFound as error:
        if not remote or sessions:
            raise
        raise NotFound(str(error), hint=f"{error.hint}; some sessions only: `gitsession push REMOTE SESSION`") from None
    return syncing.tell(app, "push", report, as_json=as_json)
