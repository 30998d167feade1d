"""Work on many things that only reads, shared with processes of our own where that is worth it.

A child is a copy of this process, so it has at hand what was read before. It is made only of a process with one thread,
for of several only one would go on in the child, and what the others held would be held for ever; and only on Linux.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from gitsession import progress

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

T = TypeVar("T")
R = TypeVar("R")

THINGS_MIN = 2_000
"""For each process: making one takes 10 ms or more."""

PROCESSES_MAX = 4

_AT_ONCE = 256
"""Things in a row go to one process: they lie near each other in a pack."""


def share(things: Sequence[T], work: Callable[[Sequence[T]], R]) -> list[R]:
    """What ``work`` makes of ``things``, in as many parts as there were processes."""
    count = min(len(things) // THINGS_MIN, PROCESSES_MAX, _processors())
    if count < 2 or sys.platform != "linux" or threading.active_count() > 1:
        return [work(things)]
    return _in_processes(things, work, count)


def _in_processes(things: Sequence[T], work: Callable[[Sequence[T]], R], count: int) -> list[R]:
    from multiprocessing import get_context

    context = get_context("fork")
    parts: list[list[T]] = [[] for _ in range(count)]
    for number, start in enumerate(range(0, len(things), _AT_ONCE)):
        parts[number % count] += things[start : start + _AT_ONCE]
    children = []
    for part in parts[1:]:
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_work, args=(part, work, theirs), daemon=True)
        child.start()
        theirs.close()
        children.append((part, ours, child))
    try:
        found = [work(parts[0])]
        for part, ours, _ in children:
            try:
                found.append(ours.recv())
            except EOFError:  # it was killed, or failed: what it would have said comes from here
                found.append(work(part))
        return found
    finally:
        for _, ours, child in children:
            child.terminate()  # whoever has said its part has ended, or is about to
            child.join()
            ours.close()


def _work(things: Sequence[T], work: Callable[[Sequence[T]], R], to: Connection) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asked is told, and takes us along
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # who has said its part is ended without a word
    with progress.by(None):
        to.send(work(things))


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return 1
