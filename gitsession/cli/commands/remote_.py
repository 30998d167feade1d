"""``gitsession remote``"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gitsession.cli import exits
from gitsession.cli.context import App, with_app
from gitsession.cli.output import emit, json_option, on_a_line, say, shell_words, warn

if TYPE_CHECKING:
    from gitsession.api import Store
    from gitsession.sync.remotes import Remote


@click.group(invoke_without_command=True)
@json_option
@with_app
@click.pass_context
def command(ctx: click.Context, app: App, as_json: bool) -> int | None:
    """Other repositories that sessions go to and come from. Without more: list them."""
    return _list(app, as_json=as_json) if ctx.invoked_subcommand is None else None


@command.command("list")
@json_option
@with_app
def list_(app: App, as_json: bool) -> int:
    """List them, as `remote` alone does."""
    return _list(app, as_json=as_json)


def _list(app: App, *, as_json: bool) -> int:
    found = app.store().remotes.list()
    if as_json:
        emit("remote", {"remotes": [_object(remote) for remote in found]})
    elif found:
        width = max(len(remote.name) for remote in found)
        for remote in found:
            notes = ["home"] if remote.is_home else []
            notes += ["beside code"] if remote.is_shared else []
            scope = remote.scope
            kept = (("project", scope.projects), ("agent", scope.agents), ("label", scope.labels))
            notes += [f"{kind} {on_a_line(value)}" for kind, values in kept for value in values]
            say(f"{remote.name:<{width}}  {_plain(remote.url)}" + (f"  ({', '.join(notes)})" if notes else ""))
    else:
        warn("no remote yet: `gitsession remote add origin URL` names one")
    return exits.OK if found else exits.NOTHING


@command.command()
@click.argument("name")
@click.argument("url")
@click.option("--namespace", metavar="NAME", default="", help="Beside code: sessions lie below refs/NAME/ there.")
@click.option("--home", is_flag=True, help="Of several remotes, the one that rules names.")
@click.option("--project", "projects", metavar="P", multiple=True, help="Send only sessions of project P.")
@click.option("--agent", "agents", metavar="A", multiple=True, help="Send only sessions of agent A.")
@click.option("--label", "labels", metavar="L", multiple=True, help="Send only sessions with an entry labelled L.")
@click.option("--all", "is_all", is_flag=True, help="Send all sessions, and do not ask before the first push.")
@json_option
@with_app
def add(
    app: App,
    name: str,
    url: str,
    namespace: str,
    home: bool,
    projects: tuple[str, ...],
    agents: tuple[str, ...],
    labels: tuple[str, ...],
    is_all: bool,
    as_json: bool,
) -> None:
    """Remember the repository at URL as NAME. Nothing is sent yet."""
    store = app.store(make=True)
    remote = store.remotes.add(
        name, url, namespace=namespace, home=home, projects=projects, agents=agents, labels=labels, all=is_all
    )
    _warn_of(store, remote)
    if as_json:
        emit("remote-add", {"remotes": [_object(remote)], "branches": []})
    else:
        sync = "gitsession sync" if remote.is_home else f"gitsession sync {remote.name}"
        say(f"{remote.name} is {_plain(remote.url)}; `{sync}` sends and takes")


@command.command()
@click.argument("name")
@json_option
@with_app
def remove(app: App, name: str, as_json: bool) -> None:
    """Forget NAME. What came from it stays."""
    remote = app.store().remotes.remove(name)
    if as_json:
        emit("remote-remove", {"remotes": [_object(remote)]})
    else:
        say(f"{remote.name} is forgotten; what came from it stays")


def _warn_of(store: Store, remote: Remote) -> None:
    """Warn of an address where no repository is, and of a scope that sends nothing."""
    from gitsession.sync import remotes

    if path := remotes.missing(remote.url):
        warn(f"warning: there is no repository at {path} yet")
        warn(f"  hint: run `git init --bare {shell_words([path])}`")
    for kind, value in store.remotes.unmatched_scope(remote):
        warn(f"warning: no session matches --{kind} {shell_words([value])} now")


def _object(remote: Remote) -> dict[str, Any]:
    namespace = remote.places[0][1].split("/")[1] if remote.is_shared else None
    scope = remote.scope
    return {
        "name": remote.name,
        "url": _plain(remote.url),
        "home": remote.is_home,
        "namespace": namespace,
        "scope": {
            "projects": list(scope.projects),
            "agents": list(scope.agents),
            "labels": list(scope.labels),
            "all": not scope.is_limited,
        },
    }


def _plain(url: str) -> str:
    from gitsession.sync.remotes import plain

    return plain(url)
