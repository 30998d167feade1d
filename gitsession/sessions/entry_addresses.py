"""Addresses of entries within a session."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from gitsession.codec.digest import to_base64url
from gitsession.errors import Ambiguous, NotFound
from gitsession.pattern import pattern
from gitsession.sessions import graph, marks
from gitsession.sessions.node import Node, load
from gitsession.store.interface import ObjectStore
from gitsession.store.refs import LEAF, ROOT, TURN, USER

PREFIX_MIN = 4

STEPS = pattern(r"(.+?)~(\d{1,9})")


def resolve(store: ObjectStore, sid: str, address: str, *, branch: str | None = None) -> Node:
    """Return the entry that ``address`` names. ``branch``: the branch to which ``refs.ADDRESSES`` refer.

    ``branch`` defaults to the active branch. These names are tried in order: ``refs.ADDRESSES``, a branch, a label, an
    agent's id, the beginning of a chain digest or an oid. Raises ``NotFound``, also if ``branch`` was removed, or
    ``Ambiguous`` with the candidates.
    """
    steps = STEPS.fullmatch(address)
    name, number = (steps[1], int(steps[2])) if steps else (address, 1)
    if name in (USER, TURN):
        return _counted(store, resolve(store, sid, LEAF, branch=branch), name, number)
    if steps:
        return _ancestor(store, resolve(store, sid, name, branch=branch), number, address)
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


def _counted(store: ObjectStore, leaf: Node, name: str, number: int) -> Node:
    """Return the user message or the start of a turn with this number, counted from ``leaf`` beginning with 1."""
    history = graph.history(store, leaf.oid)
    users = (node for node in history if node.role == USER) if name == USER else _turn_starts(history)
    found = next(itertools.islice(users, number - 1, None), None) if number else None
    if found is None:
        what = "user messages" if name == USER else "turns"
        hint = "run `gitsession log` to list the history; the newest one has the number 1"
        raise NotFound(f"no entry '{name}~{number}': the history has fewer {what}", hint=hint)
    return found


_ANSWERS = ("assistant", "tool")
"""The roles of messages that end the beginning of a turn."""


def _turn_starts(history: Iterable[Node]) -> Iterator[Node]:
    """Yield the starts of the turns in ``history``, the newest first.

    User messages without an answer between them start one turn, with the first of them.
    """
    start = None
    for node in history:
        if node.role == USER:
            start = node
        elif start is not None and node.role in _ANSWERS:
            yield start
            start = None
    if start is not None:
        yield start


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
        hint=f"run `gitsession tree {sid}` to list the entries, or pass a label, a branch, leaf, root, leaf~3, user~2 "
        "or turn~1",
    )


def _matches_prefix(node: Node, address: str) -> bool:
    return len(address) >= PREFIX_MIN and (
        node.oid.startswith(address.lower()) or to_base64url(node.chain).startswith(address)
    )
