"""Rows of entries from which a context is built. Each row has a checksum, because SQLite does not check its pages.

A row with a wrong checksum is treated as missing. The checksum is a CRC-32, which detects damage but no manipulation.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import sqlite3
import zlib
from typing import NamedTuple

from gitsession.codec.digest import hash_of
from gitsession.codec.message import SourceRef
from gitsession.git.types import Oid
from gitsession.index.derived import storable
from gitsession.sessions import content, graph, history_state
from gitsession.sessions.history_state import HistoryState
from gitsession.sessions.indexed_entry import IndexedEntry
from gitsession.sessions.node import Node
from gitsession.store.interface import ObjectStore


class EntryRow(NamedTuple):
    """The verified content of a row in the table of entries.

    ``agent``, ``source_id`` and ``line``: the agent's record from which the entry was imported; ``None`` if there is no
    such record. ``anchors``: the number of the row with the state of the history at the entry. ``above``: the oid of
    the nearest earlier entry that can add content to the context; "" if there is none. ``anchors`` and ``above`` are
    ``None`` if they are unknown, either because of damage or because an earlier entry belongs to another session.
    ``payload``: the oid of the blob with the whole payload; ``None`` if there is no such blob, or if the entry cannot
    add content to the context.
    """

    sid: str
    oid: Oid
    kind: str
    chain: bytes
    agent: str | None
    source_id: str | None
    line: int | None
    anchors: int | None
    above: Oid | None
    payload: bytes | None

    @classmethod
    def of(cls, sid: str, node: Node, anchors: int | None, above: Oid | None, payload: Oid) -> EntryRow:
        agent, source_id, line = (node.source.agent, node.source.id, node.source.line) if node.source else (None,) * 3
        blob = bytes.fromhex(payload) or None
        return cls(sid, node.oid, node.kind, node.chain, agent, source_id, line, anchors, above, blob)

    def proof(self) -> int | None:
        """Return the checksum of the row; ``None`` if SQLite cannot store all values unchanged."""
        sid, oid, kind, chain, agent, source_id, line, anchors, above, payload = self
        text = f"{sid}\n{oid}\n{kind}\n{agent}\n{source_id}\n{line}\n{anchors}\n{above}\n"
        if not text.isascii() and storable(text) != text:
            return None
        return zlib.crc32(b"%b%b%b" % (text.encode(), chain, payload or b""))

    def indexed_entry(self) -> IndexedEntry:
        source = None if self.agent is None else SourceRef(self.agent, self.source_id, self.line or 0)
        return IndexedEntry(self.oid, self.kind, self.chain, source, (self.payload or b"").hex(), self.above)


_COLUMNS = ", ".join(f"entries.{name}" for name in (*EntryRow._fields, "proof"))
_ONE = f"SELECT {_COLUMNS} FROM entries WHERE sid = ?1 AND oid = ?2"
_RUN = f"""
WITH RECURSIVE up AS ({_ONE} UNION ALL
    SELECT {_COLUMNS} FROM up JOIN entries ON entries.sid = ?1 AND entries.oid = up.above)
SELECT * FROM up LIMIT ?3"""
_ANY_SESSION = f"SELECT {_COLUMNS} FROM entries_by_chain c JOIN entries USING (sid, oid) WHERE c.chain = ? AND oid = ?"


def has_entry(db: sqlite3.Connection, sid: str, oid: Oid) -> bool:
    """Return whether the catalog has an entry as one of this session, not of the session from which it was forked."""
    return db.execute("SELECT 1 FROM entries WHERE sid = ? AND oid = ?", (sid, oid)).fetchone() is not None


def row_of(db: sqlite3.Connection, sid: str, oid: Oid) -> EntryRow | None:
    """Return the row of an entry in a session; ``None`` if it is missing or damaged."""
    return next(iter(_proven(db, _ONE, (sid, oid))), None)


def run_of(db: sqlite3.Connection, sid: str, oid: Oid, count: int) -> list[EntryRow]:
    """Return the row of an entry and the rows of earlier entries that can add content to the context.

    ``count``: the maximum number of rows.
    """
    return _proven(db, _RUN, (sid, oid, count))


def row_in_any_session(db: sqlite3.Connection, node: Node) -> EntryRow | None:
    return next(iter(_proven(db, _ANY_SESSION, (node.chain, node.oid))), None)


def _proven(db: sqlite3.Connection, query: str, values: tuple[object, ...]) -> list[EntryRow]:
    found = []
    for *columns, proof in db.execute(query, values):
        row = EntryRow(*columns)
        with contextlib.suppress(TypeError):  # a column of another type is also damage
            if proof is not None and row.proof() == proof:
                found.append(row)
    return found


# ---- states of histories


def state_at(db: sqlite3.Connection, row: EntryRow | None) -> HistoryState | None:
    """Return the state of the history at an entry; ``None`` if it is unknown or damaged."""
    if row is None:
        return None
    found = db.execute("SELECT said, proof FROM anchors WHERE id = ?", (row.anchors,)).fetchone()
    if found is None or found[1] != _state_proof(row.anchors, found[0]):
        return None
    fields = json.loads(found[0])
    fields |= {name: tuple(fields.get(name, ())) for name in ("rules", "progress")}
    return HistoryState(**{**fields, "tasks": tuple(tuple(task) for task in fields.get("tasks", ()))})


def state_in_history(db: sqlite3.Connection, store: ObjectStore, oid: Oid) -> HistoryState:
    """Return the state at an entry of any session, from the nearest state in the catalog and the entries after it.

    Raises ``Malformed``, ``Corrupt`` or ``MissingObject`` if one of these entries cannot be read.
    """
    return history_state.walk(
        graph.history(store, oid),
        functools.partial(content.entry_of, store),
        lambda node: state_at(db, row_in_any_session(db, node)),
    )


def store_state(db: sqlite3.Connection, state: HistoryState) -> int:
    """Store a state and return its row number: a hash of it, so that all processes use the same number."""
    # As ASCII, because SQLite does not accept lone surrogates.
    text = json.dumps({name: value for name, value in dataclasses.asdict(state).items() if value})
    row = int.from_bytes(hash_of(text.encode())[:8], "big", signed=True)
    db.execute("INSERT OR REPLACE INTO anchors VALUES (?, ?, ?)", (row, text, _state_proof(row, text)))
    return row


def _state_proof(row: int | None, text: str) -> int:
    return zlib.crc32(f"{row} {text}".encode())
