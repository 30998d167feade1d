"""The store on disk: journal, overlay, packs and refs in one object.

Two invariants determine the order of the steps: *an acknowledged object or ref move is in the journal or in the
repository at every moment*, and no read returns a part of a transaction.

    append   lock; tail the journal; check; append a journal record; fdatasync; update the overlay; unlock
                                                                                            (``store.writing``)
    flush    lock; tail the journal; write a pack with a ``.keep`` file; move refs;
             begin the next journal file, with the moves that failed; remove old journal files;
             remove ``.keep`` files                                                         (``store.writing``)
    read     tail the journal first, then read git                                          (``store.state``)

To *tail* the journal is to read the journal records that were added since the last read. When a store is opened, the
journal is read in the same way, so no separate recovery is needed.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, get_args

from gitsession.errors import MissingObject, Unavailable
from gitsession.git import config
from gitsession.git.permissions import denied
from gitsession.git.types import Kind, Oid, RefValue
from gitsession.store import change_stamp, create, refs
from gitsession.store.interface import Transaction
from gitsession.store.journal_frames import ASIDE
from gitsession.store.state import StoreState, unavailable
from gitsession.store.writing import InTransaction, Locked, StoreWriter

if TYPE_CHECKING:
    from gitsession.redaction.guard import Guard
    from gitsession.redaction.original import Original
    from gitsession.redaction.vault import Vault
    from gitsession.store.spill import PackSpill

Durability: TypeAlias = Literal["entry", "turn", "none"]
"""The time at which an append becomes durable: before it returns, at the next ``flush()``, or at no defined time."""

PACKED_PREFIXES = ("refs/heads/", "refs/remotes/", "refs/gitsession/")
"""Prefixes of refs that point to commits. Such refs can be packed without reading the objects."""

_LOOSE_REFS_MIN = 32
"""Number of loose refs from which on maintenance packs them. The file of packed refs grows with the store."""


class SecretGuard:
    """The secret guard of the store at ``git_dir``, loaded when a payload is first written or shown.

    The store's own configuration turns the guard on or off and selects its rules. A process that neither writes nor
    shows payloads loads neither the rules nor SQLite. If the guard is off, no process loads the rules.
    """

    def __init__(self, git_dir: Path) -> None:
        self._git_dir = git_dir

    @functools.cached_property
    def guard(self) -> Guard | None:
        """See ``ObjectStore``. ``None`` if the configuration has ``gitsession.redact = false``."""
        from gitsession.redaction.guard import Guard

        settings = config.redaction(self._git_dir)
        return Guard.load(settings.rules) if settings.is_on else None

    @functools.cached_property
    def vault(self) -> Vault:
        """See ``ObjectStore``. The vault is a file that only its owner can read."""
        from gitsession.redaction.vault import FILE, Vault

        return Vault(self._git_dir / create.CONTROL / FILE)

    def keep(self, originals: list[Original]) -> None:
        """Put the originals of redacted payloads into the vault."""
        self.vault.keep(originals)


_reopening = threading.Lock()
"""Held while a forked child closes the parent's files: a second close of a descriptor may close another file."""
os.register_at_fork(after_in_child=_reopening._at_fork_reinit)  # type: ignore[attr-defined]


def _set_up(git_dir: Path) -> bool:
    from gitsession.store import plain_clone  # only the first opening of a clone needs it

    return plain_clone.set_up(git_dir)


class GitStore:
    """An ``ObjectStore`` in a bare git repository. Threads may share it. A forked child opens the files again.

    ``promised``: a function that fetches an object that a partial clone lacks. It is ``None`` if the store is not a
    partial clone, or if no program has enabled fetching (``sync.transport.fetch_on_demand``). ``is_new_clone``: whether
    ``open`` completed the configuration of a clone that plain git made.
    """

    def __init__(self, git_dir: Path, *, durability: Durability, flush_on_close: bool, read_only: bool) -> None:
        """Use ``open`` instead."""
        self.promised: Callable[[Oid], None] | None = None
        self._thread_state = threading.local()
        self._git_dir = git_dir
        self._durability = durability
        self._flush_on_close = flush_on_close
        self._closed = False
        self.is_new_clone = False
        self._secrets = SecretGuard(git_dir)
        self._writer = self._open_files(read_only)

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        durability: Durability = "entry",
        flush_on_close: bool = True,
        read_only: bool = False,
        damaged: bool = False,
    ) -> Self:
        """Open the store at ``path``. If its folder is not writable, the store is opened read-only.

        ``flush_on_close=False`` is for processes that append once and exit: the next flush by another process transfers
        their journal records to git. ``damaged``: see ``create.check``.

        Raises ``NotAStore``, ``Corrupt`` and ``Unavailable``.
        """
        if durability not in get_args(Durability):
            raise ValueError(f"unknown durability {durability!r}, expected one of {', '.join(get_args(Durability))}")
        path = Path(os.path.abspath(path))
        create.check(path, damaged=damaged)
        is_new_clone = not read_only and not damaged and not (path / create.JOURNAL).exists() and _set_up(path)
        try:
            store = cls(path, durability=durability, flush_on_close=flush_on_close, read_only=read_only)
        except PermissionError as error:
            raise denied(Path(error.filename or path)) from error
        except OSError as error:
            raise Unavailable(f"cannot open the store '{path}': {error.strerror}") from error
        if not store.read_only:
            config.migrate(path)
        store.is_new_clone = is_new_clone
        return store

    @property
    def git_dir(self) -> Path:
        """The path of the repository, for git commands. Call ``flush`` first, so that the repository is complete."""
        return self._git_dir

    @property
    def local_dir(self) -> Path | None:
        """The folder of the records that are kept only on this machine; ``None`` if the store is in memory."""
        return self._git_dir

    def fingerprint(self) -> str:
        """Return a string that differs whenever a ref of the store has changed (``store.change_stamp``)."""
        return change_stamp.fingerprint(self._git_dir)

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def read_only(self) -> bool:
        return self._writer.lock is None

    @property
    def pending(self) -> int:
        """Return the number of acknowledged transactions, of all processes, that are not in git yet."""
        return self._tailed().overlay.records

    @property
    def guard(self) -> Guard | None:
        """See ``ObjectStore``."""
        return self._secrets.guard

    @property
    def vault(self) -> Vault:
        """See ``ObjectStore``."""
        return self._secrets.vault

    # -- reading

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        """See ``Reader``."""
        state = self._files().state
        try:
            return state.read(oid)
        except MissingObject:
            if self.promised is None or getattr(self._thread_state, "nobody", False):
                raise
        self.promised(oid)
        return state.read(oid)

    def read_all(self, oids: Iterable[Oid]) -> Iterator[tuple[Oid, Kind, bytes]]:
        """See ``ObjectStore``."""
        return self._files().state.git.read_all(oids)

    def commits(self) -> Iterator[tuple[Oid, Kind, bytes]]:
        """See ``ObjectStore``."""
        return self._files().state.git.commits()

    @contextmanager
    def without_fetching(self) -> Iterator[None]:
        """Keep this thread from fetching missing objects, because a full scan must not download all objects."""
        before, self._thread_state.nobody = getattr(self._thread_state, "nobody", False), True
        try:
            yield
        finally:
            self._thread_state.nobody = before

    def contains(self, oid: Oid) -> bool:
        """See ``Reader``."""
        return self._files().state.contains(oid)

    def oids(self) -> Iterator[Oid]:
        """See ``ObjectStore``."""
        return self._files().state.oids()

    def ref(self, name: str) -> RefValue | None:
        """See ``ObjectStore``."""
        return self._files().state.ref(name)

    def refs(self, prefix: str) -> Mapping[str, RefValue]:
        """See ``ObjectStore``."""
        return self._files().state.refs(prefix)

    def pending_refs(self) -> Mapping[str, RefValue | None]:
        """See ``ObjectStore``."""
        return {name: chain[-1] for name, chain in self._tailed().overlay.chains.items()}

    def published_to(self, name: str, new: RefValue | None) -> str | None:
        """See ``ObjectStore``."""
        from gitsession.store import published

        return published.find_remote(self._git_dir, self.read, self.refs(refs.TRACKING), name, new)

    # -- writing

    def spill(self) -> PackSpill:
        """See ``ObjectStore``."""
        from gitsession.store.spill import PackSpill

        return PackSpill(self._git_dir)

    def transaction(self) -> AbstractContextManager[Transaction]:
        """See ``ObjectStore``. Reads in the same thread return the staged data.

        Raises ``Unavailable`` if the store is read-only, another process holds the lock for too long, or the disk
        fails.
        """
        return InTransaction(self._files())

    def locked(self) -> AbstractContextManager[None]:
        """Return a context manager that holds the store's lock: no other process appends or flushes.

        Raises ``Unavailable``.
        """
        return Locked(self._files())

    def flush(self) -> None:
        """See ``ObjectStore``. Raises ``Unavailable`` if the disk fails.

        If another program keeps a ref locked, the move of that ref stays pending, and ``last_flush_error`` is set. All
        other refs are moved.
        """
        if self.read_only:
            if self.pending:
                message = f"cannot flush the store '{self._git_dir}': it was opened read-only"
                raise Unavailable(message, hint="open the store for writing, and flush it")
            return
        with self.locked():
            self._writer.flush()

    def flush_left(self) -> None:
        """Flush what a killed writer left in the journal, so that plain git can read it.

        Do nothing if another process holds the lock, because that process flushes, or if the journal is damaged, so
        that a check of the store still finds the damage.
        """
        writer = self._files()
        if writer.lock is None:
            return
        journal = self._tailed().journal
        journal.scan_for_damage()
        if not journal.has_damage:
            writer.quietly_flush(wait_seconds=0)
            writer.last_error = None

    def close(self) -> None:
        """See ``ObjectStore``. If the flush fails, the data stays in the journal, and ``last_flush_error`` is set."""
        if self._closed:
            return
        writer = self._own_files()
        writer.stop()
        if self._flush_on_close and not self.read_only:
            writer.quietly_flush()
        else:
            with suppress(Unavailable):  # the failed write was reported
                writer.settle()
        if writer.lock is not None:
            writer.lock.close()
        self._closed = True
        writer.state.close()

    # -- results of flushes

    @property
    def has_flushed(self) -> bool:
        """True if this object has transferred data to git."""
        return self._writer.has_flushed

    @property
    def last_flush_error(self) -> Exception | None:
        """The error that stopped the last flush or kept it from moving a ref. No acknowledged data is lost."""
        return self._writer.last_error

    @property
    def renamed_branches(self) -> list[tuple[str, str]]:
        """Refs that another program moved, each with the new name of this store's branch."""
        return self._writer.renamed_branches

    @property
    def set_aside(self) -> list[str]:
        """Names of damaged journal files that a flush renamed, for ``gitsession repair``."""
        return self._writer.set_aside

    # -- for maintenance and repair

    def flush_all(self) -> None:
        """Flush, and begin a new journal file so that the old files can be removed. Needs the lock.

        Raises ``Unavailable`` if another program keeps a ref locked or the disk fails.
        """
        self._writer.flush_all()

    def break_dead_locks(self) -> int:
        """Remove ref locks left by dead gitsession processes; return their number. Needs the lock."""
        return self._writer.refs.break_dead_locks()

    def pack_refs(self) -> int:
        """Move loose refs into ``packed-refs``, unless there are only a few; return their number. Needs the lock.

        Raises ``Unavailable``.
        """
        try:
            return self._writer.refs.pack(PACKED_PREFIXES, at_least=_LOOSE_REFS_MIN)
        except OSError as error:
            raise unavailable(self._git_dir, "pack refs", error) from error

    def rebuild_packed_refs(self, put: Mapping[str, Oid]) -> None:
        """Rewrite ``packed-refs`` without its damaged lines, and add the refs in ``put``. Needs the lock."""
        self._writer.refs.rebuild_packed(put)

    def damaged_refs(self) -> dict[str, str]:
        """Return a description of the damage in each damaged ref file, by file name."""
        return self._files().state.git.refs.damage()

    def ignored_refs(self) -> Sequence[str]:
        """Return the session refs whose names are not valid UTF-8. Only git can create and delete them."""
        return self._files().state.git.refs.list_invalid_names(refs.SESSIONS)

    def damage(self) -> list[str]:
        """Return the paths of damaged journal files, relative to the store's control directory.

        A torn end is not damage.
        """
        if self.read_only:
            self._tailed().journal.scan_for_damage()
        else:
            with self.locked():
                self._writer.state.journal.scan_for_damage()
        return self._writer.state.journal.damage()

    def damaged_journal(self) -> dict[str, bytes]:
        """Return the content of the damaged journal files that still exist, by path relative to the store.

        The files are sorted by age, oldest first.
        """
        found = {}
        for name in self.damage():
            path = f"{create.CONTROL}/{name}"
            with suppress(FileNotFoundError):
                found[path] = (self._git_dir / path).read_bytes()
        return dict(sorted(found.items(), key=lambda file: Path(file[0]).name.removeprefix(ASIDE)))

    def unread_records(self) -> int:
        """Return a lower bound of the number of acknowledged journal records that cannot be read."""
        return self._tailed().journal.unread()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- open files

    def _tailed(self) -> StoreState:
        state = self._files().state
        state.tail()
        return state

    def _files(self) -> StoreWriter:
        """Return the open files. Raises ``Unavailable`` if a write failed and cannot be undone."""
        writer = self._own_files()
        writer.settle()
        return writer

    def _own_files(self) -> StoreWriter:
        """Return the open files of this process.

        A forked child opens the files again, because the child shares the parent's open files and locks.
        """
        if os.getpid() != self._writer.pid and not self._closed:
            with _reopening:
                writer = self._writer
                if os.getpid() != writer.pid:
                    if writer.lock is not None:
                        writer.lock.close()
                    writer.state.close_in_child()
                    self._writer = self._open_files(self.read_only)
                    self._writer.state.git.refs = writer.state.git.refs  # the lines of packed-refs that were read
        return self._writer

    def _open_files(self, read_only: bool) -> StoreWriter:
        return StoreWriter(
            self._git_dir,
            self._secrets.keep,
            read_only=read_only,
            sync=self._durability != "none",
            sync_appends=self._durability == "entry",
        )
