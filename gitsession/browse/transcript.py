"""The transcript of a branch. Only the entries on the screen are read and laid out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Click, MouseScrollDown, MouseScrollUp, Resize
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gitsession.api import Session
from gitsession.browse.dialogs import AskText
from gitsession.browse.entry_lines import Folds, entry_lines
from gitsession.browse.entry_text import EntryTexts, text_of
from gitsession.browse.screen import BrowseScreen
from gitsession.browse.text import STYLES, one_line, strip_of
from gitsession.browse.tree_rows import class_of
from gitsession.line_text import count
from gitsession.sessions.node import Node

_CACHED_MAX = 400


class Pager(Widget, can_focus=True):
    """A view of many blocks of lines. A block is laid out when it comes onto the screen.

    The position is a block and the number of its lines above the screen, so no height of other blocks is needed.

    Args:
        lines_of: A function that returns the lines of the block with an index, for a width in columns.
    """

    DEFAULT_CSS = "Pager { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll(-1)"),
        Binding("down", "scroll(1)"),
        Binding("pageup,b", "page(-1)"),
        Binding("pagedown", "page(1)"),
        Binding("home,g", "go_to(0)"),
        Binding("end,G", "go_to(-1)"),
    ]

    class Moved(Message):
        """The selected block or the position has changed."""

    def __init__(self, lines_of: Callable[[int, int], list[Strip]], *, id: str) -> None:
        super().__init__(id=id)
        self._lines_of = lines_of
        self._cached: dict[int, list[Strip]] = {}
        self.count = 0
        self.cursor = 0
        self._top, self._above = 0, 0
        self._screen: list[tuple[int, Strip]] | None = None

    def show(self, count: int, cursor: int) -> None:
        """Show ``count`` blocks, and select one, which is moved onto the screen."""
        self.count = count
        self.forget()
        self.select(cursor)

    def forget(self, block: int | None = None) -> None:
        """Lay out one block or all blocks again."""
        if block is None:
            self._cached.clear()
        else:
            self._cached.pop(block, None)
        self._changed()

    def select(self, cursor: int) -> None:
        """Select a block, and scroll until it is on the screen."""
        self.cursor = max(min(cursor, self.count - 1), 0)
        if self.size.height:
            shown = [block for block, _ in self._visible()]
            is_whole = shown.count(self.cursor) == len(self._block(self.cursor)) if self.count else True
            if not is_whole and (self.cursor not in shown or shown[0] != self.cursor):
                self._top, self._above = self.cursor, 0
                self._clamp()
        self._changed()

    def _block(self, index: int) -> list[Strip]:
        found = self._cached.get(index)
        if found is None:
            if len(self._cached) >= _CACHED_MAX:
                self._cached.clear()
            found = self._cached[index] = self._lines_of(index, self.size.width - 2)
        return found

    def _visible(self) -> list[tuple[int, Strip]]:
        """Return the lines on the screen, each with its block."""
        if self._screen is None:
            found: list[tuple[int, Strip]] = []
            at, skipped = self._top, self._above
            while at < self.count and len(found) < self.size.height:
                found += [(at, line) for line in self._block(at)[skipped:]]
                at, skipped = at + 1, 0
            self._screen = found[: self.size.height]
        return self._screen

    def render_line(self, y: int) -> Strip:
        lines = self._visible()
        if y >= len(lines):
            return strip_of([], self.size.width)
        block, line = lines[y]
        bar = Segment("▌ ", STYLES["mark"]) if block == self.cursor else Segment("  ")
        return Strip([bar, *line]).adjust_cell_length(self.size.width)

    def _changed(self) -> None:
        self._screen = None
        self.refresh()
        self.post_message(self.Moved())

    def _clamp(self) -> None:
        """Fill the screen: move back if fewer lines than its height follow the position."""
        height, at = self.size.height, self._top
        rows = -self._above
        while at < self.count and rows < height:
            rows += len(self._block(at))
            at += 1
        if rows < height:
            self._move_back(height - rows)

    def _move_back(self, lines: int) -> None:
        self._above -= lines
        while self._above < 0 and self._top > 0:
            self._top -= 1
            self._above += len(self._block(self._top))
        self._above = max(self._above, 0)

    def action_scroll(self, by: int) -> None:
        if by < 0:
            self._move_back(-by)
        else:
            self._above += by
            while self._top < self.count - 1 and self._above >= len(self._block(self._top)):
                self._above -= len(self._block(self._top))
                self._top += 1
            self._clamp()
        self._screen = None
        shown = [block for block, _ in self._visible()]
        if shown and self.cursor not in shown:
            self.cursor = shown[0] if by > 0 else shown[-1]
        self._changed()

    def action_page(self, by: int) -> None:
        self.action_scroll(by * max(self.size.height - 1, 1))

    def action_go_to(self, block: int) -> None:
        self.cursor = block % max(self.count, 1)
        self._top, self._above = self.cursor, 0
        self._clamp()
        self._changed()

    def on_resize(self, _: Resize) -> None:
        self.forget()
        self._top, self._above = self.cursor, 0
        self._clamp()
        self._changed()

    def on_click(self, event: Click) -> None:
        lines = self._visible()
        if event.y < len(lines):
            self.cursor = lines[event.y][0]
            self._changed()

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self.action_scroll(3)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self.action_scroll(-3)


class TranscriptSource(NamedTuple):
    """The session of a transcript.

    Attributes:
        session: The session.
        name: The title of the session.
        texts: The texts of its entries.
        label_of: A function that returns the label of an entry by its object id; "" if it has none.
        rewind: A function that shows the rewind menu for an entry.
    """

    session: Session
    name: str
    texts: EntryTexts
    label_of: Callable[[str], str]
    rewind: Callable[[str], None]


class TranscriptScreen(BrowseScreen):
    """The conversation of one branch.

    Args:
        source: The session.
        history: The entries of the branch, from the root.
        at: The object id of the entry that is selected first.
    """

    NAME = "Transcript"
    KEYS = "↑↓ scroll  jk entry  [] prompt  space unfold  t thinking  / search  ? help"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "entry(1)", "Next entry"),
        Binding("k", "entry(-1)", "Previous entry"),
        Binding("right_square_bracket", "prompt(1)", "Next prompt"),
        Binding("left_square_bracket", "prompt(-1)", "Previous prompt"),
        Binding("space,enter", "fold", "Unfold or fold the entry"),
        Binding("t", "thinking", "Unfold or fold the thinking of all entries"),
        Binding("o", "output", "Unfold or fold the output and the diffs of all entries"),
        Binding("ctrl+o,a", "all", "Show or hide settings and other entries"),
        Binding("slash", "search", "Search for words"),
        Binding("n", "again(1)", "Next match"),
        Binding("N", "again(-1)", "Previous match"),
        Binding("y", "copy", "Copy the text of the entry"),
        Binding("Y", "copy_address", "Copy the address of the entry"),
        Binding("r", "rewind", "Rewind to a prompt"),
        Binding("escape,q", "leave", "Go back"),
    ]

    def __init__(self, source: TranscriptSource, history: Sequence[Node], at: str) -> None:
        super().__init__()
        self._source = source
        self._history = history
        self._start = at
        self._shows_all = False
        self._folds = Folds()
        self._flipped: set[str] = set()
        self._query: list[str] = []
        self.entries: list[Node] = []

    def compose_body(self) -> ComposeResult:
        yield Pager(self._lines, id="body")

    def on_mount(self) -> None:
        self._show(self._start)

    @property
    def pager(self) -> Pager:
        return self.query_one(Pager)

    @property
    def selected(self) -> Node | None:
        """The selected entry."""
        return self.entries[self.pager.cursor] if self.entries else None

    def _show(self, oid: str) -> None:
        shown = [node for node in self._history if self._shows_all or class_of(node, is_answered=False) != "setting"]
        self.entries = shown or list(self._history[-1:])
        later = {node.oid: at for at, node in enumerate(self._history)}
        wanted = later.get(oid, len(self._history))
        at = next((at for at, node in enumerate(self.entries) if later[node.oid] >= wanted), len(self.entries) - 1)
        self.pager.show(len(self.entries), at)

    def _lines(self, index: int, width: int) -> list[Strip]:
        node = self.entries[index]
        following = self.entries[index + 1] if index + 1 < len(self.entries) else None
        folds = self._folds
        if node.oid in self._flipped:
            folds = Folds(not folds.thinking, not folds.long)
        return entry_lines(
            node,
            self._source.texts,
            label=self._source.label_of(node.oid),
            width=width,
            folds=folds,
            is_answered=following is not None and following.role == "tool",
        )

    def on_pager_moved(self) -> None:
        node = self.selected
        if node is not None:
            at = self.pager.cursor
            place = (
                f"{at + 1:,} of {count(len(self.entries), 'entry', 'entries')}  {(at + 1) * 100 // len(self.entries)} %"
            )
            self.set_title((self._source.name, "bold"), (f"  {place}", "dim"))
            self.set_status((f"{node.oid[:12]}  {one_line(node.subject)}", "dim"))

    def action_entry(self, by: int) -> None:
        self.pager.select(self.pager.cursor + by)

    def action_prompt(self, by: int) -> None:
        at = self.pager.cursor + by
        while 0 <= at < len(self.entries) and self.entries[at].role != "user":
            at += by
        if 0 <= at < len(self.entries):
            self.pager.select(at)

    def action_fold(self) -> None:
        node = self.selected
        if node is not None:
            self._flipped ^= {node.oid}
            self.pager.forget(self.pager.cursor)

    def action_thinking(self) -> None:
        self._refold(self._folds._replace(thinking=not self._folds.thinking))

    def action_output(self) -> None:
        self._refold(self._folds._replace(long=not self._folds.long))

    def _refold(self, folds: Folds) -> None:
        self._folds = folds
        self._flipped.clear()
        self.pager.show(len(self.entries), self.pager.cursor)

    def action_all(self) -> None:
        node = self.selected
        self._shows_all = not self._shows_all
        self._show(node.oid if node else "")

    def action_search(self) -> None:
        def search(text: str | None) -> None:
            if text is not None:
                self._query = text.lower().split()
                self.action_again(1)

        self.app.push_screen(AskText("Search", " ".join(self._query)), search)

    def action_again(self, by: int) -> None:
        """Select the next entry whose text contains the words. The entries are read in a thread."""
        words, begin = self._query, self.pager.cursor
        if not words:
            return
        candidates = (
            list(enumerate(self.entries))[begin + 1 :] if by > 0 else list(enumerate(self.entries))[:begin][::-1]
        )
        read = self._source.session.read

        def find() -> int | None:
            for at, node in candidates:
                if not self.is_attached or self._query is not words:
                    return None
                text = f"{node.subject}\n{text_of(read(node))}".lower()
                if all(word in text for word in words):
                    return at
            return -1

        def go(at: int | None) -> None:
            if at is not None and at >= 0:
                self.pager.select(at)
            elif at is not None:
                self.tell(f"no {'later' if by > 0 else 'earlier'} entry contains {' '.join(words)!r}")

        self.tell("searching…")
        self.work(find, go)

    def action_copy(self) -> None:
        node = self.selected
        if node is not None:
            text = text_of(self._source.texts.read(node)) or node.subject
            self.browser.copy_to_clipboard(text)
            self.tell(f"copied: {count(len(text), 'character')}")

    def action_copy_address(self) -> None:
        node = self.selected
        if node is not None:
            address = f"{self._source.session.id}@{node.oid[:12]}"
            self.browser.copy_to_clipboard(address)
            self.tell(f"copied: {address}")

    def action_rewind(self) -> None:
        node = self.selected
        self.app.pop_screen()
        self._source.rewind(node.oid if node else "")

    def action_leave(self) -> None:
        self.app.pop_screen()
