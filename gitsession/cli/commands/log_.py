"""``gitsession log``"""

from __future__ import annotations

import itertools

import click

from gitsession.cli.entries import as_document, as_line, names_of
from gitsession.cli.opening import App, with_app
from gitsession.cli.output import emit, json_option, paged
from gitsession.index import names
from gitsession.session import address, graph


@click.command()
@click.argument("session", metavar="[SESSION[@ENTRY]]", default="@")
@click.option("-n", "number", type=click.IntRange(1), help="At most so many entries.")
@json_option
@with_app
def command(app: App, session: str, number: int | None, as_json: bool) -> None:
    """Show the entries of one line, leaf first: the active branch's, or the one that ends in ENTRY."""
    row, entry = app.row(session)
    catalogue, store = app.catalogue(), app.objects()
    leaf = address.resolve(store, row.sid, entry or "leaf", branch=row.active).oid
    nodes = list(itertools.islice(graph.line(store, leaf if entry else row.branches[row.active]), number))
    called = names.names(catalogue, row.sid)
    if as_json:
        emit("log", as_document(store, row, called, nodes, leaf))
        return
    behind = names_of(row.branches, called.labels, active=row.active)
    paged([as_line(node, behind.get(node.oid, [])) for node in nodes])
