"""Addresses of entries within a session."""

from __future__ import annotations

from gitsession.codec.digest import to_base64url
from gitsession.errors import Ambiguous, NotFound
from gitsession.pattern import pattern
from gitsession.sessions import graph, marks
from gitsession.sessions.node import Node, load
from gitsession.store.interface import ObjectStore
from gitsession.store.refs import LEAF, ROOT

PREFIX_MIN = 4

STEPS = pattern(r"(.+?)~(\d{1,9})")


def resolve(store: ObjectStore, sid: str, address: str, *, branch: str | None = None) -> Node:
    """Return the entry that ``address`` names. ``branch``: the branch to which ``leaf`` and ``root`` refer.

    ``branch`` defaults to the active branch. These names are tried in order: ``leaf`` and ``root``, a branch, a label,
    an agent's id, the beginning of a chain digest or an oid. Raises ``NotFound``, also if ``branch`` was removed, or
    ``Ambiguous`` with the candidates.
    """
    steps = STEPS.fullmatch(address)
    if steps:
        return _ancestor(store, resolve(store, sid, steps[1], branch=branch), int(steps[2]), address)
    if address in (LEAF, ROOT):
        name = branch or _active(store, sid)
        leaf = graph.tip(store, sid, name)
        if leaf is None:
            others = ", ".join(list(graph.branches(store, sid))[:20])
            if not others:
                raise NotFound(f"no session {sid}", hint="run `gitsession ls` to list the sessions")
            raise NotFound(f"session {sid} has no branch {name!r}", hint=f"choose one of {others}")
        if address == LEAF:
            return _nearest_parseable(store, load(store, leaf))
        *_, root = graph.history(store, leaf)
        return root
    tip = graph.tip(store, sid, address)
    return load(store, tip) if tip is not None else _search(store, sid, address)


def _nearest_parseable(store: ObjectStore, node: Node) -> Node:
    """Return ``node``, or the nearest entry before it that can be parsed. Agents continue after that entry."""
    while node.kind == "opaque" and node.parent is not None:
        node = load(store, node.parent)
    return node


def _ancestor(store: ObjectStore, node: Node, steps: int, address: str) -> Node:
    for _ in range(steps):
        if node.parent is None:
            raise NotFound(
                f"no entry {address!r}: the history has fewer entries", hint="run `gitsession log` to list the history"
            )
        node = load(store, node.parent)
    return node


def _active(store: ObjectStore, sid: str) -> str:
    from gitsession.sessions.active_branch import active  # slow: it reads entries

    return active(store, sid)


def _search(store: ObjectStore, sid: str, address: str) -> Node:
    from gitsession.sessions import session_facts  # slow: it reads entries
    from gitsession.sessions.meta import meta_of

    tree = graph.tree(store, sid)
    meta = meta_of(store, sid)
    targets = session_facts.targets(tree, meta)
    labels = marks.labels(session_facts.marks(store, sid, tree, meta), targets)
    for found in (
        [oid for oid, label in labels.items() if label == address],
        [targets[address]] if address in targets else [],
        [node.oid for node in tree.nodes.values() if _matches_prefix(node, address)],
    ):
        if len(found) == 1:
            return tree.nodes[found[0]]
        if found:
            lines = [f"{oid[:12]}  {tree.nodes[oid].subject}" for oid in found]
            raise Ambiguous(f"{address!r} matches {len(found)} entries", lines, hint="pass more characters of the id")
    raise NotFound(
        f"no entry {address[:80]!r} in session {sid}",
        hint=f"run `gitsession tree {sid}` to list the entries, or pass a label, a branch, leaf, root or leaf~3",
    )


def _matches_prefix(node: Node, address: str) -> bool:
    return len(address) >= PREFIX_MIN and (
        node.oid.startswith(address.lower()) or to_base64url(node.chain).startswith(address)
    )
