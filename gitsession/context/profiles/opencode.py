"""Profile of opencode 1.18: the marks of a prune (P2), compactions (K1, K2, K4, K5), and the blocks that are sent.

The rules were verified with the released program, which resumed its own sessions and sessions that gitsession created.
Reverted messages (V3) are after the leaf, so they are not in the context. The system prompt, and the text that the
program adds to a prompt that arrives during a turn, are not reproduced.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from gitsession.context.estimates import images, texts, units
from gitsession.context.history import ContextHistory, names_of
from gitsession.context.profiles import CompactionSettings, Profile, Selection
from gitsession.context.profiles.visible_items import Changes, changed, changes, part_of, show, show_compaction, state
from gitsession.context.value import Item, Shown
from gitsession.formats.opencode.agent import opencode
from gitsession.formats.opencode.json_text import quoted
from gitsession.model.blocks import Block, File, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, Custom, Message, Reset
from gitsession.model.results import result, result_in, unfold
from gitsession.sessions.node import Node

ASKED = "What did we do so far?"
"""Text of the request for a compaction."""

BY_USER = "The following tool was executed by the user"
CLEARED = "[Old tool result content cleared]"
INTERRUPTED = "[Tool execution was interrupted]"
NOT_SENT = ("text/plain", "application/x-directory")
"""Media types of user files that are not sent, because a text block next to such a file contains the same text."""


class OpencodeProfile(Profile):
    NAME = "opencode"
    SETTINGS = CompactionSettings(reserve=20_000)

    def select(self, line: ContextHistory) -> Selection:
        nodes, kept, compaction = _visible_nodes(line)
        how = changes(line, nodes, edits=True)
        answered = _answered(line, nodes)
        items: list[Item] = []
        fresh = current = 0
        for at, node in enumerate(nodes):
            items += _shown(line, node, how, answered)
            if compaction is not None and at == kept:
                fresh = current = len(items)
            if node is how.newest:
                current = len(items)
        return Selection(tuple(items), state(line, model=line.anchors.model), fresh, current)

    def estimate(self, entry: Shown) -> int:
        """Return an estimate in tokens: the number of characters divided by four and rounded; 1,200 for an image."""
        if isinstance(entry, Compaction | BranchSummary):
            return (units(entry.summary) + 2) // 4
        assistant = isinstance(entry, Message) and entry.role == "assistant"
        count = sum(units(text) for text in texts(entry.content, calls=assistant))
        return (count + 2) // 4 + 1_200 * images(entry.content)


def _visible_nodes(line: ContextHistory) -> tuple[list[Node], int, Node | None]:
    """Return the nodes in the order in which the model receives them: the compaction, kept entries, later entries (K4).

    The second value is the index of the last node that is not newer than the compaction, and the third value is the
    compaction. If there is no compaction, these values are 0 and ``None``.
    """
    found: list[Node] = []
    compaction: Node | None = None
    first: str | None = None
    for node in line.back():
        found.append(node)
        if node.kind == Reset.kind and isinstance(line.entry(node), Reset):
            found.pop()
            break
        if compaction is None and node.kind == Compaction.kind:
            entry = line.entry(node)
            if isinstance(entry, Compaction):
                compaction, first = node, entry.first_kept
                if first is None or (node.source is None and not line.may_hold(first, node)):
                    break
        elif first is not None and first in names_of(node):
            break
    found.reverse()
    if compaction is None:
        return found, 0, None
    at = found.index(compaction)
    begins_at_kept = at > 0 and first in names_of(found[0])
    if not begins_at_kept and compaction.source is None:
        return found[at:], 0, compaction
    # If opencode does not find the first kept entry, it includes the whole history and does not reorder the entries.
    ordered = [compaction, *found[:at], *found[at + 1 :]] if begins_at_kept else found
    return ordered, at, compaction


def _answered(line: ContextHistory, nodes: Sequence[Node]) -> set[str | None]:
    """Return the ids of calls whose results are separate entries, as in other agents."""
    results = (line.entry(node) for node in nodes if node.kind == Message.kind and node.role == "tool")
    return {entry.tool_call_id for entry in results if isinstance(entry, Message)}


def _shown(line: ContextHistory, node: Node, how: Changes, answered: Set[str | None]) -> list[Item]:
    if node.kind == Compaction.kind:
        entry = line.entry(node)
        return _compaction(line, node, entry) if isinstance(entry, Compaction) else []
    if node.kind == Custom.kind:
        entry = line.entry(node)
        is_request = node.source is not None and isinstance(entry, Custom) and entry.custom_type == "compaction"
        return [Item(node.oid, _asked(entry.at_ms))] if is_request else []
    if node.kind != Message.kind:
        return changed(show(line, node), node, how)
    message = line.entry(node)
    if not isinstance(message, Message) or _is_left_out(message):
        return []
    # An aborted answer is sent like any other answer.
    content = tuple(_sent(message, answered))
    parts = unfold(dataclasses.replace(message, content=content, stop=None if message.failed else message.stop))
    items = [Item(node.oid, part) for part in parts if part.content or part.role == "tool"]
    return [_cleared(item) if part_of(item) in how.prunes else item for item in changed(items, node, how)]


def _compaction(line: ContextHistory, node: Node, entry: Compaction) -> list[Item]:
    """Return the request for a compaction, and the summary, as messages (K1).

    For a gitsession compaction, the messages have gitsession's own text.
    """
    if node.source is None:
        return show_compaction(line, node, system=False)
    messages = entry.extra.get("messages")
    answer = messages[1] if isinstance(messages, list) and len(messages) == 2 else {}
    message = opencode.read(quoted(answer).encode())
    if not isinstance(message, Message):
        return []
    message = dataclasses.replace(message, content=tuple(_sent(message, frozenset())))
    return [Item(node.oid, _asked(entry.at_ms)), *(Item(node.oid, part) for part in unfold(message))]


def _asked(at_ms: int) -> Message:
    return Message(role="user", content=(Text(ASKED),), at_ms=at_ms)


def _is_left_out(entry: Message) -> bool:
    """Return whether a failed answer is left out. An aborted answer with content is not left out."""
    if entry.role != "assistant" or not entry.failed:
        return False
    has_content = any(not isinstance(block, Thinking) and _type_of(block) != "step-start" for block in entry.content)
    return entry.stop != "aborted" or not has_content


def _sent(entry: Message, elsewhere: Set[str | None]) -> Iterator[Block]:
    """Yield the blocks of ``entry`` that are sent.

    A call without a result gets an error as its result. ``elsewhere``: ids of calls whose results are separate entries.
    """
    answered = {found.tool_call_id for block in entry.content if (found := result_in(block)) is not None} | elsewhere
    keeps_blank = any(isinstance(block, Thinking) and block.signature for block in entry.content)
    for block in entry.content:
        if isinstance(block, Text):
            if block.text or entry.role == "assistant":
                yield Text(" ", block.signature) if not block.text and keeps_blank else block
        elif isinstance(block, File) and block.mime in NOT_SENT:
            continue
        elif isinstance(block, ToolCall) and block.id not in answered:
            yield block
            yield result(call=block.id, name=block.name, text=INTERRUPTED, is_error=True, at_ms=entry.at_ms)
        elif _type_of(block) == "subtask":
            yield Text(BY_USER)
        elif isinstance(block, OtherBlock):
            yield from _of_result(block)
        else:
            yield block


def _of_result(block: OtherBlock) -> Iterator[Block]:
    """Yield ``block`` if it is a result or the start of a step. The output of an interrupted call is not an error."""
    found = result_in(block)
    details = found.details if found is not None else None
    metadata = details.get("metadata") if isinstance(details, Mapping) else None
    output = metadata.get("output") if isinstance(metadata, Mapping) and metadata.get("interrupted") is True else None
    if isinstance(output, str):
        yield OtherBlock({**block.value, "is_error": False, "text": output})
    elif found is not None or _type_of(block) == "step-start":
        yield block


def _type_of(block: Any) -> object:
    return block.value.get("type") if isinstance(block, OtherBlock) and isinstance(block.value, Mapping) else None


def _cleared(item: Item) -> Item:
    """Return a result that was marked as old (P2), with opencode's placeholder as its text."""
    assert isinstance(item.entry, Message)
    return Item(item.oid, dataclasses.replace(item.entry, content=(Text(CLEARED),), details=None))
