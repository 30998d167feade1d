"""Work on many items that several processes share."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from gitsession import progress
from gitsession.errors import GitSessionError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess

T = TypeVar("T")
R = TypeVar("R")

ITEMS_MIN = 2_000
"""Minimum number of items for each process. The start of a process takes 10 ms or more."""

PROCESSES_MAX = 4

_AT_ONCE = 256
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
    for part in parts[1:]:
        try:
            children.append((part, *_start(part, work)))
        except OSError:  # too many processes or open files, or not enough memory
            own.append(part)
    try:
        results = [work(part) for part in own]
        for part, receiver, _ in children:
            try:
                results.append(receiver.recv())
            except (EOFError, OSError):  # the child was killed, perhaps in its message, or failed: do its work here
                results.append(work(part))
        return results
    finally:
        for _, receiver, child in children:
            child.terminate()  # a child that has sent its result has ended or is about to end
            child.join()
            receiver.close()


def _start(items: Sequence[T], work: Callable[[Sequence[T]], R]) -> tuple[Connection, ForkProcess]:
    """Start a process that sends the result of ``work``. Raises ``OSError``."""
    from multiprocessing import get_context

    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    with sender:
        child = context.Process(target=_send_result, args=(items, work, sender), daemon=True)
        child.start()
    return receiver, child


def _send_result(items: Sequence[T], work: Callable[[Sequence[T]], R], connection: Connection) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and terminates its children
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # end silently if terminated after sending the result
    with progress.by(None), suppress(GitSessionError, MemoryError, OSError):  # the parent repeats the work
        connection.send(work(items))
