"""The application: the state that its screens share."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from gitsession.api import Store

TERMINATED = 143
"""Exit code after SIGTERM."""


class Browser(App[list[str]]):
    """The application.

    Attributes:
        store: The store.
        folder: The current folder, whose sessions are listed first.
        now_ms: A function that returns the current Unix time in ms.
        writers: The threads that write to the store. The browser waits for them at the end.
        is_changed: Whether the store was changed since the list of sessions was read.
        failure: The error that ended the browser.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = "Screen { background: ansi_default; color: ansi_default; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c,ctrl+q", "quit", "Quit", priority=True),
        Binding("ctrl+z", "suspend_process", "Suspend", priority=True),
    ]

    def __init__(
        self,
        store: Store,
        first: Callable[[], Sequence[Screen[Any]]],
        *,
        folder: str = "",
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Create the application. ``first``: a function that returns the first screens, the one on top last."""
        super().__init__(ansi_color=True)  # the terminal's own colors; none with NO_COLOR
        self.theme = "ansi-dark"
        self.store = store
        self.folder = folder
        self.now_ms = now_ms
        self.writers: list[threading.Thread] = []
        self.is_changed = False
        self.failure: Exception | None = None
        self._first = first

    def _handle_exception(self, error: Exception) -> None:
        """End the browser. ``browse`` raises the error again, so that the command line reports it."""
        self.failure = error
        super()._handle_exception(error)
        self._exit_renderables.clear()

    @property
    def described(self) -> list[Binding]:
        """The keys of every screen."""
        return [binding for binding in type(self).BINDINGS if isinstance(binding, Binding)]

    def on_mount(self) -> None:
        if threading.current_thread() is threading.main_thread():
            with contextlib.suppress(NotImplementedError, RuntimeError):
                loop = asyncio.get_running_loop()
                loop.add_signal_handler(signal.SIGTERM, lambda: self.exit(return_code=TERMINATED))
        for screen in self._first():
            self.push_screen(screen)
