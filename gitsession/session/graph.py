"""A session's entries as a graph: lines from a leaf to the root, and the whole tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gitsession.errors import Corrupt, Malformed, MissingObject, NotFound
from gitsession.session.node import Node, before, load
from gitsession.store import refs
from gitsession.store.base import ObjectStore, Oid


def line(store: ObjectStore, leaf: Oid) -> Iterator[Node]:
    """The entries from ``leaf`` to the root, along first parents."""
    oid: Oid | None = leaf
    while oid is not None:
        node = load(store, oid)
        yield node
        oid = node.parent


def branches(store: ObjectStore, sid: str) -> dict[str, Oid]:
    """The leaves of a session by branch name, ``main`` first, then by name."""
    found = {
        name: value
        for ref, value in store.refs(refs.session(sid)).items()
        if (name := ref.removeprefix(refs.session(sid))) != refs.META
    }
    return dict(sorted(found.items(), key=lambda item: (item[0] != refs.MAIN, item[0])))


@dataclass(frozen=True, slots=True)
class Gap:
    """What is named and is no entry, or cannot be read: where it names what stands before it, that is shown.

    ``foreign``: it can be read, and somebody else's commit; no entry of ours is hidden by it.
    """

    oid: Oid
    problem: str
    foreign: bool


@dataclass(frozen=True, slots=True)
class Tree:
    """All entries of a session but those on ``meta``. ``children``: in file order, then in order of time and chain."""

    branches: Mapping[str, Oid]
    nodes: Mapping[Oid, Node]
    children: Mapping[Oid | None, list[Oid]]
    gaps: tuple[Gap, ...] = ()

    @property
    def damage(self) -> tuple[Gap, ...]:
        """The gaps that hide entries."""
        return tuple(gap for gap in self.gaps if not gap.foreign)

    def walk(self) -> Iterator[tuple[Node, int]]:
        """Every entry with its depth, parents before children, one branch after the other."""
        stack = [(oid, 0) for oid in reversed(self.children.get(None, []))]
        while stack:
            oid, depth = stack.pop()
            yield self.nodes[oid], depth
            stack.extend((child, depth + 1) for child in reversed(self.children.get(oid, [])))


def tree(store: ObjectStore, sid: str) -> Tree:
    """The whole tree of a session. Raises ``NotFound``; an entry that cannot be read is a gap, not an error."""
    leaves = branches(store, sid)
    if not leaves:
        raise NotFound(f"no session {sid}")
    nodes: dict[Oid, Node] = {}
    gaps: dict[Oid, Gap] = {}
    for leaf in leaves.values():
        oid: Oid | None = leaf
        while oid is not None and oid not in nodes and oid not in gaps:
            try:
                node = nodes[oid] = load(store, oid)
            except (Malformed, Corrupt, MissingObject) as error:
                earlier = before(store, oid)
                gaps[oid] = Gap(oid, str(error), foreign=earlier is not None)
                oid = earlier
            else:
                oid = node.parent
    children: dict[Oid | None, list[Oid]] = {}
    for node in nodes.values():
        children.setdefault(node.parent if node.parent in nodes else None, []).append(node.oid)
    for siblings in children.values():
        siblings.sort(key=lambda oid: place(nodes[oid]))
    return Tree(leaves, nodes, children, tuple(gaps.values()))


def place(node: Node) -> tuple[int, int, bytes]:
    """How siblings are ordered: imported ones by line, then ours by time and chain."""
    return (node.source.line, 0, b"") if node.source else (2**62, node.author_seconds, node.chain)
