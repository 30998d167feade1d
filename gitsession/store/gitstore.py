"""The store on disk: journal, overlay, packs and refs, put together.

What must hold at every moment: *an object or ref move that was acknowledged is in the journal or in the repository*,
and a reader never meets half a transaction. From that follow the orders:

    append   lock; tail the journal; check; journal record; fdatasync; overlay; unlock
    flush    lock; tail; pack (kept); refs; next journal file; what could not be moved goes into it; old files; keeps
    read     tail the journal first, then git: what leaves the journal is in git before it goes. An object that is in
             neither was flushed between the two looks: tail once more

Opening is tailing: there is no recovery. A flush that fails or is killed leaves the journal, and the next one does all
of it again, to the same end. What it moves is what the journal's chain says is ours to move; a ref that others moved
meanwhile stays theirs, and our line goes on beside it (``store.chains``).

A write that failed may stand in the journal nevertheless, when blanking it failed too, and others may have read it. It
was told as an error; so before this handle writes again, and while all refs are where that write put them, a record
moves them back. Then whoever tries again makes no duplicate; what others went on from stays.

A transaction over 1 MiB writes its own kept pack and journals only its ref moves. There is no loose object, ever.
"""

from __future__ import annotations

import errno
import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, get_args

from gitsession.errors import Corrupt, GitSessionError, MissingObject, RefMoved, Unavailable
from gitsession.store import config, create, generation, pack, published, refs
from gitsession.store.access import denied
from gitsession.store.base import Kind, Oid, RefValue
from gitsession.store.chains import move_to_ends
from gitsession.store.durable import make_directories
from gitsession.store.frames import ASIDE
from gitsession.store.git import GitDoor
from gitsession.store.idle import IdleTimer
from gitsession.store.journal import Journal, encode_record
from gitsession.store.lock import StoreLock
from gitsession.store.objects import oid_of, parse_commit
from gitsession.store.overlay import Overlay
from gitsession.store.refwriter import RefWriter
from gitsession.store.staging import Move, Staging

if TYPE_CHECKING:
    # Who only reads what has no secrets starts without the rules, and without SQLite.
    from gitsession.redaction.guard import Guard
    from gitsession.redaction.vault import Vault

Durability: TypeAlias = Literal["entry", "turn", "none"]
"""When an append survives a power cut: once it has returned, after the next ``flush()``, or never by our doing."""

FLUSH_RECORDS = 256
FLUSH_BYTES = 1 << 20
FLUSH_SECONDS = 2.0
QUIET_WAIT_SECONDS = 1.0

PACKED_PREFIXES = ("refs/heads/", "refs/remotes/", "refs/gitsession/")
"""Where refs lead to commits: those can be packed without asking what they lead to."""

_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


class GitStore:
    """An ``ObjectStore`` in a bare git repository. Safe to share between threads; a forked child opens it anew.

    ``last_flush_error`` is what kept the last flush, or a ref in it, from being handed over to git: nothing that was
    acknowledged is lost by it. ``sidestepped`` lists the refs that others had moved, with the name ours has now;
    ``set_aside`` the damaged files of the journal that a flush has put aside for ``gitsession repair``. ``promised``
    brings an object that a clone left out, if it is set.
    """

    def __init__(self, git_dir: Path, *, durability: Durability, flush_on_close: bool, read_only: bool) -> None:
        """Use ``open``."""
        self.last_flush_error: Exception | None = None
        self.sidestepped: list[tuple[str, str]] = []
        self.set_aside: list[str] = []
        self.promised: Callable[[Oid], None] | None = None
        self._asking = threading.local()
        self._git_dir = git_dir
        self._sync = durability != "none"
        self._sync_appends = durability == "entry"
        self._flush_on_close = flush_on_close
        self._closed = False
        self._open_files(read_only)

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
            return cls(path, durability=durability, flush_on_close=flush_on_close, read_only=read_only)
        except PermissionError as error:
            raise denied(Path(error.filename or path)) from error
        except OSError as error:
            raise Unavailable(f"cannot open {path}: {error.strerror}") from error

    @property
    def git_dir(self) -> Path:
        """The repository, for git itself and for those who hand it over to git (after a ``flush``)."""
        return self._git_dir

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def read_only(self) -> bool:
        return self._lock is None

    @property
    def pending(self) -> int:
        """How many acknowledged transactions are not handed over to git yet, those of other processes included."""
        self._tail()
        return self._overlay.records

    @functools.cached_property
    def guard(self) -> Guard | None:
        """See ``ObjectStore``. Off where the store's own configuration has ``gitsession.redact = false``."""
        from gitsession.redaction.guard import Guard

        said = config.redaction(self._git_dir)
        return Guard.by(self.vault, said.rules) if said.is_on else None

    @functools.cached_property
    def vault(self) -> Vault:
        """See ``ObjectStore``: a file of the store's that only its owner can read."""
        from gitsession.redaction.vault import FILE, Vault

        return Vault(self._git_dir / create.CONTROL / FILE)

    # -- reading

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        found = self._in_memory(oid)
        if found:
            return found
        try:
            return self._git.read(oid)
        except (MissingObject, Corrupt):
            self._tail()
        try:
            return self._in_memory(oid) or self._git.read(oid)
        except MissingObject:
            if self.promised is None or getattr(self._asking, "nobody", False):
                raise
        self.promised(oid)
        return self._git.read(oid)

    @contextmanager
    def asking_nobody(self) -> Iterator[None]:
        """Meanwhile this thread takes what was left out for missing: who looks at everything does not fetch it all."""
        before, self._asking.nobody = getattr(self._asking, "nobody", False), True
        try:
            yield
        finally:
            self._asking.nobody = before

    def contains(self, oid: Oid) -> bool:
        if self._in_memory(oid) or self._git.contains(oid):
            return True
        self._tail()
        return self._in_memory(oid) is not None or self._git.contains(oid)

    def oids(self) -> Iterator[Oid]:
        """See ``ObjectStore``."""
        self._tail()
        return itertools.chain(list(self._overlay.objects), self._git.oids())

    def ref(self, name: str) -> RefValue | None:
        staging = self._own_staging()
        if staging:
            return staging.value(name)
        self._tail()
        return self._value(name)

    def refs(self, prefix: str) -> Mapping[str, RefValue]:
        staging = self._own_staging()
        if not staging:
            self._tail()
        ends: dict[str, RefValue | None] = {name: chain[-1] for name, chain in self._overlay.chains.items()}
        ends |= staging.ends() if staging else {}
        found = {**self._git.refs(prefix), **{name: end for name, end in ends.items() if name.startswith(prefix)}}
        return {name: value for name, value in sorted(found.items()) if value is not None}

    def published_to(self, name: str, new: RefValue | None) -> str | None:
        """See ``ObjectStore``."""
        return published.holder(self._git_dir, self.read, self.refs(refs.TRACKING), name, new)

    # -- writing

    def transaction(self) -> _GitTransaction:
        """See ``ObjectStore``. Within it, reads of the same thread see what it has staged.

        Raises ``Unavailable`` where the store is read-only, is held by others for too long, or the disk says no.
        """
        return _GitTransaction(self)

    def flush(self) -> None:
        """See ``ObjectStore``. Raises ``Unavailable`` where the disk says no.

        A ref that another program keeps locked stays pending, holds up no other, and is in ``last_flush_error``.
        """
        if self._lock is None:
            if self.pending:
                raise Unavailable(f"{self._git_dir} is read-only here", hint="a process that can write will flush it")
            return
        with self.locked():
            self._flush()

    def close(self) -> None:
        """See ``ObjectStore``. What could not be flushed stays in the journal, the reason in ``last_flush_error``."""
        if self._closed:
            return
        if os.getpid() != self._pid:
            self._after_fork()
        self._timer.stop()
        if self._flush_on_close and self._lock is not None:
            self._quietly_flush()
        if self._lock is not None:
            self._lock.close()
        self._closed = True
        with self._mutex:
            self._journal.close()

    def locked(self) -> AbstractContextManager[None]:
        """No process appends or flushes meanwhile. Raises ``Unavailable``."""
        return _Locked(self)

    def flush_held(self) -> None:
        """Flush, for a holder of the lock, and begin a new file of the journal: nothing is left in the old ones.

        Raises ``Unavailable`` where another program keeps a ref locked, or the disk says no.
        """
        self._flush()
        if self._overlay.records:
            raise Unavailable(f"cannot hand over to git: {self.last_flush_error}", hint="try again")
        self._start_afresh([])

    def break_dead_locks(self) -> int:
        """Remove ref locks that writers of ours left when they died; how many. For a holder of the lock."""
        return self._refs.break_dead_locks()

    def pack_refs(self) -> int:
        """Move refs that are files of their own into ``packed-refs``; how many. For a holder of the lock.

        Raises ``Unavailable``.
        """
        try:
            return self._refs.pack(PACKED_PREFIXES)
        except OSError as error:
            raise self._unavailable("pack refs", error) from error

    def damage(self) -> list[str]:
        """What of the journal is damaged, not merely torn at its end: file by file, below the store's own folder."""
        if self._lock is not None:
            with self.locked():
                self._journal.look_for_damage()
        else:
            self._tail()
            self._journal.look_for_damage()
        return self._journal.damage()

    def damaged_journal(self) -> dict[str, bytes]:
        """What is in the files that ``damage`` names, by name below the store, oldest first; no file that is gone."""
        found = {}
        for name in self.damage():
            path = f"{create.CONTROL}/{name}"
            with suppress(FileNotFoundError):
                found[path] = (self._git_dir / path).read_bytes()
        return dict(sorted(found.items(), key=lambda file: Path(file[0]).name.removeprefix(ASIDE)))

    def unread_records(self) -> int:
        """How many acknowledged records cannot be read, at the least and as far as reading the journal tells."""
        self._tail()
        return self._journal.unread()

    def damaged_refs(self) -> dict[str, str]:
        """What in the files of refs is none, by file."""
        return self._git.ref_reader.damage()

    def rebuild_packed_refs(self, put: Mapping[str, Oid]) -> None:
        """Write ``packed-refs`` anew without its damaged lines, and with ``put``. For a holder of the lock."""
        self._refs.rebuild_packed(put)

    def pending_moves(self) -> int:
        """How many refs have not reached the repository yet. For a holder of the lock."""
        return len(self._overlay.chains)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- state

    def _open_files(self, read_only: bool) -> None:
        control = self._git_dir / create.CONTROL
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._staging: Staging | None = None
        self._refused: list[Move] = []
        self._overlay = Overlay()
        self._git = GitDoor(self._git_dir)
        self._lock = None if read_only else self._open_lock(control)
        self._journal = Journal(self._git_dir / create.JOURNAL, writable=self._lock is not None, sync=self._sync)
        self._refs = RefWriter(self._git_dir, self._git_dir / create.PROOFS, self._git.ref_reader, sync=self._sync)
        self._timer = IdleTimer(self._quietly_flush, FLUSH_SECONDS)
        self._flush_at = (FLUSH_RECORDS, FLUSH_BYTES)
        self._generation, self._may_be_stale = generation.of(self._git_dir), False

    def _open_lock(self, control: Path) -> StoreLock | None:
        """A clone of a store, made by git, lacks our directories. ``None``: nothing here can be written."""
        try:
            for directory in (create.JOURNAL, create.PROOFS):
                make_directories(self._git_dir / directory)
            return StoreLock(control / "lock")
        except OSError as error:
            if error.errno in _READ_ONLY:
                return None
            raise

    def _after_fork(self) -> None:
        """A child shares its parent's open files, and locks of threads it does not have: it begins again."""
        if self._lock is not None:
            self._lock.close()
        self._journal.close()
        self._open_files(read_only=self._lock is None)

    def _tail(self, *, locked: bool = False) -> None:
        """Learn what this and other processes appended and flushed."""
        if os.getpid() != self._pid:
            self._after_fork()
        if self._closed:
            raise Unavailable(f"this handle of {self._git_dir} is closed")
        with self._mutex:
            try:
                news = self._journal.tail(locked=locked)
                if news.gone:
                    self._overlay.drop(news.gone)
                for number, record in news.records:
                    objects = {oid_of(kind, data): (kind, data) for kind, data in record.objects}
                    self._overlay.add(number, objects, record.moves, record.size)
            except OSError as error:
                self._forget()
                raise self._unavailable("read the journal", error) from error
            except BaseException:
                self._forget()
                raise

    def _forget(self) -> None:
        """Journal and overlay no longer agree, so the next look reads the journal from its beginning."""
        self._journal.close()
        self._overlay = Overlay()

    def _in_memory(self, oid: Oid) -> tuple[Kind, bytes] | None:
        staging = self._own_staging()
        return self._overlay.objects.get(oid) or (staging.objects.get(oid) if staging else None)

    def _value(self, name: str) -> RefValue | None:
        chain = self._overlay.chains.get(name)
        return chain[-1] if chain else self._git.ref(name)

    def _names_below(self, prefix: str) -> Iterable[str]:
        return {*self._git.refs(prefix), *(name for name in self._overlay.chains if name.startswith(prefix))}

    def _own_staging(self) -> Staging | None:
        staging = self._staging
        return staging if staging is not None and staging.thread == threading.get_ident() else None

    def _unavailable(self, doing: str, error: OSError) -> Unavailable:
        hint = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        return Unavailable(f"cannot {doing} in {self._git_dir}: {error.strerror}", hint=hint)

    # -- transactions

    def _begin(self, wait_seconds: float | None = None) -> None:
        if os.getpid() != self._pid:
            self._after_fork()
        if self._lock is None:
            raise Unavailable(f"{self._git_dir} is read-only here")
        if self._closed:
            raise Unavailable(f"this handle of {self._git_dir} is closed")
        self._lock.acquire(wait_seconds)
        try:
            self._tail(locked=True)
            self._look_for_drops()
            self._take_back_refused()
        except BaseException:
            self._lock.release()
            raise

    def _look_for_drops(self) -> None:
        """Under the lock. What was dropped is not there any more, though our open packs still have it."""
        now = generation.of(self._git_dir)
        if now != self._generation:
            self._git.look_again()
            self._generation, self._may_be_stale = now, True

    def _check_parents(self, objects: Mapping[Oid, tuple[Kind, bytes]]) -> None:
        """Who worked something out before objects were dropped may go on from one that is gone. Raises ``RefMoved``."""
        for kind, data in objects.values():
            for parent in parse_commit(data).parents if kind == "commit" else ():
                if parent not in objects and not self.contains(parent):
                    raise RefMoved(f"{parent} was purged meanwhile", hint="try again: something stands there now")

    def _check_not_held(self) -> None:
        if self._lock is not None and os.getpid() == self._pid and self._lock.is_mine:
            raise RuntimeError("this thread has a transaction open already")

    def _end(self) -> None:
        """Let go of the lock, if this thread holds it, and of a transaction that nobody will finish."""
        if self._lock is not None and os.getpid() == self._pid and self._lock.is_mine:
            self._staging = None
            self._lock.release()

    def _take_back_refused(self) -> None:
        """Under the lock, with the journal tailed. Raises ``Unavailable`` where the disk still says no."""
        moves, self._refused = self._refused, []
        if moves and all(self._value(name) == new for name, _, new in moves):
            try:
                self._append({}, [(name, new, old) for name, old, new in moves])
            except OSError as error:
                self._refused = moves
                raise self._unavailable("write", error) from error

    def _stage(self) -> Staging:
        self._begin()
        try:
            self._staging = Staging(ref=self._value, names_below=self._names_below, contains=self.contains)
        except BaseException:
            self._end()
            raise
        return self._staging

    def _finish(self, staging: Staging, *, commit: bool) -> None:
        if staging is not self._staging or os.getpid() != self._pid:
            if commit:
                raise RuntimeError("a transaction cannot end in a forked child: it is the parent's")
            return
        try:
            if commit and (staging.objects or staging.moves or staging.originals):
                self._commit(staging)
        finally:
            try:
                staging.close()
            finally:
                self._end()
        if commit:
            self._timer.touch()

    def _commit(self, staging: Staging) -> None:
        if staging.originals:
            self.vault.keep(staging.originals)  # first: no entry without what it hides
        objects = staging.objects
        if not objects and not staging.moves:
            return
        if self._may_be_stale:
            self._check_parents(objects)
        try:
            if staging.size > FLUSH_BYTES:
                self._write_pack(objects)
                objects = {}
            self._append(objects, staging.moves)
        except OSError as error:
            self._refused = _summed(staging.moves)
            raise self._unavailable("write", error) from error
        overlay, (records, size) = self._overlay, self._flush_at
        if overlay.records >= records or overlay.size >= size:
            self._staging = None
            self._flush_or_remember()

    def _append(self, objects: dict[Oid, tuple[Kind, bytes]], moves: list[Move]) -> None:
        payload = encode_record(list(objects.values()), moves)
        with self._mutex:
            try:
                number = self._journal.append(payload, sync=self._sync_appends)
                self._overlay.add(number, objects, moves, len(payload))
            except BaseException:
                self._forget()
                raise

    # -- flushing

    def _quietly_flush(self) -> None:
        """Flush if there is anything. Who holds the store is a writer and flushes: it is not waited for."""
        try:
            if self.pending:
                with _Locked(self, QUIET_WAIT_SECONDS):
                    self._flush_or_remember()
        except (GitSessionError, OSError) as error:
            self.last_flush_error = error

    def _flush_or_remember(self) -> None:
        """The entries are durable already: a flush that fails is tried again later, and fails nobody's append."""
        try:
            self._flush()
        except GitSessionError as error:
            self.last_flush_error = error
            self._flush_at = (self._overlay.records + FLUSH_RECORDS, self._overlay.size + FLUSH_BYTES)

    def _flush(self) -> None:
        """Under the lock, with the journal tailed."""
        overlay = self._overlay
        self.last_flush_error = None
        try:
            self._journal.look_for_damage()
            if not overlay.records and not self._journal.has_damage:
                return
            if overlay.objects:
                self._write_pack(overlay.objects)
            self._refs.break_dead_locks()
            left, self.last_flush_error = move_to_ends(overlay.chains, self._refs, self.read, self.sidestepped)
            if left and not overlay.objects and overlay.records == 1 and not self._journal.has_damage:
                return  # nothing but what was left the last time, and none of it moved
            self._start_afresh(left)
            if not left:
                pack.release_packs(self._git_dir / "objects")
        except OSError as error:
            raise self._unavailable("flush", error) from error
        self._flush_at = (FLUSH_RECORDS, FLUSH_BYTES)

    def _write_pack(self, objects: Mapping[Oid, tuple[Kind, bytes]]) -> None:
        pack.write_pack(self._git_dir / "objects", objects, self._git_dir / create.KEEP, sync=self._sync)

    def _start_afresh(self, left: list[Move]) -> None:
        with self._mutex:
            try:
                old = self._journal.numbers()
                self._journal.start_next()
                if left:
                    payload = encode_record([], left)
                    self._overlay.add(self._journal.append(payload, sync=self._sync), {}, left, len(payload))
                self.set_aside += self._journal.drop(old)
                self._overlay.drop(old)
            except BaseException:
                self._forget()
                raise


def _summed(moves: list[Move]) -> list[Move]:
    """One move for each ref: from its first value to its last."""
    first: dict[str, RefValue | None] = {}
    for name, old, _ in moves:
        first.setdefault(name, old)
    return [(name, first[name], new) for name, new in {name: new for name, _, new in moves}.items()]


class _Held:
    """What holds the store's lock from ``__enter__`` to ``__exit__``.

    A Ctrl-C may come just before either of them does anything. Where the program goes on, the lock must not stay held
    by nobody: it goes with this object.
    """

    __slots__ = ("_is_open", "_store")

    def __init__(self, store: GitStore) -> None:
        self._store = store
        self._is_open = False

    def _open(self) -> None:
        """Before the lock is asked for, and not where this thread has it by another one of these."""
        self._store._check_not_held()
        self._is_open = True

    def _give_up(self) -> None:
        """After a failure on the way in. An error keeps this object alive: it must not let go of a later one's lock."""
        self._store._end()
        self._is_open = False

    def __del__(self) -> None:
        if self._is_open:
            self._store._end()


class _Locked(_Held):
    """The context manager that ``GitStore.locked`` returns."""

    __slots__ = ("_wait_seconds",)

    def __init__(self, store: GitStore, wait_seconds: float | None = None) -> None:
        super().__init__(store)
        self._wait_seconds = wait_seconds

    def __enter__(self) -> None:
        self._open()
        try:
            self._store._begin(self._wait_seconds)
        except BaseException:
            self._give_up()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._store._end()
        self._is_open = False


class _GitTransaction(_Held):
    """The context manager that ``GitStore.transaction`` returns; a class because a generator costs twice as much."""

    __slots__ = ("_staging",)

    def __enter__(self) -> Staging:
        self._open()
        try:
            self._staging = self._store._stage()
        except BaseException:
            self._give_up()
            raise
        return self._staging

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._store._finish(self._staging, commit=error is None)
        self._is_open = False
