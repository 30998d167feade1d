"""Brings the catalogue up to date with the refs: only sessions whose refs moved, and of those only new entries."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection, Iterable, Mapping

from gitsession.index import counts
from gitsession.index.catalogue import Catalogue
from gitsession.index.derived import is_damage
from gitsession.index.names import marks_of, storable
from gitsession.index.rows import Row
from gitsession.index.states import Recorder
from gitsession.model import entries as kinds
from gitsession.model.entries import Entry
from gitsession.model.headline import VIEW
from gitsession.session import content, facts, graph, marks, purged
from gitsession.session.active import active
from gitsession.session.content import Looked
from gitsession.session.gaps import DAMAGE
from gitsession.session.lineage import parent_of
from gitsession.session.marks import Mark
from gitsession.session.meta import Meta, meta_of
from gitsession.session.meta import marks_of as marks_made_by
from gitsession.session.node import Node, before, load, position
from gitsession.store import peek, refs
from gitsession.store.base import ObjectStore, Oid

_NOT_WRITTEN = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)


def refresh(catalogue: Catalogue, store: ObjectStore) -> None:
    """Bring ``catalogue`` up to date. What is read while others write may be older than theirs, never torn.

    On a disk that is full or cannot be written it goes on in memory: reading must not depend on room to write.
    """
    try:
        _refresh(catalogue, store)
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            catalogue.begin_anew()
        elif error.sqlite_errorcode & 0xFF in _NOT_WRITTEN:
            catalogue.begin_in_memory()
        else:
            raise  # locked: nothing is wrong with what is there
        _refresh(catalogue, store)


def _refresh(catalogue: Catalogue, store: ObjectStore) -> None:
    fingerprint = peek.fingerprint(catalogue.git_dir)
    now = {**store.refs(refs.SESSIONS), **store.refs(refs.ACTIVE)}
    with catalogue.transaction() as db:
        before = dict(db.execute("SELECT name, value FROM refs").fetchall())
        changed = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
        for sid in sorted({_sid(name) for name in changed} - {""}):
            try:
                _session(db, store, sid, before, changed)
            except DAMAGE:
                _forget(db, sid)  # `verify` names the damage; the other sessions are still listed
        db.executemany("DELETE FROM refs WHERE name = ?", [(name,) for name in changed])
        db.executemany("INSERT INTO refs VALUES (?, ?)", [(name, now[name]) for name in changed if name in now])
        db.execute("INSERT OR REPLACE INTO state VALUES ('fingerprint', ?)", (os.fsencode(fingerprint),))


def _sid(name: str) -> str:
    if name.startswith(refs.ACTIVE):
        return name.removeprefix(refs.ACTIVE)
    parsed = refs.parse(name)
    return parsed[0] if parsed else ""


def _session(
    db: sqlite3.Connection, store: ObjectStore, sid: str, before: Mapping[str, str], changed: set[str]
) -> None:
    leaves = graph.branches(store, sid)
    if leaves and purged.SESSION + sid in purged.read(store):
        _forget(db, sid)  # what is left of it says nothing
        return
    meta = meta_of(store, sid)
    superseded = json.dumps(sorted(meta.source_file.superseded))
    found = db.execute("SELECT start, superseded FROM sessions WHERE sid = ?", (sid,)).fetchone()
    moved = {before[name] for name in changed if name in before and _is_leaf(name, sid)} - set(leaves.values())
    new, start = _new_nodes(db, store, sid, leaves.values())
    went_back = not leaves or not moved <= {node.parent for node in new}
    if went_back or (found is not None and found[1] != superseded):
        # A ref went back or away (undo), or the file was rewritten: what is known of this session is too much.
        _forget(db, sid)
        if not leaves:
            return
        new, start = _new_nodes(db, store, sid, leaves.values())
    _insert_entries(db, store, sid, new, set(meta.source_file.superseded))
    db.execute("DELETE FROM marks WHERE sid = ? AND on_meta = 1", (sid,))
    _insert_marks(db, sid, meta.marks, on_meta=True)
    start = start or (found[0] if found else None) or (new[0].oid if new else None)
    if start is not None and _is_known(db, sid, start):  # else not one entry can be read
        _summarise(db, store, sid, start, meta, leaves)
    else:
        _forget(db, sid)


def _forget(db: sqlite3.Connection, sid: str) -> None:
    for table in ("sessions", "entries", "answers", "marks"):
        db.execute(f"DELETE FROM {table} WHERE sid = ?", (sid,))


def _is_leaf(name: str, sid: str) -> bool:
    """Whether ``name`` is a branch of the session's conversation."""
    parsed = refs.parse(name)
    return parsed is not None and parsed[0] == sid and refs.is_branch(parsed[1])


def _new_nodes(
    db: sqlite3.Connection, store: ObjectStore, sid: str, leaves: Iterable[Oid]
) -> tuple[list[Node], Oid | None]:
    """The entries of a session that are not known yet, and the one at which it begins if it is among them."""
    new: dict[Oid, Node] = {}
    skipped: set[Oid] = set()
    fork = root = None
    for leaf in leaves:
        oid: Oid | None = leaf
        line: dict[Oid, Node] = {}
        while oid is not None and oid not in new and not _is_known(db, sid, oid):
            try:
                node = load(store, oid)
            except DAMAGE:
                if oid in skipped:
                    break
                skipped.add(oid)  # `verify` names it; what stands before it is still listed
                oid = before(store, oid)
                if oid is None:
                    return _new_around_gaps(db, store, sid)
                continue
            line[oid] = node
            if content.begins_fork(store, node, sid):
                fork = oid
                break
            root, oid = (oid if node.parent is None else root), node.parent
        new |= reversed(line.items())
    fork = fork or _known_fork(db, sid)
    if fork and root:
        # A branch that starts above the fork entry: what is above that is the older session's.
        for node in graph.line(store, fork):
            if node.oid != fork:
                new.pop(node.oid, None)
    return list(new.values()), fork or root


def _new_around_gaps(db: sqlite3.Connection, store: ObjectStore, sid: str) -> tuple[list[Node], Oid | None]:
    """The same, where a lost commit hides what stands before it."""
    tree = graph.tree(store, sid)
    start = next((oid for oid, node in tree.nodes.items() if content.begins_fork(store, node, sid)), None)
    above = facts.above(tree, start)
    if start is None:
        start = next((oid for oid, node in tree.nodes.items() if node.parent is None), None)
    nodes = [node for node, _ in tree.walk() if node.oid not in above and not _is_known(db, sid, node.oid)]
    return nodes, start


def _known_fork(db: sqlite3.Connection, sid: str) -> Oid | None:
    query = "SELECT start FROM sessions JOIN entries USING (sid) WHERE sid = ? AND oid = start AND kind = ?"
    found = db.execute(query, (sid, kinds.Fork.kind)).fetchone()
    return found[0] if found else None


def _is_known(db: sqlite3.Connection, sid: str, oid: Oid) -> bool:
    return db.execute("SELECT 1 FROM entries WHERE sid = ? AND oid = ?", (sid, oid)).fetchone() is not None


def _insert_entries(
    db: sqlite3.Connection, store: ObjectStore, sid: str, new: Iterable[Node], superseded: Collection[str]
) -> None:
    """``new``: parents first. An entry is in the agent's file if it is not superseded, nor below one that is."""
    in_file: dict[Oid | None, bool] = {}
    recorder = Recorder(db, store, sid)
    for node in new:
        above = in_file[node.parent] if node.parent in in_file else _is_in_file(db, sid, node.parent)
        in_file[node.oid] = above and (node.source is None or position(node) not in superseded)
        found = content.look(store, node)
        _insert(db, node, in_file[node.oid], found, recorder.record(node, found))


def _is_in_file(db: sqlite3.Connection, sid: str, oid: Oid | None) -> bool:
    found = db.execute("SELECT in_file FROM entries WHERE sid = ? AND oid = ?", (sid, oid)).fetchone()
    return bool(found[0]) if found else True


def _insert(db: sqlite3.Connection, node: Node, in_file: bool, found: Looked, row: Row) -> None:
    entry, sid = found.entry, row.sid
    values = row._asdict() | {
        "digest": found.digest,
        "agent": row.agent and storable(row.agent),
        "source_id": row.source_id and storable(row.source_id),
        "in_file": in_file,
        "at_ms": _clamped(entry.at_ms),
        "tokens": counts.record(db, sid, node, found),
        "words": node.subject.partition(": ")[2] if isinstance(entry, kinds.Message) and node.role == "user" else None,
        "proof": row.proof(),
    }
    _put(db, "entries", values)
    marking = node.kind in facts.MARKING or (isinstance(entry, kinds.Fork) and entry.session == sid)
    if marking and (in_file or node.source is None):
        _insert_marks(db, sid, marks_made_by(node, entry, on_meta=False), on_meta=False)


def _summarise(
    db: sqlite3.Connection, store: ObjectStore, sid: str, start: Oid, meta: Meta, leaves: Mapping[str, Oid]
) -> None:
    """The session's row, from the rows of its entries."""
    first = content.entry_of(store, load(store, start))
    agent = first.agent if isinstance(first, kinds.Session | kinds.Fork) else None
    source_id = first.source_id if isinstance(first, kinds.Session | kinds.Fork) else None
    cwd = meta.header.cwd if meta.header else first.cwd if isinstance(first, kinds.Fork) else None
    count, updated_ms, tokens = db.execute(
        "SELECT count(*), max(at_ms), sum(tokens) FROM entries WHERE sid = ?", (sid,)
    ).fetchone()
    (answers,) = db.execute("SELECT coalesce(sum(tokens), 0) FROM answers WHERE sid = ?", (sid,)).fetchone()
    words = db.execute(
        "SELECT words FROM entries WHERE sid = ? AND words IS NOT NULL "
        "ORDER BY in_file DESC, line IS NULL, line, at_ms, chain LIMIT 1",
        (sid,),
    ).fetchone()
    title = marks.title(marks_of(db, sid))
    created_ms = _clamped(first.at_ms)
    row = {
        "sid": sid,
        "start": start,
        "agent": storable(agent or "unknown"),
        "source_id": source_id,
        "title": title,
        "first_words": words[0] if words else _fork_words(store, first, start),
        "project": None if cwd is None else storable(cwd),
        "created_ms": created_ms,
        "updated_ms": max(updated_ms, created_ms),
        "entries": count - 1,  # nothing is said by the one it begins with
        "branches": json.dumps(leaves),
        "active": active(store, sid),
        "view": (first.view if isinstance(first, kinds.Session | kinds.Fork) else None) or VIEW,
        "tokens": tokens + answers + counts.waiting(db, store, sid, meta),
        "identity": None if meta.project is None else storable(meta.project),
        "parent": None if (parent := parent_of(meta.header)) is None else storable(parent),
        "superseded": json.dumps(sorted(meta.source_file.superseded)),
    }
    _put(db, "sessions", row)


def _put(db: sqlite3.Connection, table: str, row: Mapping[str, object]) -> None:
    places = ", ".join(f":{name}" for name in row)
    db.execute(f"INSERT OR REPLACE INTO {table} ({', '.join(row)}) VALUES ({places})", row)


def _fork_words(store: ObjectStore, first: Entry, start: Oid) -> str | None:
    """What to call a fork in which nobody has said anything yet."""
    parent = load(store, start).parent if isinstance(first, kinds.Fork) else None
    return f"fork at {load(store, parent).subject}" if parent else None


def _insert_marks(db: sqlite3.Connection, sid: str, found: Iterable[Mark], *, on_meta: bool) -> None:
    rows = []
    for mark in found:
        texts = storable(mark.target), storable(mark.value)
        rows.append((sid, on_meta, mark.what, _clamped(mark.at_ms), mark.line, mark.chain, *texts))
    db.executemany("INSERT INTO marks VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)


def _clamped(at_ms: int) -> int:
    """A time as SQLite can keep it: 64 bits, signed."""
    return min(max(at_ms, -(2**63)), 2**63 - 1)
