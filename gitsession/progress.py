"""How far long work has come, for whoever watches; nobody does, unless a command says so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Watcher: TypeAlias = Callable[[str, int, int], None]
"""Gets what is done, how many of it are, and of how many. It must not raise."""

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def by(watcher: Watcher | None) -> Iterator[None]:
    """Within, ``watcher`` is told; in other threads it is not."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def each(what: str, things: Collection[T]) -> Iterable[T]:
    """``things``, and how many were taken is told."""
    watcher = _watcher.get()
    return things if watcher is None else _told(watcher, what, things)


def _told(watcher: Watcher, what: str, things: Collection[T]) -> Iterator[T]:
    of = len(things)
    for done, thing in enumerate(things):
        watcher(what, done, of)
        yield thing
    watcher(what, of, of)
