"""One transaction at a time, under the store's lock: checked, then in the journal, and from then on acknowledged.

A write that failed may stand in the journal nevertheless, when blanking it failed too, and others may have read it. It
was told as an error; so before this handle writes again, and while all refs are where that write put them, a record
moves them back. Then whoever tries again makes no duplicate; what others went on from stays.

A transaction over 1 MiB writes its own kept pack and journals only its ref moves. There is no loose object, ever.
"""

from __future__ import annotations

import errno
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path

from gitsession.durable import make_directories
from gitsession.errors import GitSessionError, RefMoved, Unavailable
from gitsession.git.objects import parse_commit
from gitsession.git.types import Kind, Oid, RefValue
from gitsession.store import create, flushing, generation
from gitsession.store.flushing import StoreFlusher
from gitsession.store.lock import StoreLock
from gitsession.store.locked import Locked
from gitsession.store.pending import unavailable
from gitsession.store.reading import StoreReader
from gitsession.store.secret_guard import SecretGuard
from gitsession.store.staging import Move, Staging

FLUSH_SECONDS = 2.0
FLUSH_LATEST_SECONDS = 5.0
"""After the first entry that plain git does not see yet, however many follow."""

QUIET_WAIT_SECONDS = 1.0

_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


def open_lock(git_dir: Path) -> StoreLock | None:
    """A clone of a store, made by git, lacks our directories. ``None``: nothing here can be written.

    Raises ``OSError``.
    """
    try:
        for directory in (create.JOURNAL, create.PROOFS):
            make_directories(git_dir / directory)
        return StoreLock(git_dir / create.CONTROL / "lock")
    except OSError as error:
        if error.errno in _READ_ONLY:
            return None
        raise


class StoreWriter:
    """Who writes to one store, in the process that made this object. ``lock`` is ``None`` where nobody can."""

    def __init__(
        self,
        git_dir: Path,
        reading: StoreReader,
        lock: StoreLock | None,
        flushing: StoreFlusher,
        guarding: SecretGuard,
        *,
        sync_appends: bool,
    ) -> None:
        self.lock = lock
        self._git_dir = git_dir
        self._reading = reading
        self._pending = reading.pending
        self._flushing = flushing
        self._guarding = guarding
        self._sync_appends = sync_appends
        self._pid = os.getpid()
        self._refused: list[Move] = []
        self._timer = IdleTimer(self.quietly_flush, FLUSH_SECONDS, FLUSH_LATEST_SECONDS)
        self._generation, self._may_be_stale = generation.of(git_dir), False

    def begin(self, wait_seconds: float | None = None) -> None:
        """Take the lock, and see what others wrote. Raises ``Unavailable``."""
        if self.lock is None:
            raise Unavailable(f"{self._git_dir} is read-only here")
        self._pending.check_open()
        self.lock.acquire(wait_seconds)
        try:
            self._pending.tail(locked=True)
            self._look_for_drops()
            self._take_back_refused()
        except BaseException:
            self.lock.release()
            raise

    def check_not_held(self) -> None:
        """Raises ``RuntimeError`` where this thread has the lock already, or where another process began this."""
        if os.getpid() != self._pid:
            raise RuntimeError("a transaction begins in the process that asked for it")
        if self.lock is not None and self.lock.is_mine:
            raise RuntimeError("this thread has a transaction open already")

    def end(self) -> None:
        """Let go of the lock, if this thread holds it, and of a transaction that nobody will finish."""
        if self.lock is not None and os.getpid() == self._pid and self.lock.is_mine:
            self._reading.staging = None
            self.lock.release()

    def stage(self) -> Staging:
        """Begin a transaction. Raises ``Unavailable``."""
        self.begin()
        reading = self._reading
        try:
            reading.staging = Staging(ref=reading.value, names_below=reading.names_below, contains=reading.contains)
        except BaseException:
            self.end()
            raise
        return reading.staging

    def finish(self, staging: Staging, *, commit: bool) -> None:
        """End a transaction. Raises ``Unavailable``, and ``RefMoved`` where what it goes on from was purged."""
        if staging is not self._reading.staging or os.getpid() != self._pid:
            if commit:
                raise RuntimeError("a transaction cannot end in a forked child: it is the parent's")
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

    def quietly_flush(self) -> None:
        """Flush if there is anything. Who holds the store is a writer and flushes: it is not waited for."""
        try:
            self._pending.tail()
            if self._pending.overlay.records:
                with Locked(self, QUIET_WAIT_SECONDS):
                    self._flushing.flush_or_remember()
        except (GitSessionError, OSError) as error:
            self._flushing.last_error = error

    def stop(self) -> None:
        """No flush of its own begins after this."""
        self._timer.stop()

    def _commit(self, staging: Staging) -> None:
        if staging.originals:
            self._guarding.vault.keep(staging.originals)  # first: no entry without what it hides
        objects = staging.objects
        if not objects and not staging.moves:
            return
        if self._may_be_stale:
            self._check_parents(objects)
        try:
            if staging.size > flushing.FLUSH_BYTES:
                self._flushing.write_pack(objects)
                objects = {}
            self._pending.append(objects, staging.moves, sync=self._sync_appends)
        except OSError as error:
            self._refused = _summed(staging.moves)
            raise unavailable(self._git_dir, "write", error) from error
        if self._flushing.is_due:
            self._reading.staging = None
            self._flushing.flush_or_remember()

    def _take_back_refused(self) -> None:
        """Under the lock, with the journal tailed. Raises ``Unavailable`` where the disk still says no."""
        moves, self._refused = self._refused, []
        if moves and all(self._reading.value(name) == new for name, _, new in moves):
            try:
                back = [(name, new, old) for name, old, new in moves]
                self._pending.append({}, back, sync=self._sync_appends)
            except OSError as error:
                self._refused = moves
                raise unavailable(self._git_dir, "write", error) from error

    def _look_for_drops(self) -> None:
        """Under the lock. What was dropped is not there any more, though our open packs still have it."""
        now = generation.of(self._git_dir)
        if now != self._generation:
            self._reading.git.look_again()
            self._generation, self._may_be_stale = now, True

    def _check_parents(self, objects: Mapping[Oid, tuple[Kind, bytes]]) -> None:
        """Who worked something out before objects were dropped may go on from one that is gone. Raises ``RefMoved``."""
        for kind, data in objects.values():
            for parent in parse_commit(data).parents if kind == "commit" else ():
                if parent not in objects and not self._reading.contains(parent):
                    raise RefMoved(f"{parent} was purged meanwhile", hint="try again: something stands there now")


def _summed(moves: list[Move]) -> list[Move]:
    """One move for each ref: from its first value to its last."""
    first: dict[str, RefValue | None] = {}
    for name, old, _ in moves:
        first.setdefault(name, old)
    return [(name, first[name], new) for name, new in {name: new for name, _, new in moves}.items()]


class IdleTimer:
    """Calls ``callback`` once ``delay_seconds`` have passed without a ``touch``, or ``limit_seconds`` since the first.

    A touch costs one clock reading.
    """

    def __init__(self, callback: Callable[[], object], delay_seconds: float, limit_seconds: float) -> None:
        """``callback`` is a bound method; its object may be collected while the thread waits."""
        self._callback = weakref.WeakMethod(callback)
        self._delay, self._limit = delay_seconds, limit_seconds
        self._last = 0.0
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def touch(self) -> None:
        self._last = time.monotonic()
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="gitsession-flush", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return  # no more threads, or the interpreter is shutting down: the next process hands it over
            self._thread = thread

    def stop(self) -> None:
        """No call begins after this; one that runs is not waited for."""
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
