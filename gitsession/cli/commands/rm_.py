"""``gitsession rm``"""

from __future__ import annotations

import click

from gitsession.cli.context import App, with_app
from gitsession.cli.output import emit, json_option, say


@click.command()
@click.argument("session")
@json_option
@with_app
def command(app: App, session: str, as_json: bool) -> None:
    """Put a session into the trash. `restore`, or `undo`, brings it back. Remotes keep what was pushed."""
    sid = app.session(session).id
    app.store().trash.put(sid)
    if as_json:
        emit("rm", {"session": sid})
    else:
        say(f"{sid} is in the trash: `gitsession restore {sid}` takes it out, and remotes keep theirs")
