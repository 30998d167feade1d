"""Profile of codex 0.169: rules C1 and C5 to C8.

Turns that were rolled back (R1) are on other branches, which ``formats.codex.split_file`` creates. The rules were
verified with the released program, on test sessions and on real sessions. Two behaviors are not reproduced: codex adds
text at each start (permissions, environment, skills), and it shortens tool results again for a model with a smaller
limit.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any

from gitsession.context.estimates import by_bytes, by_bytes_of, ends_of
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import CompactionSettings, Profile, Selection
from gitsession.context.profiles.visible_items import changed, changes, kept, show_compaction, show_sent, state
from gitsession.context.value import Item, Shown, State
from gitsession.formats.base.jsonl import LineFailure, Object, attached_lines, parse, record_line
from gitsession.formats.codex.agent import codex
from gitsession.formats.codex.read_entry import REPLACEMENT, tokens_in
from gitsession.formats.codex.split_file import starts_turn as is_users
from gitsession.formats.codex.write import SUMMARY_PREFIX
from gitsession.model.blocks import Text, ToolCall
from gitsession.model.entries import Compaction, CustomMessage, Entry, Message, ModelChange, Reset
from gitsession.sessions.indexed_entry import Spot

USER_TOKENS_MAX = 20_000
"""Token budget for the user's messages that are kept by a compaction without a replacement list (C5)."""

NO_SUMMARY = "(no summary available)"


class CodexProfile(Profile):
    NAME = "codex"
    SETTINGS = CompactionSettings(reserve=0, reserve_share=0.1)
    """A tenth of the context window must stay free (C1)."""

    def select(self, line: ContextHistory) -> Selection:
        """Select the replacement list of the newest compaction that has one, followed by all later lines (C8)."""
        nodes = _since_base(line)
        how = changes(line, nodes, edits=False)
        items: list[Item] = []
        fresh = current = 0
        for node in nodes:
            entry = line.entry(node) if node.kind == Compaction.kind else None
            if isinstance(entry, Compaction):
                items = list(_compacted(line, node, entry, items))
                fresh = current = len(items)
            else:
                items += changed(show_sent(line, node), node, how)
                if node is how.newest:
                    current = len(items)
        return Selection(tuple(items), _state(line), fresh, current)

    def estimate(self, entry: Shown) -> int:
        return by_bytes(entry)

    def usage(self, items: Sequence[Item], fresh: int) -> tuple[int, int] | None:
        """Return the newest ``token_count``, which codex stores with the item after the counted answer."""
        for at in range(len(items) - 1, fresh - 1, -1):
            for line in reversed(attached_lines(items[at].payload)) if items[at].agent == codex.AGENT else ():
                total = tokens_in(line)
                if total is not None:
                    return total, at
        return None

    def can_cut(self, entry: Entry) -> bool:
        """Return whether a cut before ``entry`` is valid: it must not separate the calls and results of an answer."""
        if isinstance(entry, Message) and any(isinstance(block, ToolCall) for block in entry.content):
            return False
        return super().can_cut(entry)

    def starts_turn(self, entry: Entry) -> bool:
        """Return whether a turn begins at ``entry``. A user message that codex injected does not begin a turn."""
        return not isinstance(entry, CustomMessage) and super().starts_turn(entry)


def _since_base(line: ContextHistory) -> list[Spot]:
    """Return the nodes from the base of the context to the leaf, oldest first.

    The base is the newest entry of these kinds: a reset, a compaction with a replacement list, or a gitsession
    compaction.
    """
    found: list[Spot] = []
    for node in line.showable_entries():
        if node.kind == Reset.kind and isinstance(line.entry(node), Reset):
            break
        found.append(node)
        if node.kind == Compaction.kind:
            entry = line.entry(node)
            if isinstance(entry, Compaction) and not _is_rebuilt(node, entry):
                break
    return found[::-1]


def _is_rebuilt(node: Spot, entry: Compaction) -> bool:
    """Return whether a compaction must be rebuilt from earlier items: codex wrote it without a replacement list."""
    return node.source is not None and node.source.agent == codex.AGENT and _list(entry) is None


def _list(entry: Compaction) -> list[Any] | None:
    replacement = entry.preserve.get(REPLACEMENT) if isinstance(entry.preserve, dict) else None
    return replacement if isinstance(replacement, list) else None


def _compacted(line: ContextHistory, node: Spot, entry: Compaction, before: Sequence[Item]) -> Iterator[Item]:
    """Yield the items that replace everything before a compaction."""
    replacement = _list(entry)
    if replacement is not None:
        for item in replacement:
            made = _item(node, item, entry.at_ms) if isinstance(item, dict) else None
            if made is not None:
                yield made
    elif _is_rebuilt(node, entry):
        yield from _rebuilt(node, entry, before)
    else:
        yield from show_compaction(line, node, system=False)
        for earlier in kept(line, node, entry):
            yield from show_sent(line, earlier)


def _item(node: Spot, item: Object, at_ms: int) -> Item | None:
    """Return a response item of a replacement list as an item of the context. It is read like a line of a file."""
    payload = json.dumps({"type": "response_item", "payload": item}).encode()
    entry = codex.read(payload)
    if not isinstance(entry, Message | CustomMessage):
        return None
    return Item(node.oid, dataclasses.replace(entry, at_ms=at_ms), codex.AGENT, payload)


def _rebuilt(node: Spot, entry: Compaction, before: Sequence[Item]) -> Iterator[Item]:
    """Yield the newest user messages that fit into the token budget, oldest first, followed by the summary (C5)."""
    found: list[Item] = []
    left = USER_TOKENS_MAX
    for item in reversed(before):
        texts = _user_texts(item)
        if not texts:
            continue
        size = sum(by_bytes_of(text) for text in texts)
        if size > left:
            if left:
                start, omitted, end = ends_of("\n".join(texts), left)
                found.append(_with_texts(item, [start, f"…{omitted} tokens truncated…", end], whole=False))
            break
        found.append(_with_texts(item, texts, whole=True))
        left -= size
    yield from found[::-1]
    yield Item(node.oid, Message.user(entry.summary or NO_SUMMARY, at_ms=entry.at_ms))


def _user_texts(item: Item) -> list[str]:
    """Return the texts of a user message; none if it is an earlier summary or an injected message."""
    if not isinstance(item.entry, Message) or item.entry.role != "user":
        return []
    texts = [block.text for block in item.entry.content if isinstance(block, Text)]
    record = _spoken_item(item) if item.agent == codex.AGENT else None
    is_summary = any(text.startswith(f"{SUMMARY_PREFIX}\n") for text in texts[:1])
    return [] if is_summary or (record is not None and not is_users(record)) else texts


def _with_texts(item: Item, texts: Sequence[str], *, whole: bool) -> Item:
    """Return ``item`` with ``texts`` as its content. ``whole``: whether the message is complete and keeps its id."""
    record = _spoken_item(item) if item.agent == codex.AGENT and whole else {"type": "message", "role": "user"}
    content = [{"type": "input_text", "text": text} for text in texts]
    payload = json.dumps({"type": "response_item", "payload": {**record, "content": content}}).encode()
    entry = codex.read(payload)
    assert isinstance(entry, Message)
    return Item(item.oid, dataclasses.replace(entry, at_ms=item.entry.at_ms), codex.AGENT, payload)


def _spoken_item(item: Item) -> Object:
    line = parse(record_line(item.payload))
    payload = None if isinstance(line, LineFailure) else line.get("payload")
    return payload if isinstance(payload, dict) else {}


def _state(line: ContextHistory) -> State:
    """Return the state at the end of the history. The thinking level is that of the newest turn."""
    found = state(line, model=line.anchors.model)
    if not line.anchors.models:
        return found
    newest = next((node for node in line.back() if node.kind == ModelChange.kind), None)
    entry = line.entry(newest) if newest is not None else None
    effort = entry.extra.get("effort") if isinstance(entry, ModelChange) else None
    return dataclasses.replace(found, thinking=effort) if isinstance(effort, str) and effort else found
