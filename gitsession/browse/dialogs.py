"""Dialogs: a question, a line of text, a choice, and a text to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from gitsession.browse.row_list import RowList
from gitsession.browse.text import Part

_CSS = """
%(name)s { align: center middle; }
%(name)s > Vertical { width: 90%%; max-width: 96; height: auto; max-height: 90%%; padding: 0 1; }
%(name)s > Vertical { border: round ansi_blue; }
%(name)s RowList { height: auto; max-height: 16; }
%(name)s Input { border: none; height: 1; padding: 0; background: ansi_default; }
%(name)s .hint { color: ansi_default; text-style: dim; height: 1; margin-top: 1; }
%(name)s .text { height: auto; }
"""


class Ask(ModalScreen[bool]):
    """A question that is answered with yes or no. The result is true for yes."""

    CSS = _CSS % {"name": "Ask"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)"),
        Binding("n,escape,q,enter", "answer(False)"),
    ]

    def __init__(self, question: str, details: Sequence[str] = ()) -> None:
        super().__init__()
        self._question = question
        self._details = details

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._question, markup=False, classes="text")
            for line in self._details:
                yield Static(line, markup=False, classes="text")
            yield Static("y yes   n no", markup=False, classes="hint")

    def action_answer(self, is_yes: bool) -> None:
        self.dismiss(is_yes)


class AskText(ModalScreen[str | None]):
    """A line of text to enter. The result is the text; ``None`` if the dialog was left with Escape."""

    CSS = _CSS % {"name": "AskText"}
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave")]

    def __init__(self, title: str, value: str = "", hint: str = "") -> None:
        super().__init__()
        self._title = title
        self._value = value
        self._hint = hint

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._title, markup=False, classes="text")
            yield Input(self._value, compact=True, select_on_focus=False)
            yield Static(self._hint or "enter accept   esc cancel", markup=False, classes="hint")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)

    def action_leave(self) -> None:
        self.dismiss(None)


class Choose(ModalScreen[int | None]):
    """A choice between lines. The result is the index of the line; ``None`` if the dialog was left with Escape."""

    CSS = _CSS % {"name": "Choose"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave"),
        *(Binding(str(number), f"pick({number - 1})") for number in range(1, 10)),
    ]

    def __init__(self, title: str, options: Sequence[str]) -> None:
        super().__init__()
        self._title = title
        self._options = options

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._title, markup=False, classes="text")
            yield RowList(self._parts)
            yield Static("enter choose   esc cancel", markup=False, classes="hint")

    def on_mount(self) -> None:
        self.query_one(RowList).show(len(self._options), 0)

    def _parts(self, index: int, _: int) -> list[Part]:
        return [(f" {index + 1}  ", "dim"), (self._options[index], "")]

    def on_row_list_chosen(self) -> None:
        self.dismiss(self.query_one(RowList).cursor)

    def action_pick(self, index: int) -> None:
        if index < len(self._options):
            self.dismiss(index)

    def action_leave(self) -> None:
        self.dismiss(None)


class TextDialog(ModalScreen[None]):
    """Lines to read, such as the outcome of a rewind or the keys of a screen."""

    CSS = (_CSS % {"name": "TextDialog"}) + "TextDialog RowList { max-height: 40; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark", "leave")]

    def __init__(self, title: str, lines: Sequence[Sequence[Part]]) -> None:
        super().__init__()
        self._title = title
        self._lines = lines

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._title, markup=False, classes="text")
            yield RowList(lambda index, _: self._lines[index])
            yield Static("esc close", markup=False, classes="hint")

    def on_mount(self) -> None:
        self.query_one(RowList).show(len(self._lines), 0)

    def on_row_list_chosen(self) -> None:
        self.dismiss(None)

    def action_leave(self) -> None:
        self.dismiss(None)
