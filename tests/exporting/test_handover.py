"""Tests of exports to another agent: the model receives the context of the first one.

Each case below was wrong once. The random conversations are meant to find further cases.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import claude_code
import codex_files
import conversations
import pytest
from builders import bring, entry, joined, pi_file, said, session
from conversations import DRAWN, NAMES, SOURCES, TARGETS, context, hand_over, is_paired, seen
from places import ROOT

from gitsession.context import build
from gitsession.context.history import ContextHistory
from gitsession.discovery.sources import HEAD_BYTES
from gitsession.exporting.export_session import ExportResult, export
from gitsession.formats import claimed
from gitsession.model.blocks import OtherBlock, Text, ToolCall
from gitsession.model.entries import Message
from gitsession.store.memory import MemoryStore

SEEDS = 6


def handed(source: str, target: str, data: bytes) -> tuple[ExportResult, list[Any]]:
    """Export a session of ``source`` to ``target``. Return the export, and the context of its import."""
    store, other = MemoryStore(), MemoryStore()
    sent = export(store, bring(store, data, agent=source, name=NAMES.get(source, "s1")).session, target)
    taken = bring(other, sent.data, agent=target, name=NAMES.get(target, "s1"), final=True).session
    _, items = context(other, taken, target)
    return sent, [item.entry for item in items]


def texts(entries: Iterable[Any]) -> list[str]:
    return [each.summary if hasattr(each, "summary") else each.text for each in entries]


def others(source: str, *without: str) -> list[str]:
    return [target for target in TARGETS if target not in (source, *without)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", SOURCES)
def test_target_has_the_sources_context_or_a_note(source: str, target: str) -> None:
    for seed in range(SEEDS):
        if source != target:
            result, _ = hand_over(source, target, DRAWN[source](seed))
            assert not result.wrong, (seed, result.wrong)


def test_rule_detects_lost_added_and_moved_items() -> None:
    ask, call, gave = (conversations.Seen("others", f"{kind}-1.") for kind in ("ask", "call", "gave"))
    assert not conversations.compared([ask, gave], [ask, gave], {}, []).wrong
    assert conversations.compared([ask, gave], [ask], {}, []).wrong
    assert conversations.compared([ask], [ask, gave], {}, []).wrong
    assert conversations.compared([ask, gave], [gave, ask], {}, []).wrong
    assert conversations.compared([ask, call, call], [ask], {"written as text: tool calls": 1}, []).wrong
    assert not conversations.compared([ask, call], [ask], {"written as text: tool calls": 1}, []).wrong


def test_the_matrix_in_the_page_was_written_by_the_run() -> None:
    page = (ROOT / "docs/reference/agents.md").read_text()
    text, _, signature = conversations.between_marks(page).rpartition(f"\n\n{conversations.SIGNED}")
    assert signature == f"{conversations.sha256(text.encode()).hexdigest()[:16]} -->"
    assert re.search(r"broken in 0 hand-overs", text)


# Rules


PARALLEL = codex_files.rollout(
    codex_files.user("Q"), codex_files.call("a"), codex_files.call("b"), codex_files.call("c"),
    codex_files.output("b", "B"), codex_files.output("a", "A"), codex_files.output("c", "C"),
    codex_files.assistant("done"),
)  # fmt: skip


@pytest.mark.parametrize("target", others("codex", "aider"))
def test_calls_made_together_are_one_answer_with_all_results_behind_it(target: str) -> None:
    sent, entries = handed("codex", target, PARALLEL)
    assert not sent.notes
    answers = [each for each in entries if each.role == "assistant"]
    assert [block.id for block in answers[0].content if isinstance(block, ToolCall)] == ["a", "b", "c"]
    results = {each.tool_call_id: each.text for each in entries if each.role == "tool"}
    assert results == {"a": "A", "b": "B", "c": "C"}


def results_in(data: bytes) -> list[tuple[str, str]]:
    """Return the call id and the tool of each result in a file of pi or omp."""
    said = (json.loads(line).get("message", {}) for line in data.splitlines())
    return [(each["toolCallId"], each["toolName"]) for each in said if each.get("role") == "toolResult"]


@pytest.mark.parametrize("target", ["pi", "omp"])
@pytest.mark.parametrize("source", [source for source in SOURCES if source not in ("pi", "omp")])
def test_each_result_has_the_name_of_its_tool_for_pi(source: str, target: str) -> None:
    for seed in range(SEEDS):
        sent, _ = handed(source, target, DRAWN[source](seed))
        assert all(name for _, name in results_in(sent.data))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", SOURCES)
def test_exported_file_is_recognized_as_the_agents(source: str, target: str) -> None:
    if source == "claude":  # a title of Claude Code keeps its fields, including `sessionId`
        data = joined(
            *claude_code.asked(),
            claude_code.user("a", None, "Hi"),
            claude_code.note("custom-title", customTitle="Named"),
        )
        check_recognized(source, target, data)
    for seed in range(SEEDS):
        check_recognized(source, target, DRAWN[source](seed))


def check_recognized(source: str, target: str, data: bytes) -> None:
    store = MemoryStore()
    sent = export(store, bring(store, data, agent=source, name=NAMES.get(source, "s1")).session, target)
    found = claimed(sent.data[:HEAD_BYTES])
    assert found is not None and {found.AGENT, target} in ({target}, {"pi", "omp"}), sent.data[:400]


@pytest.mark.parametrize("target", ["pi", "omp"])
def test_tool_name_is_that_of_the_nearest_call_even_if_compacted(target: str) -> None:
    kept = codex_files.output("a", "kept")[0]["payload"]
    data = codex_files.rollout(
        codex_files.user("Q"), codex_files.call("a", "read"), codex_files.output("a", "1"),
        codex_files.call("a", "write"), codex_files.output("a", "2"), codex_files.output("gone", "3"),
        codex_files.compacted("S", [FIRST, kept]), codex_files.call("b", "list"), codex_files.output("b", "4"),
    )  # fmt: skip
    sent, _ = handed("codex", target, data)
    assert results_in(sent.data) == [("a", "read"), ("a", "write"), ("gone", "tool"), ("b", "list")]


def test_result_of_an_own_session_has_the_name_of_its_tool() -> None:
    store = MemoryStore()
    made = session(store, bring(store, pi_file(said("a", None, "Q"))).session)
    made.append(Message.assistant([ToolCall("c", "bash", {})]))
    made.append(Message(role="tool", tool_call_id="c", content=(Text("out"),)))
    made.append(Message(role="tool", tool_call_id="gone", content=(Text("out"),)))
    assert results_in(export(store, made.id, "pi").data) == [("c", "bash"), ("gone", "tool")]
    assert made.leaf is not None
    request = build.context(ContextHistory(store, made.leaf.oid), "pi").request("pi")
    assert [each["toolName"] for each in request["messages"] if each["role"] == "toolResult"] == ["bash", "tool"]


@pytest.mark.parametrize("target", others("codex", "aider"))
def test_result_between_calls_is_moved_after_the_answer(target: str) -> None:
    data = codex_files.rollout(
        codex_files.call("a"), codex_files.call("b"), codex_files.output("a", "A"), codex_files.call("c"),
        codex_files.user("wait"), codex_files.output("c", "C"), codex_files.output("b", "B"),
    )  # fmt: skip
    sent, entries = handed("codex", target, data)
    roles = [each.role for each in entries]
    assert (roles, texts(entries)[-1], dict(sent.notes)) == (["assistant", *["tool"] * 3, "user"], "wait", {})


FIRST = codex_files.message("user", "FIRST QUESTION")
ANSWER = codex_files.message("assistant", "FIRST ANSWER")
SEALED = {"type": "compaction", "encrypted_content": "gAAAA"}
COMPACTED = {
    "local": ("SUMMARY", [FIRST, codex_files.message("user", "SUMMARY")], ["FIRST QUESTION", "SUMMARY"]),
    "remote": ("", [FIRST, ANSWER, SEALED], ["FIRST QUESTION", "FIRST ANSWER"]),
    "of old": ("SUMMARY", None, ["FIRST QUESTION", "SUMMARY"]),
    "a summary alone": ("SUMMARY", [codex_files.message("user", "SUMMARY")], ["SUMMARY"]),
}


@pytest.mark.parametrize("how", COMPACTED)
@pytest.mark.parametrize("target", others("codex"))
def test_preserved_items_of_a_codex_compaction_are_exported(target: str, how: str) -> None:
    summary, items, kept = COMPACTED[how]
    data = codex_files.rollout(
        codex_files.said("user", "FIRST QUESTION"), codex_files.said("assistant", "FIRST ANSWER"),
        codex_files.compacted(summary, items), codex_files.said("user", "SECOND QUESTION"),
    )  # fmt: skip
    sent, entries = handed("codex", target, data)
    told = "\n".join(texts(entries))
    wanted = [*kept, "SECOND QUESTION"]
    assert re.findall("(?:FIRST|SECOND) [A-Z]+|SUMMARY", told) == wanted
    assert any("only their own provider" in note for note in sent.notes) == (how == "remote")


@pytest.mark.parametrize("target", others("codex"))
@pytest.mark.parametrize("name", ["web_search_call", "image_generation_call"])
def test_unknown_block_becomes_text(target: str, name: str) -> None:
    fields = {"action": {"type": "search", "query": "weather"}} if name == "web_search_call" else {"result": "aGk="}
    data = codex_files.rollout(codex_files.item(name, id="x", **fields), codex_files.said("assistant", "sunny"))
    sent, entries = handed("codex", target, data)
    assert any(name in note for note in sent.notes)
    assert name in "\n".join(texts(entries))
    assert not any(isinstance(block, OtherBlock) for each in entries for block in each.content if target == "pi")


PDF = b"%PDF-1.4 \xe4"


def of_a_pdf() -> bytes:
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQg5A=="}
    document = {"type": "document", "source": source}
    return joined(
        claude_code.user("a", None, [{"type": "text", "text": "Q"}, document]),
        claude_code.assistant("b", "a", claude_code.call("t1"), at=2),
        claude_code.result("c", "b", "t1", [{"type": "text", "text": "read"}, document], at=3),
        claude_code.last_prompt("c"),
    )


@pytest.mark.parametrize("target", others("claude"))
def test_pdf_is_kept_if_the_agent_has_files_and_named_otherwise(target: str) -> None:
    sent, entries = handed("claude", target, of_a_pdf())
    files = [block.data for each in entries for block in each.content if getattr(block, "data", None)]
    assert files == ([PDF, PDF] if target == "opencode" else [])
    assert sent.notes.get("replaced with their name: files", 0) == (0 if target == "opencode" else 2)
    assert b"undefined" not in sent.data and (target == "opencode" or b"application/pdf" in sent.data)


SECRET = entry(
    "message", "c", "b", 3,
    message={"role": "bashExecution", "command": "cat .env", "output": "TOKEN", "exitCode": 0,
             "excludeFromContext": True},
)  # fmt: skip


@pytest.mark.parametrize("target", others("pi", "omp"))
def test_a_command_that_the_user_kept_from_the_model_is_left_out_everywhere(target: str) -> None:
    data = pi_file(said("a", None, "Q"), said("b", "a", "A", role="assistant"), SECRET, said("d", "c", "Q2"))
    sent, entries = handed("pi", target, data)
    assert b"TOKEN" not in sent.data and "Q2" in texts(entries)[-1]
    assert sent.notes["left out: commands that are not in the context"] == 1


def test_omp_keeps_such_a_command_from_its_model_as_pi_does() -> None:
    sent, entries = handed("pi", "omp", pi_file(said("a", None, "Q"), said("b", "a", "A"), SECRET))
    assert b'"excludeFromContext":true' in sent.data and not sent.notes
    assert [each.role for each in entries if each.role != "shell"] == ["user", "user"]


@pytest.mark.parametrize("target", others("pi"))
@pytest.mark.parametrize("new", [None, "instead"])
def test_an_edit_of_the_context_stays_done(target: str, new: str | None) -> None:
    replacement = None if new is None else {"content": [{"type": "text", "text": new}]}
    edit = entry("context_edit", "c", "b", 3, targetId="a", replacement=replacement)
    data = pi_file(said("a", None, "HIDE"), said("b", "a", "A", role="assistant"), edit, said("d", "c", "Q2"))
    sent, entries = handed("pi", target, data)
    assert "HIDE" not in sent.data.decode()
    assert ("instead" in texts(entries)[0]) == (new is not None)
    assert bool(sent.notes) == (new is None)


def test_labels_and_branches_stay_with_the_rest_of_an_answer() -> None:
    data = pi_file(
        said("a", None, "Q"), said("b", "a", "gone", role="assistant", stopReason="error"),
        said("c", "b", "beside"), said("d", "b", "Q2"),
        entry("label", "e", "d", 5, targetId="b", label="here"),
    )  # fmt: skip
    sent, entries = handed("pi", "claude", data)
    assert texts(entries) == ["Q", "Q2"]
    assert sent.notes["left out: aborted and failed answers"] == 1


def test_own_session_is_exported_to_pi_unchanged() -> None:
    """pi's rules are those of a new session. The export is unchanged, so that it can be recognized."""
    store = MemoryStore()
    made = session(store, bring(store, pi_file(said("a", None, "Q")), agent="pi").session)
    made.append(Message.assistant([Text("A"), ToolCall("x", "bash", {})]))
    assert b'"id":"a"' in export(store, made.id, "pi").data


def test_marks_cover_everything_that_is_compared() -> None:
    store = MemoryStore()
    sid = bring(store, PARALLEL, agent="codex", name=codex_files.NAME).session
    rules, items = context(store, sid, "codex")
    assert is_paired(items) and seen(rules, items) == []
