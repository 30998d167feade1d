"""Commands for branches and names: branch, switch, fork, label, name."""

from __future__ import annotations

import click

import gitsession
from gitsession.cli.invocation import App
from gitsession.cli.options import command, option
from gitsession.cli.output import emit, json_option, say
from gitsession.errors import Corrupt, Malformed, MissingObject


@command()
@click.argument("session", metavar="[SESSION]", default="@")
@click.argument("name", required=False)
@option("--at", metavar="ENTRY", default="leaf", help="Start the branch at this entry. Default: leaf.")
@json_option
@click.pass_obj
def branch_command(app: App, session: str, name: str | None, at: str) -> None:
    """Create a branch at an entry, or list the branches of a session.

    Without NAME, list the branches. To create a branch in the newest session of the current folder, pass @ NAME.
    """
    found = app.session(session)
    if name is None:
        leaves = found.branches()
        emit("branch", {"session": found.id, "branch": found.branch_name, "branches": leaves})
        for branch, oid in leaves.items():
            star = "*" if branch == found.branch_name else " "
            say(f"{star} {branch:<16}  {oid[:8]}  {_subject(found, branch)}")
        return
    node = found.resolve(at)
    found.branch(name, node)
    emit("branch", {"session": found.id, "branch": name, "leaf": node.oid})
    say(f"{name} starts at {node.oid[:8]}  {node.subject}")
    say(f"  `gitsession switch {found.id} {name}` makes it the active branch")


def _subject(session: gitsession.Session, branch: str) -> str:
    try:
        return session.resolve(branch).subject
    except (Malformed, Corrupt, MissingObject) as error:
        return f"?? {error}"


def _address_and(what: str, words: tuple[str, ...], address: str = "SESSION") -> tuple[str, str]:
    """Return the address and the last argument of a command; ``@`` if the address is omitted. Raises ``UsageError``."""
    if len(words) == 1 and not words[0].startswith(("@", "-")):  # a single word that begins with @ or - is an address
        return "@", words[0]
    if len(words) != 2:
        raise click.UsageError(f"expected the arguments [{address}] {what}")
    return words[0], words[1]


@command()
@click.argument("words", metavar="[SESSION] BRANCH", nargs=-1)
@json_option
@click.pass_obj
def switch_command(app: App, words: tuple[str, ...]) -> None:
    """Select the active branch of a session on this machine.

    SESSION defaults to the newest session of the current folder.
    """
    session, branch = _address_and("BRANCH", words)
    found = app.session(session)
    leaf = found.switch(branch)
    emit("switch", {"session": found.id, "branch": branch, "leaf": leaf.oid})
    say(f"{found.id} is on {branch}: {leaf.oid[:8]}  {leaf.subject}")


@command()
@click.argument("session", metavar="[SESSION[@ENTRY]]", default="@")
@json_option
@click.pass_obj
def fork_command(app: App, session: str) -> None:
    """Create a session that continues another one from an entry.

    The history up to the entry is shared, not copied.
    """
    found, node = app.entry(session)
    forked = found.fork(node)
    leaf = forked.resolve("leaf")
    emit("fork", {"session": forked.id, "branch": forked.branch_name, "leaf": leaf.oid})
    say(f"{forked.id} starts at {node.oid[:8]}  {node.subject}")


@command()
@click.argument("words", metavar="[SESSION@ENTRY] TEXT", nargs=-1)
@json_option
@click.pass_obj
def label_command(app: App, words: tuple[str, ...]) -> None:
    """Set or remove the label of an entry.

    SESSION@ENTRY defaults to @@leaf, the newest entry of the active branch in the newest session of the current
    folder. An empty TEXT removes the label.
    """
    entry, text = _address_and("TEXT", words, "SESSION@ENTRY")
    session, node = app.entry(entry)
    before = session.names().labels.get(node.oid)
    session.label(node, text)
    text = session.names().labels.get(node.oid, "")
    was = f", no longer {before!r}" if before and before != text else ""
    emit("label", {**_position(session), "id": node.oid, "label": text})
    say(f"{node.oid[:8]} {node.subject}" + (f" has the label {text!r}{was}" if text.strip() else f" has no label{was}"))


@command()
@click.argument("words", metavar="[SESSION] TEXT", nargs=-1)
@option("--generate", is_flag=True, help="Generate the title from the first prompt, with the configured summarizer.")
@option("--force", is_flag=True, help="With --generate: replace a title that the session has already.")
@json_option
@click.pass_obj
def name_command(app: App, words: tuple[str, ...], generate: bool, force: bool) -> None:
    """Set, generate, or remove the title of a session.

    SESSION defaults to the newest session of the current folder. An empty TEXT removes the title.
    """
    if generate and len(words) > 1:
        raise click.UsageError("--generate cannot be combined with TEXT")
    if force and not generate:
        raise click.UsageError("--force requires --generate")
    session, text = ((*words, "@")[0], "") if generate else _address_and("TEXT", words)
    found = app.session(session)
    before = found.names().title or ""
    if generate:
        from gitsession.compaction import summarizers
        from gitsession.compaction.summarizers.options import users_options

        found.generate_title(summarizers.make(users_options()), force=force)
    else:
        found.rename(text)
    text = found.names().title or ""
    emit("name", {**_position(found), "title": text})
    was = f", no longer {before!r}" if before and before != text else ""
    say(f"{found.id} has the title {text!r}{was}" if text.strip() else f"{found.id} has no title{was}")


def _position(session: gitsession.Session) -> dict[str, str]:
    return {"session": session.id, "branch": session.branch_name, "leaf": session.resolve("leaf").oid}
