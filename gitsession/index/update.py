"""Update of the catalog from the refs. Only new entries of sessions whose refs moved are read."""

from __future__ import annotations

import functools
import json
import math
import os
import re
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import chain, count, islice
from pathlib import Path
from typing import NamedTuple

from gitsession import progress
from gitsession.errors import Malformed
from gitsession.git.objects import SECONDS_MAX, parse_commit
from gitsession.git.ref_files import RefReader
from gitsession.git.types import Oid, RefValue
from gitsession.index import names, session_details
from gitsession.index.catalogue import Catalogue, open_in_memory
from gitsession.index.derived import TIME_MIN, clamped, is_damage, storable
from gitsession.index.entry_rows import EntryRow, has_entry
from gitsession.index.history_states import StateRecorder, state_of_history
from gitsession.index.sessions_ahead import SESSIONS, SessionsAhead
from gitsession.index.update_activity import ActivityRecorder
from gitsession.model import entries as kinds
from gitsession.model.entries import Entry
from gitsession.model.headline import VIEW
from gitsession.sessions import content, graph, marks, session_facts, tombstone_set
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.history_state import EMPTY_STATE
from gitsession.sessions.meta import Meta, meta_of
from gitsession.sessions.meta import marks_of as marks_made_by
from gitsession.sessions.node import Node, first_parent, load, position
from gitsession.sessions.operation_log import Move
from gitsession.sessions.origin import is_delegated, parent_of
from gitsession.store import change_stamp, refs
from gitsession.store.interface import ObjectStore

PART_SECONDS = 5.0
"""Time after which a transaction of an update ends. It reads at least one group of sessions."""

GROUP_SESSIONS = 128
"""Number of sessions in a group, in which the new ones are divided among processes.

If only the newest sessions are needed, a group has ``SESSIONS`` sessions.
"""

PROCESS_SESSIONS_MIN = 32
"""Minimum number of new sessions for each process."""

_SESSION_TABLES = ("sessions", "branches", "entries", "answers", "marks", "calls", "results", "changes")
"""The tables that an update fills by session. In each of them, the rows of a session are near each other."""

REMOVED_MIN = 1_000
"""Minimum number of removed refs with which an update may build the catalog again."""

REMOVED_FOR_EACH = 10
"""Number of removed entries, for each entry that is left, from which an update builds the catalog again.

To delete the rows of an entry takes a tenth of the time to write them, or more if the catalog does not fit in memory.
"""

UNINDEXED_ENTRIES_MAX = 1_000_000
"""The number of entries that an update adds together to the index by chain digest, if it is not complete yet."""

_PREFIXES = (refs.SESSIONS, refs.ACTIVE)

_NOT_WRITTEN = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)


def refresh(catalogue: Catalogue, store: ObjectStore, *, newest: int | None = None) -> None:
    """Update ``catalogue``. If other processes write at the same time, the result may lack their latest writes.

    If the disk is full or cannot be written, a new catalog is built in memory, because readers must not depend on free
    space.

    ``newest``: if given, the update ends when the rows of this number of newest sessions are certain. The catalog
    remains stale, and the next update continues.
    """
    try:
        _refresh(catalogue, store, newest)
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            catalogue.reset()
        elif error.sqlite_errorcode & 0xFF in _NOT_WRITTEN:
            catalogue.begin_in_memory()
        else:
            raise  # locked, not damaged
        _refresh(catalogue, store, newest)


class _Waiting(NamedTuple):
    """The refs that have moved since the last update, by session.

    ``fingerprint``: of the store, before its refs were read. ``version``: a number that changes if another process
    writes the catalog. ``loose``: the names of refs that may not be in ``packed-refs``. ``times``: the latest possible
    time of the newest entry of each session, Unix time in ms, in the order in which the sessions are read. The last
    item is that of the sessions that an earlier update left unread and whose refs have not moved since; -inf if there
    are none. ``groups``: the groups of sessions that were not read yet, each with the number of sessions before it.
    """

    fingerprint: str
    version: int
    moves: Mapping[str, Sequence[Move]]
    loose: Collection[str]
    times: Sequence[float]
    groups: Iterator[tuple[int, Sequence[str]]]


def _refresh(catalogue: Catalogue, store: ObjectStore, newest: int | None) -> None:
    """Update the catalog in transactions of some seconds.

    So an interruption keeps most of a long update, and meanwhile other processes can read the catalog.
    """
    waiting, unread_ms, is_done = None, math.inf, False
    while not is_done:
        with catalogue.transaction() as db:
            version = db.execute("PRAGMA data_version").fetchone()[0]
            # If the sessions that have moved do not suffice, those that an earlier update left unread are needed, too.
            is_exhausted = waiting is not None and unread_ms == waiting.times[-1]
            if waiting is None or waiting.version != version or is_exhausted:
                waiting = _waiting(catalogue, db, store, version, newest)
            unread_ms = _update_part(db, store, waiting, newest)
            is_done = _record_update(db, waiting.fingerprint, unread_ms, newest)
            if is_done or _count_unindexed(db) >= UNINDEXED_ENTRIES_MAX:
                _index_entries(db)


def _waiting(
    catalogue: Catalogue, db: sqlite3.Connection, store: ObjectStore, version: int, newest: int | None
) -> _Waiting:
    size = GROUP_SESSIONS if newest is None else SESSIONS
    fingerprint = catalogue.fingerprint()
    before, others_ms = _last_update(db, newest)
    if before is not None and not change_stamp.has_same_packed_refs(before, fingerprint):
        others_ms = -math.inf  # all refs are read
    moves, loose = _moves(catalogue, db, store, before)
    by_session: dict[str, list[Move]] = {}
    for move in moves:
        by_session.setdefault(_sid(move.ref), []).append(move)
    if others_ms > -math.inf:
        unread = {sid: _all_moves(store, sid) for sid in by_session if _summary(db, sid) is None}
        by_session |= unread
        loose = {*loose, *(move.ref for move in chain.from_iterable(unread.values()))}
    times = _latest_times(db, store, by_session)
    ordered = sorted(by_session, key=times.__getitem__, reverse=True)
    groups = zip(count(0, size), progress.groups("Reading sessions", ordered, size), strict=False)
    return _Waiting(fingerprint, version, by_session, loose, [*(times[sid] for sid in ordered), others_ms], groups)


def _last_update(db: sqlite3.Connection, newest: int | None) -> tuple[str | None, float]:
    """Return the fingerprint of the last update, and the latest possible time of the sessions that it left unread.

    ``newest``: if given, the last update that ended early also counts, if its sessions suffice. Otherwise, the result
    is the fingerprint of the last complete update, ``None`` if there is none, and -inf.
    """
    query = "SELECT key, value FROM state WHERE key IN ('fingerprint', 'newest_fingerprint', 'unread_ms')"
    state = {key: os.fsdecode(value) for key, value in db.execute(query).fetchall()}
    unread_ms = float(state.get("unread_ms", math.inf))
    if newest is not None and _has_newest(db, newest, unread_ms):
        return state["newest_fingerprint"], unread_ms
    return state.get("fingerprint"), -math.inf


def _all_moves(store: ObjectStore, sid: str) -> list[Move]:
    """Return all refs of a session that is not in the catalog."""
    now = {**store.refs(refs.session(sid)), refs.active(sid): store.ref(refs.active(sid))}
    return [Move(name, None, new) for name, new in now.items() if new is not None and _sid(name) == sid]


def _update_part(db: sqlite3.Connection, store: ObjectStore, waiting: _Waiting, newest: int | None) -> float:
    """Read the next sessions; return the latest possible time of those that remain, in Unix time in ms."""
    end = time.monotonic() + PART_SECONDS
    done: list[Move] = []
    unread_ms = waiting.times[-1]
    for number, group in waiting.groups:
        _read_sessions(db, store, {sid: waiting.moves[sid] for sid in group if sid})
        done += chain.from_iterable(waiting.moves[sid] for sid in group)
        unread_ms = max(waiting.times[number + len(group)], waiting.times[-1])
        if (newest is not None and _has_newest(db, newest, unread_ms)) or time.monotonic() > end:
            break
    rows = [(move.ref, move.new, move.ref in waiting.loose) for move in done if move.new]
    db.executemany("DELETE FROM refs WHERE name = ?", [(move.ref,) for move in done])
    db.executemany("INSERT INTO refs VALUES (?, ?, ?)", rows)
    return unread_ms


_FORGET_NEWEST = "DELETE FROM state WHERE key IN ('newest_fingerprint', 'unread_ms')"


def _record_update(db: sqlite3.Connection, fingerprint: str, unread_ms: float, newest: int | None) -> bool:
    """Record the update if it is complete or has the ``newest`` sessions; return whether it was recorded."""
    if unread_ms == -math.inf:
        db.execute(_FORGET_NEWEST)
        state = {"fingerprint": fingerprint}
    elif newest is not None and _has_newest(db, newest, unread_ms):
        state = {"newest_fingerprint": fingerprint, "unread_ms": str(unread_ms)}
    else:
        return False
    rows = [(key, os.fsencode(value)) for key, value in state.items()]
    db.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", rows)
    return True


def _read_sessions(db: sqlite3.Connection, store: ObjectStore, moves: Mapping[str, Sequence[Move]]) -> None:
    """Update the sessions in ``moves``. Several processes read those that are not in the catalog, if they are many."""
    new = {sid: each for sid, each in moves.items() if _summary(db, sid) is None}
    for sid in (each for each in moves if each not in new):
        _update_session(db, store, sid, moves[sid])
    if len(new) < 2 * PROCESS_SESSIONS_MIN:
        _insert_sessions(db, store, new)
        return
    from gitsession import parallel  # not loaded for a few sessions

    def rows(sids: Sequence[str]) -> dict[str, list[tuple[object, ...]]]:
        return _rows(store, {sid: new[sid] for sid in sids})

    for tables in parallel.share(list(new), rows, PROCESS_SESSIONS_MIN):
        for table, found in tables.items():
            db.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(found[0]))})", found)
    db.executemany("INSERT OR IGNORE INTO unindexed_sessions VALUES (?)", [(sid,) for sid in new])


def _count_unindexed(db: sqlite3.Connection) -> float:
    """Return the number of entries that are not in the index by chain digest.

    Entries before a fork are counted again for each fork.
    """
    return float(
        db.execute("SELECT total(entries) FROM unindexed_sessions CROSS JOIN sessions USING (sid)").fetchone()[0]
    )


def _index_entries(db: sqlite3.Connection) -> None:
    """Add the entries that other processes read to the index by chain digest.

    Digests are random, so a row that is inserted alone changes a page of its own. In order, each page is written once.
    """
    rows = "SELECT chain, oid, sid FROM unindexed_sessions CROSS JOIN entries USING (sid)"
    db.execute(f"INSERT OR IGNORE INTO entries_by_chain {rows} ORDER BY chain, oid, sid")
    db.execute("DELETE FROM unindexed_sessions")


def _rows(store: ObjectStore, moves: Mapping[str, Sequence[Move]]) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of sessions that are not in the catalog, by table."""
    with closing(open_in_memory()) as db:
        _insert_sessions(db, store, moves)
        tables = {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in (*_SESSION_TABLES, "anchors")}
        return {table: rows for table, rows in tables.items() if rows}


def _insert_sessions(db: sqlite3.Connection, store: ObjectStore, moves: Mapping[str, Sequence[Move]]) -> None:
    """Add sessions that are not in the catalog. Their entries are read together."""
    ahead = SessionsAhead(store)
    for number, sid in enumerate(moves):
        if number % SESSIONS == 0:
            near = islice(moves.values(), number, number + SESSIONS)
            ahead.load(move.new for move in chain.from_iterable(near) if move.new)
        _update_session(db, ahead, sid, moves[sid])


def _update_session(db: sqlite3.Connection, store: ObjectStore, sid: str, moves: Sequence[Move]) -> None:
    try:
        _session(db, store, sid, moves)
    except DAMAGE:
        _forget(db, sid)  # `verify` reports the damage; the other sessions are still listed


def _latest_times(
    db: sqlite3.Connection, store: ObjectStore, by_session: Mapping[str, Sequence[Move]]
) -> Mapping[str, float]:
    """Return the latest possible time of each session's newest entry, Unix time in ms.

    The committer time of an entry is never earlier than those of the entries before it. It is not known for a session
    whose entries are not all in packs, for times after 2106, and for a session whose other refs are in the catalog. A
    session in the catalog is read first, because its row is out of date.
    """
    if len(by_session) <= SESSIONS:
        return dict.fromkeys(by_session, math.inf)
    tips = {sid: {move.new for move in moves if move.new and _is_branch(move.ref)} for sid, moves in by_session.items()}
    seconds: dict[Oid, float] = {}
    for oid, kind, data in store.read_all(oid for each in tips.values() for oid in each):
        with suppress(Malformed):
            found = parse_commit(data).committer_seconds if kind == "commit" else 0
            seconds[oid] = found if found < SECONDS_MAX else math.inf
    known = {sid for (sid,) in db.execute("SELECT sid FROM sessions")}
    known |= {sid for sid, moves in by_session.items() if any(move.old for move in moves)}
    return {
        sid: math.inf if sid in known else max((seconds.get(oid, math.inf) for oid in each), default=math.inf) * 1000
        for sid, each in tips.items()
    }


def _has_newest(db: sqlite3.Connection, newest: int, unread_ms: float) -> bool:
    """Return whether the ``newest`` newest sessions in the catalog are newer than all unread ones."""
    query = "SELECT updated_ms FROM sessions ORDER BY updated_ms DESC LIMIT 1 OFFSET ?"
    oldest = db.execute(query, (newest - 1,)).fetchone()
    return oldest is not None and bool(oldest[0] >= unread_ms + 1000)


def _moves(
    catalogue: Catalogue, db: sqlite3.Connection, store: ObjectStore, before: str | None
) -> tuple[list[Move], Collection[str]]:
    """Return the refs that have moved since the update with the fingerprint ``before``, and those that may be loose.

    While ``packed-refs`` is unchanged, only refs can move that are, or were, in the journal or in files of their own. A
    flush moves git's refs and then removes journal files, and git packs a ref before it removes the file. So the
    journal is read first, then the files, and each time, git's refs are checked for changes afterwards. If all refs are
    read, both are read again afterwards, because a ref may have been created in the meantime.
    """
    pending = _pending(store)
    if before is not None and change_stamp.has_only_grown(before, catalogue.fingerprint()):
        return _moved(db, pending), pending.keys()
    reader = None if catalogue.git_dir is None else RefReader(Path(catalogue.git_dir))
    loose = pending.keys() | _loose(reader)
    if before is not None and change_stamp.has_same_packed_refs(before, catalogue.fingerprint()):
        loose |= {name for (name,) in db.execute("SELECT name FROM refs WHERE loose")}
        return _moved(db, {name: store.ref(name) for name in loose}), loose
    now = {**store.refs(refs.SESSIONS), **store.refs(refs.ACTIVE)}
    loose |= _pending(store).keys()
    loose |= _loose(reader)
    # The flags do not tell any more which refs have moved since the update that ended early.
    db.execute(_FORGET_NEWEST)
    db.execute("UPDATE refs SET loose = 0 WHERE loose")
    db.executemany("UPDATE refs SET loose = 1 WHERE name = ?", [(name,) for name in loose])
    old = dict(db.execute("SELECT name, value FROM refs").fetchall())
    if len(old.keys() - now.keys()) >= REMOVED_MIN and _is_mostly_removed(
        db, {_sid(name) for name in now if _is_branch(name)}
    ):
        _clear(db)
        old = {}
    # In order, because sessions of one time share a pack, and a search for an object begins with the last one's pack.
    changed = [name for name in sorted(old.keys() | now.keys()) if old.get(name) != now.get(name)]
    return [Move(name, old.get(name), now.get(name)) for name in changed], loose


def _is_mostly_removed(db: sqlite3.Connection, sids: Collection[str]) -> bool:
    """Return whether the entries of ``sids`` are so few that the others are not worth deleting one by one."""
    entries: dict[str, int] = dict(db.execute("SELECT sid, entries FROM sessions").fetchall())
    left = sum(entries.get(sid, 0) for sid in sids)
    return sum(entries.values()) - left >= REMOVED_FOR_EACH * left


def _clear(db: sqlite3.Connection) -> None:
    """Delete the rows of all sessions, but not the list of imported files.

    Without a condition, SQLite frees the pages of a table instead of deleting row by row.
    """
    for table in (*_SESSION_TABLES, "anchors", "entries_by_chain", "unindexed_sessions", "refs"):
        db.execute(f"DELETE FROM {table}")
    db.execute("DELETE FROM state WHERE key = 'fingerprint'")  # the rows no longer match it


def _pending(store: ObjectStore) -> Mapping[str, RefValue | None]:
    return {name: new for name, new in store.pending_refs().items() if name.startswith(_PREFIXES)}


def _loose(reader: RefReader | None) -> set[str]:
    return {name for prefix in _PREFIXES for name in reader.list_loose(prefix)} if reader is not None else set()


def _moved(db: sqlite3.Connection, now: Mapping[str, RefValue | None]) -> list[Move]:
    """Return the refs in ``now`` whose values differ from those in the catalog."""
    moves = []
    for name, new in now.items():
        old = db.execute("SELECT value FROM refs WHERE name = ?", (name,)).fetchone()
        moves.append(Move(name, old[0] if old else None, new))
    return [move for move in moves if move.old != move.new]


def _is_branch(name: str) -> bool:
    parsed = refs.parse(name)
    return parsed is not None and refs.is_branch(parsed[1])


def _sid(name: str) -> str:
    if name.startswith(refs.ACTIVE):
        return name.removeprefix(refs.ACTIVE)
    parsed = refs.parse(name)
    return parsed[0] if parsed else ""


def _session(db: sqlite3.Connection, store: ObjectStore, sid: str, moves: Sequence[Move]) -> None:
    """Update one session: add its new entries, or insert all of its entries again if that is not possible."""
    if _is_purged(store, sid):
        _forget(db, sid)  # only tombstones remain
        return
    if not _grow(db, store, sid, moves):
        _forget(db, sid)
        leaves = graph.branches(store, sid)
        if leaves:
            _insert_session(db, store, sid, leaves)


def _is_purged(store: ObjectStore, sid: str) -> bool:
    try:
        return tombstone_set.SESSION + sid in tombstone_set.read(store)
    except DAMAGE:
        return False  # `verify` reports the damage; a purged session has no content anyway


class _Summary(NamedTuple):
    """The columns of a session's row from which the row is updated when entries are added.

    ``start``: the oid of the first entry; "" if the first entry is unknown. ``meta``: the tip of the ``meta`` ref when
    the row was written. ``entries``: the number of entries, not counting the root. ``counted``: the number of
    tokens in the entries. ``waiting``: the number of tokens in records that are not imported as entries yet.
    ``superseded`` and ``leaf``: the fields of ``SourceFile``; ``superseded`` is encoded as JSON.
    """

    start: Oid
    meta: Oid | None
    entries: int = -1
    updated_ms: int = TIME_MIN
    counted: int = 0
    waiting: int = 0
    project: str | None = None
    identity: str | None = None
    parent: str | None = None
    delegated: bool = False
    continues: str | None = None
    copied: int = 0
    superseded: str = "[]"
    leaf: str | None = None
    key: str | None = None


def _summary(db: sqlite3.Connection, sid: str) -> _Summary | None:
    found = db.execute(f"SELECT {', '.join(_Summary._fields)} FROM sessions WHERE sid = ?", (sid,)).fetchone()
    return _Summary(*found) if found is not None else None


def _grow(db: sqlite3.Connection, store: ObjectStore, sid: str, moves: Sequence[Move]) -> bool:
    """Update the rows of a session with its new entries.

    Return ``False`` if the rows of the session must be built again. This is the case if the session is not in the
    catalog, if entries are no longer in the session because an undo moved or removed a ref, or if the agent's file was
    rewritten.
    """
    known = _summary(db, sid)
    if known is None:
        return False
    tip = store.ref(refs.meta(sid))
    is_moved = bool(known.meta and tip and session_details.move_marks(db, store, sid, known.meta, tip))
    meta = None if is_moved and not known.waiting else meta_of(store, sid)
    if meta is not None and (_superseded(meta), *_continues(meta)) != (known.superseded, known.continues, known.copied):
        return False
    leaves = {parsed[1]: move for move in moves if (parsed := refs.parse(move.ref)) and refs.is_branch(parsed[1])}
    tips = {name: move.new for name, move in leaves.items()}
    known = _add_entries(db, store, sid, tips, known._replace(meta=tip), meta)
    left = {move.old for move in leaves.values() if move.old is not None}
    return all(_is_in_branch(db, sid, oid) for oid in left) and _summarise(db, store, sid, known, meta)


def _insert_session(db: sqlite3.Connection, store: ObjectStore, sid: str, leaves: Mapping[str, Oid]) -> None:
    """Add a session that is not in the catalog."""
    meta = meta_of(store, sid)
    known = _Summary("", store.ref(refs.meta(sid)), copied=_continues(meta)[1], superseded=_superseded(meta))
    if not _summarise(db, store, sid, _add_entries(db, store, sid, leaves, known, meta), meta):
        _forget(db, sid)  # no entry can be read


def _add_entries(
    db: sqlite3.Connection, store: ObjectStore, sid: str, tips: Mapping[str, Oid | None], known: _Summary,
    meta: Meta | None,
) -> _Summary:  # fmt: skip
    """Add branches and their new entries; return the summary with the new entries included.

    ``tips``: the tip of each branch that has moved; ``None`` for a removed branch. ``meta``: the content of the
    session's ``meta`` ref if it was read again, else ``None``.
    """
    superseded = frozenset(json.loads(known.superseded))
    new, start = _new_nodes(db, store, sid, [oid for oid in tips.values() if oid is not None])
    folder = meta.header.cwd if meta is not None and meta.header else known.project
    before = next((_history_length(db, store, sid, node.parent) for node in new if node.oid == start), 0)
    newest_ms, tokens = _insert_entries(db, store, sid, new, superseded, known.copied, folder or "")
    for name, oid in tips.items():
        session_details.put_branch(db, store, sid, name, oid, superseded)
    if meta is not None:
        session_details.replace_marks(db, sid, meta.marks)
    return known._replace(
        start=start or known.start or (new[0].oid if new else ""),
        entries=known.entries + before + len(new),
        updated_ms=max(known.updated_ms, newest_ms),
        counted=known.counted + tokens,
    )


def _forget(db: sqlite3.Connection, sid: str) -> None:
    indexed = "SELECT chain, oid, sid FROM entries WHERE sid = ?"
    db.execute(f"DELETE FROM entries_by_chain WHERE (chain, oid, sid) IN ({indexed})", (sid,))
    for table in _SESSION_TABLES:
        db.execute(f"DELETE FROM {table} WHERE sid = ?", (sid,))


def _new_nodes(
    db: sqlite3.Connection, store: ObjectStore, sid: str, leaves: Iterable[Oid]
) -> tuple[list[Node], Oid | None]:
    """Return the entries of a session that are not in the catalog, and the oid of the session's first entry.

    For a fork, the first entry is the fork entry. The oid is ``None`` if the first entry is neither reached nor known.
    """
    new: dict[Oid, Node] = {}
    skipped: set[Oid] = set()
    fork = root = None
    for leaf in leaves:
        oid: Oid | None = leaf
        line: dict[Oid, Node] = {}
        while oid is not None and oid not in new and not has_entry(db, sid, oid):
            try:
                node = load(store, oid)
            except DAMAGE:
                if oid in skipped:
                    break
                skipped.add(oid)  # `verify` reports the damage; earlier entries are still listed
                oid = first_parent(store, oid)
                if oid is None:
                    return _new_around_gaps(db, store, sid)
                continue
            line[oid] = node
            if content.is_fork_start(store, node, sid):
                fork = oid
                break
            root, oid = (oid if node.parent is None else root), node.parent
        new |= reversed(line.items())
    fork = fork or _known_fork(db, sid)
    if fork and root:
        # Another branch leads to the root without the fork entry. The entries before the fork entry belong to the
        # original session.
        for node in graph.history(store, fork):
            if node.oid != fork:
                new.pop(node.oid, None)
    return list(new.values()), fork or root


def _new_around_gaps(db: sqlite3.Connection, store: ObjectStore, sid: str) -> tuple[list[Node], Oid | None]:
    """Return the result of ``_new_nodes`` for a session in which a commit with an unknown parent is lost."""
    tree = graph.tree(store, sid)
    start = next((oid for oid, node in tree.nodes.items() if content.is_fork_start(store, node, sid)), None)
    above = session_facts.entries_before(tree, start)
    if start is None:
        start = next((oid for oid, node in tree.nodes.items() if node.parent is None), None)
    nodes = [node for node, _ in tree.walk() if node.oid not in above and not has_entry(db, sid, node.oid)]
    return nodes, start


def _known_fork(db: sqlite3.Connection, sid: str) -> Oid | None:
    query = "SELECT start FROM sessions JOIN entries USING (sid) WHERE sid = ? AND oid = start AND kind = ?"
    found = db.execute(query, (sid, kinds.Fork.kind)).fetchone()
    return found[0] if found else None


def _history_length(db: sqlite3.Connection, store: ObjectStore, sid: str, oid: Oid | None) -> int:
    """Return the number of entries up to the entry ``oid`` of another session, which ``sid`` continues.

    Entries of ``sid`` in the catalog are not counted. The entries before one that another session has in the catalog
    are not read.
    """
    query = "SELECT depth FROM entries_by_chain c JOIN entries USING (sid, oid) WHERE c.chain = ? AND oid = ?"
    number = 0
    while oid is not None and not has_entry(db, sid, oid):
        try:
            node = load(store, oid)
        except DAMAGE:
            break  # `verify` reports the damage; the entries that can be read are counted
        found = db.execute(query, (node.chain, oid)).fetchone()
        if found is not None:
            return number + int(found[0]) + 1
        number, oid = number + 1, node.parent
    return number


def _insert_entries(
    db: sqlite3.Connection, store: ObjectStore, sid: str, new: Sequence[Node], superseded: Collection[str], copied: int,
    folder: str,
) -> tuple[int, int]:  # fmt: skip
    """Insert entries, parents first; return the time of the newest one (Unix time in ms), and their number of tokens.

    An entry is in the agent's file if neither the entry nor an entry before it is superseded. ``copied``: the number of
    the last line in the file that was copied from another session, which counts the tokens. ``folder``: the working
    directory of the session; "" if it is unknown.
    """
    at: dict[Oid | None, tuple[bool, int]] = {}
    inner = {node.parent for node in new}
    recorder = StateRecorder(db, store, sid)
    activity = ActivityRecorder(db, sid, folder, functools.partial(first_parent, store))
    newest_ms, tokens = TIME_MIN, 0
    rows = []
    for node in new:
        above, depth = at[node.parent] if node.parent in at else _file_and_depth(db, store, sid, node.parent)
        in_file = above and (node.source is None or position(node) not in superseded)
        at[node.oid] = in_file, depth + 1
        found = content.decode_entry(store, node)
        row = recorder.record(node, found)
        at_ms = clamped(found.entry.at_ms)
        is_copied = node.source is not None and node.source.line <= copied
        model = recorder.model_at(node.oid)
        named, alone = (0, 0) if is_copied else session_details.add_answers(db, sid, node, found, model)
        activity.record(node, found.entry, copied=is_copied)
        newest_ms, tokens = max(newest_ms, at_ms), tokens + named + alone
        is_prompt = isinstance(found.entry, kinds.Message) and node.role == "user"
        words = _COMMAND_TAG.sub("", node.subject.partition(": ")[2]) if is_prompt else None
        stored = row._replace(
            agent=row.agent and storable(row.agent), source_id=row.source_id and storable(row.source_id)
        )
        rows.append((*stored, row.proof(), found.digest, in_file, node.oid in inner, depth, at_ms, alone, words))
        begins = isinstance(found.entry, kinds.Fork) and found.entry.session == sid
        if (begins or node.kind in session_facts.MARKING) and (in_file or node.source is None):
            session_details.insert_marks(db, sid, marks_made_by(node, found.entry, on_meta=False), on_meta=False)
    db.executemany(_INSERT_ENTRY, rows)
    db.executemany(
        "INSERT OR IGNORE INTO entries_by_chain VALUES (?, ?, ?)", [(node.chain, node.oid, sid) for node in new]
    )
    activity.insert()
    known = [(sid, oid) for oid in inner if oid is not None and oid not in at]
    db.executemany("UPDATE entries SET inner = 1 WHERE sid = ? AND oid = ?", known)
    return newest_ms, tokens


_COMMAND_TAG = re.compile(r"</?(?:local-)?command-[a-z]{1,16}>")
"""A tag in which Claude Code encloses a command of the user, such as ``<command-name>/init</command-name>``."""

_ENTRY_COLUMNS = (*EntryRow._fields, "proof", "digest", "in_file", "inner", "depth", "at_ms", "tokens", "words")
_INSERT_ENTRY = (
    f"INSERT OR REPLACE INTO entries ({', '.join(_ENTRY_COLUMNS)}) VALUES ({', '.join('?' * len(_ENTRY_COLUMNS))})"
)


def _file_and_depth(db: sqlite3.Connection, store: ObjectStore, sid: str, oid: Oid | None) -> tuple[bool, int]:
    """Return whether an entry is in the agent's file, and the depth of the entries after it."""
    found = db.execute("SELECT in_file, depth FROM entries WHERE sid = ? AND oid = ?", (sid, oid)).fetchone()
    return (bool(found[0]), found[1] + 1) if found else (True, _history_length(db, store, sid, oid))


def _is_in_branch(db: sqlite3.Connection, sid: str, oid: Oid) -> bool:
    """Return whether another entry of the session follows this entry, or a branch ends at this entry."""
    query = (
        "SELECT 1 FROM entries WHERE sid = ?1 AND oid = ?2 AND inner "
        "UNION ALL SELECT 1 FROM branches WHERE sid = ?1 AND oid = ?2"
    )
    return db.execute(query, (sid, oid)).fetchone() is not None


def _summarise(db: sqlite3.Connection, store: ObjectStore, sid: str, known: _Summary, meta: Meta | None) -> bool:
    """Write the row of the session. Return ``False`` if the session has no branch, or if its first entry is unknown.

    ``meta``: the content of the session's ``meta`` ref if it was read again, else ``None``.
    """
    active = session_details.active_branch(db, store, sid, known.leaf if meta is None else meta.source_file.leaf)
    if active is None or not has_entry(db, sid, known.start):
        return False
    branch, tip = active
    first = content.entry_of(store, load(store, known.start))
    begins = first if isinstance(first, kinds.SessionHeader | kinds.Fork) else None
    words = db.execute(
        "SELECT words FROM entries WHERE sid = ? AND words IS NOT NULL "
        "ORDER BY in_file DESC, line IS NULL, line, at_ms, depth, chain LIMIT 1",
        (sid,),
    ).fetchone()
    created_ms = clamped(first.at_ms)
    if meta is not None:
        cwd = meta.header.cwd if meta.header else first.cwd if isinstance(first, kinds.Fork) else None
        parent = parent_of(meta.header) or (first.parent if isinstance(first, kinds.Fork) else None)
        continues, copied = _continues(meta)
        known = known._replace(
            waiting=session_details.put_waiting_answers(db, store, sid, meta, tip),
            project=None if cwd is None else storable(cwd),
            identity=None if meta.project is None else storable(meta.project),
            parent=None if parent is None else storable(parent),
            delegated=begins is not None and is_delegated(begins.agent, begins.source_id, meta.header),
            continues=continues,
            copied=copied,
            superseded=_superseded(meta),
            leaf=meta.source_file.leaf,
            key=_key(begins, meta.header),
        )
    from gitsession.index.file_changes import changes_by_path  # not loaded if nothing is new

    changed = changes_by_path(db, sid)

    row = known._asdict() | {
        "sid": sid,
        "agent": storable((begins and begins.agent) or "unknown"),
        "source_id": begins and begins.source_id,
        "title": marks.title(names.title_marks(db, sid)),
        "first_words": words[0] if words else _fork_name(store, first, known.start),
        "created_ms": created_ms,
        "updated_ms": max(known.updated_ms, created_ms),
        "active": branch,
        "view": (begins and begins.view) or VIEW,
        "tokens": known.counted + known.waiting,
        "cost": session_details.cost(db, sid),
        "changed": len(changed),
        "lines_added": sum(added for added, _ in changed.values()),
        "lines_removed": sum(removed for _, removed in changed.values()),
        **_state_at_tip(db, store, sid, tip),
    }
    _put(db, "sessions", row)
    return True


def _key(begins: Entry | None, header: kinds.SessionHeader | None) -> str | None:
    """Return the program's own id of a session that was not imported."""
    own = isinstance(begins, kinds.SessionHeader | kinds.Fork) and begins.source_id is None
    return storable(header.source_id) if own and header is not None and header.source_id is not None else None


def _state_at_tip(db: sqlite3.Connection, store: ObjectStore, sid: str, tip: Oid) -> dict[str, object]:
    """Return the columns of a session's row with the state at ``tip``, the tip of its active branch."""
    state = state_of_history(db, store, sid, tip) or EMPTY_STATE
    stated = db.execute("SELECT target FROM marks WHERE sid = ? AND what = 'state' AND on_meta", (sid,))
    done, todos = state.progress or (0, 0)
    mode = state.modes.get("mode")
    return {
        "mode": None if mode is None else storable(mode),
        "done": done,
        "todos": todos,
        "marked": " ".join(sorted({*(name for (name,) in stated), *map(storable, state.marks)})),
    }


def _continues(meta: Meta) -> tuple[str | None, int]:
    """Return the id of the session that this one continues, and the number of the last line copied from it."""
    found = meta.continuation
    return (None, 0) if found is None else (storable(found.session), clamped(found.line))


def _superseded(meta: Meta) -> str:
    return json.dumps(sorted(meta.source_file.superseded))


def _put(db: sqlite3.Connection, table: str, row: Mapping[str, object]) -> None:
    places = ", ".join(f":{name}" for name in row)
    db.execute(f"INSERT OR REPLACE INTO {table} ({', '.join(row)}) VALUES ({places})", row)


def _fork_name(store: ObjectStore, first: Entry, start: Oid) -> str | None:
    """Return a name for a fork that has no prompt yet; ``None`` if the session is not a fork."""
    parent = load(store, start).parent if isinstance(first, kinds.Fork) else None
    return f"fork at {load(store, parent).subject}" if parent else None
