"""Tests of policies: each with its published parameters and defaults (A3, A4)."""

from __future__ import annotations

import pytest

from gitsession.context import profiles
from gitsession.context.build import context
from gitsession.context.history import ContextHistory
from gitsession.context.policies import (
    IMAGE,
    Policy,
    PolicyInput,
    clear_thinking,
    clear_tool_uses,
    drop_images,
    model_facing,
    newly_cleared,
)
from gitsession.context.value import Item, Shown
from gitsession.model.blocks import Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import CLEARED, Compaction, CustomMessage, Message
from gitsession.sessions import session as sessions
from gitsession.store.memory import MemoryStore

PICTURE = Image(b"x", "image/png")
MODEL = "anthropic/claude-sonnet-4-5"


def items(*shown: Shown) -> list[Item]:
    return [Item(f"{at:040}", each) for at, each in enumerate(shown)]


def uses(count: int, name: str = "read", size: int = 400) -> list[Item]:
    """Return a prompt, and ``count`` calls of a tool with their results."""
    said: list[Shown] = [Message.user("go")]
    for at in range(count):
        call = ToolCall(f"c{at}", name, {"path": "x" * 40})
        said += [Message.assistant([call]), Message.tool(call, f"{at} " + "x" * size)]
    return items(*said)


def after(policy: Policy, before: list[Item], used: int = 200_000, model: str | None = MODEL) -> list[Item]:
    return list(policy(before, PolicyInput(profiles.profile("pi"), used, model)))


def results(found: list[Item]) -> list[str]:
    """Return the first word of each tool result, or "-" if it was cleared."""
    texts = [item.entry.text for item in found if isinstance(item.entry, Message) and item.entry.role == "tool"]
    return ["-" if text == CLEARED else text.split()[0] for text in texts]


# A3: clear_tool_uses


def test_a3_each_result_is_one_of_its_own_where_an_agent_counts_its_calls_from_one_again() -> None:
    said: list[Shown] = [Message.user("go")]
    for at, name in enumerate(["read", "web", "read", "read"]):
        call = ToolCall("call_1", name, {"path": f"{at}"})
        said += [Message.assistant([call]), Message.tool(ToolCall("call_1", ""), f"{at} found")]
    before = items(*said)

    def inputs(found: list[Item]) -> list[object]:
        return [dict(block.arguments) for item in found for block in item.content if isinstance(block, ToolCall)]

    found = after(clear_tool_uses(keep=1, exclude_tools=["web"], clear_tool_inputs=True), before)
    assert results(found) == ["-", "1", "-", "3"]
    assert inputs(found) == [{}, {"path": "1"}, {}, {"path": "3"}]


def test_a3_above_100_000_tokens_all_but_the_last_three_results_are_cleared() -> None:
    assert results(after(clear_tool_uses(), uses(5))) == ["-", "-", "2", "3", "4"]
    assert results(after(clear_tool_uses(), uses(5), used=100_000)) == ["0", "1", "2", "3", "4"]
    assert results(after(clear_tool_uses(), uses(2))) == ["0", "1"]


def test_a3_the_trigger_can_be_a_number_of_uses() -> None:
    policy = clear_tool_uses(trigger_tool_uses=4, keep=1)
    assert results(after(policy, uses(4), used=0)) == ["0", "1", "2", "3"]
    assert results(after(policy, uses(5), used=0)) == ["-", "-", "-", "-", "4"]
    assert results(after(clear_tool_uses(trigger_tokens=10, keep=0), uses(2), used=11)) == ["-", "-"]


def test_a3_tools_can_be_excluded() -> None:
    call = ToolCall("m", "memory")
    before = [*items(Message.assistant([call]), Message.tool(call, "kept")), *uses(4)]
    assert results(after(clear_tool_uses(exclude_tools=["memory"]), before)) == ["kept", "-", "1", "2", "3"]
    named_by_its_call = [item for item in before if item.entry != Message.tool(call, "kept")]
    named_by_its_call.insert(1, Item("x" * 40, Message(role="tool", tool_call_id="m", content=(Text("kept"),))))
    assert results(after(clear_tool_uses(exclude_tools=["memory"]), named_by_its_call))[0] == "kept"


def test_a3_all_or_nothing_where_too_little_would_be_won() -> None:
    assert results(after(clear_tool_uses(clear_at_least=1000), uses(5))) == ["0", "1", "2", "3", "4"]
    assert results(after(clear_tool_uses(clear_at_least=100), uses(5))) == ["-", "-", "2", "3", "4"]


@pytest.mark.parametrize(("inputs", "cleared"), [(False, 0), (True, 2), (["read"], 2), (["write"], 0)])
def test_a3_arguments_of_calls_can_be_cleared_too(inputs: bool | list[str], cleared: int) -> None:
    found = after(clear_tool_uses(clear_tool_inputs=inputs), uses(5))
    calls = [block for item in found for block in item.content if isinstance(block, ToolCall)]
    assert [call.arguments == {} for call in calls] == [True] * cleared + [False] * (5 - cleared)
    assert [call.id for call in calls] == [f"c{at}" for at in range(5)]


def test_a3_every_call_keeps_a_result() -> None:
    before = uses(6)
    found = after(clear_tool_uses(), before)
    assert [item.oid for item in found] == [item.oid for item in before]


# A4: clear_thinking


def thoughts() -> list[Item]:
    """Return three turns. In the second one, the model has two thoughts, one of them without an answer."""
    return items(
        Message.user("1"),
        Message.assistant([Thinking("a"), Text("x")]),
        Message.user("2"),
        Message.assistant([Thinking("b", "sig")]),
        Message.assistant([Thinking("c"), Text("y")]),
        Message.user("3"),
        Message.assistant([Thinking("d"), Text("z")]),
    )


def thought(found: list[Item]) -> str:
    return "".join(block.text for item in found for block in item.content if isinstance(block, Thinking))


@pytest.mark.parametrize(("keep", "left"), [("all", "abcd"), (3, "abcd"), (2, "bcd"), (1, "d"), (0, "")])
def test_a4_last_turns_keep_their_thoughts(keep: int, left: str) -> None:
    assert thought(after(clear_thinking(keep=keep), thoughts())) == left


DEFAULTS = {
    "anthropic/claude-opus-4-5": "abcd",
    "anthropic/claude-opus-4-5-20251101": "abcd",
    "anthropic/claude-opus-4-1": "d",
    "anthropic/claude-sonnet-4-6": "abcd",
    "anthropic/claude-sonnet-4-5": "d",
    "anthropic/claude-sonnet-4-20250514": "d",
    "anthropic/claude-haiku-4-5": "d",
    None: "d",
}


@pytest.mark.parametrize("model", DEFAULTS)
def test_a4_the_default_depends_on_the_model(model: str | None) -> None:
    assert thought(after(clear_thinking(), thoughts(), model=model)) == DEFAULTS[model]


def test_a4_message_with_only_thoughts_is_removed() -> None:
    assert len(after(clear_thinking(keep=1), thoughts())) == 6


# Policies of gitsession


def test_all_images_except_the_last_become_text() -> None:
    kept_elsewhere = OtherBlock({"type": "image", "data": "blob:x"})
    before = items(Message.user([Text("a"), PICTURE]), Message.user([kept_elsewhere]), Message.user([PICTURE]))
    assert [item.content for item in after(drop_images(keep=1), before)] == [
        (Text("a"), Text(IMAGE)),
        (Text(IMAGE),),
        (PICTURE,),
    ]
    assert after(drop_images(keep=3), before) == before


def test_model_facing_keeps_only_the_context_of_the_model() -> None:
    left_out = Message(role="shell", command="ls", extra={"excludeFromContext": True})
    before = items(Message.user("a"), left_out, CustomMessage(custom_type="x"), Compaction(summary="s"))
    assert [item.entry.kind for item in after(model_facing(), before)] == ["message", "custom_message", "compaction"]


def test_calls_are_removed_together_with_results() -> None:
    call = ToolCall("1", "read")
    said = [Message.user("a"), Message.assistant([Text("b"), call]), Message.tool(call, "c"), Message.assistant([call])]
    before = items(*said)
    found = after(model_facing("user", "assistant"), before)
    assert [item.content for item in found] == [(Text("a"),), (Text("b"),)]


# Combinations


def test_policies_apply_in_order_and_do_not_change_kept_entries() -> None:
    store = MemoryStore()
    session = sessions.StoredSession.new(store, "mine", None, lambda: 1)
    session.append(Message.user([Text("look"), PICTURE]))
    for at in range(5):
        call = ToolCall(f"c{at}", "read")
        session.append(Message.assistant([Thinking("hm"), call], usage={"totalTokens": 150_000}, stop="toolUse"))
        session.append(Message.tool(call, "x" * 4000))
    leaf = session.leaf
    assert leaf is not None
    whole = context(ContextHistory(store, leaf.oid))
    assert (whole.tokens.used, whole.tokens.source) == (151_000, "usage")
    less = context(ContextHistory(store, leaf.oid), policies=[clear_tool_uses(), drop_images(), clear_thinking(keep=0)])
    assert results(list(less.items))[:3] == ["-", "-", "x" * 4000]
    assert less.tokens.source == "estimate"  # the provider counted the tokens of another context
    assert less.tokens.used < 3100
    assert not any(isinstance(block, Thinking | Image) for item in less.items for block in item.content)
    assert newly_cleared(whole.items, less.items) == [whole.items[2].oid, whole.items[4].oid]
    assert context(ContextHistory(store, leaf.oid)).digest == whole.digest != less.digest
