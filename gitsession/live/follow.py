"""An iterator over the new entries of a store, including those that other processes write.

The iterator uses no thread. It sleeps between two checks. If nothing has changed, a check reads no git objects.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from gitsession.live.changes import ChangeReader
from gitsession.sessions.node import Node
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
    return _new_entries(ChangeReader(store, sid), every, idle)


def _new_entries(reader: ChangeReader, every: float, idle: bool) -> Iterator[NewEntry | None]:
    while True:
        count = 0
        for change in reader.read():
            if change.kind == "entry" and change.node is not None:
                count += 1
                yield NewEntry(change.session, change.branch, change.node)
        if not count:
            if idle:
                yield None
            time.sleep(every)
