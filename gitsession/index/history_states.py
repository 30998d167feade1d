"""States of histories (``sessions.history_state``) in the catalog. A lookup of a state reads only one entry's row."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from gitsession.errors import Corrupt, Malformed, MissingObject
from gitsession.git.types import Oid
from gitsession.index import entry_rows
from gitsession.index.catalogue import Catalogue
from gitsession.index.derived import is_damage
from gitsession.index.entry_rows import EntryRow
from gitsession.index.names import place_of
from gitsession.model.entries import Entry, Fork, Opaque
from gitsession.sessions import history_state
from gitsession.sessions.content import DecodedEntry
from gitsession.sessions.history_state import EMPTY_STATE, HistoryState
from gitsession.sessions.indexed_entry import IndexedEntry
from gitsession.sessions.node import Node
from gitsession.store.interface import ObjectStore

MISSES_MAX = 256
"""Number of lookups of states that are not in the catalog after which the catalog is updated."""

FIRST, MOST = 16, 512
"""Number of rows in the first read, and the maximum in later reads. Most walks soon end at a compaction."""


class CatalogueEntryIndex:
    """An index of the entries of one session, from a catalog that may be older than the refs.

    Entries never change, so the rows of an old catalog are valid. ``refresh``: a function that updates the catalog. The
    update examines all refs and new entries, so it is called at most once.
    """

    def __init__(self, catalogue: Catalogue, sid: str, refresh: Callable[[], Catalogue] | None = None) -> None:
        self._catalogue = catalogue
        self._sid = sid
        self._refresh = refresh
        self._misses = 0
        self._rows: dict[Oid, EntryRow] = {}
        self._count = FIRST

    def anchors(self, oid: Oid) -> HistoryState | None:
        """Return the state of the history at an entry; ``None`` if it is unknown."""
        found = self._state_at(oid)
        if found is None:
            self._misses += 1
            if self._misses == MISSES_MAX and self._refresh is not None:
                self._catalogue = self._refresh()
                return self._state_at(oid)
        return found

    def indexed_entry(self, oid: Oid, *, goes_on: bool = False) -> IndexedEntry | None:
        """Return an entry from the catalog; ``None`` if its row is missing or damaged.

        ``goes_on``: True if the caller will also request earlier entries.
        """
        if oid not in self._rows:
            self._rows |= {row.oid: row for row in self._run(oid, self._count if goes_on else 1)}
            self._count = min(self._count * 4, MOST) if goes_on else self._count
        row = self._rows.get(oid)
        return row.indexed_entry() if row is not None else None

    def _run(self, oid: Oid, count: int) -> list[EntryRow]:
        try:
            return entry_rows.run_of(self._catalogue.db, self._sid, oid, count)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            return []  # the next `ls` replaces a damaged catalog; until then the history is read from commits

    def is_there(self, name: str, asked_at: Oid) -> bool:
        """Return whether an entry before ``asked_at`` may have the name ``name``; True if this is not certain.

        If an entry is in the catalog, all entries before it are there, too, except those that a fork shares with
        another session. An entry of an unindexed session cannot be found by its chain digest yet.
        """
        try:
            first = self._catalogue.db.execute(
                "SELECT kind FROM sessions JOIN entries ON entries.sid = sessions.sid AND oid = start "
                "WHERE sessions.sid = ? AND EXISTS (SELECT 1 FROM entries WHERE sid = sessions.sid AND oid = ?) "
                "AND sessions.sid NOT IN unindexed_sessions",
                (self._sid, asked_at),
            ).fetchone()
            if first is None or first[0] == Fork.kind:
                return True
            return place_of(self._catalogue.db, self._sid, name) is not None
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            return True

    def _state_at(self, oid: Oid) -> HistoryState | None:
        try:
            db = self._catalogue.db
            row = self._rows.get(oid) or entry_rows.row_of(db, self._sid, oid)
            return entry_rows.state_at(db, row)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            return None


def state_of_history(db: sqlite3.Connection, store: ObjectStore, sid: str, oid: Oid) -> HistoryState | None:
    """Return the state at an entry of a session; ``None`` if it is unknown.

    The entry can belong to the session from which this one was forked, which may not be in the catalog.
    """
    found = entry_rows.state_at(db, entry_rows.row_of(db, sid, oid))
    if found is not None:
        return found
    try:
        return entry_rows.state_in_history(db, store, oid)
    except (Malformed, Corrupt, MissingObject):
        return None


class StateRecorder:
    """A recorder of the history's state at each new entry, parents first. Equal states are stored once."""

    def __init__(self, db: sqlite3.Connection, store: ObjectStore, sid: str) -> None:
        self._db = db
        self._store = store
        self._sid = sid
        self._at: dict[Oid, HistoryState | None] = {}
        self._newest: tuple[HistoryState, int] | None = None
        self._showing: dict[Oid, Oid | None] = {}

    def record(self, node: Node, found: DecodedEntry) -> EntryRow:
        """Return the row of ``node``. With it, the context can be built without reading the commit."""
        payload = found.alone if node.kind in history_state.CONTEXT_KINDS else ""
        return EntryRow.of(self._sid, node, self._state_row(node, found.entry), self._shown(node), payload)

    def model_at(self, oid: Oid) -> str | None:
        """Return the model that is in use at an entry that was recorded, as ``provider/model``."""
        state = self._at[oid]
        return state.model if state is not None else None

    def _shown(self, node: Node) -> Oid | None:
        """Return the nearest entry before ``node`` that can add content to the context. See ``EntryRow.above``."""
        above: Oid | None = ""
        if node.parent in self._showing:
            above = self._showing[node.parent]
        elif node.parent is not None:
            found = entry_rows.row_of(self._db, self._sid, node.parent)
            above = found and found.above
            if found is not None and found.kind in history_state.CONTEXT_KINDS:
                above = node.parent
        self._showing[node.oid] = node.oid if node.kind in history_state.CONTEXT_KINDS else above
        return above

    def _state_row(self, node: Node, entry: Entry) -> int | None:
        above = EMPTY_STATE if node.parent is None else self._above(node.parent)
        hidden = isinstance(entry, Opaque) and entry.problem and node.kind != Opaque.kind
        state = None if above is None or hidden else history_state.step(above, node.oid, entry)
        self._at[node.oid] = state
        return None if state is None else self._row(state)

    def _above(self, parent: Oid) -> HistoryState | None:
        if parent not in self._at:
            self._at[parent] = state_of_history(self._db, self._store, self._sid, parent)
        return self._at[parent]

    def _row(self, state: HistoryState) -> int:
        if self._newest is None or self._newest[0] is not state:  # most entries do not change the state
            self._newest = state, entry_rows.store_state(self._db, state)
        return self._newest[1]
