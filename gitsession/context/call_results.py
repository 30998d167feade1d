"""Matching of tool calls with their results."""

from __future__ import annotations

from collections.abc import Iterable

from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Entry, Message


def match_results(entries: Iterable[Entry]) -> dict[int, tuple[int, int]]:
    """Return the call to which each tool result belongs, by the index of the result in ``entries``.

    A call is identified by the index of its message and its number among the calls of this message. Agents can use the
    id of a call twice, so a result belongs to the newest call with its id that has no result yet. A result without a
    call is left out.
    """
    waiting: dict[str | None, list[tuple[int, int]]] = {}
    found: dict[int, tuple[int, int]] = {}
    for at, entry in enumerate(entries):
        if not isinstance(entry, Message):
            continue
        if entry.role == "assistant":
            for number, call in reversed(list(enumerate(calls_in(entry)))):
                waiting.setdefault(call.id, []).append((at, number))
        elif entry.role == "tool" and waiting.get(entry.tool_call_id):
            found[at] = waiting[entry.tool_call_id].pop()
    return found


def calls_in(entry: Entry) -> list[ToolCall]:
    """Return the tool calls in a message; none for other entries."""
    return [block for block in entry.content if isinstance(block, ToolCall)] if isinstance(entry, Message) else []
