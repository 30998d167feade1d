"""``gitsession branch``"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gitsession.cli.context import App, with_app
from gitsession.cli.output import emit, json_option, say
from gitsession.errors import Corrupt, Malformed, MissingObject

if TYPE_CHECKING:
    from gitsession.api import Session


@click.command()
@click.argument("session", metavar="SESSION")
@click.argument("name", required=False)
@click.option("--at", metavar="ENTRY", default="leaf", help="Where it starts; the leaf by default.")
@json_option
@with_app
def command(app: App, session: str, name: str | None, at: str, as_json: bool) -> None:
    """Start branch NAME at an entry; without NAME, list the branches."""
    found = app.session(session)
    if name is None:
        leaves = found.branches()
        if as_json:
            emit("branch", {"session": found.id, "branch": found.branch_name, "branches": leaves})
            return
        for branch, oid in leaves.items():
            star = "*" if branch == found.branch_name else " "
            say(f"{star} {branch:<16}  {oid[:8]}  {_subject(found, branch)}")
        return
    node = found.resolve(at)
    found.branch(name, node)
    if as_json:
        emit("branch", {"session": found.id, "branch": name, "leaf": node.oid})
    else:
        say(f"{name} starts at {node.oid[:8]} {node.subject}")
        say(f"  `gitsession switch {found.id} {name}` goes on there")


def _subject(session: Session, branch: str) -> str:
    try:
        return session.resolve(branch).subject
    except (Malformed, Corrupt, MissingObject) as error:
        return f"?? {error}"
