"""Tests of the context of Claude Code, rule by rule (docs/reference/context.md).

test_real_claude.py checks the real program.
"""

from __future__ import annotations

import json

import pytest
from builders import SHARED, bring, dumps, joined, session
from claude_cases import CASES, Case, told
from claude_code import SESSION, assistant, boundary, compacted, line, summary, talk, user

from gitsession.compaction import trigger
from gitsession.context import build, profiles
from gitsession.context.history import ContextHistory
from gitsession.context.providers import anthropic, conversation
from gitsession.context.value import Context
from gitsession.model.entries import Compaction, ContextEdit, CustomMessage, Message, Prune
from gitsession.sessions.entry_addresses import resolve
from gitsession.store.memory import MemoryStore


def seen(*lines: bytes, profile: str = "claude", name: str = SESSION) -> Context:
    store = MemoryStore()
    sid = bring(store, joined(*lines), name=name).session
    return build.context(ContextHistory(store, resolve(store, sid, "leaf").oid), profile)


def sees_what_the_program_sends(case: Case) -> bool:
    return told(anthropic.request(seen(*case.lines))["messages"]) == case.told


def of_rule(name: str) -> pytest.MarkDecorator:
    found = {id: case for id, case in CASES.items() if id.startswith(name)}
    return pytest.mark.parametrize("case", found.values(), ids=found)


@of_rule("L1")
def test_l1_context_is_that_of_the_active_branch(case: Case) -> None:
    assert sees_what_the_program_sends(case)


@of_rule("L2")
def test_l2_compaction_replaces_hidden_messages_with_its_summary(case: Case) -> None:
    assert sees_what_the_program_sends(case)


@of_rule("L3")
def test_l3_messages_listed_by_a_compaction_follow_it(case: Case) -> None:
    assert sees_what_the_program_sends(case)


@of_rule("L4")
def test_l4_results_and_text_in_one_line_are_separate_messages(case: Case) -> None:
    assert sees_what_the_program_sends(case)


@of_rule("L5")
def test_l5_blocks_of_one_answer_are_seen_as_one(case: Case) -> None:
    assert sees_what_the_program_sends(case)


@of_rule("L6")
def test_l6_calls_and_results_are_pairs(case: Case) -> None:
    assert sees_what_the_program_sends(case)


@of_rule("L7")
def test_l7_answer_without_content_is_left_out(case: Case) -> None:
    assert sees_what_the_program_sends(case)


@of_rule("L8")
def test_l8_a_request_that_failed_is_no_answer(case: Case) -> None:
    assert sees_what_the_program_sends(case)


@of_rule("L9")
def test_l9_user_messages_of_the_program_have_the_role_user(case: Case) -> None:
    assert sees_what_the_program_sends(case)


@of_rule("replaced")
def test_results_replaced_by_the_program_stay_replaced(case: Case) -> None:
    assert sees_what_the_program_sends(case)


def test_blocks_of_one_answer_are_one_message() -> None:
    context = seen(*CASES["L5 calls made together, with all their results"].lines)
    assert [type(entry) for entry in context.messages] == [Message] * 6
    [answer] = [entry for entry in context.messages if isinstance(entry, Message) and len(entry.content) == 4]
    assert answer.role == "assistant"


def test_other_profiles_have_every_result() -> None:
    case = CASES["L5 calls made together, with all their results"]
    found = told(anthropic.request(seen(*case.lines, profile="pi"))["messages"])
    assert {words for words in found if "->" in words} == {words for words in case.told if "->" in words}
    assert not any(conversation.NO_RESULT in words for words in found)


def test_own_compaction_hides_earlier_messages() -> None:
    store = MemoryStore()
    sid = bring(store, joined(*talk("a", "b", "c", "d")), name=SESSION).session
    held = session(store, sid)
    kept = held.resolve("leaf~1").source
    assert kept is not None
    held.append(Compaction(summary="Ours.", first_kept=kept.id))
    context = build.context(ContextHistory(store, held.leaf.oid if held.leaf else None), "claude")
    assert [entry.kind for entry in context.messages] == ["compaction", "message", "message"]


def test_results_that_we_pruned_are_a_short_note() -> None:
    store = MemoryStore()
    case = CASES["L6 the first of two results"]
    held = session(store, bring(store, joined(*case.lines), name=SESSION).session)
    target = held.resolve("leaf~2").source
    assert target is not None and target.id is not None
    held.append(Prune(targets=(target.id,)))
    context = build.context(ContextHistory(store, held.leaf.oid if held.leaf else None), "claude")
    assert "u c1 -> [Old tool result cleared]" in told(anthropic.request(context)["messages"])


def test_model_and_token_count_are_known() -> None:
    context = seen(*talk("a", "b"))
    assert context.model == "anthropic/claude-opus-4-8"
    assert context.tokens.used == 15


def test_count_from_before_a_compaction_is_not_used_for_kept_messages() -> None:
    lines = [*talk("a", "b", "c", "d"), *compacted("f", "d", keeps=("c", "d")), user("g", "sf")]
    assert [entry.text for entry in seen(*lines).messages if isinstance(entry, Message)][-2:] == [
        "words of d", "words of g",
    ]  # fmt: skip
    assert seen(*lines).tokens.source != "usage"
    answered = seen(*lines, assistant("h", "g")).tokens
    assert (answered.used, answered.source, answered.exact, answered.stale) == (15, "usage", True, False)


def test_count_from_before_an_own_edit_is_not_used() -> None:
    store = MemoryStore()
    held = session(store, bring(store, joined(*talk("a", "b")), name=SESSION).session)
    target = held.resolve("leaf~1").source
    assert target is not None and target.id is not None
    held.append(ContextEdit(target=target.id, replacement={"content": "other words"}))
    assert build.context(ContextHistory(store, held.leaf.oid if held.leaf else None), "claude").tokens.source != "usage"


def test_compaction_is_due_at_the_programs_limit() -> None:
    context = seen(*talk("a", "b"))
    assert not trigger.is_over(context, 33_015)
    assert trigger.is_over(context, 33_014)


def test_attached_file_is_shown_briefly() -> None:
    file = {"type": "text", "file": {"filePath": "/w/x", "content": "hello"}}
    noted = line("attachment", "n", "b", attachment={"type": "file", "filename": "/w/x", "content": file})
    [found] = [entry for entry in seen(*talk("a", "b"), noted).messages if isinstance(entry, CustomMessage)]
    assert found.text == "/w/x:\nhello"


def test_session_has_the_profile_of_its_agent_by_default() -> None:
    assert [profiles.of_agent(agent) for agent in ("claude", "omp", "pi", "mine")] == ["claude", "omp", "pi", "pi"]


def test_unlisted_segment_is_kept_from_its_head() -> None:
    cut = json.loads(boundary("f", "d", keeps=("c", "d")))
    del cut["compactMetadata"]["preservedMessages"]
    context = seen(*talk("a", "b", "c", "d"), dumps(cut), summary("f"), user("g", "sf"))
    assert [entry.text for entry in context.messages if isinstance(entry, Message)] == [
        "What was said.", "words of c", "words of d", "words of g",
    ]  # fmt: skip


@pytest.mark.parametrize("files", [{}, {"files": 5}, {"files": [5]}, {"files": [], "is_error": 3, "tool_call_id": 4}])
def test_a_block_that_only_looks_like_a_result_is_shown_and_sent(files: dict[str, object]) -> None:
    odd = {"type": "tool_result", "text": "x", **files}
    context = seen(user("a", None), assistant("b", "a", {"type": "text", "text": "hello"}, odd))
    for profile in profiles.PROFILES:
        anthropic.request(seen(user("a", None), assistant("b", "a", odd), profile=profile))
    assert told(anthropic.request(context)["messages"])[-1] == "a hello"


RECORDED = SHARED / "findings/interchange"
STORY = "30bf05ab-947f-41de-9203-17fd4130d300"


@pytest.mark.skipif(not RECORDED.exists(), reason="no recorded session here")
@pytest.mark.parametrize(("lines", "request_at"), [(25, 6), (41, 9), (61, None)], ids=["from", "up to", "all"])
def test_a_recorded_rewind_summary_gives_the_next_request(lines: int, request_at: int | None) -> None:
    """Claude Code summarized from a message, later up to a message, and then compacted, as recorded."""
    data = (RECORDED / f"claude-rewind-summary-{STORY}.jsonl").read_bytes()
    context = seen(*data.splitlines()[:lines], name=STORY)
    found = [words for item in context.items if (words := _begins(str(getattr(item.entry, "text", ""))))]
    if request_at is None:
        assert found == ["This session", "A9 answer", "Q9 after", "A11 answer"]
        return
    request = json.loads((RECORDED / "claude-rewind-summary-requests.jsonl").read_bytes().splitlines()[request_at])
    sent = []
    for message in request["body"]["messages"]:
        content = message["content"]
        texts = [content] if isinstance(content, str) else [block["text"] for block in content]
        sent += [words for text in texts if message["role"] != "system" and (words := _begins(text))]
    assert found == sent[: len(found)]
    assert len(sent) == len(found) + 1  # and the next prompt


def _begins(text: str) -> str:
    """Return the first two words of a text. Context that is added anew at each start, and no text, is ""."""
    return "" if text.startswith("<") or not text.strip() else " ".join(text.split()[:2])
