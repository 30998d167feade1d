"""The command ``gitsession browse``."""

from __future__ import annotations

import os
import sys

import click

from gitsession.cli import exits
from gitsession.cli.invocation import App
from gitsession.cli.options import command
from gitsession.cli.output import complain, current_folder
from gitsession.errors import Unavailable


@command()
@click.argument("session", metavar="[SESSION]", required=False)
@click.pass_context
def browse_command(ctx: click.Context, session: str | None) -> int:
    """Browse sessions in the terminal: list, branches, conversation, and rewind.

    With SESSION, begin with its branches. Press ? to show the keys of a screen.
    """
    app: App = ctx.obj
    streams = (sys.stdin, sys.stdout, sys.stderr)  # Textual writes to standard error
    if not all(stream.isatty() for stream in streams) or os.environ.get("TERM", "") in ("", "dumb"):
        complain("cannot browse: not a terminal", hint="run `gitsession ls`, `gitsession tree` or `gitsession log`")
        return exits.USAGE
    try:
        from gitsession.browse.app import browse
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "textual":
            raise
        raise Unavailable(
            "cannot browse: Textual is not installed", hint="install with: pip install 'gitsession[tui]'"
        ) from None
    store = app.store()
    store.catalogue()  # updated here, where progress is shown
    found = app.session(session) if session is not None else None
    words, code = browse(store, found, folder=current_folder())
    if not words:
        return code
    from gitsession.cli.commands.exports import resume_command

    with resume_command.make_context("resume", words, parent=ctx.parent) as resuming:
        resume_command.invoke(resuming)
    return exits.OK
