"""How what the model sees looks: one line for each thing it is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gitsession.cli.output import paint, shorten, width
from gitsession.model.blocks import Image, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, Message

if TYPE_CHECKING:
    from gitsession.context.value import Item, Shown


def as_lines(items: Sequence[Item], estimate: Callable[[Shown], int], *, indent: str = "") -> list[str]:
    """``1a2b3c4d  assistant  1,204  I'll read auth.py -> read``. ``estimate``: the tokens of one."""
    rows = [(item.oid[:8], role(item.entry), f"{estimate(item.entry):,}", words(item.entry)) for item in items]
    roles, sizes = (max((len(row[column]) for row in rows), default=0) for column in (1, 2))
    room = width() - len(indent) - 8 - roles - sizes - 6
    return [
        indent + "  ".join([paint(oid, fg="yellow"), paint(who.ljust(roles)), size.rjust(sizes), shorten(said, room)])
        for oid, who, size, said in rows
    ]


def role(entry: Shown) -> str:
    return entry.role if isinstance(entry, Message) else entry.kind


def words(entry: Shown) -> str:
    """What an entry says, in a form for one line: calls by name, and why there is nothing where there is nothing."""
    if isinstance(entry, Compaction | BranchSummary):
        return entry.summary
    if isinstance(entry, Message) and entry.role == "shell":
        return f"$ {entry.command or ''}{' (not sent to the model)' * entry.is_excluded}"
    found = [entry.text]
    found += [f"-> {block.name}" for block in entry.content if isinstance(block, ToolCall)]
    pictures = sum(isinstance(block, Image) for block in entry.content)
    found += [f"[{pictures} pictures]" if pictures > 1 else "[picture]"] if pictures else []
    if isinstance(entry, Message) and (entry.error or entry.stop in ("error", "aborted")):
        found.append(f"({entry.stop or 'error'}{': ' + entry.error if entry.error else ''})")
    return " ".join(filter(None, found)) or "(empty)"
