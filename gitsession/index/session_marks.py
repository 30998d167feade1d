"""The marks of a session (``sessions.marks``) in the catalogue, kept up to date by what is new on ``meta``."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gitsession.git.types import Oid
from gitsession.index.names import clamped, storable
from gitsession.model import entries as kinds
from gitsession.sessions.content import entry_of
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.marks import SessionMark
from gitsession.sessions.meta import marks_of
from gitsession.sessions.node import Node, load
from gitsession.store.interface import ObjectStore

_ALONE = frozenset({kinds.Label.kind, kinds.Title.kind, kinds.Seal.kind})
"""The kinds of our own entries on ``meta`` whose meaning depends on no other entry there."""


class Changed(NamedTuple):
    """The marks that ``meta`` gained and lost between two tips."""

    added: list[SessionMark]
    removed: list[SessionMark]


def between(store: ObjectStore, old: Oid, new: Oid) -> Changed | None:
    """Return what changed where one tip is an ancestor of the other; ``None`` where ``meta`` must be folded anew.

    Both histories are walked in step, so that the cost is the distance between the tips, whichever is the older one.
    """
    if old == new:
        return Changed([], [])
    gained, lost = _Walk(store, new, old), _Walk(store, old, new)
    while gained.step() | lost.step():
        if gained.has_arrived:
            return Changed(gained.marks(), [])
        if lost.has_arrived:
            return Changed([], lost.marks())
    return None


class _Walk:
    """A walk from one tip back to another, over entries that each stand alone."""

    def __init__(self, store: ObjectStore, start: Oid, end: Oid) -> None:
        self._store, self._end = store, end
        self._found: list[Node] = []
        self._nodes = self._back(start)
        self.has_arrived = False

    def step(self) -> bool:
        """Take one step; whether there was one to take."""
        node = next(self._nodes, None)
        if node is None:
            return False
        self._found.append(node)
        self.has_arrived = node.parent == self._end
        return True

    def marks(self) -> list[SessionMark]:
        return [mark for node in self._found for mark in marks_of(node, entry_of(self._store, node), on_meta=True)]

    def _back(self, oid: Oid | None) -> Iterator[Node]:
        while oid is not None:
            try:
                node = load(self._store, oid)
            except DAMAGE:
                return
            if node.source is not None or node.kind not in _ALONE:
                return
            yield node
            oid = node.parent


def replace(db: sqlite3.Connection, sid: str, marks: Iterable[SessionMark]) -> None:
    """Replace all marks of a session's ``meta``."""
    db.execute("DELETE FROM marks WHERE sid = ? AND on_meta = 1", (sid,))
    insert(db, sid, marks, on_meta=True)


def change(db: sqlite3.Connection, sid: str, changed: Changed) -> None:
    """Apply what changed on a session's ``meta``."""
    db.executemany(
        "DELETE FROM marks WHERE sid = ? AND what = ? AND target = ? AND on_meta = 1 AND chain = ?",
        [(sid, mark.what, storable(mark.target), mark.chain) for mark in changed.removed],
    )
    insert(db, sid, changed.added, on_meta=True)


def insert(db: sqlite3.Connection, sid: str, marks: Iterable[SessionMark], *, on_meta: bool) -> None:
    """Add marks of a session."""
    rows = []
    for mark in marks:
        texts = storable(mark.target), storable(mark.value)
        rows.append((sid, on_meta, mark.what, clamped(mark.at_ms), mark.line, mark.chain, *texts))
    db.executemany("INSERT INTO marks VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
