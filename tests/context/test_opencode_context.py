"""Tests of the context of opencode, rule by rule (semantics.md part B), and of its sessions in other profiles.

``test_real_opencode.py`` makes the same comparison with the real program.
"""

from __future__ import annotations

import json

import pytest
from builders import bring, session
from opencode_cases import CASES, END, ONE, TWO, marked
from opencode_files import Message, answer, compaction, export, info, tool, user

from gitsession.context import build
from gitsession.context.history import ContextHistory
from gitsession.context.providers import openai_chat
from gitsession.context.value import Context
from gitsession.model import entries
from gitsession.model.blocks import Text, ToolCall
from gitsession.model.entries import ContextEdit, Prune
from gitsession.sessions.entry_addresses import resolve
from gitsession.store.memory import MemoryStore


def context(messages: list[Message], *, profile: str = "opencode", at: str = "leaf", **about: object) -> Context:
    store = MemoryStore()
    sid = bring(store, export(messages, info(**about)), final=True).session
    leaf = session(store, sid).leaf
    assert leaf is not None
    node = leaf if at == "leaf" else resolve(store, sid, at)
    return build.context(ContextHistory(store, node.oid), profile)


def told(shown: Context) -> list[str]:
    """Return the author and text of each message. Calls are in brackets, and results follow an arrow."""
    found = []
    for entry in shown.messages:
        if isinstance(entry, entries.Message) and entry.role == "tool":
            found.append(f"-> {entry.text}")
            continue
        blocks = entry.content if isinstance(entry, entries.Message | entries.CustomMessage) else ()
        parts = [block.text for block in blocks if isinstance(block, Text)]
        parts += [f"[{block.id}]" for block in blocks if isinstance(block, ToolCall)]
        words = " ".join(parts) if blocks else getattr(entry, "summary", "")
        found.append(f"{entry.role if isinstance(entry, entries.Message) else shown.profile}: {words}")
    return found


FIRST = ["user: One", "assistant: First. [call_1]", "-> 11"]
SECOND = ["user: Two", "assistant: Second."]
LAST = ["user: Nine", "assistant: Ninth."]
ASKED = ["user: What did we do so far?"]


def test_p2_cleared_result_has_a_text_and_no_images() -> None:
    shown = context(CASES["a result that is not shown any more"])
    assert told(shown)[1:4] == ["assistant: [c1] [c2]", "-> [Old tool result content cleared]", "-> new"]
    assert len(shown.messages[2].content) == 1  # type: ignore[union-attr]


def test_p2_before_the_mark_was_set_the_result_is_shown() -> None:
    old = {**ONE[1], "parts": [ONE[1]["parts"][0], marked(ONE[1]["parts"][1], at=6)]}
    talk = [ONE[0], old, *TWO, *END]
    assert told(context(talk, at="msg_a2"))[2] == "-> 11"
    assert told(context(talk, at="msg_u9"))[2] == "-> [Old tool result content cleared]"


@pytest.mark.parametrize("profile", ["pi", "omp"])
def test_other_profiles_see_calls_results_and_marks_too(profile: str) -> None:
    old = {**ONE[1], "parts": [ONE[1]["parts"][0], marked(ONE[1]["parts"][1], at=6)]}
    assert told(context([*ONE, *TWO], profile=profile))[:3] == FIRST
    assert told(context([ONE[0], old, *TWO, *END], profile=profile))[2] == "-> [Old tool result cleared]"


def test_k1_a_compaction_is_a_request_and_its_answer() -> None:
    assert told(context(CASES["a compaction that kept nothing"])) == [*ASKED, "assistant: So far.", *LAST]


def test_k1_unanswered_compaction_request_is_text() -> None:
    assert told(context(CASES["a request to compact without an answer"])) == [*FIRST, *ASKED, *LAST]


def test_k2_kept_messages_start_at_the_one_named_by_the_request() -> None:
    shown = told(context(CASES["a compaction that kept half a turn"]))
    assert shown == [*ASKED, "assistant: So far.", "assistant: Second.", *LAST]


def test_k2_missing_kept_message_keeps_everything_in_order() -> None:
    shown = told(context(CASES["a compaction that kept what is not there"]))
    assert shown == [*FIRST, *SECOND, *ASKED, "assistant: So far.", *LAST]


def test_k4_summary_comes_before_the_kept_messages() -> None:
    shown = told(context(CASES["a compaction that kept a turn"]))
    assert shown == [*ASKED, "assistant: So far.", *SECOND, *LAST]


def test_k4_of_two_compactions_the_newer_counts() -> None:
    assert told(context(CASES["two compactions"])) == [*ASKED, "assistant: Further.", *SECOND, *LAST]


def test_k4_kept_older_compaction_stays_in_place() -> None:
    shown = told(context(CASES["two compactions, the second of which kept the first"]))
    assert shown == [*ASKED, "assistant: Further.", *FIRST, *ASKED, "assistant: So far.", *SECOND, *LAST]


def test_k4_count_from_before_the_compaction_is_not_used() -> None:
    before = context([*ONE, *TWO])
    after = context([*ONE, *TWO, *compaction("msg_c", "msg_s", "So far.", at=10, tail="msg_u2")])
    assert (before.tokens.used, before.tokens.source) == (30, "usage")
    assert after.tokens.source != "usage"


def test_k5_a_request_that_was_too_long_is_said_again_behind_the_summary() -> None:
    shown = told(context(CASES["a compaction after which a request that was too long is said again"]))
    again = ["user: Two [Attached image/png: a.png]", "assistant: Second."]
    assert shown == [*ASKED, "assistant: So far.", *again]


def test_v3_undone_messages_are_not_in_the_context() -> None:
    assert told(context([*ONE, *TWO], revert={"messageID": "msg_u2"})) == FIRST


def test_unfinished_call_has_a_result_that_reports_it() -> None:
    shown = told(context(CASES["a call that was broken off"]))
    broken = "-> [Tool execution was interrupted]"
    assert shown[1:6] == ["assistant: [c1] [c2] [c3] [c4]", broken, broken, "-> half", "-> aborted"]


def test_call_with_a_separate_result_was_not_interrupted() -> None:
    store = MemoryStore()
    held = session(store, bring(store, export([user("msg_u1", "One", at=1)], info()), final=True).session)
    held.append(entries.Message.assistant([ToolCall("c1", "bash", {}), ToolCall("c2", "bash", {})]))
    held.append(entries.Message(role="tool", tool_call_id="c1", content=(Text("1"),)))
    assert held.leaf is not None
    shown = told(build.context(ContextHistory(store, held.leaf.oid), "opencode"))
    assert shown == ["user: One", "assistant: [c1] [c2]", "-> [Tool execution was interrupted]", "-> 1"]


def test_interrupted_answer_with_text_is_sent() -> None:
    shown = told(context(CASES["an answer that the user broke off"]))
    assert shown == ["user: One", "assistant: Half", "user: Two", *LAST]


def test_an_answer_that_failed_is_left_out() -> None:
    assert told(context(CASES["an answer that failed"])) == ["user: One", *SECOND]


def test_each_step_of_an_answer_is_a_separate_message() -> None:
    shown = told(context(CASES["several steps in one answer"]))
    assert shown == ["user: One", "assistant: A [c1]", "-> 1", "assistant: B [c2]", "-> 2", "assistant: C"]


def test_ignored_text_is_left_out_and_synthetic_text_is_sent() -> None:
    shown = told(context(CASES["words that nobody typed, and words for the user only"]))
    assert shown == ["user: One made up", "assistant:  First.", "assistant: Second."]


def test_files_whose_text_is_beside_them_are_not_sent() -> None:
    [said, _] = context(CASES["files of the user"]).messages
    assert isinstance(said, entries.Message)
    assert [block.type for block in said.content] == ["text", "text", "image"]


@pytest.mark.parametrize("messages", CASES.values(), ids=CASES)
@pytest.mark.parametrize("profile", ["opencode", "pi", "omp", "librecode"])
def test_every_case_can_be_sent_in_every_profile(messages: list[Message], profile: str) -> None:
    request = openai_chat.request(context(messages, profile=profile))
    assert json.dumps(request)


def test_own_prune_clears_the_results_of_an_entry() -> None:
    store = MemoryStore()
    sid = bring(store, export([user("msg_u1", "One", at=1), answer("msg_a1", at=2, parts=[tool("c1", "1")])])).session
    handle = session(store, sid)
    leaf = handle.append(Prune(targets=("msg_a1",)))
    shown = build.context(ContextHistory(store, leaf.oid), "opencode")
    assert told(shown)[-1] == "-> [Old tool result cleared]"


def test_own_edit_replaces_the_text_of_a_prompt() -> None:
    store = MemoryStore()
    sid = bring(store, export(TWO)).session
    leaf = session(store, sid).append(ContextEdit(target="msg_u2", replacement={"content": "Other words"}))
    assert told(build.context(ContextHistory(store, leaf.oid), "opencode"))[0] == "user: Other words"


def test_thoughts_are_a_field_for_their_model_and_text_for_others() -> None:
    case = CASES["thoughts before, between and without words"]
    other = {"providerID": "other", "modelID": "m"}
    changed = [{**said, "info": {**said["info"], **other}} if "modelID" in said["info"] else said for said in case[:-1]]

    def sent(messages: list[Message]) -> list[tuple[str | None, str | None]]:
        made = openai_chat.request(context(messages))["messages"]
        return [(each["content"], each.get("reasoning_content")) for each in made if each["role"] == "assistant"]

    assert sent(case) == [
        ("First.More.End.", "T1.T2.T3."), ("", "Only."), (None, "T4."), ("Third.", "  "), ("Ninth.", None),
    ]  # fmt: skip
    assert sent([*changed, case[-1]]) == [
        ("T1.T2.First.More.T3.End.", None), ("Only.", None), ("T4.", None), ("Third.", None), ("Ninth.", None),
    ]  # fmt: skip
