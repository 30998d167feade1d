"""What opencode's model sees, rule by rule (semantics.md part B), and what other profiles make of its sessions.

The real program is asked the same in ``test_real_opencode.py``.
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
from gitsession.sessions.addresses import resolve
from gitsession.store.memory import MemoryStore


def context(messages: list[Message], *, profile: str = "opencode", at: str = "leaf", **about: object) -> Context:
    store = MemoryStore()
    sid = bring(store, export(messages, info(**about)), final=True).session
    leaf = session(store, sid).leaf
    assert leaf is not None
    node = leaf if at == "leaf" else resolve(store, sid, at)
    return build.context(ContextHistory(store, node.oid), profile)


def told(shown: Context) -> list[str]:
    """Who says what: calls in brackets, results behind an arrow."""
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


def test_p2_a_result_that_was_marked_is_words_that_say_so_and_has_no_pictures() -> None:
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


def test_k1_a_request_that_nobody_answered_is_words() -> None:
    assert told(context(CASES["a request to compact without an answer"])) == [*FIRST, *ASKED, *LAST]


def test_k2_what_is_kept_begins_at_the_message_that_the_request_names() -> None:
    shown = told(context(CASES["a compaction that kept half a turn"]))
    assert shown == [*ASKED, "assistant: So far.", "assistant: Second.", *LAST]


def test_k2_where_what_was_kept_is_not_there_all_is_shown_in_its_order() -> None:
    shown = told(context(CASES["a compaction that kept what is not there"]))
    assert shown == [*FIRST, *SECOND, *ASKED, "assistant: So far.", *LAST]


def test_k4_the_summary_stands_before_what_was_kept() -> None:
    shown = told(context(CASES["a compaction that kept a turn"]))
    assert shown == [*ASKED, "assistant: So far.", *SECOND, *LAST]


def test_k4_of_two_compactions_the_newer_counts() -> None:
    assert told(context(CASES["two compactions"])) == [*ASKED, "assistant: Further.", *SECOND, *LAST]


def test_k4_an_older_compaction_that_was_kept_stands_where_it_stood() -> None:
    shown = told(context(CASES["two compactions, the second of which kept the first"]))
    assert shown == [*ASKED, "assistant: Further.", *FIRST, *ASKED, "assistant: So far.", *SECOND, *LAST]


def test_k4_what_a_provider_counted_before_the_compaction_does_not_count() -> None:
    before = context([*ONE, *TWO])
    after = context([*ONE, *TWO, *compaction("msg_c", "msg_s", "So far.", at=10, tail="msg_u2")])
    assert (before.tokens.used, before.tokens.source) == (30, "usage")
    assert after.tokens.source != "usage"


def test_k5_a_request_that_was_too_long_is_said_again_behind_the_summary() -> None:
    shown = told(context(CASES["a compaction after which a request that was too long is said again"]))
    again = ["user: Two [Attached image/png: a.png]", "assistant: Second."]
    assert shown == [*ASKED, "assistant: So far.", *again]


def test_v3_what_was_undone_is_not_shown() -> None:
    assert told(context([*ONE, *TWO], revert={"messageID": "msg_u2"})) == FIRST


def test_a_call_that_never_ended_has_a_result_that_says_so() -> None:
    shown = told(context(CASES["a call that was broken off"]))
    broken = "-> [Tool execution was interrupted]"
    assert shown[1:6] == ["assistant: [c1] [c2] [c3] [c4]", broken, broken, "-> half", "-> aborted"]


def test_a_call_whose_result_is_an_entry_of_its_own_was_not_broken_off() -> None:
    store = MemoryStore()
    held = session(store, bring(store, export([user("msg_u1", "One", at=1)], info()), final=True).session)
    held.append(entries.Message.assistant([ToolCall("c1", "bash", {}), ToolCall("c2", "bash", {})]))
    held.append(entries.Message(role="tool", tool_call_id="c1", content=(Text("1"),)))
    assert held.leaf is not None
    shown = told(build.context(ContextHistory(store, held.leaf.oid), "opencode"))
    assert shown == ["user: One", "assistant: [c1] [c2]", "-> [Tool execution was interrupted]", "-> 1"]


def test_an_answer_that_the_user_broke_off_goes_along_if_it_said_something() -> None:
    shown = told(context(CASES["an answer that the user broke off"]))
    assert shown == ["user: One", "assistant: Half", "user: Two", *LAST]


def test_an_answer_that_failed_is_left_out() -> None:
    assert told(context(CASES["an answer that failed"])) == ["user: One", *SECOND]


def test_each_step_of_an_answer_is_a_message() -> None:
    shown = told(context(CASES["several steps in one answer"]))
    assert shown == ["user: One", "assistant: A [c1]", "-> 1", "assistant: B [c2]", "-> 2", "assistant: C"]


def test_words_that_are_ignored_do_not_go_along_and_those_that_nobody_typed_do() -> None:
    shown = told(context(CASES["words that nobody typed, and words for the user only"]))
    assert shown == ["user: One made up", "assistant:  First.", "assistant: Second."]


def test_files_whose_text_stands_beside_them_do_not_go_along() -> None:
    [said, _] = context(CASES["files of the user"]).messages
    assert isinstance(said, entries.Message)
    assert [block.type for block in said.content] == ["text", "text", "image"]


@pytest.mark.parametrize("messages", CASES.values(), ids=CASES)
@pytest.mark.parametrize("profile", ["opencode", "pi", "omp", "librecode"])
def test_every_case_can_be_sent_whatever_the_profile(messages: list[Message], profile: str) -> None:
    request = openai_chat.request(context(messages, profile=profile))
    assert json.dumps(request)


def test_a_prune_of_ours_clears_the_results_of_an_entry() -> None:
    store = MemoryStore()
    sid = bring(store, export([user("msg_u1", "One", at=1), answer("msg_a1", at=2, parts=[tool("c1", "1")])])).session
    handle = session(store, sid)
    leaf = handle.append(Prune(targets=("msg_a1",)))
    shown = build.context(ContextHistory(store, leaf.oid), "opencode")
    assert told(shown)[-1] == "-> [Old tool result cleared]"


def test_an_edit_of_ours_rewords_what_the_user_said() -> None:
    store = MemoryStore()
    sid = bring(store, export(TWO)).session
    leaf = session(store, sid).append(ContextEdit(target="msg_u2", replacement={"content": "Other words"}))
    assert told(build.context(ContextHistory(store, leaf.oid), "opencode"))[0] == "user: Other words"


def test_thoughts_go_back_to_their_model_in_a_field_and_to_another_as_words() -> None:
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
