"""Comparison of catalogs: an updated catalog and a rebuilt one have equal content."""

from __future__ import annotations

import sqlite3
from typing import Any

_ORDER = {
    "refs": "name",
    "entries": "sid, oid",
    "entries_by_chain": "chain, oid, sid",
    "unindexed_sessions": "sid",
    "anchors": "id",
    "answers": "sid, answer",
    "marks": "sid, on_meta, what, line, at_ms, chain, target, value",
    "branches": "sid, name",
    "sessions": "sid",
    "calls": "sid, oid, block",
    "results": "sid, oid, block",
    "changes": "sid, oid, block, number",
}


def told(db: sqlite3.Connection) -> dict[str, list[Any]]:
    """Return the rows of every table that an update of the catalog fills, without states that no entry has."""
    return {table: db.execute(_query(table)).fetchall() for table in _ORDER}


def _query(table: str) -> str:
    if table == "refs":  # without ``loose``, which depends on the time of the update
        return "SELECT name, value FROM refs ORDER BY name"
    if table == "anchors":
        return "SELECT * FROM anchors WHERE id IN (SELECT anchors FROM entries) ORDER BY id"
    return f"SELECT * FROM {table} ORDER BY {_ORDER[table]}"
