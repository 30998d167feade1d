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
    from multiprocessing import get_context

    context = get_context("fork")
    parts: list[list[T]] = [[] for _ in range(count)]
    for number, start in enumerate(range(0, len(items), _AT_ONCE)):
        parts[number % count] += items[start : start + _AT_ONCE]
    children = []
    for part in parts[1:]:
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=_send_result, args=(part, work, sender), daemon=True)
        child.start()
        sender.close()
        children.append((part, receiver, child))
    try:
        results = [work(parts[0])]
        for part, receiver, _ in children:
            try:
                results.append(receiver.recv())
            except EOFError:  # the child was killed or failed, so its work is done here
                results.append(work(part))
        return results
    finally:
        for _, receiver, child in children:
            child.terminate()  # a child that has sent its result has ended or is about to end
            child.join()
            receiver.close()


def _send_result(items: Sequence[T], work: Callable[[Sequence[T]], R], connection: Connection) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and terminates its children
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # end silently if terminated after sending the result
    with progress.by(None), suppress(GitSessionError):  # the parent repeats the work and gets the error
        connection.send(work(items))
