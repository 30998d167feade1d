"""The active branch of a session (docs/reference/format.md, "What is derived")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from gitsession.errors import NotFound
from gitsession.git.types import Oid
from gitsession.sessions.content import entry_of
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.graph import branches, history
from gitsession.sessions.meta import meta_of
from gitsession.sessions.node import Node, load, position
from gitsession.store import refs
from gitsession.store.interface import ObjectStore


def selected_branch(store: ObjectStore, sid: str) -> str | None:
    """Return the branch that the user selected on this machine; ``None`` if there is no such branch."""
    value = store.ref(refs.active(sid))
    target = refs.target(value) if value else None
    parsed = refs.parse(target) if target else None
    exists = parsed is not None and refs.is_branch(parsed[1]) and store.ref(target or "") is not None
    return parsed[1] if parsed and exists else None


def active(store: ObjectStore, sid: str) -> str:
    """Return the active branch. Raises ``NotFound`` if there is no such session."""
    selected = selected_branch(store, sid)
    if selected is not None:
        return selected
    leaves = branches(store, sid)
    if not leaves:
        raise NotFound(f"no session {sid}", hint="run `gitsession ls` to list the sessions")
    return next(iter(leaves)) if len(leaves) == 1 else derived(store, sid, leaves)


def derived(store: ObjectStore, sid: str, leaves: Mapping[str, Oid]) -> str:
    """Return the active branch of a session if the user selected none.

    If gitsession wrote a tip, the active branch is the one with the newest such tip. Otherwise, it is the branch that
    the agent's file selects. If the file selects no branch, it is the branch whose tip has the highest line number.
    """
    nodes = {name: node for name, oid in leaves.items() if (node := _loaded(store, oid)) is not None}
    own_nodes = {name: node for name, node in nodes.items() if node.source is None and node.parent is not None}
    if own_nodes:
        return max(own_nodes, key=lambda name: (entry_of(store, own_nodes[name]).at_ms, own_nodes[name].chain))
    file = meta_of(store, sid).source_file
    matching = [name for name, node in nodes.items() if node.source is not None and position(node) == file.leaf]
    if matching:
        return min(matching, key=lambda name: (name != refs.MAIN, name))
    imported = {name: node for name, node in nodes.items() if node.source is not None}
    superseded, known = frozenset(file.superseded), dict[Oid, bool]()
    current = {name: node for name, node in imported.items() if not is_superseded(store, node, superseded, known)}
    lines = {name: node.source.line for name, node in (current or imported).items() if node.source}
    return max(lines, key=lambda name: (lines[name], name)) if lines else next(iter(leaves))


def _loaded(store: ObjectStore, oid: Oid) -> Node | None:
    """Return the node of a tip; ``None`` if the tip is not a readable entry. Its branch then cannot become active."""
    try:
        return load(store, oid)
    except DAMAGE:
        return None


def is_superseded(store: ObjectStore, leaf: Node, superseded: Set[str], known: dict[Oid, bool] | None = None) -> bool:
    """Return whether ``leaf``, or an entry before ``leaf``, is no longer in the agent's file.

    ``known``: a cache of results. If it is shared between calls for many leaves, each entry is read only once.
    """
    if not superseded:
        return False
    known = {} if known is None else known
    visited: list[Oid] = []
    answer = False
    for node in _readable(store, leaf.oid):
        if node.oid in known:
            answer = known[node.oid]
            break
        visited.append(node.oid)
        if position(node) in superseded:
            answer = True
            break
    known.update(dict.fromkeys(visited, answer))
    return answer


def _readable(store: ObjectStore, leaf: Oid) -> Iterator[Node]:
    """Yield the entries of a history up to the first one that cannot be read."""
    try:
        yield from history(store, leaf)
    except DAMAGE:
        return
