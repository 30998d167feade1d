"""The branches of a session in the catalogue, with what decides which is active (``sessions.active_branch``)."""

from __future__ import annotations

import sqlite3
from collections.abc import Set

from gitsession.codec.digest import from_base64url
from gitsession.git.types import Oid
from gitsession.index.names import clamped
from gitsession.sessions.active_branch import chosen, is_superseded
from gitsession.sessions.content import entry_of
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.node import line_of, load
from gitsession.store import refs
from gitsession.store.interface import ObjectStore


def put(
    db: sqlite3.Connection, store: ObjectStore, sid: str, name: str, oid: Oid | None, superseded: Set[str]
) -> None:
    """Store where a branch ends; ``None`` removes it. The entries of the session are in the catalogue by then."""
    if oid is None:
        db.execute("DELETE FROM branches WHERE sid = ? AND later = ? AND name = ?", (sid, name != refs.MAIN, name))
        return
    ours, at_ms, chain, line, in_file = False, 0, b"", None, False
    try:
        node = load(store, oid)
    except DAMAGE:
        pass  # it is not the one to go on with
    else:
        found = db.execute("SELECT at_ms, in_file FROM entries WHERE sid = ? AND oid = ?", (sid, oid)).fetchone()
        ours, chain = node.source is None and node.parent is not None, node.chain
        line = node.source.line if node.source is not None else None
        if found is not None:
            at_ms, in_file = found
        else:  # an entry of the session that this one was forked off
            at_ms = clamped(entry_of(store, node).at_ms)
            in_file = not is_superseded(store, node, superseded)
    row = (sid, name != refs.MAIN, name, oid, ours, at_ms, chain, line, in_file)
    db.execute("INSERT OR REPLACE INTO branches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def ends_at(db: sqlite3.Connection, sid: str, oid: Oid) -> bool:
    """Return whether a branch of the session ends at an entry."""
    return db.execute("SELECT 1 FROM branches WHERE sid = ? AND oid = ?", (sid, oid)).fetchone() is not None


def active(db: sqlite3.Connection, store: ObjectStore, sid: str, leaf: str | None) -> str | None:
    """Return the active branch, as ``sessions.active_branch`` determines it; ``None`` where the session has no branch.

    ``leaf``: the position of the entry that the agent's file names as its leaf.
    """
    by_hand = chosen(store, sid)
    if by_hand is not None:
        return by_hand
    place, chain = (line_of(leaf), _chain(leaf)) if leaf is not None else (None, b"")
    for where, order, values in (
        ("ours", "at_ms DESC, chain DESC, later, name", ()),
        ("line = ? AND chain = ?", "later, name", (place, chain)),
        ("line IS NOT NULL", "in_file DESC, line DESC, name DESC", ()),
        ("1", "later, name", ()),
    ):
        query = f"SELECT name FROM branches WHERE sid = ? AND {where} ORDER BY {order} LIMIT 1"
        found = db.execute(query, (sid, *values)).fetchone()
        if found is not None:
            return str(found[0])
    return None


def _chain(position: str) -> bytes:
    try:
        return from_base64url(position.partition(":")[2])
    except ValueError:
        return b""
