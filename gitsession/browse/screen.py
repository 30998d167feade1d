"""The frame of every screen: a title, a body, a line about the selected item, and the most important keys."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterable
from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from gitsession.browse.browser import Browser
from gitsession.browse.dialogs import TextDialog
from gitsession.browse.text import Part, fit, one_line, strip_of

Result = TypeVar("Result")


class Bar(Widget):
    """One line of text. If it does not fit, its first part is cut."""

    DEFAULT_CSS = "Bar { height: 1; }"

    def __init__(self, *parts: Part, id: str) -> None:
        super().__init__(id=id)
        self._parts: list[Part] = list(parts)

    def show(self, parts: Iterable[Part]) -> None:
        self._parts = list(parts)
        self.refresh()

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return container.width

    def render_line(self, y: int) -> Strip:
        return strip_of(fit(self._parts[:1], self._parts[1:], self.size.width), self.size.width)


class BrowseScreen(Screen[str | None]):
    """A screen of the browser. The result is the object id of an entry after which the session was changed, if any.

    Subclasses define ``BODY`` (in ``compose_body``), ``BINDINGS`` with a description for each key, and ``KEYS``, the
    text of the last line.
    """

    KEYS: ClassVar[str] = ""
    NAME: ClassVar[str] = ""
    AUTO_FOCUS = "#body"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark,f1", "help", "Show the keys")]

    @property
    def browser(self) -> Browser:
        """The application."""
        assert isinstance(self.app, Browser)
        return self.app

    def compose(self) -> ComposeResult:
        yield Bar((self.NAME, "bold"), id="title")
        yield from self.compose_body()
        yield Bar(id="status")
        yield Bar((self.KEYS, "dim"), id="keys")

    def compose_body(self) -> ComposeResult:
        raise NotImplementedError

    def set_title(self, *parts: Part) -> None:
        self.query_one("#title", Bar).show(parts)

    def set_status(self, *parts: Part) -> None:
        self.query_one("#status", Bar).show(parts)

    def tell(self, text: str, *, is_error: bool = False) -> None:
        """Show a message in the status line, until the cursor is moved."""
        self.set_status((one_line(text), "error" if is_error else "bold"))

    def fail(self, error: Exception) -> None:
        """Show an error and its hint."""
        hint = getattr(error, "hint", "")
        self.tell(f"error: {error}" + (f" ({hint})" if hint else ""), is_error=True)

    def work(self, task: Callable[[], Result], then: Callable[[Result], None], *, writes: bool = False) -> None:
        """Run ``task`` in a thread, and then pass its result to ``then``. If the task fails, show the error.

        ``writes``: whether the browser must not end before the task. The browser does not wait for other tasks.
        """
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()

        def deliver(done: Callable[[], None]) -> None:
            if self.is_attached:
                self.call_next(done)

        def run() -> None:
            try:
                result = task()
            except Exception as error:  # an error in a store must not end the browser
                failure = error
                done: Callable[[], None] = lambda: self.fail(failure)  # noqa: E731
            else:
                done = lambda: then(result)  # noqa: E731
            with contextlib.suppress(RuntimeError):  # the browser has ended
                loop.call_soon_threadsafe(deliver, done, context=context)

        thread = threading.Thread(target=run, daemon=not writes)
        if writes:
            self.browser.writers.append(thread)
            self.browser.is_changed = True
        thread.start()

    def action_help(self) -> None:
        bindings = [binding for binding in self._described() if binding.description]
        width = max((len(_keys_of(binding)) for binding in bindings), default=0)
        lines = [[(f" {_keys_of(binding):<{width}}  ", "bold"), (binding.description, "")] for binding in bindings]
        self.app.push_screen(TextDialog(f"Keys: {self.NAME}", lines))

    def _described(self) -> list[Binding]:
        own = [binding for binding in type(self).BINDINGS if isinstance(binding, Binding)]
        moving = Binding("up,down,pageup,pagedown,home,end", "", "Move")
        return [moving, *own, *BrowseScreen.BINDINGS, *self.browser.described]  # type: ignore[list-item]


_NAMES = {
    "question_mark": "?", "slash": "/", "escape": "esc", "left_square_bracket": "[", "right_square_bracket": "]",
    "pageup": "pgup", "pagedown": "pgdn",
}  # fmt: skip


def _keys_of(binding: Binding) -> str:
    keys = [_NAMES.get(key, key) for key in binding.key.split(",")]
    return " ".join(key.replace("ctrl+", "^").replace("shift+", "shift-").replace("alt+", "alt-") for key in keys)
