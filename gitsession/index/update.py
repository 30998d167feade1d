"""Brings the catalogue up to date with the refs: only sessions whose refs moved, and of those only new entries."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from gitsession.codec.digest import digest as digest_of
from gitsession.codec.digest import from_base64url, to_base64url
from gitsession.errors import GitSessionError
from gitsession.index.catalogue import Catalogue
from gitsession.model import entries as kinds
from gitsession.model.entries import Entry
from gitsession.session import content, facts, graph
from gitsession.session.active import active
from gitsession.session.facts import Mark
from gitsession.session.node import Node, load
from gitsession.store import peek, refs
from gitsession.store.base import ObjectStore, Oid


def refresh(catalogue: Catalogue, store: ObjectStore) -> None:
    """Bring ``catalogue`` up to date. What is read while others write may be older than theirs, never torn."""
    fingerprint = peek.fingerprint(catalogue.git_dir)
    now = {**store.refs(refs.SESSIONS), **store.refs(refs.ACTIVE)}
    with catalogue.transaction() as db:
        before = dict(db.execute("SELECT name, value FROM refs").fetchall())
        changed = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
        for sid in sorted({_sid(name) for name in changed} - {""}):
            _session(db, store, sid, before, changed)
        db.executemany("DELETE FROM refs WHERE name = ?", [(name,) for name in changed])
        db.executemany("INSERT INTO refs VALUES (?, ?)", [(name, now[name]) for name in changed if name in now])
        db.execute("INSERT OR REPLACE INTO state VALUES ('fingerprint', ?)", (fingerprint,))


def facts_of(catalogue: Catalogue, sid: str) -> tuple[str | None, dict[str, str]]:
    """Title and labels (chain -> label) as they stand, without a walk: what a fork takes along."""
    marks = _marks(catalogue.db, sid)
    wanted = {mark.target for mark in marks if mark.what == "label"}
    chains = {target: chain for target in wanted if (chain := _chain_of(catalogue.db, sid, target)) is not None}
    return facts.title(marks), facts.labels(marks, chains)


def _sid(name: str) -> str:
    if name.startswith(refs.ACTIVE):
        return name.removeprefix(refs.ACTIVE)
    parsed = refs.parse(name)
    return parsed[0] if parsed else ""


def _session(
    db: sqlite3.Connection, store: ObjectStore, sid: str, before: Mapping[str, str], changed: set[str]
) -> None:
    leaves = graph.branches(store, sid)
    moved = [before[name] for name in changed if name in before and refs.parse(name) == (sid, name.rpartition("/")[2])]
    found = db.execute("SELECT start FROM sessions WHERE sid = ?", (sid,)).fetchone()
    new, start = _new_nodes(db, store, sid, leaves.values())
    if not leaves or not {oid for oid in moved if oid not in leaves.values()} <= _reached(new, moved):
        # A ref went back or away (undo): what is known of this session is too much.
        for table in ("sessions", "entries", "marks"):
            db.execute(f"DELETE FROM {table} WHERE sid = ?", (sid,))
        if not leaves:
            return
        new, start = _new_nodes(db, store, sid, leaves.values())
    for node in new:
        _insert(db, sid, node, *_read(store, node))
    meta = facts.meta(store, sid)
    db.execute("DELETE FROM marks WHERE sid = ? AND on_meta = 1", (sid,))
    _insert_marks(db, sid, meta.marks, on_meta=True)
    _summarise(db, store, sid, start or found[0], meta, leaves)


def _new_nodes(
    db: sqlite3.Connection, store: ObjectStore, sid: str, leaves: Iterable[Oid]
) -> tuple[list[Node], Oid | None]:
    """The entries of a session that are not known yet, and the entry at which it begins if it is among them."""
    new: dict[Oid, Node] = {}
    start: Oid | None = None
    for leaf in leaves:
        oid: Oid | None = leaf
        while oid is not None and oid not in new and not _is_known(db, sid, oid):
            try:
                node = load(store, oid)
            except GitSessionError:
                break  # `verify` names it; the rest of the session is still listed
            new[oid] = node
            if node.parent is None or _is_start(store, node, sid):
                start = oid
                break
            oid = node.parent
    return list(new.values()), start


def _is_start(store: ObjectStore, node: Node, sid: str) -> bool:
    if node.kind != kinds.Fork.kind:
        return False
    entry = content.entry_of(store, node)
    return isinstance(entry, kinds.Fork) and entry.session == sid


def _is_known(db: sqlite3.Connection, sid: str, oid: Oid) -> bool:
    return db.execute("SELECT 1 FROM entries WHERE sid = ? AND oid = ?", (sid, oid)).fetchone() is not None


def _reached(new: Iterable[Node], moved: Iterable[Oid]) -> set[Oid]:
    """Which of the leaves that moved are now parents: those that moved forward."""
    parents = {node.parent for node in new}
    return {oid for oid in moved if oid in parents}


def _read(store: ObjectStore, node: Node) -> tuple[Entry, bytes]:
    try:
        parts = content.kept(store, node)
        return content.entry_of(store, node), digest_of(parts.stored, parts.holes)
    except GitSessionError:
        return content.entry_of(store, node), b""


def _insert(db: sqlite3.Connection, sid: str, node: Node, entry: Entry, digest: bytes) -> None:
    source_id, line = (node.source.id, node.source.line) if node.source else (None, None)
    is_message = isinstance(entry, kinds.Message)
    tokens = total_tokens(entry.usage) if isinstance(entry, kinds.Message) else 0
    words = node.subject.partition(": ")[2] if is_message and node.role == "user" else None
    row = (sid, node.oid, node.chain, digest, node.kind, source_id, line, entry.at_ms, tokens, words)
    db.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    if node.kind in facts.MARKING or (isinstance(entry, kinds.Fork) and entry.session == sid):
        _insert_marks(db, sid, facts.marks_of(node, entry, on_meta=False), on_meta=False)


def _summarise(
    db: sqlite3.Connection, store: ObjectStore, sid: str, start: Oid, meta: facts.Meta, leaves: Mapping[str, Oid]
) -> None:
    """The session's row, from the rows of its entries."""
    first = content.entry_of(store, load(store, start))
    agent = first.agent if isinstance(first, kinds.Session | kinds.Fork) else None
    source_id = first.source_id if isinstance(first, kinds.Session) else None
    cwd = meta.header.cwd if meta.header else first.cwd if isinstance(first, kinds.Fork) else None
    count, updated_ms, tokens = db.execute(
        "SELECT count(*), max(at_ms), sum(tokens) FROM entries WHERE sid = ?", (sid,)
    ).fetchone()
    words = db.execute(
        "SELECT words FROM entries WHERE sid = ? AND words IS NOT NULL ORDER BY line, at_ms LIMIT 1", (sid,)
    ).fetchone()
    title = facts.title(_marks(db, sid))
    row = (sid, start, agent or "unknown", source_id, title, words[0] if words else None, cwd, first.at_ms)
    row += (max(updated_ms, first.at_ms), count, json.dumps(leaves), active(store, sid), tokens)  # type: ignore[assignment]
    db.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def _insert_marks(db: sqlite3.Connection, sid: str, marks: Iterable[Mark], *, on_meta: bool) -> None:
    rows = [
        (sid, on_meta, mark.what, mark.at_ms, mark.line, mark.chain, storable(mark.target), storable(mark.value))
        for mark in marks
    ]
    db.executemany("INSERT INTO marks VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)


def _marks(db: sqlite3.Connection, sid: str) -> list[Mark]:
    found = db.execute("SELECT what, at_ms, line, chain, target, value FROM marks WHERE sid = ?", (sid,))
    return [Mark(*row) for row in found]


def _chain_of(db: sqlite3.Connection, sid: str, target: str) -> str | None:
    """The chain, as text, of the entry that a label's target names."""
    found = db.execute(
        "SELECT chain FROM entries WHERE sid = ? AND source_id = ? ORDER BY line DESC LIMIT 1", (sid, target)
    ).fetchone()
    if found:
        return to_base64url(found[0])
    try:
        from_base64url(target)
    except ValueError:
        return None
    return target


def storable(text: str) -> str:
    """``text`` as SQLite can keep it: a lone surrogate becomes U+FFFD."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def total_tokens(usage: Mapping[str, Any] | None) -> int:
    """What a provider says one answer cost, whatever it calls the parts (semantics.md rule 15)."""
    if not usage:
        return 0
    total = usage.get("totalTokens")
    if type(total) is int and total > 0:
        return total
    parts = (usage.get(name) for name in ("input", "output", "cacheRead", "cacheWrite"))
    return sum(part for part in parts if type(part) is int and part > 0)
