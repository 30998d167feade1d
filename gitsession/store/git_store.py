"""The store on disk: journal, overlay, packs and refs, put together.

What must hold at every moment: *an object or ref move that was acknowledged is in the journal or in the repository*,
and a reader never meets half a transaction. From that follow the orders:

    append   lock; tail the journal; check; journal record; fdatasync; overlay; unlock       (``store.writing``)
    flush    lock; tail; pack (kept); refs; next journal file; what could not be moved goes
             into it; old files; keeps                                                       (``store.writing``)
    read     tail the journal first, then git                                                (``store.state``)

Opening is tailing: there is no recovery.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, get_args

from gitsession.errors import MissingObject, Unavailable
from gitsession.git import config
from gitsession.git.permissions import denied
from gitsession.git.types import Kind, Oid, RefValue
from gitsession.store import create, published, refs
from gitsession.store.interface import Transaction
from gitsession.store.spill import PackSpill
from gitsession.store.state import StoreState, unavailable
from gitsession.store.writing import InTransaction, Locked, StoreWriter

if TYPE_CHECKING:
    from gitsession.redaction.guard import Guard
    from gitsession.redaction.original import Original
    from gitsession.redaction.vault import Vault

Durability: TypeAlias = Literal["entry", "turn", "none"]
"""When an append survives a power cut: once it has returned, after the next ``flush()``, or never by our doing."""

PACKED_PREFIXES = ("refs/heads/", "refs/remotes/", "refs/gitsession/")
"""Where refs lead to commits: those can be packed without asking what they lead to."""


class SecretGuard:
    """The guard that hides the secrets of the store at ``git_dir``, loaded with the first that is written or shown.

    Its own configuration says whether there is a guard, and its rules. Who only reads what has none starts without the
    rules, and without SQLite.
    """

    def __init__(self, git_dir: Path) -> None:
        self._git_dir = git_dir

    @functools.cached_property
    def guard(self) -> Guard | None:
        """See ``ObjectStore``. Off where the configuration has ``gitsession.redact = false``."""
        from gitsession.redaction.guard import Guard

        said = config.redaction(self._git_dir)
        return Guard.by(self.vault, said.rules) if said.is_on else None

    @functools.cached_property
    def vault(self) -> Vault:
        """See ``ObjectStore``: a file of the store's that only its owner can read."""
        from gitsession.redaction.vault import FILE, Vault

        return Vault(self._git_dir / create.CONTROL / FILE)

    def keep(self, originals: list[Original]) -> None:
        """Put the originals of what was redacted into the vault."""
        self.vault.keep(originals)


_beginning_again = threading.Lock()
"""One thread of a forked child closes what its parent had open: a descriptor closed twice may be another file's."""
os.register_at_fork(after_in_child=_beginning_again._at_fork_reinit)  # type: ignore[attr-defined]


class GitStore:
    """An ``ObjectStore`` in a bare git repository. Safe to share between threads; a forked child opens it anew.

    ``promised`` brings an object that a clone left out, if it is set.
    """

    def __init__(self, git_dir: Path, *, durability: Durability, flush_on_close: bool, read_only: bool) -> None:
        """Use ``open``."""
        self.promised: Callable[[Oid], None] | None = None
        self._asking = threading.local()
        self._git_dir = git_dir
        self._durability = durability
        self._flush_on_close = flush_on_close
        self._closed = False
        self._secrets = SecretGuard(git_dir)
        self._opened = self._open_files(read_only)

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
        """The store at ``path``. On a disk that cannot be written it is read-only of itself.

        ``flush_on_close=False`` is for processes that append once and end: the next one to flush takes theirs along.
        ``damaged``: open it also where what makes it a store is lost, to repair it.
        Raises ``NotAStore``, ``Corrupt`` and ``Unavailable``.
        """
        if durability not in get_args(Durability):
            raise ValueError(f"durability is one of {', '.join(get_args(Durability))}, not {durability!r}")
        path = Path(os.path.abspath(path))
        create.check(path, damaged=damaged)
        try:
            store = cls(path, durability=durability, flush_on_close=flush_on_close, read_only=read_only)
        except PermissionError as error:
            raise denied(Path(error.filename or path)) from error
        except OSError as error:
            raise Unavailable(f"cannot open {path}: {error.strerror}") from error
        if not store.read_only:
            config.migrate(path)
        return store

    @property
    def git_dir(self) -> Path:
        """The repository, for git itself and for those who hand it over to git (after a ``flush``)."""
        return self._git_dir

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def read_only(self) -> bool:
        return self._opened.lock is None

    @property
    def pending(self) -> int:
        """How many acknowledged transactions are not handed over to git yet, those of other processes included."""
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
            if self.promised is None or getattr(self._asking, "nobody", False):
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
    def asking_nobody(self) -> Iterator[None]:
        """Meanwhile this thread takes what was left out for missing: who looks at everything does not fetch it all."""
        before, self._asking.nobody = getattr(self._asking, "nobody", False), True
        try:
            yield
        finally:
            self._asking.nobody = before

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
        return published.holder(self._git_dir, self.read, self.refs(refs.TRACKING), name, new)

    # -- writing

    def spill(self) -> PackSpill:
        """See ``ObjectStore``."""
        return PackSpill(self._git_dir)

    def transaction(self) -> AbstractContextManager[Transaction]:
        """See ``ObjectStore``. Within it, reads of the same thread see what it has staged.

        Raises ``Unavailable`` where the store is read-only, is held by others for too long, or the disk says no.
        """
        return InTransaction(self._files())

    def locked(self) -> AbstractContextManager[None]:
        """No process appends or flushes meanwhile. Raises ``Unavailable``."""
        return Locked(self._files())

    def flush(self) -> None:
        """See ``ObjectStore``. Raises ``Unavailable`` where the disk says no.

        A ref that another program keeps locked stays pending, holds up no other, and is in ``last_flush_error``.
        """
        if self.read_only:
            if self.pending:
                raise Unavailable(f"{self._git_dir} is read-only here", hint="a process that can write will flush it")
            return
        with self.locked():
            self._opened.flush()

    def close(self) -> None:
        """See ``ObjectStore``. What could not be flushed stays in the journal, the reason in ``last_flush_error``."""
        if self._closed:
            return
        opened = self._files()
        opened.stop()
        if self._flush_on_close and not self.read_only:
            opened.quietly_flush()
        if opened.lock is not None:
            opened.lock.close()
        self._closed = True
        opened.state.close()

    # -- what flushes tell

    @property
    def last_flush_error(self) -> Exception | None:
        """What kept the last flush, or a ref in it, from being handed over to git: nothing acknowledged is lost."""
        return self._opened.last_error

    @property
    def sidestepped(self) -> list[tuple[str, str]]:
        """The refs that others had moved, with the name ours has now."""
        return self._opened.sidestepped

    @property
    def set_aside(self) -> list[str]:
        """The damaged files of the journal that a flush has put aside for ``gitsession repair``."""
        return self._opened.set_aside

    # -- for upkeep and repair

    def flush_held(self) -> None:
        """Flush, for a holder of the lock, and begin a new file of the journal: nothing is left in the old ones.

        Raises ``Unavailable`` where another program keeps a ref locked, or the disk says no.
        """
        self._opened.flush_all()

    def pending_moves(self) -> int:
        """How many refs have not reached the repository yet. For a holder of the lock."""
        return len(self._opened.state.overlay.chains)

    def break_dead_locks(self) -> int:
        """Remove ref locks that writers of ours left when they died; how many. For a holder of the lock."""
        return self._opened.refs.break_dead_locks()

    def pack_refs(self) -> int:
        """Move refs that are files of their own into ``packed-refs``; how many. For a holder of the lock.

        Raises ``Unavailable``.
        """
        try:
            return self._opened.refs.pack(PACKED_PREFIXES)
        except OSError as error:
            raise unavailable(self._git_dir, "pack refs", error) from error

    def rebuild_packed_refs(self, put: Mapping[str, Oid]) -> None:
        """Write ``packed-refs`` anew without its damaged lines, and with ``put``. For a holder of the lock."""
        self._opened.refs.rebuild_packed(put)

    def damaged_refs(self) -> dict[str, str]:
        """What in the files of refs is none, by file."""
        return self._files().state.git.refs.damage()

    def damage(self) -> list[str]:
        """What of the journal is damaged, not merely torn at its end: file by file, below the store's own folder."""
        if self.read_only:
            self._tailed().journal.look_for_damage()
        else:
            with self.locked():
                self._opened.state.journal.look_for_damage()
        return self._opened.state.journal.damage()

    def damaged_journal(self) -> dict[str, bytes]:
        """What is in the files that ``damage`` names, by name below the store, oldest first; no file that is gone."""
        self.damage()
        return self._opened.state.damaged_files()

    def unread_records(self) -> int:
        """How many acknowledged records cannot be read, at the least and as far as reading the journal tells."""
        return self._tailed().journal.unread()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what is open

    def _tailed(self) -> StoreState:
        state = self._files().state
        state.tail()
        return state

    def _files(self) -> StoreWriter:
        """A child shares its parent's open files, and locks of threads it does not have: it begins again."""
        if os.getpid() != self._opened.pid and not self._closed:
            with _beginning_again:
                opened = self._opened
                if os.getpid() != opened.pid:
                    if opened.lock is not None:
                        opened.lock.close()
                    opened.state.let_go()
                    self._opened = self._open_files(self.read_only)
        return self._opened

    def _open_files(self, read_only: bool) -> StoreWriter:
        return StoreWriter(
            self._git_dir,
            self._secrets.keep,
            read_only=read_only,
            sync=self._durability != "none",
            sync_appends=self._durability == "entry",
        )
