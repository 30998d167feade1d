"""``gitsession init``"""

from __future__ import annotations

import os

import click

from gitsession.cli.context import App, with_app
from gitsession.cli.output import say


@click.command()
@with_app
def command(app: App) -> None:
    """Make an empty store. One that is there already stays as it is."""
    was_there = os.path.lexists(app.path) and not (app.path.is_dir() and not any(app.path.iterdir()))
    app.store(make=True)
    say(f"{app.path} is a store already" if was_there else f"made an empty store: {app.path}")
