"""Profile of Claude Code 2.1: the context of a resumed session. Rules L1 to L9 in docs/reference/context.md.

The rules were verified with the released program, which resumed handwritten and real sessions. Text that the program
adds at each start is not included: the date, and reminders of files, skills and agents. Attachments have a short form.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from gitsession.context.history import ContextHistory
from gitsession.context.profiles import CompactionSettings, Profile, Selection
from gitsession.context.profiles.visible_items import (
    VisibleRange,
    changed,
    changes,
    is_message,
    reach,
    show_compaction,
    show_sent,
    state,
)
from gitsession.context.value import Item, Shown
from gitsession.formats.claude.read_entry import keeps_before, preserved, result_in
from gitsession.model.blocks import OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Compaction, Message
from gitsession.model.usage import answer_id
from gitsession.sessions.indexed_entry import Spot

NO_CONTENT = "(no content)"
"""Text that replaces a result without a call. The text is kept only between two answers."""


class ClaudeProfile(Profile):
    NAME = "claude"
    SETTINGS = CompactionSettings(reserve=33_000)
    """20,000 tokens for the summary, and a margin of 13,000 tokens, as in the released program."""

    def select(self, line: ContextHistory) -> Selection:
        seen = reach(line)
        kept = _kept(line, seen)
        nodes = [*kept, *seen.after]
        how = changes(line, nodes, edits=True)
        items: list[Item] = []
        if seen.compaction is not None:
            nodes.insert(len(kept) if _keeps_before(line, seen.compaction) else 0, seen.compaction)
        changed_since = {seen.compaction.oid, *(node.oid for node in kept)} if seen.compaction is not None else set()
        for node in nodes:
            if node is seen.compaction:
                items += _summary(line, node)
                continue
            items_of_node = _summary(line, node) if node.kind == Compaction.kind else show_sent(line, node)
            shown = [part for item in items_of_node for part in _parts(Item(item.oid, item.entry))]
            items += changed(shown, node, how)
            if node is how.newest:
                changed_since |= {item.oid for item in items}
        items = _with_answers_whole([item for item in items if not _is_failure(item.entry)])
        items = _with_content(_answered(items))
        # Claude Code also ignores the counts of messages that a compaction kept.
        current = sum(item.oid in changed_since for item in items)
        return Selection(tuple(items), state(line, model=line.anchors.model), current, current)


def _kept(line: ContextHistory, seen: VisibleRange) -> list[Spot]:
    """Return the messages that a compaction lists as kept (L3). If one of them is missing, return none."""
    entry = line.entry(seen.compaction) if seen.compaction is not None else None
    preserve = entry.preserve if isinstance(entry, Compaction) else None
    listed = preserved(preserve)
    if listed is None:
        others: list[Spot] = [node for node in seen.kept if node.kind != Compaction.kind]
        return others
    kept: list[Spot] = [node for node in seen.kept if node.source is not None and node.source.id in listed]
    return kept if len({node.source.id for node in kept if node.source}) == len(listed) else []


def _keeps_before(line: ContextHistory, node: Spot) -> bool:
    """Return whether the entries that a compaction keeps are before its summary ("Summarize from here", L3)."""
    entry = line.entry(node)
    return isinstance(entry, Compaction) and keeps_before(entry.preserve, node.source.id if node.source else None)


def _summary(line: ContextHistory, node: Spot) -> list[Item]:
    """Return the summary of a compaction: Claude Code's as written (L2), or gitsession's in gitsession's format."""
    entry = line.entry(node)
    if node.source is None or not isinstance(entry, Compaction):
        return show_compaction(line, node, system=False)
    message = Message(role="user", content=(Text(entry.summary),), at_ms=entry.at_ms)
    return [Item(node.oid, message)] if entry.summary else []


def _parts(item: Item) -> list[Item]:
    """Divide a user message into one item for each tool result, and one item for the other blocks (L4)."""
    entry = item.entry
    if not isinstance(entry, Message) or entry.role != "user":
        return [item]
    results, rest = [], []
    for block in entry.content:
        read = result_in(block.value, at_ms=entry.at_ms) if isinstance(block, OtherBlock) else None
        if read is None:
            rest.append(block)
        else:
            results.append(read)
    if not results:
        return [item]
    remaining = [dataclasses.replace(entry, content=tuple(rest))] if rest else []
    return [Item(item.oid, part) for part in [*results, *remaining]]


def _is_failure(entry: Shown) -> bool:
    """Return whether an entry is the program's report of a failed request (L8)."""
    return is_message(entry, "assistant") and entry.extra.get("isApiErrorMessage") is True and not entry.model


def _with_answers_whole(items: Iterable[Item]) -> list[Item]:
    """Join the blocks of an answer into one message if only results are between them (L5)."""
    found: list[Item] = []
    at: dict[str, int] = {}
    for item in items:
        entry = item.entry
        answer = answer_id(entry.extra) if is_message(entry, "assistant") else ""
        if is_message(entry, "assistant") and answer:
            if answer in at:
                first = found[at[answer]].entry
                assert isinstance(first, Message)
                whole = dataclasses.replace(entry, content=first.content + entry.content, at_ms=first.at_ms)
                found[at[answer]] = Item(found[at[answer]].oid, whole)
                continue
            at = {answer: len(found)}
        elif not is_message(entry, "tool"):
            at = {}
        found.append(item)
    return found


def _answered(items: Sequence[Item]) -> list[Item]:
    """Remove the calls that have no result. Replace each result that is not the first of a call by text (L6)."""
    results = {item.entry.tool_call_id for item in items if is_message(item.entry, "tool")}
    called: set[str | None] = set()
    found: list[Item] = []
    for item in items:
        entry = item.entry
        if is_message(entry, "assistant"):
            blocks = [block for block in entry.content if not isinstance(block, ToolCall) or block.id in results]
            called |= {block.id for block in blocks if isinstance(block, ToolCall)}
            if len(blocks) != len(entry.content):
                item = Item(item.oid, dataclasses.replace(entry, content=tuple(blocks)))
        elif is_message(entry, "tool"):
            if entry.tool_call_id not in called:
                item = Item(item.oid, Message(role="user", content=(Text(NO_CONTENT),), at_ms=entry.at_ms))
            called.discard(entry.tool_call_id)
        found.append(item)
    return found


def _with_content(items: Sequence[Item]) -> list[Item]:
    """Remove answers without text or calls (L7), and messages ``NO_CONTENT`` that are not between two answers."""
    left = [item for item in items if not is_message(item.entry, "assistant") or _has_content(item)]
    return [item for at, item in enumerate(left) if not _is_stand_in(item) or _is_between_answers(left, at)]


def _has_content(item: Item) -> bool:
    return any(
        not (isinstance(block, Thinking) or (isinstance(block, Text) and not block.text.strip()))
        for block in item.content
    )


def _is_stand_in(item: Item) -> bool:
    return is_message(item.entry, "user") and item.content == (Text(NO_CONTENT),)


def _is_between_answers(items: Sequence[Item], at: int) -> bool:
    return 0 < at < len(items) - 1 and all(
        is_message(items[neighbor].entry, "assistant") for neighbor in (at - 1, at + 1)
    )
