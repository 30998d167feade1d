"""The catalog: an SQLite database with derived data of a store, which can be read without git.

A missing or damaged catalog is built again, so it can be deleted without loss. This module reads the catalog, and
``index.update`` fills it. The module imports no third-party package, because ``gitsession ls`` must start fast.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gitsession.errors import Ambiguous, NotFound, Unavailable
from gitsession.index.current_folder import CurrentFolder, nearest
from gitsession.index.derived import begin_log, connect, create_tables, is_damage, remove, storable
from gitsession.store import change_stamp

if TYPE_CHECKING:
    from pathlib import Path

VERSION = 28
FILE = "gitsession/index.db"
_MEMORY = ":memory:"

_SCHEMA = """
CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE refs (name TEXT PRIMARY KEY, value TEXT NOT NULL, loose INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX refs_loose ON refs (name) WHERE loose;
CREATE TABLE entries (
    sid TEXT NOT NULL, oid TEXT NOT NULL, chain BLOB NOT NULL, digest BLOB NOT NULL, kind TEXT NOT NULL,
    source_id TEXT, line INTEGER, in_file INTEGER NOT NULL, inner INTEGER NOT NULL, depth INTEGER NOT NULL,
    at_ms INTEGER NOT NULL, tokens INTEGER NOT NULL, words TEXT,
    anchors INTEGER, above TEXT, payload BLOB, agent TEXT, proof INTEGER, PRIMARY KEY (sid, oid)) WITHOUT ROWID;
CREATE INDEX entries_source ON entries (sid, source_id) WHERE source_id IS NOT NULL;
CREATE INDEX entries_segment ON entries (source_id) WHERE kind = 'session';
CREATE INDEX entries_words ON entries (sid, in_file DESC, line IS NULL, line, at_ms, depth, chain)
    WHERE words IS NOT NULL;
CREATE TABLE entries_by_chain (
    chain BLOB NOT NULL, oid TEXT NOT NULL, sid TEXT NOT NULL, PRIMARY KEY (chain, oid, sid)) WITHOUT ROWID;
CREATE TABLE unindexed_sessions (sid TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE answers (
    sid TEXT NOT NULL, answer TEXT NOT NULL, tokens INTEGER NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL, cost REAL NOT NULL, at_ms INTEGER NOT NULL, model TEXT,
    oid TEXT NOT NULL, PRIMARY KEY (sid, answer)) WITHOUT ROWID;
CREATE TABLE anchors (id INTEGER PRIMARY KEY, said TEXT NOT NULL, proof INTEGER NOT NULL);
CREATE TABLE marks (
    sid TEXT NOT NULL, on_meta INTEGER NOT NULL, what TEXT NOT NULL, at_ms INTEGER NOT NULL, line INTEGER,
    chain BLOB NOT NULL, target TEXT NOT NULL, value TEXT NOT NULL);
CREATE INDEX marks_target ON marks (sid, what, target, line, at_ms, chain);
CREATE INDEX marks_value ON marks (sid, what, value);
CREATE TABLE branches (
    sid TEXT NOT NULL, later INTEGER NOT NULL, name TEXT NOT NULL, oid TEXT NOT NULL, ours INTEGER NOT NULL,
    at_ms INTEGER NOT NULL, chain BLOB NOT NULL, line INTEGER, in_file INTEGER NOT NULL,
    PRIMARY KEY (sid, later, name)) WITHOUT ROWID;
CREATE INDEX branches_oid ON branches (sid, oid);
CREATE INDEX branches_ours ON branches (sid, at_ms DESC, chain DESC, later, name) WHERE ours;
CREATE INDEX branches_line ON branches (sid, in_file DESC, line DESC, name DESC) WHERE line IS NOT NULL;
CREATE TABLE sessions (
    sid TEXT PRIMARY KEY, start TEXT NOT NULL, agent TEXT NOT NULL, source_id TEXT, title TEXT, first_words TEXT,
    project TEXT, created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL, entries INTEGER NOT NULL,
    active TEXT NOT NULL, tokens INTEGER NOT NULL, superseded TEXT NOT NULL, view INTEGER NOT NULL, identity TEXT,
    parent TEXT, delegated INTEGER NOT NULL, continues TEXT, copied INTEGER NOT NULL, meta TEXT, leaf TEXT,
    counted INTEGER NOT NULL, waiting INTEGER NOT NULL, cost REAL NOT NULL, changed INTEGER NOT NULL,
    lines_added INTEGER NOT NULL, lines_removed INTEGER NOT NULL, mode TEXT, done INTEGER NOT NULL,
    todos INTEGER NOT NULL, marked TEXT NOT NULL, key TEXT) WITHOUT ROWID;
CREATE INDEX sessions_newest ON sessions (updated_ms DESC, sid);
CREATE INDEX sessions_source ON sessions (agent, source_id);
CREATE INDEX sessions_key ON sessions (agent, key) WHERE key IS NOT NULL;
CREATE INDEX sessions_parent ON sessions (parent) WHERE parent IS NOT NULL;
CREATE INDEX sessions_continues ON sessions (continues) WHERE continues IS NOT NULL;
CREATE TABLE files (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
    sid TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE side_files (
    path TEXT, name TEXT, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL, tree TEXT NOT NULL,
    PRIMARY KEY (path, name)) WITHOUT ROWID;
CREATE TABLE imports (number INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL UNIQUE, state BLOB NOT NULL);
CREATE TABLE calls (
    sid TEXT NOT NULL, oid TEXT NOT NULL, block INTEGER NOT NULL, call TEXT NOT NULL, tool TEXT NOT NULL,
    title TEXT NOT NULL, copied INTEGER NOT NULL, PRIMARY KEY (sid, oid, block)) WITHOUT ROWID;
CREATE INDEX calls_call ON calls (sid, call);
CREATE TABLE results (
    sid TEXT NOT NULL, oid TEXT NOT NULL, block INTEGER NOT NULL, call TEXT NOT NULL, call_oid TEXT,
    call_block INTEGER, failed INTEGER NOT NULL, outcome TEXT NOT NULL, PRIMARY KEY (sid, oid, block)) WITHOUT ROWID;
CREATE INDEX results_failed ON results (sid, call_oid, call_block) WHERE failed;
CREATE TABLE changes (
    sid TEXT NOT NULL, oid TEXT NOT NULL, block INTEGER NOT NULL, number INTEGER NOT NULL, path TEXT NOT NULL,
    change TEXT NOT NULL, added INTEGER NOT NULL, removed INTEGER NOT NULL, copied INTEGER NOT NULL,
    PRIMARY KEY (sid, oid, block, number)) WITHOUT ROWID;
CREATE INDEX changes_path ON changes (path);
"""
_TABLES = (
    "state", "refs", "entries", "entries_by_chain", "unindexed_sessions", "answers", "anchors", "marks", "branches",
    "sessions", "files", "calls", "results", "changes", "imports", "side_files",
)  # fmt: skip


STATES_MAX = 100
"""The number of files, imported last, for which the catalog has a state. Older files rarely grow."""


class Stat(Protocol):
    """The fields of ``os.stat_result`` by which a change of a file is detected."""

    @property
    def st_size(self) -> int: ...
    @property
    def st_mtime_ns(self) -> int: ...
    @property
    def st_ino(self) -> int: ...


def recorded_status(stat: Stat) -> tuple[int, ...]:
    """Return the size, the time and the inode of a file as signed 64-bit integers.

    An inode, or a time after 2262, can exceed this range of SQLite.
    """
    fields = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
    return tuple([(value + (1 << 63)) % (1 << 64) - (1 << 63) for value in fields])


SHORT_ID_CHARS = 7
"""Minimum length of a short id of a session. Seven characters have 2**35 values."""


def short_sid(sid: str) -> str:
    """Return the short id of a session: the beginning of the part after the date."""
    return sid.rpartition("-")[2][:SHORT_ID_CHARS]


class Row(NamedTuple):  # a dataclass would cost a third of the start of `gitsession ls`
    """One session in the catalog.

    Attributes:
        sid: The id of the session.
        agent: The name of the agent.
        source_id: The agent's id of the session.
        title: The title of the session.
        first_words: The first words of the first prompt.
        project: The working directory in which the session began.
        created_ms: The time of the first entry, Unix time in ms.
        updated_ms: The time of the newest entry, Unix time in ms.
        entries: The number of entries on the branches, without the root. Those before a fork are included.
        branches: The oid of each branch's tip, by branch name.
        active: The name of the active branch.
        tokens: The number of tokens that providers reported for the session.
        cost: The cost that the agent recorded for the session, in US dollars; 0 if it recorded none.
        changed: The number of files that tool calls of the session changed.
        view: The view number of the session. Sessions with a later view number can be read, but not written.
        identity: The identity of the project, which is the same on all machines, if it is known.
        parent: The agent's id of the session that started this one as a sub-agent, or from which it was forked. If
            gitsession wrote this session, the session id.
        delegated: 1 if this is the session of a sub-agent, else 0.
        continues: The id of the session that this one continues after a resume. Tokens of lines that were copied from
            that session are counted only there.
        added: The number of lines that tool calls of the session added to files.
        removed: The number of lines that they removed.
        mode: The mode of the agent at the tip of the active branch, such as ``plan``.
        done: The number of done items in the todo list there.
        todos: The number of all items in that list, without the cancelled ones.
        marked: The names of the session's marks, such as ``archived shared``.
        key: The id of the session in the program that writes it with the library.
    """

    sid: str
    agent: str
    source_id: str | None
    title: str | None
    first_words: str | None
    project: str | None
    created_ms: int
    updated_ms: int
    entries: int
    branches: Mapping[str, str]
    active: str
    tokens: int
    cost: float
    changed: int
    view: int
    identity: str | None
    parent: str | None
    delegated: int
    continues: str | None
    added: int
    removed: int
    mode: str | None
    done: int
    todos: int
    marked: str
    key: str | None

    @property
    def name(self) -> str:
        """The name of the session in a list: its title, or else its first words."""
        return self.title or self.first_words or "(untitled)"

    @property
    def reference(self) -> str:
        """A short id and the name, such as ``up24ahy  Count the files``, for a line that mentions the session."""
        return f"{short_sid(self.sid)}  {self.name}"


class _Location(NamedTuple):
    """The fields of ``Row`` by which the sessions of a folder are selected."""

    sid: str
    project: str | None
    identity: str | None
    delegated: int


class Catalogue:
    """The catalog of the store at ``git_dir``. If the store cannot be written, the catalog is in memory.

    ``git_dir``: ``None`` if the store is in memory. ``fingerprint``: a function that returns the store's fingerprint.
    """

    _fingerprint: Callable[[], str] | None = None

    def __init__(self, git_dir: Path | str | None, fingerprint: Callable[[], str] | None = None) -> None:
        self.git_dir = git_dir
        self._fingerprint = fingerprint
        self._file = _MEMORY if git_dir is None else os.path.join(git_dir, FILE)
        self.db = _open(self._file)

    def fingerprint(self) -> str:
        """Return the fingerprint of the store, which differs whenever a ref has changed."""
        return self._fingerprint() if self._fingerprint else change_stamp.fingerprint(self.git_dir or "")

    def is_fresh(self) -> bool:
        """Return whether the catalog matches the refs and the journal.

        A damaged catalog is replaced with an empty one, and the result is False.
        """
        try:
            found = self.db.execute("SELECT value FROM state WHERE key = 'fingerprint'").fetchone()
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self.reset()
            return False
        return found is not None and found[0] == os.fsencode(self.fingerprint())

    def reset(self) -> None:
        """Replace the database with an empty one."""
        self.db.close()
        if self.git_dir is not None:
            remove(self._file)
        self.db = _open(self._file)

    def begin_in_memory(self) -> None:
        """Replace the database with an empty one in memory. Use it if the file can be read but not written."""
        self.db.close()
        self.db = open_in_memory()

    def sessions(self, newest: int | None = None) -> list[Row]:
        """Return all sessions, or only the ``newest`` newest ones, the newest first."""
        return self._rows("", limit=newest)

    def titles(self) -> list[tuple[str, str | None, int]]:
        """Return the id, the title and the time of each session (see ``Row.updated_ms``), the newest first."""
        with self._resetting():  # the sign: see ``_newest``
            return self.db.execute(
                "SELECT sid, title, updated_ms FROM sessions ORDER BY +updated_ms DESC, sid"
            ).fetchall()

    def session(self, sid: str) -> Row | None:
        return next(iter(self._rows("WHERE sid = ?", (sid,))), None)

    def find(self, address: str, here: CurrentFolder | None) -> Row:
        """Return the session that ``address`` names. Raises ``NotFound`` or ``Ambiguous``.

        An address is a unique part of a session id, the beginning of the agent's own id, with or without ``<agent>:``
        before it, ``@`` for the first session of the current folder, or ``-`` for the second. ``index.current_folder``
        defines the sessions of a folder and their order.
        Sessions of sub-agents are used for ``@`` and ``-`` only if there is no other session.
        """
        if address in ("@", "-"):
            return self._newest(address, here or CurrentFolder(os.path.abspath(".")))
        if not address.strip(":"):
            raise NotFound("the session address is empty", hint="run `gitsession ls` to list the sessions")
        agent, colon, source_id = address.partition(":")
        values: tuple[str, ...] = (agent, source_id) if colon else (address.lower(),)
        whole = "agent = ? AND coalesce(source_id, key) = ?" if colon else "sid = ?"
        # The inner query reads only an index.
        of_part = "sid IN (SELECT sid FROM sessions WHERE instr(sid, ?))"
        part = "agent = ? AND instr(coalesce(source_id, key), ?) = 1" if colon else of_part
        found = self._rows(f"WHERE {whole}", values) or self._rows(f"WHERE {part}", values)
        if not found and not colon:
            own = "coalesce(source_id, key)"
            found = self._rows(f"WHERE {own} = ?", (address,)) or self._rows(f"WHERE instr({own}, ?) = 1", (address,))
        if len(found) == 1:
            return found[0]
        if found:
            lines = [f"{row.sid}  {row.name}" for row in found]
            raise Ambiguous(f"{address!r} matches {len(found)} sessions", lines, hint="pass more characters of the id")
        hint = "run `gitsession ls` or `gitsession ls --archived` to list the sessions"
        if address.partition("~")[0] in ("leaf", "root", "user", "turn"):
            hint = f"pass @@{address} for an entry of the newest session of this folder"
        raise NotFound(f"no session {address[:80]!r}", hint=hint)

    def by_source(self, agent: str, source_id: str) -> list[Row]:
        """Return the sessions with the agent's id ``source_id``, the newest first."""
        return self._rows("WHERE agent = ? AND source_id = ?", (agent, source_id))

    def by_key(self, agent: str, key: str) -> Row | None:
        """Return the session that the program ``agent`` knows as ``key``."""
        return next(iter(self._rows("WHERE agent = ? AND key = ?", (agent, key))), None)

    def by_segment(self, agent: str, segment: str) -> str | None:
        """Return the id of the session that an agent continued in a later file with the agent's id ``segment``."""
        query = (
            "SELECT sid FROM sessions JOIN entries USING (sid) "
            "WHERE sessions.agent = ? AND entries.source_id = ? AND kind = 'session' ORDER BY created_ms, sid"
        )
        found = self.db.execute(query, (storable(agent), storable(segment))).fetchone()
        return found[0] if found else None

    def begun_in(self, row: Row) -> list[Row]:
        """Return the sessions that a session started, its forks, and those that continue it, the newest first."""
        where = "WHERE (agent = ? AND parent = ?) OR parent = ? OR continues = ?"
        return self._rows(where, (row.agent, row.source_id or row.sid, row.sid, row.sid))

    def _newest(self, address: str, here: CurrentFolder) -> Row:
        # The sign keeps SQLite from using the index: to look up each row is slower than to sort all.
        query = "SELECT sid, project, identity, delegated FROM sessions ORDER BY +updated_ms DESC, sid"
        with self._resetting():
            rows = [_Location(*row) for row in self.db.execute(query)]
        wanted = 0 if address == "@" else 1
        found: list[_Location] = []
        own, delegated = ([row for row in rows if bool(row.delegated) == flag] for flag in (False, True))
        for row in chain(nearest(own, here), nearest(delegated, here)):
            found.append(row)
            if len(found) > wanted and (session := self.session(row.sid)) is not None:
                return session
        which = "session" if not wanted else "earlier session"
        other = next((row for row in rows if row not in found), None)
        example = f"for example {other.sid} (in {other.project or 'no folder'})" if other else ""
        hint = f"run `gitsession ls` to list the sessions of all folders, and pass an id, {example}" if other else ""
        folder = f"'{here.cwd}'" if here.cwd else "a deleted folder"
        raise NotFound(f"no {which} in {folder}", hint=hint or "run `gitsession import --all` to import sessions")

    def _rows(self, where: str, values: Sequence[str] = (), *, limit: int | None = None) -> list[Row]:
        limited = f"ORDER BY updated_ms DESC, sid LIMIT {-1 if limit is None else limit}"
        texts = [storable(value) for value in values]
        with self._resetting():
            found = self.db.execute(f"{_SELECT} {where} {limited}", texts).fetchall()
            branches = self._branches([str(row[0]) for row in found], all_sessions=not where and limit is None)
            at = Row._fields.index("branches")
            return [Row._make((*row[:at], branches.get(row[0], {}), *row[at:])) for row in found]

    @contextlib.contextmanager
    def _resetting(self) -> Iterator[None]:
        """Replace a damaged database with an empty one, and raise ``Unavailable``."""
        try:
            yield
        except (sqlite3.DatabaseError, ValueError, AttributeError) as error:
            if isinstance(error, sqlite3.DatabaseError) and not is_damage(error):
                raise
            self.reset()
            raise Unavailable(
                "cannot read the index: it was damaged, and has been reset", hint="try again (no session is lost)"
            ) from None

    def _branches(self, sids: Iterable[str], *, all_sessions: bool) -> dict[str, dict[str, str]]:
        """Return the branches of sessions, ``main`` first. ``all_sessions``: True if ``sids`` contains all sessions."""
        found: dict[str, dict[str, str]] = {}
        query = "SELECT sid, name, oid FROM branches"
        of_each = (self.db.execute(f"{query} WHERE sid = ?", (sid,)) for sid in sids)
        rows = self.db.execute(query) if all_sessions else chain.from_iterable(of_each)
        for sid, name, oid in rows:
            found.setdefault(sid, {})[name] = oid
        return found

    # ---- imported files

    def seen(self, path: Path, stat: Stat) -> str | None:
        """Return the id of the session that was imported from ``path``.

        Return ``None`` if no such import is recorded, if the file has changed since then, or if the session is not in
        the catalog.
        """
        query = "SELECT size, mtime_ns, inode, sid FROM files JOIN sessions USING (sid) WHERE path = ?"
        found = self.db.execute(query, (os.fsencode(path),)).fetchone()
        return found[3] if found is not None and found[:3] == recorded_status(stat) else None

    def seen_files(self) -> dict[str, tuple[int, ...]]:
        """Return the ``recorded_status`` of every file for which ``seen`` can return a session, by path."""
        query = "SELECT path, size, mtime_ns, inode FROM files WHERE sid IN (SELECT sid FROM sessions)"
        rows = self.db.execute(query).fetchall()
        paths = os.fsdecode(b"\0".join([row[0] for row in rows])).split("\0")  # one call for all paths is faster
        return {path: row[1:] for path, row in zip(paths, rows, strict=False)}

    def import_state(self, path: Path, stat: Stat) -> bytes | None:
        """Return the state of the import of ``path`` if the file is longer now (``importing.import_state``)."""
        query = "SELECT state FROM imports JOIN files USING (path) WHERE path = ? AND size < ?"
        found = self.db.execute(query, (os.fsencode(path), recorded_status(stat)[0])).fetchone()
        return found[0] if found is not None else None

    def remember(self, files: Iterable[tuple[Path, Stat, str]], states: Mapping[Path, bytes | None] = {}) -> None:
        """Record the imported files ``files``, each with its status and the id of the session in the file.

        ``states``: the states of their imports; ``None`` to delete a state.
        """
        rows = [(os.fsencode(path), *recorded_status(stat), sid) for path, stat, sid in files]
        if not rows:
            return
        # If the rows cannot be written, the next import reads the files again.
        with contextlib.suppress(sqlite3.OperationalError), self.transaction() as db:
            db.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)", rows)
            db.executemany("DELETE FROM imports WHERE path = ?", [(os.fsencode(path),) for path in states])
            new = [(os.fsencode(path), state) for path, state in states.items() if state is not None]
            db.executemany("INSERT INTO imports (path, state) VALUES (?, ?)", new)
            oldest = "(SELECT number FROM imports ORDER BY number DESC LIMIT -1 OFFSET ?)"
            db.execute(f"DELETE FROM imports WHERE number IN {oldest}", (STATES_MAX,))

    def side_files(self, path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
        """Return the recorded status of each side file of the session file ``path``, and the tree of its entry."""
        query = "SELECT name, size, mtime_ns, inode, tree FROM side_files WHERE path = ?"
        return {name: (tuple(status), tree) for name, *status, tree in self.db.execute(query, (os.fsencode(path),))}

    def remember_side_files(self, files: Mapping[Path, Mapping[str, tuple[Stat, str]]]) -> None:
        """Record the status of side files, and the trees of their entries, by session file and name."""
        rows = [
            (os.fsencode(path), name, *recorded_status(stat), tree)
            for path, found in files.items()
            for name, (stat, tree) in found.items()
        ]
        # If the rows cannot be written, the next import reads the files again.
        with contextlib.suppress(sqlite3.OperationalError), self.transaction() as db:
            db.executemany("INSERT OR REPLACE INTO side_files VALUES (?, ?, ?, ?, ?, ?)", rows)

    def session_in(self, path: str) -> str | None:
        """Return the id of the session that was last imported from ``path``."""
        found = self.db.execute("SELECT sid FROM files WHERE path = ?", (os.fsencode(path),)).fetchone()
        return found[0] if found is not None else None

    def files_of(self, sid: str) -> list[Path]:
        """Return the recorded files from which a session was imported."""
        from pathlib import Path

        found = self.db.execute("SELECT path FROM files WHERE sid = ? ORDER BY path", (sid,)).fetchall()
        return [Path(os.fsdecode(path)) for (path,) in found]

    def files(self) -> list[tuple[Path, str]]:
        """Return every recorded file with the id of the session that was imported from it."""
        from pathlib import Path

        found = self.db.execute("SELECT path, sid FROM files ORDER BY path").fetchall()
        return [(Path(os.fsdecode(path)), sid) for path, sid in found]

    def last_seen_refs(self) -> dict[str, str]:
        """Return the values of the sessions' refs at the last update; empty if the catalog cannot be read."""
        try:
            return dict(self.db.execute("SELECT name, value FROM refs").fetchall())
        except sqlite3.DatabaseError:
            return {}

    @contextlib.contextmanager
    def transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        self.db.execute(begin)
        try:
            yield self.db
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # a damaged file allows no rollback
                self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    def snapshot(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """Return a context in which reads do not see what other processes write meanwhile."""
        return self.transaction("BEGIN")

    def close(self) -> None:
        self.db.close()


_SELECT = (
    "SELECT sid, agent, source_id, title, first_words, project, created_ms, updated_ms, entries, active, tokens, "
    "cost, changed, view, identity, parent, delegated, continues, lines_added, lines_removed, mode, done, "
    "todos, marked, key "
    "FROM sessions"
)


def _open(path: str) -> sqlite3.Connection:
    """Open the database, and replace a damaged one. If the file cannot be written, the database is in memory."""
    for _ in range(2):
        try:
            return connect(path, _prepare, _TABLES)
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise
            if "no such" not in str(error):
                break
            remove(path)
        except sqlite3.DatabaseError:
            remove(path)
    return open_in_memory()


def open_in_memory() -> sqlite3.Connection:
    """Open an empty database in memory with the tables of the catalog."""
    return connect(_MEMORY, _prepare, _TABLES)


def _prepare(db: sqlite3.Connection) -> None:
    if _is_current(db):
        return
    begin_log(db)
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("BEGIN IMMEDIATE")
    if not _is_current(db):
        tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite@_%' ESCAPE '@'"
        for (name,) in db.execute(tables).fetchall():
            db.execute(f'DROP TABLE "{name}"')
        create_tables(db, _SCHEMA, VERSION)
    db.execute("COMMIT")


def _is_current(db: sqlite3.Connection) -> bool:
    return bool(db.execute("PRAGMA user_version").fetchone()[0] == VERSION)
