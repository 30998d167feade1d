"""Tests of sessions of any agent exported for opencode, and of the imports of these exports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aider_files
import pytest
from builders import Clock, assert_clean, bring, entry, exported, label, pi_file, said, session
from opencode_author import ours
from opencode_cases import CASES, ONE, TWO
from opencode_files import Database, answer, export, user

from gitsession.discovery import sources
from gitsession.exporting import export_session
from gitsession.formats.aider import read_entry
from gitsession.formats.base import outgoing
from gitsession.formats.opencode.agent import opencode
from gitsession.importing.import_session import import_source
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Message, Prune
from gitsession.sessions import session as sessions
from gitsession.store.interface import ObjectStore
from gitsession.store.memory import MemoryStore


def sent(store: ObjectStore, sid: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(export_session.export(store, sid, "opencode").data)
    return found


def told(document: dict[str, Any]) -> list[str]:
    """Return the role and the parts of each message."""
    found = []
    for message in document["messages"]:
        parts = [part.get("text") or part.get("tool") or part["type"] for part in message["parts"]]
        parts = [part for part in parts if not part.startswith("step-")]
        found.append(f"{message['info']['role']}: {', '.join(parts)}")
    return found


def test_own_session_is_exported_with_calls_results_images_and_the_kept_turn() -> None:
    store = MemoryStore()
    made = ours(store)
    document = sent(store, made.id)
    assert told(document) == [
        "user: Look, file", "assistant: Reading., read", "assistant: Done.", "user: And now?", "assistant: Now this.",
        "user: compaction", "assistant: So far.", "user: Go on",
    ]  # fmt: skip
    state = next(part for part in document["messages"][1]["parts"] if part["type"] == "tool")["state"]
    assert (state["status"], state["input"], state["output"]) == ("completed", {"path": "a.py"}, "14 lines")
    assert document["messages"][5]["parts"][0]["tail_start_id"] == document["messages"][3]["info"]["id"]
    times = [message["info"]["time"]["created"] for message in document["messages"]]
    assert times == sorted(set(times))
    assert document["info"]["id"].startswith("ses_")


def test_the_same_session_is_the_same_export() -> None:
    stores = [MemoryStore(), MemoryStore()]
    data = pi_file(said("a", None, "Hi", role="user"), said("b", "a", "Ho", role="assistant"))
    sids = [bring(store, data).session for store in stores]
    first, second = (
        export_session.export(store, sid, "opencode").data for store, sid in zip(stores, sids, strict=True)
    )
    assert first == second


def test_exported_session_is_imported_with_equal_entries() -> None:
    store, again = MemoryStore(), MemoryStore()
    made = ours(store)
    data = export_session.export(store, made.id, "opencode").data
    done = bring(again, data, final=True)
    assert exported(again, done.session) == data
    read = [opencode.read(record.payload) for record in opencode.split(data, final=True).records]
    assert [type(entry).__name__ for entry in read] == ["Message"] * 5 + ["Compaction", "Message"]
    assert_clean(again)


def test_session_of_opencode_is_exported_unchanged_with_added_entries_after_it() -> None:
    store = MemoryStore()
    sid = bring(store, export([*ONE, *TWO])).session
    assert export_session.export(store, sid).data == export([*ONE, *TWO])
    session(store, sid, clock=Clock()).append(Message.user("Ours"))
    document = sent(store, sid)
    assert document["messages"][:-1] == json.loads(export([*ONE, *TWO]))["messages"]
    assert told(document)[-1] == "user: Ours"


def test_added_entry_is_imported_as_the_same_entry(tmp_path: Path) -> None:
    store, made = MemoryStore(), Database(tmp_path / "opencode.db")
    sid = bring(store, export([*ONE, *TWO])).session
    leaf = session(store, sid, clock=Clock()).append(Message.user("Ours"))
    messages = sent(store, sid)["messages"]
    later = messages[-1]["info"]["time"]["created"] // 1000 - 1_769_900_000 + 5
    made.put([*messages, answer("msg_b1", "Yes", at=later)])
    [done] = [import_source(store, found.format, found.load().source) for found in sources.at(made.path)]
    assert (done.session, done.new) == (sid, 1)
    line = session(store, sid).history()
    assert (line[-1].subject, line[-2].oid) == ("assistant: Yes", leaf.oid)
    assert told(json.loads(exported(store, sid))) == [*told({"messages": messages}), "assistant: Yes"]
    assert_clean(store)


def test_own_prune_is_a_mark_on_the_result() -> None:
    store = MemoryStore()
    sid = bring(store, export([*ONE, *TWO])).session
    session(store, sid, clock=Clock()).append(Prune(targets=("msg_a1",)))
    [part] = [part for part in sent(store, sid)["messages"][1]["parts"] if part["type"] == "tool"]
    assert part["state"]["time"]["compacted"] > 0


def test_missing_result_is_reported_and_result_without_a_call_is_left_out() -> None:
    store = MemoryStore()
    made = sessions.StoredSession.new(store, "agent", "/work", Clock())
    made.append(Message.user("Hi"))
    made.append(Message.assistant([ToolCall("c1", "bash", {})], provider="mock", model="m"))
    made.append(Message.tool(ToolCall("c9", "bash", {}), "lost"))
    out = export_session.export(store, made.id, "opencode")
    [part] = [part for part in json.loads(out.data)["messages"][1]["parts"] if part["type"] == "tool"]
    assert part["state"]["status"] == "error"
    assert out.notes["left out: results whose call is not in the history"] == 1


def test_only_the_history_of_the_tip_is_exported() -> None:
    store = MemoryStore()
    lines = [said("a", None, "Hi", role="user"), said("b", "a", "One", role="assistant", at=1)]
    sid = bring(store, pi_file(*lines, said("c", "a", "Two", role="assistant", at=2))).session
    out = export_session.export(store, sid, "opencode")
    assert told(json.loads(out.data)) == ["user: Hi", "assistant: Two"]
    assert out.notes["left out: entries of other branches"] == 1


@pytest.mark.parametrize("messages", CASES.values(), ids=CASES)
@pytest.mark.parametrize("to", ["pi", "omp", "claude", "codex", "librecode"])
def test_every_session_of_opencode_can_be_exported_to_every_agent(messages: list[Any], to: str) -> None:
    store = MemoryStore()
    sid = bring(store, export(messages), final=True).session
    assert export_session.export(store, sid, to).data


def test_calls_and_results_of_opencode_reach_other_agents() -> None:
    store = MemoryStore()
    sid = bring(store, export([user("msg_u1", "One", at=1), *ONE[1:], *TWO]), final=True).session
    for to in ("pi", "claude", "codex"):
        data = export_session.export(store, sid, to).data.decode()
        assert data.count("call_1") >= 2, to  # the call, and its result
        assert '"11"' in data, to


def test_entries_of_pi_without_an_equivalent_are_counted() -> None:
    store = MemoryStore()
    lines = [said("a", None, "Hi", role="user"), entry("custom", "x", "a", at=1, customType="state")]
    sid = bring(store, pi_file(*lines, said("b", "x", "Ho", role="assistant", at=2))).session
    out = export_session.export(store, sid, "opencode")
    assert told(json.loads(out.data)) == ["user: Hi", "assistant: Ho"]
    assert out.notes["left out: records that no model receives"] == 1


@pytest.mark.parametrize("agent", ["pi", "omp"])
def test_labels_and_thinking_levels_of_a_file_are_counted(agent: str) -> None:
    store = MemoryStore()
    lines = [
        said("a", None, "Hi", role="user"), label("l1", "a", "a", "start"), label("l2", "l1", "a", "anew"),
        label("l3", "l2", "l2", "gone"), label("l4", "l3", "l2", None),
        entry("thinking_level_change", "t", "l4", at=1, thinkingLevel="high"),
    ]  # fmt: skip
    sid = bring(store, pi_file(*lines, said("b", "t", "Ho", role="assistant", at=2)), agent=agent).session
    assert export_session.export(store, sid, "opencode").notes == {
        "left out: labels": 1, "left out: thinking change entries": 1,
    }  # fmt: skip
    assert export_session.export(store, sid, "aider").notes["left out: labels"] == 1


def test_output_of_aider_is_described_in_plain_terms() -> None:
    store = MemoryStore()
    lines = aider_files.run(), aider_files.user("/add a.py"), aider_files.told("Added a.py"), aider_files.user("Hi")
    sid = bring(store, aider_files.history(*lines, aider_files.answer("Ho")), name=aider_files.PLACE).session
    notes = export_session.export(store, sid, "opencode").notes
    assert notes["left out: lines that Aider printed"] == 1
    assert notes["left out: commands to Aider"] == 1
    assert outgoing._RECORDS.keys() == {read_entry.OUTPUT, read_entry.RESTORED, read_entry.COMMAND}
