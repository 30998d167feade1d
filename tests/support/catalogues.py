"""Comparison of catalogs: an updated catalog and a rebuilt one have equal content."""

from __future__ import annotations

import sqlite3
from typing import Any

_ORDER = {
    "refs": "name",
    "entries": "sid, oid",
    "answers": "sid, answer",
    "marks": "sid, on_meta, what, line, at_ms, chain, target, value",
    "branches": "sid, name",
    "sessions": "sid",
}
_NUMBERS = {"anchors", "proof"}
"""Columns of ``entries`` that depend on the order in which entries were added, directly or derived."""


def told(db: sqlite3.Connection) -> dict[str, list[Any]]:
    """Return the rows of every table.

    Numbers that depend on insertion order are replaced with the values they refer to.
    """
    return {table: db.execute(_query(db, table)).fetchall() for table in _ORDER}


def _query(db: sqlite3.Connection, table: str) -> str:
    if table == "refs":  # without ``loose``, which depends on the time of the update
        return "SELECT name, value FROM refs ORDER BY name"
    if table != "entries":
        return f"SELECT * FROM {table} ORDER BY {_ORDER[table]}"
    names = [name for _, name, *_ in db.execute("PRAGMA table_info(entries)") if name not in _NUMBERS]
    said = "(SELECT said FROM anchors WHERE id = entries.anchors)"
    return f"SELECT {', '.join(names)}, {said} FROM entries ORDER BY {_ORDER[table]}"
