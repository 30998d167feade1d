"""``gitsession log``"""

from __future__ import annotations

import itertools

import click

from gitsession.cli.entries import as_document, as_line, names_of
from gitsession.cli.opening import App, with_app
from gitsession.cli.output import emit, json_option, paged
from gitsession.session import graph


@click.command()
@click.argument("session", metavar="[SESSION[@ENTRY]]", default="@")
@click.option("-n", "number", type=click.IntRange(1), help="At most so many entries.")
@json_option
@with_app
def command(app: App, session: str, number: int | None, as_json: bool) -> None:
    """Show the entries of one line, leaf first: the active branch's, or the one that ends in ENTRY."""
    found, leaf = app.entry(session)
    nodes = list(itertools.islice(graph.line(app.store().objects, leaf.oid), number))
    if as_json:
        emit("log", as_document(found, nodes, leaf.oid))
        return
    names = names_of(found.branches(), found.names().labels, active=found.branch_name)
    paged([as_line(node, names.get(node.oid, [])) for node in nodes])

