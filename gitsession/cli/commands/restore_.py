"""``gitsession restore``"""

from __future__ import annotations

import click

from gitsession.cli.context import App, with_app
from gitsession.cli.output import emit, json_option, say
from gitsession.errors import NotFound


@click.command()
@click.argument("session")
@json_option
@with_app
def command(app: App, session: str, as_json: bool) -> None:
    """Take a session out of the trash, or out of the archive. SESSION: a unique part of its id, as `ls --trash` or
    `ls --archived` lists it.
    """
    from gitsession.sessions import active_branch, graph

    store = app.store()
    try:
        sid = store.trash.restore(session)
    except NotFound as missing:
        try:
            sid = store.archive.restore(session)
        except NotFound:
            raise missing from None
    chosen = active_branch.chosen(store.objects, sid)
    if as_json:
        emit("restore", {"session": sid})
    elif len(graph.branches(store.objects, sid)) < 2:
        say(f"{sid} is back")
    else:
        unknown = "" if chosen else f"; no choice of a branch is recorded, `gitsession switch {sid} BRANCH` makes one"
        say(f"{sid} is back, on {chosen or active_branch.active(store.objects, sid)}{unknown}")
