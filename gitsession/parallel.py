"""Work on many items that several processes share, and work that another process does in advance."""

from __future__ import annotations

import fcntl
import functools
import gc
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO, Generic, TypeVar

from gitsession import progress

T = TypeVar("T")
R = TypeVar("R")

ITEMS_MIN = 500
"""Minimum number of items for each process. The start of a process takes as long as the work on about 50 entries."""

PROCESSES_MAX = 4

PIPE_BYTES = 1 << 20
"""The size of the pipe from a process that works in advance. The process waits when the pipe is full."""

_COLLECTION_OBJECTS = 50_000
"""Number of new objects after which garbage is collected."""

_AT_ONCE = 128
"""Maximum number of consecutive items for one process. Objects of consecutive items are close together in a pack."""


def share(items: Sequence[T], work: Callable[[Sequence[T]], R], items_min: int | None = None) -> list[R]:
    """Return the results of ``work`` for ``items``, one result for each process.

    The result for an item must not depend on the other items of a process.

    ``items_min``: the minimum number of items for each process, or else ``ITEMS_MIN``.
    """
    if sys.platform != "linux" or threading.active_count() > 1:
        return [work(items)]
    items_min = items_min or ITEMS_MIN
    with _rare_collections():
        count = min(len(items) // items_min, PROCESSES_MAX, len(os.sched_getaffinity(0)))
        return _in_processes(items, work, count, min(items_min, _AT_ONCE)) if count > 1 else [work(items)]


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage rarely: the work creates few cycles, and collections would take a sixth of its time.

    The setting is that of the whole process, so no other thread may run.
    """
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(before[0], _COLLECTION_OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Ahead(Generic[R]):
    """The results of ``work``, which another process computes in advance.

    ``work`` may use neither a store nor a lock, because another thread of this process may hold the lock. Close the
    object in every case, which ends the process.
    """

    def __init__(self, work: Callable[[], Iterable[R]]) -> None:
        """Start the process. Raises ``OSError``."""
        self._receiver, self._child = _start(work)

    @staticmethod
    def is_possible(harmless: str) -> bool:
        """Return whether a process can start and has a processor. ``harmless``: the name of threads that may run."""
        if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2:
            return False
        return all(each.name == harmless or each is threading.current_thread() for each in threading.enumerate())

    def next(self) -> R | None:
        """Wait for the next result and return it; ``None`` after the last one, or if the process failed."""
        try:
            return pickle.load(self._receiver)  # type: ignore[no-any-return]
        except (EOFError, OSError, pickle.UnpicklingError):
            return None

    def close(self) -> None:
        _end(self._receiver, self._child)


def _in_processes(items: Sequence[T], work: Callable[[Sequence[T]], R], count: int, at_once: int) -> list[R]:
    parts: list[list[T]] = [[] for _ in range(count)]
    for number, start in enumerate(range(0, len(items), at_once)):
        parts[number % count] += items[start : start + at_once]
    own, children = parts[:1], []
    try:
        for part in parts[1:]:
            try:
                children.append((part, *_start(functools.partial(_one_result, work, part))))
            except OSError:  # too many processes or open files, or not enough memory
                own.append(part)
        results = [work(part) for part in own]
        for part, receiver, _ in children:
            try:
                results.append(pickle.load(receiver))
            except (EOFError, OSError, pickle.UnpicklingError):  # the child failed or was killed: do its work here
                results.append(work(part))
        return results
    finally:
        for _, receiver, child in children:
            _end(receiver, child)


def _one_result(work: Callable[[Sequence[T]], R], items: Sequence[T]) -> Iterable[R]:
    yield work(items)


def _end(receiver: BinaryIO, child: int) -> None:
    receiver.close()
    with suppress(OSError):
        os.kill(child, signal.SIGKILL)  # a child that has sent its results has ended or is about to end
    with suppress(ChildProcessError):
        os.waitpid(child, 0)


def _start(work: Callable[[], Iterable[R]]) -> tuple[BinaryIO, int]:
    """Start a process that writes the results of ``work`` to the returned file, and return its id. Raises ``OSError``.

    The modules of ``multiprocessing`` are not used, because their import takes as long as the work on 200 entries.
    """
    read_fd, write_fd = os.pipe()
    with suppress(OSError):
        fcntl.fcntl(write_fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns if another thread exists
            child = os.fork()
    except OSError:
        os.close(read_fd)
        os.close(write_fd)
        raise
    if not child:
        try:
            os.close(read_fd)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and kills its children
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            gc.freeze()  # a collection would copy the pages of the parent's objects
            with progress.by(None), open(write_fd, "wb") as sender:
                for result in work():
                    pickle.dump(result, sender, pickle.HIGHEST_PROTOCOL)
                    sender.flush()
        finally:
            os._exit(0)  # without the parent's buffers and exit handlers; if ``work`` failed, the parent repeats it
    os.close(write_fd)
    return open(read_fd, "rb"), child
