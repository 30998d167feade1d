"""A callback some time after the last of many touches, and not much later than the first, in a daemon thread that
exists only while it is needed.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable


class IdleTimer:
    """Calls ``callback`` once ``delay_seconds`` have passed without a ``touch``, or ``limit_seconds`` since the first.

    A touch costs one clock reading.
    """

    def __init__(self, callback: Callable[[], object], delay_seconds: float, limit_seconds: float) -> None:
        """``callback`` is a bound method; its object may be collected while the thread waits."""
        self._callback = weakref.WeakMethod(callback)
        self._delay, self._limit = delay_seconds, limit_seconds
        self._last = 0.0
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def touch(self) -> None:
        self._last = time.monotonic()
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="gitsession-flush", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return  # no more threads, or the interpreter is shutting down: the next process hands it over
            self._thread = thread

    def stop(self) -> None:
        """No call begins after this; one that runs is not waited for."""
        self._wake.set()

    def _run(self) -> None:
        latest = self._last + self._limit
        while True:
            touched = self._last
            due = min(touched + self._delay, latest)
            if self._wake.wait(max(0.0, due - time.monotonic())):
                return
            if self._last == touched or time.monotonic() >= latest:
                self._thread = None
                callback = self._callback()
                if callback is not None:
                    callback()
                return
