"""``gitsession tree``"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from gitsession.cli import exits
from gitsession.cli.entries import as_document, as_line, names_of
from gitsession.cli.opening import App, with_app
from gitsession.cli.output import emit, json_option, paged, warn

if TYPE_CHECKING:
    from gitsession.session.graph import Tree
    from gitsession.session.node import Node



@click.command()
@click.argument("session", metavar="[SESSION]", default="@")
@json_option
@with_app
def command(app: App, session: str, as_json: bool) -> int:
    """Show every entry of a session, parents before children, one branch after the other."""
    found = app.session(session)
    tree = found.tree()
    row, _ = app.row(session)
    if as_json:
        leaf = found.resolve("leaf").oid if not tree.gaps else tree.branches[row.active]
        document = as_document(app.objects(), row, found.names(), (node for node, _ in tree.walk()), leaf)
        gaps = [{"id": gap.oid, "what": gap.problem} for gap in tree.gaps]
        emit("tree", {**document, "gaps": gaps})
    else:
        behind = names_of(tree.branches, found.names().labels, active=row.active)
        paged([as_line(node, behind.get(node.oid, []), indent=indent) for node, indent in _drawn(tree)])
    for gap in tree.gaps:
        warn(f"gitsession: {gap.oid} cannot be read, nor what stands before it: {gap.problem}")
    return exits.INTEGRITY if tree.gaps else 0


def _drawn(tree: Tree) -> Iterator[tuple[Node, str]]:
    """Every entry with the lines before it: a line of entries is not indented, only what branches off."""
    roots = tree.children.get(None, [])
    stack = [(oid, "", "") for oid in reversed(roots)]
    while stack:
        oid, before, after = stack.pop()
        yield tree.nodes[oid], before
        children = tree.children.get(oid, [])
        if len(children) == 1:
            stack.append((children[0], after, after))
            continue
        branches = [(child, f"{after}├─ ", f"{after}│  ") for child in children[:-1]]
        branches += [(child, f"{after}└─ ", f"{after}   ") for child in children[-1:]]
        stack += reversed(branches)
