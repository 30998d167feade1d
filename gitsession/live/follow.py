"""An iterator over the new entries of a store, including those that other processes write.

The iterator uses no thread. It sleeps between two checks. If nothing has changed, a check reads no git objects.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gitsession.git.types import Oid
from gitsession.sessions import graph
from gitsession.sessions.node import Node
from gitsession.store import change_stamp, refs
from gitsession.store.git_store import GitStore

EVERY_SECONDS = 0.5


class NewEntry(NamedTuple):
    """A new entry. ``branch``: the branch that contains it."""

    session: str
    branch: str
    node: Node


def follow(
    store: GitStore, *, sid: str | None = None, every: float = EVERY_SECONDS, idle: bool = False
) -> Iterator[NewEntry | None]:
    """Yield each entry that is written after this call. The entries of a branch are yielded oldest first.

    The iterator never ends by itself. To end it, leave the loop or call ``close``. An entry is yielded only once, even
    if its branch is removed and restored.

    Args:
        store: The store.
        sid: Id of the session to follow; ``None`` for all sessions.
        every: Time between two checks, in seconds.
        idle: Whether to yield ``None`` after a check without new entries, so that the caller can do other work.

    Raises:
        Corrupt: An entry is damaged.
        Unavailable: The store cannot be read.
    """
    mark = change_stamp.fingerprint(store.git_dir)
    heads = _branch_tips(store, sid)
    return _new_entries(store, sid, every, idle, mark, heads)


def _new_entries(
    store: GitStore, sid: str | None, every: float, idle: bool, mark: str, heads: Mapping[tuple[str, str], Oid]
) -> Iterator[NewEntry | None]:
    known: dict[str, set[Oid]] = {}
    while True:
        now = change_stamp.fingerprint(store.git_dir)
        count = 0
        if now != mark:
            mark, before, heads = now, heads, _branch_tips(store, sid)
            for (session, branch), leaf in heads.items():
                if before.get((session, branch)) == leaf:
                    continue
                if session not in known:
                    known[session] = set()
                    for (of, _), oid in before.items():
                        if of == session:
                            _add_new(store, oid, known[session])
                for node in _add_new(store, leaf, known[session]):
                    count += 1
                    yield NewEntry(session, branch, node)
        if not count:
            if idle:
                yield None
            time.sleep(every)


def _branch_tips(store: GitStore, sid: str | None) -> dict[tuple[str, str], Oid]:
    found = store.refs(refs.SESSIONS if sid is None else refs.session(sid))
    heads = ((refs.parse(name), oid) for name, oid in found.items())
    return {branch: oid for branch, oid in heads if branch is not None and refs.is_branch(branch[1])}


def _add_new(store: GitStore, leaf: Oid, known: set[Oid]) -> list[Node]:
    """Add the entries of the history of ``leaf`` to ``known``; return the added entries, oldest first."""
    found = []
    for node in graph.history(store, leaf):
        if node.oid in known:
            break
        known.add(node.oid)
        found.append(node)
    return found[::-1]
