"""``gitsession log``"""

from __future__ import annotations

import itertools

import click

from gitsession.cli import exits
from gitsession.cli.entries import as_document, as_line, gap_line, gap_object, names_of
from gitsession.cli.opening import App, with_app
from gitsession.cli.output import emit, json_option, paged, warn
from gitsession.errors import GitSessionError
from gitsession.index import names
from gitsession.session import address, graph
from gitsession.session.gaps import Gap
from gitsession.session.node import Node
from gitsession.store.base import ObjectStore


@click.command()
@click.argument("session", metavar="[SESSION[@ENTRY]]", default="@")
@click.option("-n", "number", type=click.IntRange(1), help="At most so many entries.")
@json_option
@with_app
def command(app: App, session: str, number: int | None, as_json: bool) -> int:
    """Show the entries of one line, leaf first: the active branch's, or the one that ends in ENTRY."""
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
