"""Commands for the branches of a session, and for names: branch, switch, fork, label, name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gitsession.cli.context import App, with_app
from gitsession.cli.output import answer, emit, json_option, say
from gitsession.errors import Corrupt, Malformed, MissingObject

if TYPE_CHECKING:
    from gitsession.api import Session


@click.command()
@click.argument("session", metavar="SESSION")
@click.argument("name", required=False)
@click.option("--at", metavar="ENTRY", default="leaf", help="Where it starts; the leaf by default.")
@json_option
@with_app
def branch_command(app: App, session: str, name: str | None, at: str, as_json: bool) -> None:
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
    answer(
        "branch",
        {"session": found.id, "branch": name, "leaf": node.oid},
        f"{name} starts at {node.oid[:8]} {node.subject}",
        f"  `gitsession switch {found.id} {name}` goes on there",
        as_json=as_json,
    )


def _subject(session: Session, branch: str) -> str:
    try:
        return session.resolve(branch).subject
    except (Malformed, Corrupt, MissingObject) as error:
        return f"?? {error}"


@click.command()
@click.argument("session", metavar="SESSION")
@click.argument("branch")
@json_option
@with_app
def switch_command(app: App, session: str, branch: str, as_json: bool) -> None:
    """Go on with another branch of a session, on this machine."""
    found = app.session(session)
    leaf = found.switch(branch)
    document = {"session": found.id, "branch": branch, "leaf": leaf.oid}
    answer("switch", document, f"{found.id} is on {branch}: {leaf.oid[:8]} {leaf.subject}", as_json=as_json)


@click.command()
@click.argument("session", metavar="SESSION[@ENTRY]")
@json_option
@with_app
def fork_command(app: App, session: str, as_json: bool) -> None:
    """Begin a session of its own on the line of another. What came before is shared, not copied."""
    found, node = app.entry(session)
    forked = found.fork(node)
    leaf = forked.resolve("leaf")
    document = {"session": forked.id, "branch": forked.branch_name, "leaf": leaf.oid}
    answer("fork", document, f"{forked.id} begins at {node.oid[:8]} {node.subject}", as_json=as_json)


@click.command()
@click.argument("entry", metavar="SESSION@ENTRY")
@click.argument("text")
@json_option
@with_app
def label_command(app: App, entry: str, text: str, as_json: bool) -> None:
    """Name an entry. An empty TEXT takes the name away."""
    session, node = app.entry(entry)
    before = session.names().labels.get(node.oid)
    session.label(node, text)
    text = session.names().labels.get(node.oid, "")
    was = f", no longer {before!r}" if before and before != text else ""
    told = f"{node.oid[:8]} {node.subject}" + (f" is {text!r}{was}" if text.strip() else f" has no label{was}")
    if as_json:
        emit("label", {**_place(session), "id": node.oid, "label": text})
    else:
        say(told)


@click.command()
@click.argument("session", metavar="SESSION")
@click.argument("text")
@json_option
@with_app
def name_command(app: App, session: str, text: str, as_json: bool) -> None:
    """Name a session. An empty TEXT takes the name away."""
    found = app.session(session)
    found.rename(text)
    text = found.names().title or ""
    told = f"{found.id} is {text!r}" if text.strip() else f"{found.id} has no name"
    if as_json:
        emit("name", {**_place(found), "title": text})
    else:
        say(told)


def _place(session: Session) -> dict[str, str]:
    return {"session": session.id, "branch": session.branch_name, "leaf": session.resolve("leaf").oid}
