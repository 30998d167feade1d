"""What lines have said about their state, kept for each entry as it is indexed: no walk, and no entry is read."""

from __future__ import annotations

import dataclasses
import functools
import json
import sqlite3
from collections.abc import Callable
from typing import TypeAlias

from gitsession.errors import Corrupt, Malformed, MissingObject
from gitsession.index.catalogue import Catalogue, is_damage
from gitsession.index.names import place_of
from gitsession.model.entries import Entry, Fork, Opaque
from gitsession.session import anchors, content, graph
from gitsession.session.anchors import NOTHING_SAID, Anchors
from gitsession.session.node import Node
from gitsession.store.base import ObjectStore, Oid

MISSES_MAX = 256
"""How many entries after the newest that is known are read before the catalogue is brought up to date instead."""


class Known:
    """What a catalogue can tell of the entries of one session, also where it is behind the refs.

    An entry never changes. ``refresh`` brings the catalogue up to date: it looks at the whole session, so it is rare.
    """

    def __init__(self, catalogue: Catalogue, sid: str, refresh: Callable[[], Catalogue] | None = None) -> None:
        self._catalogue = catalogue
        self._sid = sid
        self._refresh = refresh
        self._misses = 0

    def anchors(self, oid: Oid) -> Anchors | None:
        """What the line that ends at an entry has said; ``None`` where that is not known."""
        found = self._ask(oid)
        if found is None:
            self._misses += 1
            if self._misses == MISSES_MAX and self._refresh is not None:
                self._catalogue = self._refresh()
                return self._ask(oid)
        return found

    def above(self, oid: Oid) -> Oid | None:
        """The nearest entry before this one that can show something; "" if none can, ``None`` if that is not known."""
        try:
            return _above_entry(self._catalogue.db, self._sid, oid)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            return None

    def is_there(self, name: str, asked_at: Oid) -> bool:
        """Whether an entry before ``asked_at`` can answer to ``name``. If in doubt, yes.

        What is known of an entry is known of all before it, but for those that a fork shares with an older session.
        """
        try:
            first = self._catalogue.db.execute(
                "SELECT kind FROM sessions JOIN entries ON entries.sid = sessions.sid AND oid = start "
                "WHERE sessions.sid = ? AND EXISTS (SELECT 1 FROM entries WHERE sid = sessions.sid AND oid = ?)",
                (self._sid, asked_at),
            ).fetchone()
            if first is None or first[0] == Fork.kind:
                return True
            return place_of(self._catalogue.db, self._sid, name) is not None
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            return True

    def _ask(self, oid: Oid) -> Anchors | None:
        try:
            return _of_entry(self._catalogue.db, self._sid, oid)
        except (sqlite3.DatabaseError, ValueError, TypeError, AttributeError) as error:
            if isinstance(error, sqlite3.DatabaseError) and not is_damage(error):
                raise
            return None  # a damaged index is made anew by who lists sessions; meanwhile the line is walked


State: TypeAlias = tuple[int | None, Oid | None]
"""The row of the anchors at an entry, and the nearest entry before it that can show something, "" if there is none.

Each is ``None`` where it is not known: damage hides what was said, or an older session holds the entry.
"""


class Recorder:
    """Works out the anchors of entries as they are indexed, parents first, and keeps each that is new once."""

    def __init__(self, db: sqlite3.Connection, store: ObjectStore, sid: str) -> None:
        self._db = db
        self._store = store
        self._sid = sid
        self._at: dict[Oid, Anchors | None] = {}
        self._newest: tuple[Anchors, int] | None = None
        self._showing: dict[Oid, Oid | None] = {}

    def record(self, node: Node, entry: Entry) -> State:
        """The state at ``node``, to be kept with it."""
        return self._said(node, entry), self._shown(node)

    def _shown(self, node: Node) -> Oid | None:
        if node.parent is None:
            above: Oid | None = ""
        elif node.parent in self._showing:
            above = self._showing[node.parent]
        else:
            above = self._shown_at(node.parent)
        self._showing[node.oid] = node.oid if node.kind in anchors.SHOWING else above
        return above

    def _shown_at(self, oid: Oid) -> Oid | None:
        """The nearest entry that can show something, from one on that was indexed earlier."""
        asked = "SELECT kind, above FROM entries WHERE sid = ? AND oid = ?"
        found = self._db.execute(asked, (self._sid, oid)).fetchone()
        if found is None:
            return None
        return oid if found[0] in anchors.SHOWING else found[1]

    def _said(self, node: Node, entry: Entry) -> int | None:
        above = NOTHING_SAID if node.parent is None else self._above(node.parent)
        hidden = isinstance(entry, Opaque) and entry.problem and node.kind != Opaque.kind
        said = None if above is None or hidden else anchors.step(above, node.oid, entry)
        self._at[node.oid] = said
        return None if said is None else self._row(said)

    def _above(self, parent: Oid) -> Anchors | None:
        if parent not in self._at:
            self._at[parent] = _of_entry(self._db, self._sid, parent) or self._elsewhere(parent)
        return self._at[parent]

    def _elsewhere(self, oid: Oid) -> Anchors | None:
        """Those of an entry of the session that ours was forked off, which may be indexed after it."""
        try:
            return anchors.gather(
                graph.line(self._store, oid),
                functools.partial(content.entry_of, self._store),
                functools.partial(_of_any_session, self._db),
            )
        except (Malformed, Corrupt, MissingObject):
            return None

    def _row(self, said: Anchors) -> int:
        if self._newest is None or self._newest[0] is not said:  # most entries say nothing new
            text = _written(said)
            self._db.execute("INSERT OR IGNORE INTO anchors (said) VALUES (?)", (text,))
            found = self._db.execute("SELECT id FROM anchors WHERE said = ?", (text,)).fetchone()
            self._newest = said, found[0]
        return self._newest[1]


def _of_entry(db: sqlite3.Connection, sid: str, oid: Oid) -> Anchors | None:
    found = db.execute(
        "SELECT said FROM entries JOIN anchors ON id = anchors WHERE sid = ? AND oid = ?", (sid, oid)
    ).fetchone()
    return _read(found[0]) if found else None


def _above_entry(db: sqlite3.Connection, sid: str, oid: Oid) -> Oid | None:
    found = db.execute("SELECT above FROM entries WHERE sid = ? AND oid = ?", (sid, oid)).fetchone()
    return found[0] if found else None


def _of_any_session(db: sqlite3.Connection, oid: Oid) -> Anchors | None:
    found = db.execute(
        "SELECT said FROM sessions CROSS JOIN entries ON entries.sid = sessions.sid AND oid = ? "
        "JOIN anchors ON id = anchors LIMIT 1",
        (oid,),
    ).fetchone()
    return _read(found[0]) if found else None


def _written(said: Anchors) -> str:
    """Anchors as a text, in ASCII: SQLite takes no lone surrogate."""
    return json.dumps({name: value for name, value in dataclasses.asdict(said).items() if value})


def _read(text: str) -> Anchors:
    fields = json.loads(text)
    return Anchors(**{**fields, "rules": tuple(fields.get("rules", ()))})
