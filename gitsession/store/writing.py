"""Transactions on the store. Transactions run one at a time, under the store's lock.

A transaction is acknowledged as soon as its record is in the journal. If writing a record fails, the record is blanked.
If the blanking fails, too, the record may still be in the journal, and other processes may have read it, although the
caller got an error. Therefore, before the next write, this process compares the refs with the values that the failed
write gave them. If all refs still have these values, a new record moves them back, so that a retry does not write the
entries twice. If another process has moved one of the refs since then, all refs keep their values.

A transaction of more than 1 MiB is written as a pack with a ``.keep`` file, and only its ref moves go to the journal.
Loose objects are never written.

A flush transfers pending data to git: first it writes a pack, then it moves refs (``store.flushing``), and then it
removes the journal files. If a flush is killed at any point, the journal is still complete, and the next flush repeats
the work with the same result.
"""

from __future__ import annotations

import errno
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from gitsession.durable import make_directories
from gitsession.errors import GitSessionError, RefMoved, Unavailable
from gitsession.git import pack_writer
from gitsession.git.objects import parse_commit
from gitsession.git.types import Kind, Oid, RefValue
from gitsession.store import create, refs
from gitsession.store.journal import Move
from gitsession.store.lock import StoreLock
from gitsession.store.state import Staging, StoreState, generation_of, unavailable

if TYPE_CHECKING:
    from gitsession.git.ref_writer import RefWriter
    from gitsession.redaction.original import Original

T = TypeVar("T")

FLUSH_RECORDS = 256
FLUSH_BYTES = 1 << 20
FLUSH_SECONDS = 0.5
FLUSH_LATEST_SECONDS = 0.8
"""Maximum time in seconds between the first write that is not in git yet and its flush, even if more writes follow.

With the duration of the flush, plain git reads each write within one second.
"""

FLUSH_THREAD = "gitsession-flush"
"""Name of the threads that wait until a flush is due."""

QUIET_WAIT_SECONDS = 1.0

_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


def _open_lock(git_dir: Path) -> StoreLock | None:
    """Create missing directories and return the lock; ``None`` if the store is not writable.

    If ``git clone`` created the store, gitsession's directories are missing. Raises ``OSError``.
    """
    try:
        for directory in (create.JOURNAL, create.PROOFS):
            make_directories(git_dir / directory)
        return StoreLock(git_dir / create.LOCK)
    except OSError as error:
        if error.errno in _READ_ONLY:
            return None
        raise


class StoreWriter:
    """The open files of one store, and all writes to the store. The object belongs to the process that created it.

    Attributes:
        pid: Id of the process that created this object.
        state: The content of the store, for readers.
        lock: The store's lock; ``None`` if the store is not writable.
        has_flushed: Whether this object has transferred data to git.
        last_error: The error that stopped the last flush or kept it from moving a ref; ``None`` if there was none.
        renamed_branches: Pairs of a ref that another program moved and the new name of this store's branch.
        set_aside: Names of damaged journal files that a flush renamed.
    """

    def __init__(
        self,
        git_dir: Path,
        keep_originals: Callable[[list[Original]], object],
        *,
        read_only: bool,
        sync: bool,
        sync_appends: bool,
    ) -> None:
        self.pid = os.getpid()
        self.lock = None if read_only else _open_lock(git_dir)
        self.state = StoreState(git_dir, writable=self.lock is not None, sync=sync)
        self.has_flushed = False
        self.last_error: Exception | None = None
        self.renamed_branches: list[tuple[str, str]] = []
        self.set_aside: list[str] = []
        self._git_dir = git_dir
        self._keep_originals = keep_originals
        self._sync, self._sync_appends = sync, sync_appends
        self._failed_moves: list[Move] = []
        self._timer = IdleTimer(self.quietly_flush, FLUSH_SECONDS, FLUSH_LATEST_SECONDS)
        self._generation, self._may_be_stale = generation_of(git_dir), False
        self._due_at = (FLUSH_RECORDS, FLUSH_BYTES)
        self._is_reflog_checked = False

    @functools.cached_property
    def refs(self) -> RefWriter:
        """The writer of the store's refs, which only flushes and maintenance use."""
        from gitsession.git.ref_writer import RefWriter

        return RefWriter(self._git_dir, self._git_dir / create.PROOFS, self.state.git.refs, sync=self._sync)

    def begin(self, wait_seconds: float | None = None) -> None:
        """Acquire the lock and read the journal records that other processes wrote. Raises ``Unavailable``.

        Call ``end`` afterwards, even after an error.
        """
        if self.lock is None:
            raise Unavailable(f"cannot write to the store '{self._git_dir}': it was opened read-only")
        self.state.check_open()
        self.lock.acquire(wait_seconds)
        self.state.tail(locked=True)
        self._reopen_after_drops()
        self._undo_failed_write()

    def check_not_held(self) -> None:
        """Raise ``RuntimeError`` if this thread holds the lock, or if another process created this object."""
        if os.getpid() != self.pid:
            raise RuntimeError("a transaction must begin in the process that created it")
        if self.lock is not None and self.lock.is_mine:
            raise RuntimeError("this thread already has an open transaction")

    def end(self) -> None:
        """Release the lock, if this thread holds it, and discard an unfinished transaction."""
        if self.lock is not None and os.getpid() == self.pid and self.lock.is_mine:
            self.state.staging = None
            self.lock.release()

    def settle(self) -> None:
        """Undo a failed write whose record may still be in the journal, so that no reader relies on the record.

        Raises ``Unavailable``.
        """
        if self._failed_moves and self.lock is not None and not self.lock.is_mine:
            with Locked(self):
                pass

    def stage(self) -> Staging:
        """Begin a transaction. Raises ``Unavailable``. Call ``finish`` or ``end`` afterwards, even after an error."""
        self.begin()
        state = self.state
        state.staging = Staging(ref=state.value, names_below=state.names_below, contains=state.contains)
        return state.staging

    def finish(self, staging: Staging, *, commit: bool) -> None:
        """End a transaction. Raises ``Unavailable``, and ``RefMoved`` if a parent of a new commit was purged."""
        if staging is not self.state.staging or os.getpid() != self.pid:
            if commit:
                raise RuntimeError("cannot commit a transaction in a forked child: it belongs to the parent process")
            return
        is_change = commit and bool(staging.objects or staging.moves or staging.originals)
        try:
            if is_change:
                self._commit(staging)
        finally:
            try:
                staging.close()
            finally:
                self.end()
        if is_change:
            self._timer.touch()

    def stop(self) -> None:
        """Stop the timer. No automatic flush begins after this call."""
        self._timer.stop()

    # -- flushing

    def quietly_flush(self, wait_seconds: float = QUIET_WAIT_SECONDS) -> None:
        """Flush pending data. An error is stored in ``last_error``.

        Wait for the lock for at most 1 second: a process that holds the lock longer is a writer and will flush.
        """
        try:
            self.state.tail()
            if self.state.overlay.records:
                with Locked(self, wait_seconds):
                    self._flush_or_remember()
        except (GitSessionError, OSError) as error:
            self.last_error = error

    def flush(self) -> None:
        """Flush pending data to git. Raises ``Unavailable``.

        If a ref cannot be moved now, its move stays pending, and ``last_error`` is set.
        """
        from gitsession.store import flush_record, flushing  # not loaded by processes that only read or append

        state = self.state
        overlay = state.overlay
        self.last_error = None
        try:
            state.journal.scan_for_damage()
            if not overlay.records and not state.journal.has_damage:
                return
            self.has_flushed = True
            objects = state.pending_objects()
            if objects:
                self._write_pack(objects)
            self.refs.break_dead_locks()
            renamed: list[tuple[str, str]] = []
            remaining, self.last_error = flushing.move_to_ends(overlay.chains, self.refs, state.read, renamed)
            self.renamed_branches += renamed
            if remaining and not objects and overlay.records == 1 and not state.journal.has_damage:
                return  # the journal contains only ref moves that failed in the last flush and again in this one
            moved = flushing.moved_refs(overlay.chains, {name for name, _, _ in remaining}, dict(renamed))
            flush_record.append(self._git_dir, moved, journal=overlay.first)
            values = {name: after for name, (_, after) in moved.items()}
            with suppress(OSError):  # the reflog is optional: no entry depends on it
                check_lines, self._is_reflog_checked = not self._is_reflog_checked, True
                flushing.append_reflog(
                    self._git_dir, values, lambda: state.refs(refs.SESSIONS), check_lines=check_lines
                )
            self.set_aside += state.replace_journal(remaining)
            if not remaining:
                pack_writer.release_packs(self._git_dir / "objects")
        except OSError as error:
            raise unavailable(self._git_dir, "flush", error) from error
        self._due_at = (FLUSH_RECORDS, FLUSH_BYTES)

    def flush_all(self) -> None:
        """Flush, and begin a new journal file so that the old files can be removed.

        Raises ``Unavailable`` if another program keeps a ref locked or the disk fails.
        """
        self.flush()
        if self.state.overlay.records:
            raise Unavailable(f"cannot flush the journal: {self.last_error}", hint="try again")
        self.set_aside += self.state.replace_journal([])

    # -- internals

    def _commit(self, staging: Staging) -> None:
        if staging.originals:
            self._keep_originals(staging.originals)  # first, so that every redacted entry has its original
        objects = staging.objects
        if not objects and not staging.moves:
            return
        if self._may_be_stale:
            self._check_parents(objects)
        try:
            if staging.size > FLUSH_BYTES:
                self._write_pack(objects, staging.deflated)
                objects = {}
            self.state.append(objects, staging.moves, sync=self._sync_appends)
        except OSError as error:
            self._failed_moves = _summed(staging.moves)
            raise unavailable(self._git_dir, "write", error) from error
        overlay, (records, size) = self.state.overlay, self._due_at
        if overlay.records >= records or overlay.size >= size:
            self.state.staging = None
            self._flush_or_remember()

    def _undo_failed_write(self) -> None:
        """Undo a failed write.

        Needs the lock and an up-to-date journal. Raises ``Unavailable`` if the undo fails, too.
        """
        moves, self._failed_moves = self._failed_moves, []
        if moves and all(self.state.value(name) == new for name, _, new in moves):
            try:
                undo = [(name, new, old) for name, old, new in moves]
                self.state.append({}, undo, sync=self._sync_appends)
            except OSError as error:
                self._failed_moves = moves
                raise unavailable(self._git_dir, "write", error) from error

    def _reopen_after_drops(self) -> None:
        """Reopen the packs if objects were dropped, because open packs still contain these objects. Needs the lock."""
        now = generation_of(self._git_dir)
        if now != self._generation:
            self.state.git.refresh()
            self._generation, self._may_be_stale = now, True

    def _check_parents(self, objects: Mapping[Oid, tuple[Kind, bytes]]) -> None:
        """Raise ``RefMoved`` if a parent no longer exists.

        The caller may have read the parent before objects were dropped.
        """
        for kind, data in objects.values():
            for parent in parse_commit(data).parents if kind == "commit" else ():
                if parent not in objects and not self.state.contains(parent):
                    message = f"cannot append: the parent {parent} has been purged"
                    raise RefMoved(message, hint="try again with the entry that replaced it")

    def _flush_or_remember(self) -> None:
        """Flush. If this fails, store the error in ``last_error`` and retry later: the append before it is durable."""
        try:
            self.flush()
        except GitSessionError as error:
            self.last_error = error
            overlay = self.state.overlay
            self._due_at = (overlay.records + FLUSH_RECORDS, overlay.size + FLUSH_BYTES)

    def _write_pack(
        self, objects: Mapping[Oid, tuple[Kind, bytes]], deflated: pack_writer.Deflated | None = None
    ) -> None:
        """Write a pack with a ``.keep`` file, which remains until refs lead to the objects. Raises ``OSError``."""
        keep = self._git_dir / create.KEEP
        pack_writer.write_pack(self._git_dir / "objects", objects, keep, sync=self._sync, deflated=deflated)


def _summed(moves: list[Move]) -> list[Move]:
    """Return one move for each ref, from its first old value to its last new value."""
    first: dict[str, RefValue | None] = {}
    for name, old, _ in moves:
        first.setdefault(name, old)
    return [(name, first[name], new) for name, new in {name: new for name, _, new in moves}.items()]


class _LockContext:
    """A context manager that holds the lock.

    The context manager is a class because a generator would take twice as long. Ctrl-C can interrupt ``__enter__`` or
    ``__exit__`` before its first statement. The program may then continue, and nothing would release the lock. So the
    lock is also released when this object is deleted.
    """

    __slots__ = ("_is_open", "_writer")

    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer
        self._is_open = False

    def _enter(self, begin: Callable[..., T], *arguments: object) -> T:
        """Call ``begin``, which acquires the lock. Release the lock if an error occurs."""
        self._writer.check_not_held()
        self._is_open = True
        try:
            return begin(*arguments)
        except BaseException:
            # The traceback keeps this object alive. A later ``__del__`` must not release a lock acquired by other code.
            self._writer.end()
            self._is_open = False
            raise

    def __del__(self) -> None:
        if self._is_open:
            self._writer.end()


class Locked(_LockContext):
    """A context in which the store is locked. ``wait_seconds``: maximum wait for the lock; ``None`` for the default."""

    __slots__ = ("_wait_seconds",)

    def __init__(self, writer: StoreWriter, wait_seconds: float | None = None) -> None:
        super().__init__(writer)
        self._wait_seconds = wait_seconds

    def __enter__(self) -> None:
        self._enter(self._writer.begin, self._wait_seconds)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.end()
        self._is_open = False


class InTransaction(_LockContext):
    """A transaction that is committed if its block ends without an error."""

    __slots__ = ("_staging",)

    def __enter__(self) -> Staging:
        self._staging = self._enter(self._writer.stage)
        return self._staging

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.finish(self._staging, commit=error is None)
        self._is_open = False


class IdleTimer:
    """A timer that calls ``callback`` when ``touch`` has not been called for ``delay_seconds`` seconds.

    Even if the calls of ``touch`` continue, the timer calls ``callback`` at most ``limit_seconds`` seconds after the
    first of these calls. A call of ``touch`` starts a thread if none is running, and otherwise only reads the clock.
    """

    def __init__(self, callback: Callable[[], object], delay_seconds: float, limit_seconds: float) -> None:
        """Create a timer. ``callback`` is a bound method. The timer does not keep the object of the method alive."""
        self._callback = weakref.WeakMethod(callback)
        self._delay, self._limit = delay_seconds, limit_seconds
        self._last = 0.0
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def touch(self) -> None:
        self._last = time.monotonic()
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=FLUSH_THREAD, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return  # no thread can start, or the interpreter is shutting down: the next process flushes
            self._thread = thread

    def stop(self) -> None:
        """Stop the timer.

        Afterwards, no call of ``callback`` begins. A call that is already running may finish later.
        """
        self._wake.set()

    def _run(self) -> None:
        latest = self._last + self._limit
        while True:
            touched = self._last
            due = min(touched + self._delay, latest)
            if self._wake.wait(max(0.0, due - time.monotonic())):
                return
            if self._last == touched or time.monotonic() >= latest:
                self._thread = None
                callback = self._callback()
                if callback is not None:
                    callback()
                return
