"""``gitsession hook``: its words for people. What an agent runs does not come this way (``cli/hooking``)."""

from __future__ import annotations

import os

import click

from gitsession.cli import hooking
from gitsession.cli.context import App, with_app


@click.command()
@click.argument("event")
@click.option("--from", "agent", metavar="AGENT", help="Whose event it is.")
@with_app
def command(app: App, event: str, agent: str | None) -> int:
    """Keep what an agent says of EVENT, as JSON on standard input, until a store is opened.

    Says nothing, always ends with 0; what goes wrong, `doctor` tells. `gitsession enable` has an agent run it.
    """
    hooking.run(["--store", os.fspath(app.path), "hook", event, *(["--from", agent] if agent else [])])
    return 0
