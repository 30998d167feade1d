"""A session's entries as a graph: lines from a leaf to the root, and the whole tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gitsession.errors import NotFound
from gitsession.git.ref_files import NAME_BYTES_MAX
from gitsession.git.types import Oid
from gitsession.sessions.gaps import DAMAGE, Gap
from gitsession.sessions.node import Node, before, load
from gitsession.store import refs
from gitsession.store.interface import ObjectStore


def line(store: ObjectStore, leaf: Oid) -> Iterator[Node]:
    """The entries from ``leaf`` to the root, along first parents. Raises where one of them cannot be read."""
    oid: Oid | None = leaf
    while oid is not None:
        node = load(store, oid)
        yield node
        oid = node.parent


def line_with_gaps(store: ObjectStore, sid: str, leaf: Oid) -> Iterator[Node | Gap]:
    """The same, with a ``Gap`` in the place of what cannot be read, and then what stands before it if that is known."""
    oid: Oid | None = leaf
    found: Tree | None = None
    seen: set[Oid] = set()
    while oid is not None and oid not in seen:
        seen.add(oid)
        try:
            node = load(store, oid)
        except DAMAGE as error:
            found = found or tree(store, sid)
            gap = found.gap(oid) or Gap(oid, str(error), foreign=False)
            yield gap
            oid = gap.before
        else:
            yield node
            oid = node.parent


def branches(store: ObjectStore, sid: str) -> dict[str, Oid]:
    """The leaves of a session by branch name, ``main`` first, then by name."""
    found = {
        name: value
        for ref, value in store.refs(refs.session(sid)).items()
        if refs.is_branch(name := ref.removeprefix(refs.session(sid)))
    }
    return dict(sorted(found.items(), key=lambda item: (item[0] != refs.MAIN, item[0])))


def tip(store: ObjectStore, sid: str, name: str) -> Oid | None:
    """The leaf of one branch, without a look at the others; ``None`` where there is no branch ``name``, whatever text.

    A name that ``branches`` cannot return is none: git keeps its locks beside the refs.
    """
    if not name.isprintable() or "/" in name or name.endswith(".lock") or len(name.encode()) > NAME_BYTES_MAX:
        return None
    return store.ref(refs.leaf(sid, name)) if name and refs.is_branch(name) else None


@dataclass(frozen=True, slots=True)
class Tree:
    """All entries of a session but those on ``meta`` and ``files``.

    ``children``: in file order, then in order of time and chain.
    """

    branches: Mapping[str, Oid]
    nodes: Mapping[Oid, Node]
    children: Mapping[Oid | None, list[Oid]]
    gaps: tuple[Gap, ...] = ()

    def gap(self, oid: Oid | None) -> Gap | None:
        """The gap of that name."""
        return next((gap for gap in self.gaps if gap.oid == oid), None)

    def parent(self, oid: Oid) -> Oid | None:
        """The entry that ``oid`` is drawn below: its parent, or what stands before the gap there."""
        return _parent(self.nodes[oid], self.nodes, {gap.oid: gap for gap in self.gaps})

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
    """The whole tree of a session. Raises ``NotFound``; an entry that cannot be read is a gap, not an error.

    What stands before a gap is in the tree too (``sessions.unreachable``): below what it is proven to follow, or else
    as a line of its own.
    """
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
            except DAMAGE as error:
                earlier = before(store, oid)
                gaps[oid] = Gap(oid, str(error), foreign=earlier is not None, before=earlier)
                oid = earlier
            else:
                oid = node.parent
    if any(not gap.foreign for gap in gaps.values()):
        from gitsession.sessions.unreachable import fill  # reads payloads; without damage nobody needs it

        nodes, gaps = fill(store, sid, nodes, gaps)
    children: dict[Oid | None, list[Oid]] = {}
    for node in nodes.values():
        children.setdefault(_parent(node, nodes, gaps), []).append(node.oid)
    for siblings in children.values():
        siblings.sort(key=lambda oid: (nodes[oid].parent is not None, place(nodes[oid])))
    return Tree(leaves, nodes, children, tuple(gaps.values()))


def below(tree: Tree, start: Oid) -> Tree:
    """The part of a tree that begins at the entry ``start``, as if that were its root."""
    nodes = {start: tree.nodes[start]}
    stack = [start]
    while stack:
        for oid in tree.children.get(stack.pop(), []):
            nodes[oid] = tree.nodes[oid]
            stack.append(oid)
    children: dict[Oid | None, list[Oid]] = {None: [start]}
    children |= {oid: found for oid, found in tree.children.items() if oid in nodes}
    return Tree(tree.branches, nodes, children, tree.gaps)


def _parent(node: Node, nodes: Mapping[Oid, Node], gaps: Mapping[Oid, Gap]) -> Oid | None:
    """What an entry is drawn below: its parent, or what stands before the gap there."""
    if node.parent in nodes:
        return node.parent
    gap = gaps.get(node.parent or "")
    return gap.before if gap is not None and not gap.foreign and gap.before in nodes else None


def place(node: Node) -> tuple[int, int, bytes]:
    """How siblings are ordered: imported ones by line, then ours by time and chain."""
    return (node.source.line, 0, b"") if node.source else (2**62, node.author_seconds, node.chain)
