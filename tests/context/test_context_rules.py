"""Tests of the contexts of pi 1.5, pi 0.73 and omp, rule by rule (numbers of semantics.md), on short sessions."""

from __future__ import annotations

import pytest
from builders import entry, said, talk
from showing import ALL, called, compacted, edit, result, seen, words

from gitsession.context import build, profiles
from gitsession.context.history import ContextHistory
from gitsession.context.providers import PROVIDERS
from gitsession.context.providers import pi as as_pi
from gitsession.context.value import Context, Shown
from gitsession.model.blocks import Thinking, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Message
from gitsession.store.memory import MemoryStore

# Rules 6 and 7: the state


def test_rule_6_a_session_of_nothing_is_empty_and_does_not_think() -> None:
    context = build.context(ContextHistory(MemoryStore(), None))
    assert context.messages == ()
    assert (context.thinking, context.model) == ("off", None)
    assert as_pi.request(context) == {"messages": [], "model": None, "thinkingLevel": "off"}


@pytest.mark.parametrize("profile", ALL)
def test_rule_7_state_includes_hidden_entries_of_the_branch(profile: str) -> None:
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


# Rules 8 to 10: the entries in the context


@pytest.mark.parametrize("profile", ALL)
def test_rule_8_without_a_compaction_every_message_is_in_the_context(profile: str) -> None:
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
def test_rule_9_newest_compaction_kept_entries_and_later_ones_in_this_order(profile: str) -> None:
    lines = [*talk("a", "b", "c"), compacted("d", "c", "b"), said("e", "d")]
    assert words(seen(*lines, profile=profile)) == ["sum", "words of b", "words of c", "words of e"]


@pytest.mark.parametrize("kept", ["nowhere", "side", "d", "e", None])
def test_rule_9_first_kept_entry_outside_the_history_keeps_nothing(kept: str | None) -> None:
    lines = [*talk("a", "b", "c"), said("side", "a"), compacted("d", "c", kept), said("e", "d")]
    assert words(seen(*lines)) == ["sum", "words of e"]


@pytest.mark.parametrize("profile", ALL)
def test_rule_10_an_older_compaction_in_the_kept_range_shows_nothing(profile: str) -> None:
    lines = [*talk("a", "b"), compacted("c", "b", "a", "old"), said("d", "c"), compacted("e", "d", "b", "new")]
    assert words(seen(*lines, profile=profile)) == ["new", "words of b", "words of d"]


def test_rule_10_a_compaction_may_be_the_leaf() -> None:
    assert words(seen(*talk("a"), compacted("c", "a", "a"))) == ["sum", "words of a"]


# Rule 11: system messages and edits, since 0.87


def test_rule_11_system_message_of_a_compaction_comes_before_its_summary() -> None:
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


def test_rule_11_edit_on_another_branch_or_outside_of_the_context_is_ignored() -> None:
    assert words(seen(*talk("a", "b"), edit("c", "a", "a", None), said("d", "b"))) == [f"words of {n}" for n in "abd"]
    hidden = [*talk("a", "b"), edit("c", "b", "d", None), said("d", "c"), compacted("e", "d", "d")]
    assert words(seen(*hidden)) == ["sum", "words of d"]


# Rule 12: roles


KINDS: dict[str, Shown] = {
    "user": Message.user("hi"),
    "assistant": Message.assistant("hi"),
    "tool": Message(role="tool"),
    "system": Message(role="system"),
    "shell": Message(role="shell", command="ls", output=""),
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
def test_rule_12_each_kind_has_a_role_for_the_model(profile: str) -> None:
    rules = profiles.profile(profile)
    assert [rules.llm_role(shown) for shown in KINDS.values()] == AS_WHOSE[profile]


@pytest.mark.parametrize("profile", profiles.PROFILES)
def test_rule_12_only_the_agents_that_list_an_excluded_command_show_it_and_none_sends_it(profile: str) -> None:
    hidden = {"role": "bashExecution", "command": "cat .env", "output": "TOKEN", "excludeFromContext": True}
    lines = said("a", None, "hi"), entry("message", "b", "a", message=hidden), said("c", "b", "on")
    context = seen(*lines, compacted("d", "c", "a"), profile=profile)
    listed = [item.entry for item in context.items if isinstance(item.entry, Message) and item.entry.role == "shell"]
    assert [each.is_excluded for each in listed] == [True] * (profile in ALL)
    for form in set(PROVIDERS) - {"pi"}:
        assert "TOKEN" not in str(context.request(form))


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


def test_rule_13_messages_replaced_by_openai_are_left_out() -> None:
    remote = {"openaiRemoteCompaction": {"provider": "openai", "replacementHistory": [{"type": "message"}]}}
    lines = [*talk("a", "b"), compacted("c", "b", "a", preserveData=remote), said("d", "c")]
    assert words(omp(*lines)) == ["sum", "words of d"]
    through = [*talk("a", "b"), compacted("c", "b", "a", preserveData=remote, providerReplayThroughEntryId="a")]
    assert words(omp(*through)) == ["sum", "words of b"]
