"""A list of lines with a cursor. Only the lines on the screen are built, so its length does not matter."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gitsession.browse.text import Part, strip_of


class RowList(ScrollView, can_focus=True):
    """A scrolling list of lines.

    Args:
        parts_of: A function that returns the parts of the line with an index, for a width in columns.
        nothing: The text that is shown if the list is empty.
    """

    DEFAULT_CSS = """
    RowList { height: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup,left", "page(-1)", "Page up", show=False),
        Binding("pagedown,right", "page(1)", "Page down", show=False),
        Binding("home", "move(-1000000000)", "First", show=False),
        Binding("end", "move(1000000000)", "Last", show=False),
        Binding("enter", "choose", "Open", show=False),
    ]

    class Moved(Message):
        """The cursor has moved to another line."""

    class Chosen(Message):
        """The line under the cursor was chosen with Enter or a double click."""

    def __init__(self, parts_of: Callable[[int, int], Iterable[Part]], *, nothing: str = "", id: str = "") -> None:
        super().__init__(id=id or None)
        self._parts_of = parts_of
        self.nothing = nothing
        self.count = 0
        self.cursor = 0

    def show(self, count: int, cursor: int | None = None) -> None:
        """Show ``count`` lines, with the cursor at the line ``cursor`` (default: where it is)."""
        self.count = count
        self.virtual_size = Size(0, count)
        self._go_to(self.cursor if cursor is None else cursor)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        index, width = self.scroll_offset.y + y, self.scrollable_content_region.width
        if index >= self.count:
            return strip_of([(self.nothing, "dim")] if self.count == 0 and y == 0 else [], width)
        return strip_of(self._parts_of(index, width), width, selected=index == self.cursor)

    def _go_to(self, index: int) -> None:
        before, self.cursor = self.cursor, max(min(index, self.count - 1), 0)
        height, top = self.size.height, self.scroll_offset.y
        if height:
            wanted = min(max(top, self.cursor - height + 1), self.cursor)
            wanted = max(min(wanted, self.count - height), 0)
            if wanted != top:
                self.scroll_to(y=wanted, animate=False, immediate=True, force=True)
        self.refresh()
        if self.cursor != before:
            self.post_message(self.Moved())

    def on_resize(self, _: Resize) -> None:
        self.virtual_size = Size(0, self.count)
        self._go_to(self.cursor)

    def on_click(self, event: Click) -> None:
        index = self.scroll_offset.y + event.y
        if index < self.count:
            self._go_to(index)
            if event.chain > 1:
                self.action_choose()

    def action_move(self, by: int) -> None:
        self._go_to(self.cursor + by)

    def action_page(self, by: int) -> None:
        self._go_to(self.cursor + by * max(self.size.height - 1, 1))

    def action_choose(self) -> None:
        if self.count:
            self.post_message(self.Chosen())
