"""Progress reports of long operations. Without a watcher, no progress is reported."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Watcher: TypeAlias = Callable[[str, int, int], None]
"""A function that receives the name of the operation, the number of finished items and the total number of items.

The function must not raise.
"""

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def by(watcher: Watcher | None) -> Iterator[None]:
    """Report progress to ``watcher`` within a ``with`` block. Other threads are not affected."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def each(what: str, items: Collection[T]) -> Iterable[T]:
    """Return ``items``, and report progress while the caller iterates over them."""
    watcher = _watcher.get()
    return items if watcher is None else _reporting(watcher, what, items)


def groups(what: str, items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield ``items`` in groups of at most ``size``, and report the number of items in finished groups."""
    watcher = _watcher.get()
    for done in range(0, len(items), size):
        if watcher is not None:
            watcher(what, done, len(items))
        yield items[done : done + size]
    if watcher is not None:
        watcher(what, len(items), len(items))


def _reporting(watcher: Watcher, what: str, items: Collection[T]) -> Iterator[T]:
    total = len(items)
    for done, item in enumerate(items):
        watcher(what, done, total)
        yield item
    watcher(what, total, total)
