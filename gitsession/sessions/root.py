"""The entry at which a session begins, which is also the parent of the first entries of ``meta`` and ``files``."""

from __future__ import annotations

from gitsession.errors import NotFound
from gitsession.sessions import graph
from gitsession.sessions.content import is_fork_start
from gitsession.sessions.node import Node
from gitsession.store.interface import ObjectStore


def beginning(store: ObjectStore, sid: str) -> Node:
    """Return the fork entry of the session, or else its root. Raises ``NotFound`` if the session has no entries yet."""
    leaves = graph.branches(store, sid)
    if not leaves:
        raise NotFound(f"cannot find the beginning of session {sid}: it has no entries yet")
    line = graph.history(store, next(iter(leaves.values())))
    return next(node for node in line if node.parent is None or is_fork_start(store, node, sid))
