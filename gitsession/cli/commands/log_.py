"""``gitsession log``"""

from __future__ import annotations

import itertools

import click

from gitsession.cli import exits
from gitsession.cli.context import App, with_app
from gitsession.cli.entries import as_document, as_line, as_object, gap_line, gap_object, names_of
from gitsession.cli.output import emit, emit_line, json_option, paged, say_line, warn
from gitsession.errors import GitSessionError
from gitsession.index import names
from gitsession.sessions import addresses as address
from gitsession.sessions import graph
from gitsession.sessions.gaps import Gap
from gitsession.sessions.node import Node
from gitsession.store.interface import ObjectStore

FOLLOWED = 10
"""So many entries ``--follow`` begins with."""


@click.command()
@click.argument("session", metavar="[SESSION[@ENTRY]]", default="@")
@click.option("-n", "number", type=click.IntRange(1), help="At most so many entries.")
@click.option("--follow", "-f", is_flag=True, help="The newest entries, oldest first, and then each that comes.")
@json_option
@with_app
def command(app: App, session: str, number: int | None, follow: bool, as_json: bool) -> int:
    """Show the entries of one line, leaf first: the active branch's, or the one that ends in ENTRY.

    With --follow and --json, each entry is a document of one line.
    """
    if follow:
        return _follow(app, session, number, as_json=as_json)
    row, entry = app.row(session)
    catalogue, store = app.catalogue(), app.objects()
    tip = row.branches[row.active]
    start = address.resolve(store, row.sid, entry, branch=row.active).oid if entry else tip
    found = list(itertools.islice(graph.line_with_gaps(store, row.sid, start), number))
    gaps = [it for it in found if isinstance(it, Gap)]
    called = names.names(catalogue, row.sid)
    if as_json:
        nodes = [it for it in found if isinstance(it, Node)]
        leaf = start if entry else _leaf(store, row.sid, row.active, tip)
        emit("log", {**as_document(store, row, called, nodes, leaf), "gaps": [gap_object(gap) for gap in gaps]})
    else:
        behind = names_of(row.branches, called.labels, active=row.active)
        paged([gap_line(it) if isinstance(it, Gap) else as_line(it, behind.get(it.oid, [])) for it in found])
    if gaps and found[-1] is gaps[-1] and gaps[-1].is_open:
        warn("gitsession: what stands before the gap is not known; `gitsession tree` shows all that is left")
    damaged = app.warn_of_damage()
    return exits.INTEGRITY if gaps or damaged else exits.OK


def _leaf(store: ObjectStore, sid: str, active: str, tip: str) -> str:
    """The entry from which an agent goes on; what the ref says where that cannot be read."""
    try:
        return address.resolve(store, sid, "leaf", branch=active).oid
    except GitSessionError:
        return tip


def _follow(app: App, address: str, number: int | None, *, as_json: bool) -> int:
    """Until somebody ends it."""
    session, store = app.session(address), app.objects()
    news = session.follow(idle=True)  # from here on nothing is missed
    shown = list(itertools.islice(graph.line(store, session.leaf.oid), number or FOLLOWED)) if session.leaf else []
    for node in reversed(shown):
        _tell(store, node, session.branch_name, as_json=as_json)
    for one in news:
        if one is None:
            app.drain()
        elif one.node.oid not in {node.oid for node in shown}:
            _tell(store, one.node, one.branch, as_json=as_json)
    return exits.OK


def _tell(store: ObjectStore, node: Node, branch: str, *, as_json: bool) -> None:
    if as_json:
        from gitsession.sessions.content import entry_of  # a list for people has the seconds of the commit

        emit_line("entry", as_object(node, entry_of(store, node).at_ms, branch))
    else:
        say_line(as_line(node, []))
