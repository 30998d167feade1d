"""``gitsession bundle``"""

from __future__ import annotations

from pathlib import Path

import click

from gitsession.cli import syncing, watching
from gitsession.cli.context import App, with_app
from gitsession.cli.output import count, emit, json_option, say


@click.group()
def command() -> None:
    """Sessions in one file, for a stick or a mail: git's own bundle."""


@command.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("sessions", metavar="[SESSION]...", nargs=-1)
@json_option
@with_app
def create(app: App, file: Path, sessions: tuple[str, ...], as_json: bool) -> None:
    """Put sessions, by default all, into a new FILE."""
    made = app.store().remotes.bundle(file, sessions)
    if as_json:
        emit("bundle", {"file": str(file), "sessions": made})
    else:
        say(f"{count(len(made), 'session')} in {file} ({file.stat().st_size:,} bytes)")


@command.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@json_option
@with_app
def take(app: App, file: Path, as_json: bool) -> int:
    """Take in what is in FILE. Where both went on, theirs comes in beside ours."""
    with watching.progress(quiet=as_json):
        report = app.store(make=True).remotes.unbundle(file, talk=syncing.talk())
    return syncing.tell(app, "bundle-take", report, as_json=as_json)
