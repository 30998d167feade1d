"""Read-only access to agents' SQLite databases.

A database is never written or copied, and only the tables with sessions or prompts are read, because agents store
credentials in the same file. An SQLite authorizer denies access to every other table. So no query, view or trigger of
an untrusted database can read other tables.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from gitsession.dataclass import dataclass
from gitsession.errors import GitSessionError, Malformed, Unavailable
from gitsession.formats import OWN_FORMATS, Database, all_with_capability
from gitsession.formats.base.format import Columns, Row

PATIENCE_SECONDS = 2.0
TEXT_BYTES_MAX = 1 << 29


@dataclass(frozen=True, slots=True)
class OpenDatabase:
    """A database in one read transaction.

    ``format``: the format of the agent that the database belongs to; ``None`` if no supported agent wrote the database.
    """

    format: Database | None
    columns: Columns
    db: sqlite3.Connection

    def query(self, sql: str, values: Sequence[object] = ()) -> Iterator[Row]:
        """Yield the rows of a query.

        Raises ``Unavailable`` if the database is busy, and ``Malformed`` if it is damaged.
        """
        with _translated_errors():
            for row in self.db.execute(sql, tuple(values)):  # noqa: UP028 - `yield from` closes the cursor, even if the database is closed
                yield row


@contextlib.contextmanager
def opened(path: Path, tables: Collection[str] = ()) -> Iterator[OpenDatabase]:
    """Yield the database at ``path`` in a read transaction, including its write-ahead log.

    ``tables``: the tables that may be read. By default, these are the tables with the sessions of a supported agent.

    Raises ``Unavailable`` if the database is locked or cannot be opened, and ``Malformed`` if it is damaged.
    """
    with _translated_errors():
        db = _connect(path)
    try:
        with _translated_errors():
            db.text_factory = lambda text: text.decode("utf-8", "replace")
            db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, TEXT_BYTES_MAX)
            db.execute("PRAGMA trusted_schema = OFF")
            db.execute("PRAGMA query_only = ON")
            db.execute("BEGIN")
            format, columns = (None, _columns(db, tables)) if tables else _format_of(db)
            listed = set(tables if format is None else format.TABLES)
            allowed = {table: columns[table] for table in columns if table in listed}
            if format is not None:
                for table, only in format.COLUMNS.items():
                    allowed[table] = [name for name in allowed.get(table, ()) if name in only]
            db.set_authorizer(lambda *arguments: _authorize(allowed, *arguments))
        yield OpenDatabase(format, allowed, db)
    finally:
        db.close()


def _format_of(db: sqlite3.Connection) -> tuple[Database | None, dict[str, list[str]]]:
    """Return the format that owns the tables of a database, and the columns of the tables that formats can read."""
    own = all_with_capability(Database, OWN_FORMATS)
    columns = _columns(db, {table for format in own.values() for table in format.TABLES})
    format = next((each for each in own.values() if each.owns_tables(columns)), None)
    if format is not None:
        return format, columns
    every = all_with_capability(Database)  # with those of plugins
    columns = _columns(db, {table for format in every.values() for table in format.TABLES})
    return next((each for each in every.values() if each.owns_tables(columns)), None), columns


def _connect(path: Path) -> sqlite3.Connection:
    uri = f"file:{quote(os.fsencode(path.absolute()))}"
    for mode in ("?mode=ro", "?mode=ro&immutable=1"):
        db = sqlite3.connect(f"{uri}{mode}", uri=True, timeout=PATIENCE_SECONDS, isolation_level=None)
        try:
            db.execute("SELECT count(*) FROM sqlite_master")
        except sqlite3.OperationalError as error:
            db.close()
            # In a read-only folder, SQLite cannot create the index of a write-ahead log. If the database has no log, it
            # can be opened without the index.
            has_no_log = not os.path.exists(f"{path}-wal") and not os.path.exists(f"{path}-journal")
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CANTOPEN or not has_no_log or "immutable" in mode:
                raise
            continue
        except BaseException:
            db.close()
            raise
        return db
    raise AssertionError("the second try returns or raises")


def _columns(db: sqlite3.Connection, tables: Collection[str]) -> dict[str, list[str]]:
    """Return the columns of each of ``tables`` that exists. Views are excluded, because they can read other tables."""
    existing = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'") if name in tables]
    return {name: [row[1] for row in db.execute(f'PRAGMA table_info("{name}")')] for name in existing}


_PLAIN = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_TRANSACTION)


_WHOLE_ROW = ("", "ROWID")
"""The names of columns of which SQLite asks for a count of rows, and for a row number."""


def _authorize(allowed: Columns, action: int, first: str | None, second: str | None, *_: str | None) -> int:
    columns = allowed.get(first or "") if action == sqlite3.SQLITE_READ else None
    if action in _PLAIN or (columns is not None and (second in _WHOLE_ROW or second in columns)):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


@contextlib.contextmanager
def _translated_errors() -> Iterator[None]:
    """Replace SQLite's exceptions with those of ``gitsession.errors``."""
    try:
        yield
    except sqlite3.Error as error:
        raise _to_own_error(error) from error


def _to_own_error(error: sqlite3.Error) -> GitSessionError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Unavailable("the database is locked by its agent", hint="try again later")
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM):
        hint = "start the agent once to repair its database"
        return Unavailable(f"the database cannot be opened: {error}", hint=hint)
    return Malformed(f"the database is damaged or incomplete: {error}")
