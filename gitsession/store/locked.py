"""What holds a store's lock from ``__enter__`` to ``__exit__``: classes, because a generator costs twice as much.

A Ctrl-C may come just before either of them does anything. Where the program goes on, the lock must not stay held by
nobody: it goes with the object.
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from gitsession.store.staging import Staging


class Holder(Protocol):
    """What takes the lock and lets it go: ``store.writing.StoreWriter``."""

    def check_not_held(self) -> None: ...

    def begin(self, wait_seconds: float | None = None) -> None: ...

    def end(self) -> None: ...

    def stage(self) -> Staging: ...

    def finish(self, staging: Staging, *, commit: bool) -> None: ...


class _Held:
    __slots__ = ("_holder", "_is_open")

    def __init__(self, holder: Holder) -> None:
        self._holder = holder
        self._is_open = False

    def _open(self) -> None:
        """Before the lock is asked for, and not where this thread has it by another one of these."""
        self._holder.check_not_held()
        self._is_open = True

    def _give_up(self) -> None:
        """After a failure on the way in. An error keeps this object alive: it must not let go of a later one's lock."""
        self._holder.end()
        self._is_open = False

    def __del__(self) -> None:
        if self._is_open:
            self._holder.end()


class Locked(_Held):
    """Nobody writes meanwhile but who is within it. ``wait_seconds``: for the lock, if not as long as ever."""

    __slots__ = ("_wait_seconds",)

    def __init__(self, holder: Holder, wait_seconds: float | None = None) -> None:
        super().__init__(holder)
        self._wait_seconds = wait_seconds

    def __enter__(self) -> None:
        self._open()
        try:
            self._holder.begin(self._wait_seconds)
        except BaseException:
            self._give_up()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._holder.end()
        self._is_open = False


class InTransaction(_Held):
    """A transaction: what is in it is kept where no error leaves it."""

    __slots__ = ("_staging",)

    def __enter__(self) -> Staging:
        self._open()
        try:
            self._staging = self._holder.stage()
        except BaseException:
            self._give_up()
            raise
        return self._staging

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._holder.finish(self._staging, commit=error is None)
        self._is_open = False
