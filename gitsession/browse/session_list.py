"""The list of sessions, which is filtered while the user types."""

from __future__ import annotations

import os
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Key, Paste

from gitsession.browse.row_list import RowList
from gitsession.browse.screen import BrowseScreen
from gitsession.browse.text import Part, age, one_line
from gitsession.browse.tree import TreeScreen
from gitsession.browse.undoing import undo
from gitsession.errors import GitSessionError
from gitsession.index.catalogue import Row
from gitsession.line_text import clock, count, pad

_WIDE = 100
"""Minimum number of columns for a list with numbers of entries and branches."""

_QUERY_CHARS_MAX = 200


class SessionList(BrowseScreen):
    """The sessions of the store: first those of the current folder and its project, then the others."""

    NAME = "Sessions"
    KEYS = "type to filter   enter open   ^y copy id   ^u undo   esc quit   ? help"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open the session", show=False),
        Binding("ctrl+y", "copy", "Copy the session id"),
        Binding("ctrl+u", "undo", "Undo the last command on the session"),
        Binding("ctrl+r", "reload", "Read the list again"),
        Binding("backspace", "erase", "Delete a character of the filter"),
        Binding("escape", "leave", "Clear the filter, or quit"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.query_text = ""
        self.rows: list[Row] = []
        self._all: list[tuple[str, Row]] = []
        self._nearby: set[str] = set()

    def compose_body(self) -> ComposeResult:
        yield RowList(self._parts, nothing="no session matches", id="body")

    def on_mount(self) -> None:
        self.action_reload()

    def on_screen_resume(self) -> None:
        if self.browser.is_changed:
            self.browser.is_changed = False
            self.action_reload()

    def action_reload(self) -> None:
        """Read the sessions from the catalog."""
        store, selected = self.browser.store, self.selected
        found = store.sessions()
        nearby = store.sessions_of(self.browser.folder, found)
        self._nearby = {row.sid for row in nearby}
        rows = nearby + [row for row in found if row.sid not in self._nearby]
        self._all = [(f"{row.name}\n{row.agent}\n{row.project or ''}\n{row.sid}".lower(), row) for row in rows]
        self._filter()
        if selected is not None:
            self._select(selected.sid)

    @property
    def selected(self) -> Row | None:
        """The session under the cursor."""
        at = self.query_one(RowList).cursor
        return self.rows[at] if at < len(self.rows) else None

    def _select(self, sid: str) -> None:
        at = next((at for at, row in enumerate(self.rows) if row.sid == sid), 0)
        self.query_one(RowList).show(len(self.rows), at)

    def _filter(self) -> None:
        words = self.query_text.lower().split()
        self.rows = [row for text, row in self._all if all(word in text for word in words)]
        self.query_one(RowList).show(len(self.rows), 0)
        found = (
            f"{len(self.rows):,} of {count(len(self._all), 'session')}" if words else count(len(self._all), "session")
        )
        typed: list[Part] = (
            [("  filter: ", "dim"), (one_line(self.query_text) + "▏", "bold")] if self.query_text else []
        )
        self.set_title((self.NAME, "bold"), (f"  {found}", "dim"), *typed)
        self._describe()

    def _describe(self) -> None:
        row = self.selected
        if row is None:
            self.set_status()
            return
        facts = [row.sid, count(row.entries, "entry", "entries"), count(len(row.branches), "branch", "branches")]
        facts += [clock(row.updated_ms), one_line(row.project or "no folder")]
        self.set_status(("  ".join(facts), "dim"))

    def _parts(self, index: int, width: int) -> list[Part]:
        row = self.rows[index]
        here = row.sid in self._nearby
        parts: list[Part] = [
            ("● " if here else "  ", "here"),
            (f"{age(row.updated_ms, self.browser.now_ms()):>10}  ", "dim"),
        ]
        parts.append((pad(one_line(row.agent), 8) + "  ", "assistant"))
        if width >= _WIDE:
            branches = f"{len(row.branches)} br" if len(row.branches) > 1 else ""
            parts.append((f"{row.entries:>7,} {branches:>7}  ", "dim"))
        project = one_line(os.path.basename((row.project or "").rstrip("/")))
        columns = 20 if width >= _WIDE else 14
        room = width - sum(len(text) for text, _ in parts) - columns - 2
        title = ("↳ " if row.parent or row.continues else "") + one_line(row.name)
        return [*parts, (pad(title, room), ""), ("  " + pad(project, columns), "dim")]

    def on_row_list_moved(self) -> None:
        self._describe()

    def on_row_list_chosen(self) -> None:
        if self.selected is not None:
            try:
                session = self.browser.store.session(self.selected.sid)
            except GitSessionError as error:  # for example, another process has removed the session
                self.fail(error)
            else:
                self.app.push_screen(TreeScreen(session))

    def on_key(self, event: Key) -> None:
        if event.character is not None and event.is_printable and (self.query_text or event.character != "?"):
            event.stop()
            event.prevent_default()
            self._type(event.character)

    def on_paste(self, event: Paste) -> None:
        self._type(one_line(event.text))

    def _type(self, text: str) -> None:
        self.query_text = (self.query_text + text)[:_QUERY_CHARS_MAX]
        self._filter()

    def action_erase(self) -> None:
        self.query_text = self.query_text[:-1]
        self._filter()

    def action_leave(self) -> None:
        if not self.query_text:
            self.app.exit()
            return
        self.query_text = ""
        selected = self.selected
        self._filter()
        if selected is not None:
            self._select(selected.sid)

    def action_copy(self) -> None:
        if self.selected is not None:
            self.browser.copy_to_clipboard(self.selected.sid)
            self.tell(f"copied: {self.selected.sid}")

    def action_undo(self) -> None:
        if self.selected is not None:
            undo(self, self.selected.sid, self.action_reload)
