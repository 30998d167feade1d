"""Todo lists of agents, as items with a status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gitsession.model.entries import TodoItem
from gitsession.model.headline import clean

_BOXES = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}


def todo_line(item: TodoItem) -> str:
    """Return an item on one line, with a box for its status, such as ``[x] Mend the parser``."""
    text = clean(item.text).replace("\n", " ")  # a line feed would begin an item that is not in the list
    return f"{_BOXES.get(item.status, '[?]')} {text}"


def progress_of(statuses: Iterable[str]) -> tuple[int, ...]:
    """Return the numbers of done and of all items; empty if there are none. FROZEN under view 1.

    Cancelled items are not counted.
    """
    counted = [status for status in statuses if status != "cancelled"]
    return (counted.count("completed"), len(counted)) if counted else ()


def todo_summary(items: Sequence[TodoItem]) -> str:
    """Return the progress of a list in one line, such as ``3/7 done: Mend the parser``. FROZEN under view 1.

    The text is that of the first item in progress.
    """
    done, number = progress_of(item.status for item in items) or (0, 0)
    current = next((item.text for item in items if item.status == "in_progress"), "")
    return f"{done}/{number} done" + (f": {current}" if current else "")
