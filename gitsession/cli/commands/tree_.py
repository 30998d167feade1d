"""``gitsession tree``"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from gitsession.cli import exits
from gitsession.cli.context import App, with_app
from gitsession.cli.entries import as_document, as_line, gap_line, gap_object, names_of
from gitsession.cli.output import emit, json_option, paged, warn
from gitsession.sessions.gaps import Gap

if TYPE_CHECKING:
    from gitsession.sessions.graph import Tree
    from gitsession.sessions.node import Node

_LEVELS_MAX = 12
"""The most levels of branches that are drawn, of 3 columns each."""


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
        emit("tree", {**document, "gaps": [gap_object(gap) for gap in tree.gaps]})
    else:
        behind = names_of(tree.branches, found.names().labels, active=row.active)
        paged(
            [
                gap_line(it, indent=at) if isinstance(it, Gap) else as_line(it, behind.get(it.oid, []), indent=at)
                for it, at in _drawn(tree)
            ]
        )
    for gap in tree.gaps:
        told = "is no entry" if gap.foreign else "cannot be read"
        known = ", and what stands before it is not known" if gap.is_open else ""
        warn(f"gitsession: {gap.oid} {told}{known}: {gap.problem}")
    return exits.INTEGRITY if tree.gaps else 0


def _drawn(tree: Tree) -> Iterator[tuple[Node | Gap, str]]:
    """Every entry and every gap, with the lines before it: a line is not indented, only what branches off.

    A gap stands before each entry that follows it, or after what it follows, or at the end.
    """
    gaps = {gap.oid: gap for gap in tree.gaps}
    leaves = {gap.before: gap for gap in tree.gaps if gap.oid in tree.branches.values()}
    drawn: set[str] = set()
    roots = tree.children.get(None, [])
    stack = [(oid, "", "", 0) for oid in reversed(roots)]
    while stack:
        oid, before, after, level = stack.pop()
        gap = gaps.get(tree.nodes[oid].parent or "")
        if gap is not None:
            drawn.add(gap.oid)
            yield gap, before
        yield tree.nodes[oid], before
        if oid in leaves and leaves[oid].oid not in drawn:
            drawn.add(leaves[oid].oid)
            yield leaves[oid], after
        children = tree.children.get(oid, [])
        if len(children) == 1:
            stack.append((children[0], after, after, level))
            continue
        branches = [(child, *_columns(after, level, "├─ ", "│  "), level + 1) for child in children[:-1]]
        branches += [(child, *_columns(after, level, "└─ ", "   "), level + 1) for child in children[-1:]]
        stack += reversed(branches)
    yield from ((gap, "") for oid, gap in gaps.items() if oid not in drawn)


def _columns(after: str, level: int, here: str, below: str) -> tuple[str, str]:
    """Return the columns before an entry that branches off at ``level``, and those before the entries that follow it.

    Deeper than ``_LEVELS_MAX`` a number stands for the levels that are not drawn: columns for all of them would take
    memory with the square of the branches.
    """
    if level < _LEVELS_MAX:
        return f"{after}{here}", f"{after}{below}"
    drawn = after[: 3 * _LEVELS_MAX]
    return f"{drawn}+{level + 1 - _LEVELS_MAX} {here}", f"{drawn}+{level + 1 - _LEVELS_MAX} "
