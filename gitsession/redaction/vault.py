"""The vault: a local file with the originals of redacted payloads.

The vault is a SQLite file that only its owner can read. Each row has a complete payload. When ``keep`` returns, the
originals are on disk. Redacted entries are written only after that, so no redacted entry lacks its original.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gitsession.durable import sync_directory
from gitsession.errors import Ambiguous, Corrupt, Unavailable
from gitsession.redaction.original import Original

FILE = "vault.db"
VERSION = 1
_WAIT_SECONDS = 30.0

_TABLES = """
CREATE TABLE IF NOT EXISTS originals (
    digest BLOB NOT NULL, chain BLOB NOT NULL, source TEXT NOT NULL, payload BLOB NOT NULL, bytes INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS by_digest ON originals (digest);
"""


class Vault:
    """The originals in ``file``, or in memory if ``file`` is ``None``. Threads can share a vault."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._pid = os.getpid()

    def keep(self, originals: Iterable[Original]) -> None:
        """Store originals durably.

        An original that is already stored is skipped. Raises ``Unavailable`` and ``Corrupt``.
        """
        with self._opened(writes=True, make=True) as db:
            assert db is not None
            with db:
                db.execute("BEGIN IMMEDIATE")
                for original in originals:
                    data = original.payload
                    if data not in _payloads(db, original.digest, original.chain):
                        row = (original.digest, original.chain, original.source, zlib.compress(data), len(data))
                        db.execute("INSERT INTO originals VALUES (?, ?, ?, ?, ?)", row)

    def original(self, digest: bytes, chain: bytes) -> bytes | None:
        """Return the original of an entry, or ``None`` if the vault does not have it.

        Raises ``Ambiguous`` if an entry has several originals that differ only in their secrets, and ``Corrupt``.
        """
        with self._opened() as db:
            if db is None:
                return None
            found = _payloads(db, digest, chain) or _payloads(db, digest)
            if len(found) > 1:
                sources = db.execute("SELECT source, bytes FROM originals WHERE digest = ?", (digest,)).fetchall()
                raise Ambiguous(
                    f"the vault contains {len(found)} different originals of the entry with digest {digest.hex()}",
                    [f"{source or 'not imported'}, {size:,} bytes" for source, size in sources],
                )
        return next(iter(found), None)

    def originals(self) -> Iterator[Original]:
        """Yield every original. Raises ``Corrupt``."""
        with self._opened() as db:
            if db is not None:
                rows = db.execute("SELECT digest, chain, source, payload FROM originals")
                for digest, chain, source, payload in rows:
                    yield Original(digest, chain, zlib.decompress(payload), source)

    def forget(self, digests: Iterable[bytes]) -> int:
        """Delete the originals of entries, also from the free pages of the file; return their number.

        Raises ``Unavailable`` and ``Corrupt``.
        """
        with self._opened(writes=True) as db:
            if db is None:
                return 0
            with db:
                deleted = sum(
                    db.execute("DELETE FROM originals WHERE digest = ?", (digest,)).rowcount for digest in digests
                )
            if deleted:
                db.execute("VACUUM")
        return deleted

    def digests(self) -> set[bytes]:
        """Return the digests of the entries whose originals are in the vault. Raises ``Corrupt``."""
        with self._opened() as db:
            return {row[0] for row in db.execute("SELECT digest FROM originals")} if db is not None else set()

    def close(self) -> None:
        """Close the file. The next call that reads or writes the vault reopens it."""
        with self._lock:
            if self._db is not None and self._pid == os.getpid():
                self._db.close()
            self._db = None

    @contextmanager
    def _opened(self, *, writes: bool = False, make: bool = False) -> Iterator[sqlite3.Connection | None]:
        """Lock the vault, and return the connection to its file; ``None`` if the file does not exist.

        ``writes``: whether the caller writes. ``Unavailable`` is then raised if the file cannot be written. ``make``:
        whether to create the file. Raises ``Corrupt``.
        """
        with self._lock:
            try:
                yield self._open(make=make)
            except OSError as error:
                if not writes:
                    raise
                raise Unavailable(f"cannot write the vault '{self._file}': {error.strerror}") from error
            except (sqlite3.DatabaseError, zlib.error) as error:
                if writes and isinstance(error, sqlite3.OperationalError):
                    raise Unavailable(f"cannot write the vault '{self._file}': {error}") from error
                hint = "restore the vault from a copy of the store, or use the originals in the agents' own files"
                raise Corrupt(f"the vault '{self._file}' is damaged: {error}", hint=hint) from error

    def _open(self, *, make: bool) -> sqlite3.Connection | None:
        if self._db is not None and self._pid == os.getpid():
            return self._db
        name = ":memory:"
        if self._file is not None:
            name = os.fspath(self._file)
            if make:
                with suppress(FileExistsError):
                    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
                    sync_directory(self._file.parent)
            elif not os.path.lexists(name):
                return None
            if not _is_private(name) and not make:
                return None
        db = sqlite3.connect(name, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            # EXTRA: SQLite commits by deleting its journal. The deletion must survive a power failure.
            for pragma in ("journal_mode = DELETE", "synchronous = EXTRA", "secure_delete = ON", "temp_store = MEMORY"):
                db.execute(f"PRAGMA {pragma}").fetchall()
            if make or self._file is None:
                db.executescript(_TABLES)
                db.execute(f"PRAGMA user_version = {VERSION}")
        except BaseException:
            db.close()
            raise
        self._db, self._pid = db, os.getpid()
        return db


def _payloads(db: sqlite3.Connection, digest: bytes, chain: bytes | None = None) -> set[bytes]:
    where, values = ("digest = ?", (digest,)) if chain is None else ("digest = ? AND chain = ?", (digest, chain))
    return {zlib.decompress(row[0]) for row in db.execute(f"SELECT payload FROM originals WHERE {where}", values)}


def _is_private(name: str) -> bool:
    """Remove other users' access to the file, and return whether the file has data.

    Other users have access if the file was copied without its permissions. The file is not opened here, because closing
    it would release SQLite's locks. Raises ``Unavailable`` if the file is not a regular file, and ``OSError``.
    """
    status = os.lstat(name)
    if not stat.S_ISREG(status.st_mode):
        raise Unavailable(
            f"cannot open the vault '{name}': it is not a regular file", hint="replace it with a regular file"
        )
    if status.st_mode & 0o077:
        os.chmod(name, status.st_mode & 0o700)
    return status.st_size > 0  # a process that is killed before it creates the tables leaves an empty file
