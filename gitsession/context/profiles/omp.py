"""Profile of omp 18: pi's rules, and the removal of content that a provider would reject (rules 13 and 17).

Two features are not reproduced: notes and roll-overs of the experimental context window, and images of older history
(snapcompact).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from gitsession.context.estimates import by_bytes, images
from gitsession.context.history import ContextHistory, names_of
from gitsession.context.profiles import CompactionSettings, Profile, Selection
from gitsession.context.profiles.visible_items import (
    VisibleRange,
    changed,
    changes,
    is_message,
    reach,
    show,
    show_compaction,
    state,
)
from gitsession.context.provider_compactions import openai_history
from gitsession.context.rewriting import with_blocks
from gitsession.context.value import Item, Shown
from gitsession.git.types import Oid
from gitsession.model.blocks import Block, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Compaction, CustomMessage, Message
from gitsession.sessions.node import Node

UNSEEN = ("prewalk-plan", "vibe-mode-context")
"""Custom messages that omp displays but does not send."""

INTERRUPTED = "interrupted-thinking"
"""Custom message that continues the aborted answer before it. The aborted answer is kept."""


class OmpProfile(Profile):
    NAME = "omp"
    SETTINGS = CompactionSettings(reserve_share=0.15)
    EXTENSION_ROLE = "developer"

    def select(self, line: ContextHistory) -> Selection:
        seen = reach(line)
        kept = _kept(line, seen)
        how = changes(line, [*kept, *seen.after], edits=False)
        items: list[Item] = []
        changed_since: set[Oid] = set()
        if seen.compaction is not None:
            items += show_compaction(line, seen.compaction, system=False)
        for at, node in enumerate([*kept, *seen.after], 1):
            shown = [item for item in show(line, node) if _is_seen(item.entry)]
            items += changed(shown, node, how)
            if node is how.newest or at == len(kept):
                changed_since = {item.oid for item in items}
        items = _without_failed(_without_dangling(items))
        history_state = line.anchors
        current = sum(item.oid in changed_since for item in items)
        return Selection(
            tuple(items),
            state(line, model=history_state.models.get("default") or history_state.assistant),
            current=current,
        )

    def estimate(self, entry: Shown) -> int:
        return 0 if is_message(entry, "system") else by_bytes(entry)

    def llm_role(self, entry: Shown) -> str | None:
        """Return ``developer`` for extensions and mentioned files; ``user`` for extension messages with images."""
        if isinstance(entry, Message) and entry.extra.get("role") in ("fileMention", "hookMessage"):
            return "developer"
        if isinstance(entry, CustomMessage) and images(entry.content):
            return "user"
        return super().llm_role(entry)


def _kept(line: ContextHistory, seen: VisibleRange) -> list[Node]:
    """Return the nodes that a compaction kept, except those that OpenAI's replacement for the history contains."""
    if seen.compaction is None:
        return []
    entry = line.entry(seen.compaction)
    if not isinstance(entry, Compaction) or openai_history(entry) is None:
        return seen.kept
    through = entry.extra.get("providerReplayThroughEntryId")
    at = next((at for at, node in enumerate(seen.kept) if through in names_of(node)), None)
    return [] if at is None else seen.kept[at + 1 :]


def _is_seen(entry: Shown) -> bool:
    if isinstance(entry, CustomMessage):
        return entry.custom_type not in UNSEEN
    if not isinstance(entry, Message) or entry.role != "assistant":
        return True
    empty = entry.stop == "error" and not any(_says_something(block) for block in entry.content)
    return not entry.extra.get("retryRecovery") and not empty


def _says_something(block: Block) -> bool:
    match block:
        case Text():
            return bool(block.text.strip())
        case Thinking():
            return bool(block.text.strip() or (block.signature or "").strip())
        case OtherBlock():
            return not (isinstance(block.value, dict) and block.value.get("type") == "fallback")
    return True


def _without_dangling(items: Sequence[Item]) -> list[Item]:
    """Remove calls that have no result, because a provider would treat them as failed.

    The signatures in the same answer are removed, too, because the model signed the complete answer. An answer of which
    nothing is left is removed.
    """
    answered = {item.entry.tool_call_id for item in items if is_message(item.entry, "tool")}
    found: list[Item] = []
    for item in items:
        calls = {block.id for block in item.content if isinstance(block, ToolCall)}
        if not is_message(item.entry, "assistant") or calls <= answered:
            found.append(item)
            continue
        left = with_blocks(item, [_unsigned(block, answered) for block in item.content])
        if left.content:
            found.append(left)
    return found


def _unsigned(block: Block, answered: set[str | None]) -> Block | None:
    if isinstance(block, ToolCall):
        return block if block.id in answered else None
    if isinstance(block, Thinking):
        return None if block.redacted and not block.text else dataclasses.replace(block, signature=None)
    return block


def _without_failed(items: Sequence[Item]) -> list[Item]:
    """Remove failed answers, and the results of their calls."""
    kept: list[int] = []  # indexes of kept items, oldest last; some may be in ``removed`` by now
    removed: set[int] = set()
    results: dict[str | None, list[int]] = {}
    for at in range(len(items) - 1, -1, -1):
        entry = items[at].entry
        while kept and kept[-1] in removed:
            kept.pop()
        after = items[kept[-1]].entry if kept else None
        is_interrupted = isinstance(after, CustomMessage) and after.custom_type == INTERRUPTED
        if isinstance(entry, Message) and entry.failed and not is_interrupted:
            called = {block.id for block in entry.content if isinstance(block, ToolCall)}
            removed.update(itertools.chain.from_iterable(results.pop(id_, ()) for id_ in called))
            continue
        kept.append(at)
        if is_message(entry, "tool"):
            results.setdefault(entry.tool_call_id, []).append(at)
    return [items[at] for at in reversed(kept) if at not in removed]
