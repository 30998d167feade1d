"""A compaction while the session goes on: started, and waited for or cancelled later."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Event, Thread

from gitsession.sessions.node import Node


class BackgroundCompaction:
    """A compaction under way. What is appended meanwhile is kept; cancelled or failed, it leaves nothing behind."""

    def __init__(self, run: Callable[[Event], Node]) -> None:
        """Starts at once. ``run`` is given what says that it is to stop."""
        self._cancelled = Event()
        self._future: Future[Node] = Future()
        Thread(target=self._run, args=(run,), name="gitsession-compaction", daemon=True).start()

    def cancel(self) -> None:
        """Give up soon. Where its entry is appended already, it stays."""
        self._cancelled.set()

    @property
    def done(self) -> bool:
        return self._future.done()

    def result(self, timeout: float | None = None) -> Node:
        """The entry. Raises what the compaction raised (``SummaryFailed`` once cancelled), or ``TimeoutError``."""
        return self._future.result(timeout)

    def _run(self, run: Callable[[Event], Node]) -> None:
        try:
            self._future.set_result(run(self._cancelled))
        except BaseException as error:  # whoever asks for the result is told, whatever it was
            self._future.set_exception(error)
