"""The entries of a session as a graph: histories of branches, and the tree of all entries."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import count

from gitsession.codec.digest import to_base32
from gitsession.dataclass import dataclass
from gitsession.errors import NotFound
from gitsession.git.ref_files import NAME_BYTES_MAX
from gitsession.git.types import Oid
from gitsession.pattern import pattern
from gitsession.sessions.gaps import DAMAGE, Gap
from gitsession.sessions.node import Node, first_parent, load
from gitsession.store import refs
from gitsession.store.interface import ObjectStore

GENERATED_LENGTHS = (8, 13, 26, 52)
"""The lengths of the names of branches that the user did not name."""

_NUMBER = pattern(r"(?<=[a-z2-7]{52})-[0-9]+\Z")


def history(store: ObjectStore, leaf: Oid) -> Iterator[Node]:
    """Yield the entries from ``leaf`` to the root, along first parents. Raises an error if an entry cannot be read."""
    oid: Oid | None = leaf
    while oid is not None:
        node = load(store, oid)
        yield node
        oid = node.parent


def history_with_gaps(store: ObjectStore, sid: str, leaf: Oid) -> Iterator[Node | Gap]:
    """Yield the same entries as ``history``, but with a ``Gap`` in place of each unreadable entry.

    Entries before a gap are included if they can be found.
    """
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
    """Return the tips of a session's branches by name: ``main`` first, then the others sorted by name."""
    prefix = refs.session(sid)
    values = {ref.removeprefix(prefix): value for ref, value in store.refs(prefix).items()}  # sorted by name
    found = {name: value for name, value in values.items() if refs.is_branch(name)}
    return {refs.MAIN: found.pop(refs.MAIN), **found} if refs.MAIN in found else found


def tip(store: ObjectStore, sid: str, name: str) -> Oid | None:
    """Return the tip of one branch without reading other branches; ``None`` if there is no such branch.

    ``name`` can be any text. The result is also ``None`` for a name that is not valid for a branch, because git keeps
    lock files beside the refs.
    """
    if not name.isprintable() or "/" in name or name.endswith(".lock") or len(name.encode()) > NAME_BYTES_MAX:
        return None
    return store.ref(refs.leaf(sid, name)) if name and refs.is_branch(name) else None


def numbered_name(stem: str, taken: Container[str]) -> str:
    """Return the first of the names ``stem-1``, ``stem-2`` and so on that is not taken."""
    return next(name for number in count(1) if (name := f"{stem}-{number}") not in taken)


class BranchNamer:
    """A generator of names for branches that the user did not name (docs/reference/format.md).

    Such a name is the beginning of the chain digest of the branch's first entry. ``is_taken``: a function that returns
    whether a name is in use. No name is returned twice. Equal entries below one parent have the same chain digest and
    get numbered names. The last number for each digest is cached, so that many equal entries do not take quadratic
    time.
    """

    def __init__(self, is_taken: Callable[[str], bool]) -> None:
        self._is_taken = is_taken
        self._next: dict[bytes, int] = {}

    def free(self, chain: bytes) -> str:
        """Return the first unused name for the chain digest ``chain``."""
        stem = to_base32(chain, GENERATED_LENGTHS[-1])
        lengths = len(GENERATED_LENGTHS)
        for number in count(self._next.get(chain, 0)):
            name = stem[: GENERATED_LENGTHS[number]] if number < lengths else f"{stem}-{number - lengths + 2}"
            if not self._is_taken(name):
                self._next[chain] = number + 1
                return name
        raise AssertionError("unreachable")


def generated_names(names: Iterable[str], chains: Iterable[bytes]) -> set[str]:
    """Return the names in ``names`` that ``BranchNamer`` can generate for a chain digest in ``chains``."""
    longest = [to_base32(chain, GENERATED_LENGTHS[-1]) for chain in chains]
    stems = {stem[:length] for stem in longest for length in GENERATED_LENGTHS}
    return {name for name in names if _NUMBER.sub("", name) in stems}


@dataclass(frozen=True, slots=True)
class Tree:
    """The entries of a session, except those on ``meta`` and ``files``.

    ``children``: the children of each entry, in file order, then by time and chain digest.
    """

    branches: Mapping[str, Oid]
    nodes: Mapping[Oid, Node]
    children: Mapping[Oid | None, list[Oid]]
    gaps: tuple[Gap, ...] = ()

    def gap(self, oid: Oid | None) -> Gap | None:
        """Return the gap at ``oid``."""
        return next((gap for gap in self.gaps if gap.oid == oid), None)

    def parent(self, oid: Oid) -> Oid | None:
        """Return the parent of ``oid`` in the tree: its parent entry, or the entry before a gap at this position."""
        return _parent(self.nodes[oid], self.nodes, {gap.oid: gap for gap in self.gaps})

    @property
    def damage(self) -> tuple[Gap, ...]:
        """The gaps that hide entries."""
        return tuple(gap for gap in self.gaps if not gap.foreign)

    def walk(self) -> Iterator[tuple[Node, int]]:
        """Yield every entry with its depth, parents before children and one branch after the other."""
        stack = [(oid, 0) for oid in reversed(self.children.get(None, []))]
        while stack:
            oid, depth = stack.pop()
            yield self.nodes[oid], depth
            stack.extend((child, depth + 1) for child in reversed(self.children.get(oid, [])))


def tree(store: ObjectStore, sid: str) -> Tree:
    """Return the tree of a session. An entry that cannot be read is a gap, not an error. Raises ``NotFound``.

    Entries before a gap are included (``sessions.unreachable``). If their position cannot be proven, they are a
    separate tree.
    """
    leaves = branches(store, sid)
    if not leaves:
        raise NotFound(f"no session {sid}", hint="run `gitsession ls` to list the sessions")
    nodes: dict[Oid, Node] = {}
    gaps: dict[Oid, Gap] = {}
    for leaf in leaves.values():
        oid: Oid | None = leaf
        while oid is not None and oid not in nodes and oid not in gaps:
            try:
                node = nodes[oid] = load(store, oid)
            except DAMAGE as error:
                earlier = first_parent(store, oid)
                gaps[oid] = Gap(oid, str(error), foreign=earlier is not None, before=earlier)
                oid = earlier
            else:
                oid = node.parent
    if any(not gap.foreign for gap in gaps.values()):
        from gitsession.sessions.unreachable import fill  # it reads payloads, and is needed only after damage

        nodes, gaps = fill(store, sid, nodes, gaps)
    children: dict[Oid | None, list[Oid]] = {}
    for node in nodes.values():
        children.setdefault(_parent(node, nodes, gaps), []).append(node.oid)
    for siblings in children.values():
        siblings.sort(key=lambda oid: (nodes[oid].parent is not None, sibling_order(nodes[oid])))
    return Tree(leaves, nodes, children, tuple(gaps.values()))


def subtree(tree: Tree, start: Oid) -> Tree:
    """Return the subtree whose root is the entry ``start``."""
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
    """Return the parent of ``node`` in the tree: its parent entry, or the entry before a gap at this position."""
    if node.parent in nodes:
        return node.parent
    gap = gaps.get(node.parent or "")
    return gap.before if gap is not None and not gap.foreign and gap.before in nodes else None


def sibling_order(node: Node) -> tuple[int, int, bytes]:
    """Return the sort key of siblings: imported entries by line, then others by time and chain digest."""
    return (node.source.line, 0, b"") if node.source else (2**62, node.author_seconds, node.chain)
