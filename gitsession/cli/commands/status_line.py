"""The command ``gitsession status-line``."""

from __future__ import annotations

import click

from gitsession.cli import agent_status, exits
from gitsession.cli.invocation import App, here
from gitsession.cli.options import command, option
from gitsession.cli.output import emit, json_option, say
from gitsession.errors import GitSessionError


@command()
@click.argument("session", metavar="[SESSION]", required=False)
@option("--window", type=click.IntRange(1), metavar="TOKENS", help="Size of the model's context window, in tokens.")
@json_option
@click.pass_obj
def status_line_command(app: App, session: str | None, window: int | None) -> int:
    """Print one line for the status bar of an agent: model, tokens in the context, cost, session, and branch.

    SESSION defaults to the session that Claude Code names on standard input, or else to @. The values that Claude Code
    states are shown, and the stored ones otherwise: agents' files are not read, so that the command is fast.
    """
    from gitsession.index.catalogue import Catalogue

    given = agent_status.given() if session is None else {}
    app.require()
    catalogue = Catalogue(app.location)  # not updated
    try:
        is_named = agent_status.names_session(given)
        row = agent_status.find(catalogue, given) if is_named else catalogue.find(session or "@", here())
    except GitSessionError:
        row = None  # a new session is not stored yet
        if session is not None:
            row, _ = app.row(session, restores=False)
            catalogue = app.catalogue()
    status = agent_status.document(catalogue, row, given, window)
    emit("status-line", status)
    say(agent_status.line(status, given))
    return exits.OK
