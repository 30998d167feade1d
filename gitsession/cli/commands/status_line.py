"""The command ``gitsession status-line``."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from gitsession.cli import exits
from gitsession.cli.invocation import App, here
from gitsession.cli.options import command, option
from gitsession.cli.output import emit, json_option, say
from gitsession.cli.text import width
from gitsession.errors import GitSessionError
from gitsession.line_text import shorten

_INPUT_BYTES_MAX = 1 << 20


@command()
@click.argument("session", metavar="[SESSION]", required=False)
@option("--window", type=click.IntRange(1), metavar="TOKENS", help="Size of the model's context window, in tokens.")
@json_option
@click.pass_obj
def status_line_command(app: App, session: str | None, window: int | None) -> int:
    """Print one line for the status bar of an agent: tokens in the context, cost, session, and branch.

    SESSION defaults to the session that Claude Code names on standard input, or else to @. The stored state is shown:
    agents' files are not read, so that the command is fast.
    """
    from gitsession.index.catalogue import Catalogue

    given = _given() if session is None else {}
    agents_id = given.get("session_id")
    named = f"claude:{agents_id}" if isinstance(agents_id, str) else "@"
    app.require()
    catalogue = Catalogue(app.location)  # not updated
    try:
        row = catalogue.find(session or named, here())
    except GitSessionError:
        if session is None:
            say("no stored session")  # a new session is not stored yet
            return exits.OK
        row, _ = app.row(session, restores=False)
        catalogue = app.catalogue()
    query = (
        "SELECT input + output + cache_read + cache_write, model FROM answers WHERE sid = ? ORDER BY at_ms DESC LIMIT 1"
    )
    used, model = catalogue.db.execute(query, (row.sid,)).fetchone() or (0, None)
    size = window or _window(given)
    document = {
        "session": row.sid,
        "title": row.name,
        "branch": row.active,
        "model": model,
        "used": used,
        "window": size,
        "remaining": max(size - used, 0) if size else None,
        "percent": round(100 * used / size, 1) if size else None,
        "cost": row.cost,
    }
    emit("status-line", document)
    parts = [
        f"{used:,} tokens" + (f" ({document['percent']:g} % of {size:,})" if size else ""),
        *([f"${row.cost:,.2f}"] if row.cost else []),
        f"{row.sid.rpartition('-')[2][:7]} {row.active}",
        row.name,
    ]
    say(shorten(" · ".join(parts), width()))
    return exits.OK


def _given() -> dict[str, Any]:
    """Return the object that Claude Code writes to standard input for its status line; empty if there is none."""
    import json

    try:
        if sys.stdin is None or sys.stdin.isatty():
            return {}
        found = json.loads(os.read(sys.stdin.fileno(), _INPUT_BYTES_MAX) or b"{}")
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _window(given: dict[str, Any]) -> int | None:
    """Return the size of the context window that Claude Code states, in tokens."""
    stated = given.get("context_window")
    size = stated.get("context_window_size") if isinstance(stated, dict) else None
    return size if type(size) is int and size > 0 else None
