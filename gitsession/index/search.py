"""Full-text search in all sessions with SQLite's FTS5.

The index is a file of derived data beside the catalog. The first search creates the index, and each search updates it;
an append does not. The index contains no copy of the text, so the text of a hit is read from the entry. The file can be
deleted without loss, and a damaged file is replaced.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeAlias, TypeVar

from gitsession import progress
from gitsession.dataclass import dataclass
from gitsession.errors import InvalidName, Unavailable
from gitsession.git.types import Oid
from gitsession.index.catalogue import Catalogue, Row
from gitsession.index.derived import begin_log, clamped, connect, create_tables, is_damage, remove, storable
from gitsession.index.entry_rows import EntryRow, has_entry, run_of
from gitsession.index.search_words import (
    KINDS,
    ROLES,
    expression,
    fold,
    matcher,
    matching_line,
    searchable_text,
    separate_characters,
    snippet,
    terms,
)
from gitsession.index.vocabulary import Vocabulary
from gitsession.model.entries import Attachment, Entry, Fork, Opaque
from gitsession.sessions import content
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.indexed_entry import IndexedEntry, Spot
from gitsession.sessions.node import Node, load
from gitsession.store import refs
from gitsession.store.interface import ObjectStore

T = TypeVar("T")

_SessionEntry: TypeAlias = tuple[str, Spot]
"""The id of a session, and an entry of it."""

_Document: TypeAlias = tuple[tuple[str, Oid, str, int], tuple[str, ...]]
"""The row of an entry in the table ``docs``, and its row in ``words``, both without the number."""

BATCH = 5_000
"""Number of entries that are read together and added in one transaction.

An interrupted update continues after the last committed transaction.
"""

PROCESS_ENTRIES_MIN = 250
"""Minimum number of entries of a batch for each process."""

RUN = 512
"""Number of entries that are read from the catalog at once."""

SNIPPET_CHARS = 160

_MONTH_MS = 30 * 86_400_000

_FIND = f"""
SELECT docs.sid, docs.oid, docs.role, docs.at_ms FROM words JOIN docs ON docs.id = words.rowid WHERE words MATCH ?1
ORDER BY bm25(words, 10.0, 5.0, 3.0, 1.0) * (1 + 0.5 / (1 + max(?2 - docs.at_ms, 0) / {_MONTH_MS}.0))
* (1 + 2 * (docs.id IN (SELECT rowid FROM words WHERE words MATCH ?3))), docs.at_ms DESC
"""
"""Query for the entries that match ?1. The result of ``bm25`` is negative, and lower for a better match.

A new entry gets up to half as many points again as an old one. ?2: the time of the newest entry, Unix time in ms. An
entry that also matches ?3, the words without their other forms, gets three times as many points. Otherwise, an entry
with a rare form would rank higher than one with the word itself.
"""

_NEWEST = "SELECT sid, oid, role, at_ms FROM docs ORDER BY at_ms DESC, id DESC"


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """One hit of a search.

    Attributes:
        session: The session.
        oid: The oid of the entry.
        role: The role of the text: ``user``, ``assistant``, ``tool``, ``shell``, ``custom``, ``summary``, ``title``
            or ``side-file``.
        at_ms: The time of the entry, Unix time in ms; 0 if it is unknown.
        snippet: The text around the hit.
        before: The line before the hit; "" if there is none.
        line: The line of the hit.
        after: The line after the hit; "" if there is none.
        words: The different texts in ``line`` that match.
        name: The name of the side file with the hit; "" if the hit is not in a side file.
    """

    session: Row
    oid: Oid
    role: str
    at_ms: int
    snippet: str
    before: str = ""
    line: str = ""
    after: str = ""
    words: tuple[str, ...] = ()
    name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchQuery:
    """The parameters of a search.

    ``sessions``: the ids of the sessions to search, or ``None`` for all sessions. ``since_ms``: the earliest time of an
    entry, Unix time in ms. ``until_ms``: the time before which all entries are. ``role``: one of ``ROLES``, or "" for
    any. ``most``: the maximum number of hits. ``regex``: a regular expression to search for instead of ``query``.
    """

    query: str
    sessions: Collection[str] | None
    role: str = ""
    since_ms: int = 0
    until_ms: int | None = None
    most: int = 20
    regex: re.Pattern[str] | None = None

    def includes(self, sid: str, role: str, at_ms: int) -> bool:
        """Return whether an entry passes the filters."""
        is_in_time = at_ms >= self.since_ms and (self.until_ms is None or at_ms < self.until_ms)
        return is_in_time and (not self.role or role == self.role) and self.includes_session(sid)

    def includes_session(self, sid: str) -> bool:
        return self.sessions is None or sid in self.sessions


def search(catalogue: Catalogue, store: ObjectStore, wanted: SearchQuery) -> list[Hit]:
    """Return the hits, the best first.

    Titles rank highest, then prompts, summaries, answers, and all other text. Newer entries rank higher than older
    ones. The hits of a regular expression are ordered by time, the newest first.

    ``catalogue`` must be up to date. Raises ``Unavailable`` if SQLite has no FTS5, or if another process has locked the
    index.
    """
    return with_index(catalogue, store, lambda db: _found(db, catalogue, store, wanted))


def regular_expression(text: str) -> re.Pattern[str]:
    """Return a pattern for the result of ``fold``. ``^`` and ``$`` match at each line. Raises ``InvalidName``."""
    try:
        return re.compile(fold(text), re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidName(f"cannot search for '{text}': invalid regular expression: {error}") from None


def suggest(catalogue: Catalogue, store: ObjectStore, wanted: SearchQuery) -> str:
    """Return a query with hits whose words are spelled almost like those of ``wanted``; "" if there is none."""
    return with_index(catalogue, store, lambda db: _suggestion(db, catalogue, store, wanted))


def with_index(catalogue: Catalogue, store: ObjectStore, use: Callable[[sqlite3.Connection], T]) -> T:
    """Update the index, and return the result of ``use``. A damaged index is replaced."""
    path = None if catalogue.git_dir is None else Path(catalogue.git_dir) / FILE
    for tries_left in (True, False):
        with contextlib.closing(open_at(path)) as db:
            try:
                _refresh(db, catalogue, store)
                return use(db)
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise Unavailable(f"cannot search the index: {error}", hint="try again") from None
                if not tries_left:
                    raise
        if path is not None:
            remove(path)
    raise AssertionError("unreachable")


# ---- search


def _found(db: sqlite3.Connection, catalogue: Catalogue, store: ObjectStore, wanted: SearchQuery) -> list[Hit]:
    entries: Iterable[tuple[str, Oid, str, int]]
    titles = [row for row in catalogue.titles() if wanted.includes_session(row[0])]
    session = functools.cache(catalogue.session)
    if wanted.regex is not None:
        matches = wanted.regex
        rows = [row for row in db.execute(_NEWEST) if wanted.includes(row[0], *row[2:])]
        entries = progress.each("Searching entries", rows)
    else:
        forms = Vocabulary(db).forms
        match_query = expression(wanted.query, forms)
        if not match_query:
            return []
        matches = matcher(wanted.query, forms)
        newest_ms = titles[0][2] if titles else 0
        values = (match_query, newest_ms, expression(wanted.query))
        entries = (row for row in db.execute(_FIND, values) if wanted.includes(row[0], *row[2:]))
    hits = list(islice(_titles(titles, session, wanted, matches), max(wanted.most, 0)))
    newest: dict[str, dict[Oid, str]] = {}
    for sid, oid, role, at_ms in entries:
        if len(hits) >= wanted.most:
            break
        row, name = session(sid), ""
        if row is None:
            continue  # the session was removed
        if role == "side-file":
            if sid not in newest:
                newest[sid] = _newest_side_files(store, sid)
            name = newest[sid].get(oid, "")
        if not name and not has_entry(catalogue.db, sid, oid):
            continue  # an undo removed the entry, or the side file has a newer state
        text = text_of(store, oid)
        if text is None or (wanted.regex is not None and not wanted.regex.search(fold(text))):
            continue
        line = matching_line(text, matches, SNIPPET_CHARS)
        shown = snippet(text, matches, SNIPPET_CHARS)
        at_line = line._asdict() if role in _PROSE else line._replace(before="", after="")._asdict()
        hits.append(Hit(session=row, oid=oid, role=role, at_ms=at_ms, snippet=shown, name=name, **at_line))
    return hits


def _newest_side_files(store: ObjectStore, sid: str) -> dict[Oid, str]:
    """Map entries to the names of their side files: the newest entry of each file, or each entry of a shared file."""
    from gitsession.sessions.attached_files import SessionAttachments

    found = SessionAttachments(store, sid)
    return {
        node.oid: name for name, nodes in found.nodes.items() for node in nodes[: None if found.is_shared(name) else 1]
    }


_PROSE = frozenset(ROLES) - {"tool", "shell", "side-file"}
"""The roles whose lines are sentences. Lines around a hit in the output of a tool are not shown."""


def text_of(store: ObjectStore, oid: Oid) -> str | None:
    """Return the searchable text of an entry; ``None`` if it cannot be read."""
    try:
        text = searchable_text(content.entry_of(store, load(store, oid)))
    except DAMAGE:
        return None
    return None if text is None else text.all


def _titles(
    titles: Iterable[tuple[str, str | None, int]],
    session: Callable[[str], Row | None],
    wanted: SearchQuery,
    matches: re.Pattern[str],
) -> Iterator[Hit]:
    """Yield hits at the tips of sessions with a matching title. All titles are compared, because they are few."""
    for sid, title, at_ms in titles:
        if not title or not wanted.includes(sid, "title", at_ms) or not _is_in_title(wanted, matches, title):
            continue
        row = session(sid)
        if row is not None:
            leaf = row.branches[row.active] if row.active in row.branches else next(iter(row.branches.values()))
            words = matching_line(title, matches, len(title)).words
            yield Hit(session=row, oid=leaf, role="title", at_ms=at_ms, snippet=title, line=title, words=words)


def _is_in_title(wanted: SearchQuery, matches: re.Pattern[str], title: str) -> bool:
    if wanted.regex is not None:
        return wanted.regex.search(fold(title)) is not None
    return all(term.text.casefold() in title.casefold() for term in terms(wanted.query))


def _suggestion(db: sqlite3.Connection, catalogue: Catalogue, store: ObjectStore, wanted: SearchQuery) -> str:
    vocabulary = Vocabulary(db)
    query = wanted.query
    for term in terms(query):
        nearest = vocabulary.nearest(fold(term.text))
        if nearest:
            query = query.replace(term.text, nearest)
    if query == wanted.query or not _found(db, catalogue, store, replace(wanted, query=query, most=1)):
        return ""
    return query


# ---- update


def _refresh(db: sqlite3.Connection, catalogue: Catalogue, store: ObjectStore) -> None:
    state = catalogue.db.execute("SELECT value FROM state WHERE key = 'fingerprint'").fetchone()
    if state == db.execute("SELECT value FROM state WHERE key = 'fingerprint'").fetchone() is not None:
        return
    db.execute("BEGIN IMMEDIATE")
    seen = dict(db.execute("SELECT sid, branches FROM seen").fetchall())
    entries: list[_SessionEntry] = []
    tips: list[tuple[str, str]] = []
    for row in progress.each("Indexing sessions", catalogue.sessions()):
        leaves = json.dumps([*sorted(row.branches.items()), store.ref(refs.meta(row.sid))])
        if seen.get(row.sid) == leaves:
            continue
        with catalogue.snapshot() as rows:
            if rows.execute("SELECT 1 FROM sessions WHERE sid = ?", (row.sid,)).fetchone() is None:
                continue  # another process builds the catalog again; the next search reads the session
            spots, is_complete = _new(db, catalogue, store, row, was_complete=seen.get(row.sid) != _INCOMPLETE)
        entries += [(row.sid, spot) for spot in (*spots, *_new_side_files(db, store, row.sid))]
        tips.append((row.sid, leaves if is_complete else _INCOMPLETE))
        if len(entries) >= BATCH:
            _add(db, store, entries, tips)
            _begin_anew(db)
            entries, tips = [], []
    _add(db, store, entries, tips)
    if state is not None:
        db.execute("INSERT OR REPLACE INTO state VALUES ('fingerprint', ?)", state)
    db.execute("COMMIT")


def _begin_anew(db: sqlite3.Connection) -> None:
    """Commit, and let another process write."""
    db.execute("COMMIT")
    db.execute("BEGIN IMMEDIATE")


_INCOMPLETE = ""
"""Value that is stored instead of a session's branches if an entry of the session could not be read."""


def _new(
    db: sqlite3.Connection, catalogue: Catalogue, store: ObjectStore, row: Row, *, was_complete: bool
) -> tuple[list[Spot], bool]:
    """Return the entries with text that are not indexed yet, and whether all entries could be read.

    Parents come first. So all entries before an indexed entry are indexed, even after an interruption.
    """
    new: dict[Oid, Spot] = {}
    try:
        for leaf in row.branches.values() if was_complete else ():
            line = []
            for spot in _upwards(catalogue, store, row.sid, leaf):
                if spot.oid in new or _is_known(db, row.sid, spot.oid):
                    break
                line.append(spot)
            new |= {spot.oid: spot for spot in reversed(line)}
    except DAMAGE:
        was_complete = False
    if not was_complete:
        return _readable(catalogue, store, row.sid)
    return [spot for spot in new.values() if spot.kind in KINDS], True


def _new_side_files(db: sqlite3.Connection, store: ObjectStore, sid: str) -> Iterator[Node]:
    """Yield the attachments on ``meta`` that are not indexed yet, the newest last."""
    new: list[Node] = []
    oid = store.ref(refs.meta(sid))
    with contextlib.suppress(*DAMAGE):
        while oid and not _is_known(db, sid, oid):
            node = load(store, oid)
            new += [node] if node.kind == Attachment.kind and not node.is_tombstone else []
            oid = node.parent if node.parent and node.kind != Fork.kind else None
    yield from reversed(new)


def _upwards(catalogue: Catalogue, store: ObjectStore, sid: str, leaf: Oid) -> Iterator[Spot]:
    """Yield the entries of a history, the tip first. Entries without text may be omitted."""
    oid: Oid | None = leaf
    known: dict[Oid, EntryRow] = {}
    while oid:
        if oid not in known:
            known = {row.oid: row for row in run_of(catalogue.db, sid, oid, RUN)}
        row = known.get(oid)
        if row is not None and row.above is not None:
            yield row.indexed_entry()
            oid = row.above
        elif has_entry(catalogue.db, sid, oid):
            node = load(store, oid)
            yield node
            oid = node.parent
        else:
            return


def _readable(catalogue: Catalogue, store: ObjectStore, sid: str) -> tuple[list[Spot], bool]:
    """Return those entries with text that can be read, and whether all entries of the session could be read."""
    nodes: list[Node] = []
    is_complete = True
    for (oid,) in catalogue.db.execute("SELECT oid FROM entries WHERE sid = ?", (sid,)).fetchall():
        try:
            nodes.append(load(store, oid))
        except DAMAGE:
            is_complete = False
    return [node for node in nodes if node.kind in KINDS], is_complete


def _is_known(db: sqlite3.Connection, sid: str, oid: Oid) -> bool:
    return db.execute("SELECT 1 FROM docs WHERE sid = ? AND oid = ?", (sid, oid)).fetchone() is not None


def _add(
    db: sqlite3.Connection, store: ObjectStore, entries: Sequence[_SessionEntry], tips: Iterable[tuple[str, str]]
) -> None:
    """Add entries, parents first, and then the tips of their sessions. Begin a transaction for each further batch."""
    for start in range(0, len(entries), BATCH):
        if start:
            _begin_anew(db)
        # `_readable` also returns entries that are there, and another process may have added some.
        batch = [each for each in entries[start : start + BATCH] if not _is_known(db, each[0], each[1].oid)]
        (last,) = db.execute("SELECT coalesce(max(id), 0) FROM docs").fetchone()
        documents = list(enumerate(_documents(store, batch), last + 1))
        db.executemany("INSERT INTO docs VALUES (?, ?, ?, ?, ?)", [(id, *row) for id, (row, _) in documents])
        insert_words = "INSERT INTO words (rowid, asked, summary, answer, work) VALUES (?, ?, ?, ?, ?)"
        db.executemany(insert_words, [(id, *texts) for id, (_, texts) in documents])
    db.executemany("INSERT OR REPLACE INTO seen VALUES (?, ?)", tips)


def _documents(store: ObjectStore, entries: Sequence[_SessionEntry]) -> list[_Document]:
    """Return the documents of entries, in this order. Several processes read the entries if they are many."""

    def read(numbers: Sequence[int]) -> dict[int, _Document | None]:
        return {number: _document(store, *entries[number]) for number in numbers}

    numbers = range(len(entries))
    if len(entries) < 2 * PROCESS_ENTRIES_MIN:
        found = read(numbers)
    else:
        from gitsession import parallel  # not loaded for a few entries

        parts = parallel.share(numbers, read, PROCESS_ENTRIES_MIN)
        found = {number: document for part in parts for number, document in part.items()}
    return [document for number in numbers if (document := found[number]) is not None]


def _document(store: ObjectStore, sid: str, spot: Spot) -> _Document | None:
    """Return the document of an entry; ``None`` if the entry has no text."""
    entry = _entry(store, spot)
    searchable = searchable_text(entry)
    if searchable is None:
        return None
    texts = tuple(storable(separate_characters(text)) for text in searchable[1:])
    return (sid, spot.oid, searchable.role, _at_ms(store, spot, entry)), texts


def _at_ms(store: ObjectStore, spot: Spot, entry: Entry) -> int:
    """Return the time of an entry, Unix time in ms; if it has none, that of its commit, or 0 if this is damaged."""
    if entry.at_ms:
        return clamped(entry.at_ms)
    with contextlib.suppress(*DAMAGE):
        return clamped(load(store, spot.oid).author_seconds * 1000)
    return 0


def _entry(store: ObjectStore, spot: Spot) -> Entry:
    """Return the content of an entry. Only one object is read if the catalog has the oid of the payload."""
    if isinstance(spot, IndexedEntry) and spot.payload:
        with contextlib.suppress(*DAMAGE):
            return content.read_alone(store, spot.payload, spot.source.agent if spot.source else None)[0]
    try:
        return content.entry_of(store, spot if isinstance(spot, Node) else load(store, spot.oid))
    except DAMAGE as error:
        return Opaque(problem=str(error))


FILE = Path("gitsession") / "search.db"
VERSION = 5
TOKENIZER = 'tokenize="unicode61 remove_diacritics 2"'

_SCHEMA = f"""
CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE seen (sid TEXT PRIMARY KEY, branches TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE docs (
    id INTEGER PRIMARY KEY, sid TEXT NOT NULL, oid TEXT NOT NULL, role TEXT NOT NULL, at_ms INTEGER NOT NULL);
CREATE UNIQUE INDEX docs_place ON docs (sid, oid);
CREATE VIRTUAL TABLE words USING fts5 (
    asked, summary, answer, work, content='', {TOKENIZER});
INSERT INTO words (words, rank) VALUES ('hashsize', {32 << 20})
"""
"""``docs_place`` begins with the session: the entries of a session are added together, and then change the same pages.

``hashsize``: the size in bytes of the words that FTS5 collects in memory. FTS5 writes them when they exceed this size,
and at each commit, so there are fewer and larger segments to merge.
"""


def open_at(path: Path | None) -> sqlite3.Connection:
    """Open the index. A damaged or outdated file is replaced. If the file cannot be written, the index is in memory.

    ``path``: ``None`` if the store is in memory.

    Raises ``Unavailable`` if SQLite has no FTS5, or if another process keeps the file locked for 30 seconds.
    """
    tables = ("state", "seen", "docs", "words")
    for database in (path, path, None):
        try:
            return connect(":memory:" if database is None else str(database), _prepare, tables)
        except sqlite3.DatabaseError as error:
            if "fts5" in str(error):
                what = "this Python's SQLite library has no full-text search (FTS5)"
                raise Unavailable(f"cannot search: {what}") from None
            if "locked" in str(error):
                raise Unavailable("cannot search: another process is building the index", hint="try again") from None
            if is_damage(error) and database is not None:
                remove(database)
        except OSError:
            continue
    raise Unavailable("cannot search: the index cannot be created", hint="try again")


def _prepare(db: sqlite3.Connection) -> None:
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version not in (0, VERSION):
        raise sqlite3.DatabaseError(f"version {version}")
    db.execute("PRAGMA synchronous = OFF")  # if a power failure damages the index, it is replaced
    if version == 0:
        begin_log(db)
        db.execute("BEGIN IMMEDIATE")
        if db.execute("PRAGMA user_version").fetchone()[0] == 0:
            create_tables(db, _SCHEMA, VERSION)
        db.execute("COMMIT")
