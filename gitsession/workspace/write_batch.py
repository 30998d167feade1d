"""A queue of temporary files that will be renamed together.

Fsync is called on several files at the same time, because a disk combines such calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple, TypeVar

from gitsession.workspace.inspect import Status
from gitsession.workspace.path_rules import PlannedChange
from gitsession.workspace.place_file import StagedFile

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 8
FILES, BYTES = 64, 32 << 20
"""Maximum number and maximum total size in bytes of queued files. Each file uses two handles and disk space."""


class QueuedFile(NamedTuple):
    """A file that is ready to replace the file with the status ``seen``."""

    change: PlannedChange
    seen: Status | None
    ready: StagedFile


class Batch:
    """The queued files. Call ``drop`` at the end."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self._waiting: list[QueuedFile] = []
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= FILES or self._bytes >= BYTES

    def add(self, change: PlannedChange, seen: Status | None, ready: StagedFile, size: int) -> None:
        self._waiting.append(QueuedFile(change, seen, ready))
        self._bytes += size

    def synced(self) -> Iterator[tuple[QueuedFile, OSError | None]]:
        """Call fsync on all queued files; yield each with its error, or ``None``."""
        failed = at_once(self._threads, lambda item: _failure(item.ready.sync), self._waiting)
        return zip(self._waiting, failed, strict=True)

    def drop(self) -> None:
        """Discard all queued files."""
        for item in self._waiting:
            with suppress(OSError):
                item.ready.drop()
        self._waiting.clear()
        self._bytes = 0


def at_once(threads: ThreadPoolExecutor, step: Callable[[T], R], items: Collection[T]) -> list[R]:
    """Call ``step`` for each item in parallel; return the results in the order of the items."""
    return [step(item) for item in items] if len(items) < 2 else list(threads.map(step, items))


def _failure(step: Callable[[], None]) -> OSError | None:
    try:
        step()
    except OSError as error:
        return error
    return None
