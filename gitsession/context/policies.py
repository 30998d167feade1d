"""Policies: rules that omit parts of a context before it is sent. Stored data does not change.

``clear_tool_uses`` and ``clear_thinking`` apply Anthropic's context edits (A3 and A4) to requests to any provider, with
the published parameters and defaults. ``old_results`` is opencode's rule (P2). It is applied only on request (P1).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from gitsession.context.call_results import calls_in, match_results
from gitsession.context.estimates import is_image, texts, units
from gitsession.context.profiles import Profile, total
from gitsession.context.profiles.visible_items import is_message, part_of
from gitsession.context.rewriting import cleared, with_blocks
from gitsession.context.value import Item
from gitsession.dataclass import dataclass
from gitsession.git.types import Oid
from gitsession.model.blocks import Block, Text, Thinking, ToolCall
from gitsession.model.entries import CLEARED, Compaction, Message

IMAGE = "[image left out]"


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """The data about a context that a policy can use: its profile, its size in tokens, and the current model."""

    profile: Profile
    used: int
    model: str | None


Policy: TypeAlias = Callable[[Sequence[Item], PolicyInput], Sequence[Item]]


def clear_tool_uses(
    *,
    trigger_tokens: int | None = 100_000,
    trigger_tool_uses: int | None = None,
    keep: int = 3,
    clear_at_least: int | None = None,
    exclude_tools: Collection[str] = (),
    clear_tool_inputs: bool | Collection[str] = False,
) -> Policy:
    """Return a policy that clears old tool results, oldest first, when the context exceeds a trigger.

    Args:
        trigger_tokens: Number of tokens of the context above which results are cleared.
        trigger_tool_uses: Number of tool results above which results are cleared. If it is set, ``trigger_tokens`` is
            ignored.
        keep: Number of newest results that are kept.
        clear_at_least: Minimum number of tokens that must be saved. Otherwise nothing is cleared.
        exclude_tools: Names of tools whose results are kept.
        clear_tool_inputs: True to also clear the arguments of the calls, or names of tools whose arguments are cleared.

    Returns:
        The policy.
    """

    def policy(items: Sequence[Item], info: PolicyInput) -> Sequence[Item]:
        results = {at: item.entry for at, item in enumerate(items) if is_message(item.entry, "tool")}
        exceeds = trigger_tokens is not None and info.used > trigger_tokens
        if trigger_tool_uses is not None:
            exceeds = len(results) > trigger_tool_uses
        if not exceeds:
            return items
        matched = match_results(item.entry for item in items).items()
        calls = {result: calls_in(items[at].entry)[number] for result, (at, number) in matched}
        names = _tool_names(items)
        to_clear = {at for at in list(results)[: max(len(results) - keep, 0)] if names[at] not in exclude_tools}
        emptied_calls = {
            id(calls[at]): dataclasses.replace(calls[at], arguments={})
            for at in to_clear & calls.keys()
            if clear_tool_inputs is True or (clear_tool_inputs and calls[at].name in clear_tool_inputs)
        }
        result = [
            cleared(item) if at in to_clear else _without_inputs(item, emptied_calls) for at, item in enumerate(items)
        ]
        if clear_at_least is not None and total(info.profile, items) - total(info.profile, result) < clear_at_least:
            return items
        return result

    return policy


def clear_thinking(*, keep: int | Literal["all"] | None = None) -> Policy:
    """Return a policy that removes reasoning from older turns.

    Args:
        keep: Number of the last turns with reasoning whose reasoning is kept, or ``"all"``. ``None`` is the provider's
            default: all turns for Opus 4.5, Sonnet 4.6 and later, and the last turn for other models.

    Returns:
        The policy.
    """

    def policy(items: Sequence[Item], info: PolicyInput) -> Sequence[Item]:
        turns = _default_turns(info.model) if keep is None else keep
        if turns == "all":
            return items
        turn = 0
        turn_of: dict[int, int] = {}
        for at, item in enumerate(items):
            if info.profile.llm_role(item.entry) == "user":
                turn += 1
            elif any(isinstance(block, Thinking) for block in item.content):
                turn_of[at] = turn
        kept = set(sorted(set(turn_of.values()))[-turns:]) if turns else set()
        result = []
        for at, item in enumerate(items):
            if at in turn_of and turn_of[at] not in kept:
                item = with_blocks(item, [None if isinstance(block, Thinking) else block for block in item.content])
                if not item.content:
                    continue
            result.append(item)
        return result

    return policy


def drop_images(*, keep: int = 0) -> Policy:
    """Return a policy that replaces images with text.

    Args:
        keep: Number of the last images that are kept.

    Returns:
        The policy.
    """

    def policy(items: Sequence[Item], info: PolicyInput) -> Sequence[Item]:
        excess = sum(is_image(block) for item in items for block in item.content) - keep
        result = []
        for item in items:
            blocks: list[Block] = []
            for block in item.content:
                is_dropped = excess > 0 and is_image(block)
                excess -= is_dropped
                blocks.append(Text(IMAGE) if is_dropped else block)
            result.append(item if tuple(blocks) == item.content else with_blocks(item, blocks))
        return result

    return policy


def model_facing(*roles: str) -> Policy:
    """Return a policy that keeps only items that are sent to the model.

    If tool results are removed, their calls are removed, too, because providers reject a call without a result.

    Args:
        roles: Roles of the items to keep. Without roles, all items that are sent are kept.

    Returns:
        The policy.
    """

    def policy(items: Sequence[Item], info: PolicyInput) -> Sequence[Item]:
        result = []
        for item in items:
            role = info.profile.llm_role(item.entry)
            if role is None or (roles and role not in roles):
                continue
            if roles and "tool" not in roles and any(isinstance(block, ToolCall) for block in item.content):
                item = with_blocks(item, [None if isinstance(block, ToolCall) else block for block in item.content])
                if not item.content:
                    continue
            result.append(item)
        return result

    return policy


def old_results(
    *,
    protect: int = 40_000,
    least: int = 20_000,
    keep_turns: int = 2,
    exclude_tools: Collection[str] = ("skill",),
) -> Policy:
    """Return a policy that clears old tool results, by opencode's rules (P2).

    Results before the newest summary, and before the newest result that is already cleared, are not considered. Unlike
    in opencode, results that are not larger than the text in their place are kept.
    ``session.compaction.prune(old_results())`` stores the change.

    Args:
        protect: Of the results before the kept turns, the newest ones with this number of tokens in total are kept.
        least: Results are cleared only if more than this number of tokens is saved.
        keep_turns: Number of the last turns whose results are kept.
        exclude_tools: Names of tools whose results are kept.
    """

    def policy(items: Sequence[Item], info: PolicyInput) -> Sequence[Item]:
        tools = _tool_names(items)
        cleared_tokens = _tokens_of(units(CLEARED))
        turns = total = saved = 0
        to_clear: set[int] = set()
        for at in range(len(items) - 1, -1, -1):
            entry = items[at].entry
            if isinstance(entry, Compaction) or items[at].content == (Text(CLEARED),):
                break
            if not isinstance(entry, Message):
                continue
            turns += entry.role == "user"
            if turns < keep_turns or entry.role != "tool" or tools[at] in exclude_tools:
                continue
            size = result_tokens(items[at])
            total += size
            if total > protect and size > cleared_tokens:
                saved += size
                to_clear.add(at)
        if saved <= least:
            return items
        return [cleared(item) if at in to_clear else item for at, item in enumerate(items)]

    return policy


def result_tokens(item: Item) -> int:
    """Return opencode's estimate of the size of a tool result (P2): the number of characters divided by four."""
    return _tokens_of(sum(units(text) for text in texts(item.content, calls=False)))


def _tokens_of(count: int) -> int:
    return (count + 2) // 4


def newly_cleared(before: Iterable[Item], after: Iterable[Item]) -> list[Oid]:
    """Return the entries whose tool results a policy cleared. They are the targets of a ``prune`` entry."""
    content_before = {item.oid: item.content for item in before}
    return [
        item.oid for item in after if item.content == (Text(CLEARED),) and content_before.get(item.oid) != item.content
    ]


def cleared_results(before: Iterable[Item], after: Iterable[Item]) -> list[Item]:
    """Return the items of ``before`` whose tool results a policy cleared."""
    is_cleared = {_key(item) for item in after if item.content == (Text(CLEARED),)}
    return [item for item in before if item.content != (Text(CLEARED),) and _key(item) in is_cleared]


def _key(item: Item) -> tuple[Oid, object]:
    """Return a key for a result. The results in one entry have different parts (see ``model.results``)."""
    return item.oid, part_of(item)


def _tool_names(items: Sequence[Item]) -> dict[int, str | None]:
    """Return the name of the tool of each result, by its index. Some agents store the name only with the call."""
    matched = match_results(item.entry for item in items)
    calls = {result: calls_in(items[at].entry)[number].name for result, (at, number) in matched.items()}
    results = {at: item.entry for at, item in enumerate(items) if is_message(item.entry, "tool")}
    return {at: entry.tool_name or calls.get(at) for at, entry in results.items()}


def _default_turns(model: str | None) -> int | Literal["all"]:
    """Return the published default of ``clear_thinking`` for a model."""
    found = re.search(r"(opus|sonnet)-(\d{1,2})-(\d{1,2})(?!\d)", model or "")
    if found is None:
        return 1
    version = int(found[2]), int(found[3])
    return "all" if version >= ((4, 5) if found[1] == "opus" else (4, 6)) else 1


def _without_inputs(item: Item, emptied_calls: Mapping[int, ToolCall]) -> Item:
    """Return ``item`` with calls replaced by ``emptied_calls``, whose keys are the ``id()`` of the replaced calls."""
    if emptied_calls.keys().isdisjoint(map(id, item.content)):
        return item
    return with_blocks(item, [emptied_calls.get(id(block), block) for block in item.content])
