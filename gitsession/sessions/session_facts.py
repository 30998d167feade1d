"""Facts from all entries of a session: its marks, the targets of labels, and the entries in the agent's file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gitsession.codec.digest import to_base64url
from gitsession.errors import NotFound
from gitsession.git.types import Oid
from gitsession.model.entries import Fork, SessionHeader
from gitsession.sessions import graph
from gitsession.sessions.content import entry_of, is_fork_start
from gitsession.sessions.graph import Tree, sibling_order, subtree
from gitsession.sessions.marks import SessionMark
from gitsession.sessions.meta import Meta, marks_of
from gitsession.sessions.node import Node, position, short_id
from gitsession.store.interface import ObjectStore

MARKING = frozenset({"label", "title"})
"""The kinds of entries outside ``meta`` that are marks."""


def beginning(store: ObjectStore, sid: str) -> Node:
    """Return the entry at which a session begins: its fork entry, or else its root.

    This entry is also the parent of the first entries of ``meta`` and ``files``. Raises ``NotFound`` if the session has
    no entries yet.
    """
    leaves = graph.branches(store, sid)
    if not leaves:
        raise NotFound(f"cannot find the first entry of session {sid}: it has no entries yet")
    line = graph.history(store, next(iter(leaves.values())))
    return next(node for node in line if node.parent is None or is_fork_start(store, node, sid))


def entries_in_file(tree: Tree, superseded: Iterable[str]) -> list[Node]:
    """Return the entries that are in the agent's file now.

    These are the imported entries that are not superseded and not below a superseded entry.
    """
    removed = set(superseded)
    found: list[Node] = []
    stack = list(tree.children.get(None, []))
    while stack:
        node = tree.nodes[stack.pop()]
        if node.source is not None:
            if position(node) in removed:
                continue
            found.append(node)
        stack += tree.children.get(node.oid, [])
    return found


def file_start(store: ObjectStore, tree: Tree, sid: str) -> tuple[Oid, SessionHeader | Fork | None]:
    """Return the entry at which the agent's file of session ``sid`` begins, and the content of this entry.

    The entry is a root, or the ``fork`` entry of a file that continues another file. Entries before it belong to the
    other file. The content is ``None`` if the entry is neither a header nor a fork, for example after a purge.
    """
    at = next((oid for oid in tree.nodes if is_fork_start(store, tree.nodes[oid], sid)), None)
    while at is not None:
        node = tree.nodes[at]
        if node.kind == Fork.kind and node.source is None:
            entry = entry_of(store, node)
            if isinstance(entry, Fork) and entry.source_id is not None:
                return at, entry
        at = tree.parent(at)
    roots = tree.children.get(None, [])
    for oid in roots:
        entry = entry_of(store, tree.nodes[oid])
        if isinstance(entry, SessionHeader):
            return oid, entry
    return next(iter(roots or tree.nodes)), None


def segment_starts(tree: Tree, segments: Collection[str]) -> dict[Oid, str]:
    """Return the ids of a session's segments (later files of the same session), by the oids of their first entries."""
    found: dict[Oid, str] = {}
    for oid, node in tree.nodes.items() if segments else ():
        id = node.source.id if node.kind == SessionHeader.kind and node.source is not None else None
        if id is not None and id in segments:
            found[oid] = id
    return found


def segment_at(tree: Tree, starts: Mapping[Oid, str], oid: Oid | None) -> str | None:
    """Return the id of the segment (a later file of the same session) that contains the entry ``oid``.

    Return ``None`` if the entry is in the session's first file.
    """
    while oid is not None and oid in tree.nodes and oid not in starts:
        oid = tree.parent(oid)
    return starts.get(oid or "")


def file_part(tree: Tree, starts: Mapping[Oid, str], start: Oid, segment: str | None) -> Tree:
    """Return the subtree of one of the agent's files: ``segment``, or the first file if ``segment`` is ``None``."""
    if not starts and segment is None:
        return subtree(tree, start)
    tops = [start] if segment is None else [oid for oid, id in starts.items() if id == segment]
    nodes: dict[Oid, Node] = {}
    stack = list(tops)
    while stack:
        oid = stack.pop()
        nodes[oid] = tree.nodes[oid]
        stack += [child for child in tree.children.get(oid, ()) if child not in starts]
    children: dict[Oid | None, list[Oid]] = {
        oid: [child for child in tree.children.get(oid, ()) if child in nodes] for oid in nodes
    }
    return Tree(tree.branches, nodes, {**children, None: tops}, tree.gaps)


def marks(store: ObjectStore, sid: str, tree: Tree, meta: Meta) -> list[SessionMark]:
    """Return all marks of a session. ``meta``: the content of the session's ``meta``.

    Marks before a fork belong to the original session and are left out. Marks from lines that are no longer in the
    agent's file are left out too.
    """
    found = list(meta.marks)
    start = next((oid for oid in tree.nodes if is_fork_start(store, tree.nodes[oid], sid)), None)
    older = entries_before(tree, start)
    in_file = {node.oid for node in entries_in_file(tree, meta.source_file.superseded)}
    for node in tree.nodes.values():
        counts = node.oid not in older and (node.source is None or node.oid in in_file)
        if counts and (node.kind in MARKING or node.oid == start):
            found += marks_of(node, entry_of(store, node), on_meta=False)
    return found


def entries_before(tree: Tree, start: Oid | None) -> set[Oid]:
    """Return the entries before the fork entry ``start``, which belong to other sessions."""
    found: set[Oid] = set()
    oid = tree.parent(start) if start is not None else None
    while oid is not None and oid not in found:
        found.add(oid)
        oid = tree.parent(oid)
    return found


def targets(tree: Tree, meta: Meta) -> dict[str, Oid]:
    """Return the entries that a label or an address can name, by chain digest, short id, and the agent's entry id.

    If several entries have the same id, an entry in the agent's file takes precedence, then the one with the highest
    line number.
    """
    by_name = {short_id(node.chain): node.oid for node in tree.nodes.values() if node.source is None}
    by_name |= {to_base64url(node.chain): node.oid for node in tree.nodes.values()}
    in_file = {node.oid for node in entries_in_file(tree, meta.source_file.superseded)}
    imported = [node for node in tree.nodes.values() if node.source is not None]
    for node in sorted(imported, key=lambda node: (node.oid in in_file, sibling_order(node))):
        if node.source is not None and node.source.id is not None:
            by_name[node.source.id] = node.oid
    return by_name
