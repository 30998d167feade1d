"""Todo lists of agents, as items with a status."""

from __future__ import annotations

from collections.abc import Sequence

from gitsession.model.entries import TodoItem

_BOXES = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}


def todo_line(item: TodoItem) -> str:
    """Return an item with a box for its status, such as ``[x] Mend the parser``."""
    return f"{_BOXES.get(item.status, '[?]')} {item.text}"


def todo_summary(items: Sequence[TodoItem]) -> str:
    """Return the progress of a list in one line, such as ``3/7 done: Mend the parser``.

    Cancelled items are not counted. The text is that of the first item in progress.
    """
    counted = [item for item in items if item.status != "cancelled"]
    done = sum(item.status == "completed" for item in counted)
    current = next((item.text for item in counted if item.status == "in_progress"), "")
    return f"{done}/{len(counted)} done" + (f": {current}" if current else "")
