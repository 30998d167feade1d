"""Progress of long operations. It is reported only if a command has set a watcher."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Watcher: TypeAlias = Callable[[str, int, int], None]
"""Function that receives the name of the work, the number of items done, and their total. It must not raise."""

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def by(watcher: Watcher | None) -> Iterator[None]:
    """Report progress to ``watcher`` within the block. Other threads are not affected."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def each(what: str, things: Collection[T]) -> Iterable[T]:
    """Return ``things``, with progress reported while they are iterated over."""
    watcher = _watcher.get()
    return things if watcher is None else _told(watcher, what, things)


def _told(watcher: Watcher, what: str, things: Collection[T]) -> Iterator[T]:
    of = len(things)
    for done, thing in enumerate(things):
        watcher(what, done, of)
        yield thing
    watcher(what, of, of)
