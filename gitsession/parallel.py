"""Work on many items that several processes share."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import BinaryIO, TypeVar

from gitsession import progress

T = TypeVar("T")
R = TypeVar("R")

ITEMS_MIN = 500
"""Minimum number of items for each process. The start of a process takes as long as the work on about 50 entries."""

PROCESSES_MAX = 4

_AT_ONCE = 128
"""Number of consecutive items that one process gets. The objects of consecutive items are close together in a pack."""


def share(items: Sequence[T], work: Callable[[Sequence[T]], R]) -> list[R]:
    """Return the results of ``work`` for ``items``, one result for each process.

    The result for an item must not depend on the other items of a process.
    """
    if sys.platform != "linux" or threading.active_count() > 1:
        return [work(items)]
    count = min(len(items) // ITEMS_MIN, PROCESSES_MAX, len(os.sched_getaffinity(0)))
    return _in_processes(items, work, count) if count > 1 else [work(items)]


def _in_processes(items: Sequence[T], work: Callable[[Sequence[T]], R], count: int) -> list[R]:
    parts: list[list[T]] = [[] for _ in range(count)]
    for number, start in enumerate(range(0, len(items), _AT_ONCE)):
        parts[number % count] += items[start : start + _AT_ONCE]
    own, children = parts[:1], []
    try:
        for part in parts[1:]:
            try:
                children.append((part, *_start(part, work)))
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
            receiver.close()
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)  # a child that has sent its result has ended or is about to end
            with suppress(ChildProcessError):
                os.waitpid(child, 0)


def _start(items: Sequence[T], work: Callable[[Sequence[T]], R]) -> tuple[BinaryIO, int]:
    """Start a process that writes the result of ``work`` to the returned file, and return its id. Raises ``OSError``.

    The modules of ``multiprocessing`` are not used, because their import takes as long as the work on 200 entries.
    """
    read_fd, write_fd = os.pipe()
    try:
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
                pickle.dump(work(items), sender, pickle.HIGHEST_PROTOCOL)
        finally:
            os._exit(0)  # without the parent's buffers and exit handlers; if ``work`` failed, the parent repeats it
    os.close(write_fd)
    return open(read_fd, "rb"), child
