"""How entries look: as a line in a list, as an object in a document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gitsession.cli.output import clock, columns, on_a_line, paint, shorten, width
from gitsession.codec.digest import to_base64url

if TYPE_CHECKING:
    from gitsession.index.catalogue import Row
    from gitsession.index.names import Names
    from gitsession.sessions.gaps import Gap
    from gitsession.sessions.node import Node
    from gitsession.store.interface import ObjectStore

_COLORS = {"user": "green", "assistant": "cyan", "tool": "yellow", "shell": "yellow"}


def as_line(node: Node, names: list[str], *, indent: str = "") -> str:
    """``1a2b3c4d  2025-11-20 23:33  user: Fix the login  [main]``"""
    head, colon, words = node.subject.partition(": ")
    marks = on_a_line(f"  [{', '.join(names)}]") if names else ""
    time = clock(node.author_seconds * 1000)
    room = width() - len(f"{node.oid[:8]}  {time}  {indent}") - columns(marks)
    label = shorten(head + colon.rstrip(), room)
    rest = shorten(words, room - columns(label) - 1)
    return "  ".join(
        [
            paint(node.oid[:8], fg="yellow"),
            paint(time, dim=True),
            indent + " ".join(filter(None, [paint(label, fg=_COLORS.get(node.role)), rest])) + paint(marks, bold=True),
        ]
    )


def gap_line(gap: Gap, *, indent: str = "") -> str:
    """``1a2b3c4d  cannot be read: no object 1a2b3c4d...``"""
    what = f"is no entry: {gap.problem}" if gap.foreign else f"cannot be read: {gap.problem}"
    return f"{paint(gap.oid[:8], fg='red')}  {indent}{paint(shorten(what, width() - 10 - len(indent)), fg='red')}"


def gap_object(gap: Gap) -> dict[str, Any]:
    """What ``log`` and ``tree`` say of a gap. ``before``: what stands before it, where that is known."""
    return {"id": gap.oid, "what": gap.problem, "before": gap.before}


def as_object(node: Node, at_ms: int, branch: str | None) -> dict[str, Any]:
    """What ``log`` and ``tree`` say of an entry. ``at_ms``: ms since 1970."""
    found = {
        "id": node.oid,
        "chain": to_base64url(node.chain),
        "parent": node.parent,
        "kind": node.kind,
        "role": node.role,
        "at": at_ms,
        "subject": node.subject,
        "source_id": node.source.id if node.source else None,
    }
    return found if branch is None else {**found, "branch": branch}


def as_document(store: ObjectStore, row: Row, names: Names, nodes: Iterable[Node], leaf: str) -> dict[str, Any]:
    """What ``log`` and ``tree`` say of a session and of some of its entries."""
    from gitsession.sessions.content import entry_of  # a list for people has the seconds of the commit

    branch_of = {oid: name for name, oid in reversed(list(row.branches.items()))}
    return {
        "session": row.sid,
        "leaf": leaf,
        "active": row.active,
        "title": names.title,
        "labels": names.labels,
        "entries": [as_object(node, entry_of(store, node).at_ms, branch_of.get(node.oid)) for node in nodes],
    }


def names_of(leaves: Mapping[str, str], labels: Mapping[str, str], *, active: str) -> dict[str, list[str]]:
    """What stands behind an entry in a list: the branches it is the leaf of, a star at the active one; its label."""
    names: dict[str, list[str]] = {}
    for name, oid in leaves.items():
        names.setdefault(oid, []).append(f"*{name}" if name == active and len(leaves) > 1 else name)
    for oid, label in labels.items():
        names.setdefault(oid, []).append(f"'{label}'")
    return names
