"""One writer per store: a mutex between threads, then flock(2) between processes.

The order is always mutex, flock, ref lock. Git uses only ref locks, so no deadlock is possible. The kernel releases a
flock when its process ends for any reason, so no lock is ever stale. A flock belongs to the open file, which a forked
child shares, so the child opens the file again.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from gitsession.errors import Unavailable
from gitsession.store import create

_PAUSE_MIN_SECONDS, _PAUSE_MAX_SECONDS = 0.001, 0.02
"""The limits of the pauses between attempts. In between, a pause is as long as the wait so far. All pauses are varied.

With short pauses only, eight writers on two cores change places after each append, and then an append takes twice as
long: processes are switched, caches are cold, and the records of the others are read again.
"""

_LATE_SECONDS, _LATE_PAUSE_SECONDS = 0.1, 0.002
"""The wait after which a writer tries more often than those that came later, and its pauses."""

_LONG_SECONDS = 1.0
"""The wait after which pauses are long again: one process holds the lock for long, so writers do not compete."""


class StoreLock:
    """The lock of one store, for every thread of this process and every process of this machine."""

    def __init__(self, path: Path, *, wait_seconds: float = 30.0) -> None:
        """Open the lock file. Raises ``OSError`` if it cannot be opened for writing."""
        self._path = path
        self._wait_seconds = wait_seconds
        self._fd = -1
        self._open()

    def acquire(self, wait_seconds: float | None = None) -> None:
        """Acquire the lock. This thread must not hold it already.

        Raises ``Unavailable`` after ``wait_seconds``. The message contains the id of the process that holds the lock,
        if known.
        """
        wait_seconds = self._wait_seconds if wait_seconds is None else wait_seconds
        if os.getpid() != self._pid:
            self.close()
            self._open()
        try:
            if not self._mutex.acquire(timeout=wait_seconds):
                raise self._lock_error("another thread", wait_seconds)
            if self._fd < 0:
                raise Unavailable(f"the store '{self._path.parent.parent}' is closed")
            self._flock(wait_seconds)
        except BaseException:  # Ctrl-C can interrupt at any point, even after one or both locks are acquired
            self.release()
            raise

    def release(self) -> None:
        """Release the lock if this thread holds it.

        In a forked child, do nothing: to unlock the shared file would release the parent's lock.
        """
        if os.getpid() != self._pid or not self.is_mine:
            return
        try:
            if self._fd >= 0:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        finally:
            self._mutex.release()

    @property
    def is_mine(self) -> bool:
        """Return whether this thread holds the lock.

        The mutex is an ``RLock`` because only that class tracks its owner reliably.
        """
        return self._mutex._is_owned()  # type: ignore[attr-defined, no-any-return]

    def close(self) -> None:
        """Wait until no other thread holds the lock, and close the lock file. Idempotent.

        In a forked child, this does not wait. Closing the file, unlike unlocking it, does not affect the parent's lock.
        """
        waited = os.getpid() == self._pid and self._mutex.acquire(timeout=self._wait_seconds)
        try:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
        finally:
            if waited:
                self._mutex.release()

    def _open(self) -> None:
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._mutex = threading.RLock()
        self._pid = os.getpid()

    def _flock(self, wait_seconds: float) -> None:
        since = 0.0
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                now = time.monotonic()
                since = since or now
                if now - since >= wait_seconds:
                    raise self._lock_error(self._holder(), wait_seconds) from None
                pause = _pause_seconds(now - since) * (0.5 + os.urandom(1)[0] / 512)
                time.sleep(min(pause, wait_seconds - (now - since)))

    def _lock_error(self, holder: str, seconds: float) -> Unavailable:
        message = f"cannot lock '{self._path.parent.parent}': {holder} has held the lock for {seconds:g} s"
        return Unavailable(message, hint="try again when that process has finished")

    def _holder(self) -> str:
        """Return the process that holds the lock, from Linux's list of file locks.

        A line of the list: ``1: FLOCK ADVISORY WRITE 4711 08:01:1234 0 EOF``.
        """
        inode = os.fstat(self._fd).st_ino
        try:
            rows = Path("/proc/locks").read_text().splitlines()
        except OSError:
            rows = []
        for row in rows:
            fields = row.split()
            if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
                return f"process {fields[4]}"
        return "another process"


def _pause_seconds(waited: float) -> float:
    if _LATE_SECONDS < waited < _LONG_SECONDS:
        return _LATE_PAUSE_SECONDS
    return min(max(waited, _PAUSE_MIN_SECONDS), _PAUSE_MAX_SECONDS)


@contextmanager
def exclusive_lock(path: Path, *, wait_seconds: float = 30.0) -> Iterator[None]:
    """Hold an exclusive lock on the file ``path``. Raises ``Unavailable`` if the lock cannot be acquired."""
    try:
        lock = StoreLock(path, wait_seconds=wait_seconds)
    except OSError as error:
        raise Unavailable(f"cannot lock '{path}': {error.strerror}") from error
    try:
        lock.acquire()
        try:
            yield
        finally:
            lock.release()
    finally:
        lock.close()


def packing(git_dir: Path, *, wait_seconds: float = 60.0) -> AbstractContextManager[None]:
    """Return a context manager that holds the lock for repacking. Raises the errors of ``exclusive_lock``."""
    return exclusive_lock(git_dir / create.CONTROL / "packing", wait_seconds=wait_seconds)
