"""Tests of sessions exported to Claude Code. test_real_claude.py checks them with Claude Code itself."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
from builders import Clock, assert_clean, bring, joined, pi_file, said, session
from claude_cases import told
from claude_code import SESSION, asked, assistant, last_prompt, note, talk, user, uuid
from claude_handover import HANDED_OVER, talked
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import ENTRIES, TEXT

from gitsession.context import build
from gitsession.context.history import ContextHistory
from gitsession.context.providers import anthropic
from gitsession.errors import Malformed
from gitsession.exporting import export_session
from gitsession.formats import Outgoing, OutgoingEntry
from gitsession.formats.base.format import Workspace
from gitsession.formats.claude.agent import claude
from gitsession.model import entries
from gitsession.model.entries import Message
from gitsession.sessions.entry_addresses import resolve
from gitsession.sessions.session import StoredSession
from gitsession.store.memory import MemoryStore


def sent(store: MemoryStore, sid: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in export_session.export(store, sid, "claude").data.splitlines()]


def seen(data: bytes) -> list[str]:
    """Import a file and return its context by the profile of Claude Code."""
    store = MemoryStore()
    sid = bring(store, data, agent="claude", name=SESSION).session
    context = build.context(ContextHistory(store, resolve(store, sid, "leaf").oid), "claude")
    assert_clean(store)
    return told(anthropic.request(context)["messages"])


@pytest.mark.parametrize(("make", "expected"), HANDED_OVER.values(), ids=HANDED_OVER)
def test_export_has_the_whole_conversation(make: Any, expected: list[str]) -> None:
    store = MemoryStore()
    assert seen(export_session.export(store, make(store).id, "claude").data) == expected


def test_the_same_session_is_the_same_file() -> None:
    store = MemoryStore()
    held = talked(store)
    assert export_session.export(store, held.id, "claude").data == export_session.export(store, held.id, "claude").data


def test_entries_that_cannot_be_exported_are_counted() -> None:
    store = MemoryStore()
    held = talked(store)
    held.append(entries.ModeChange(mode="plan"))
    assert export_session.export(store, held.id, "claude").notes == {
        "left out: another model's reasoning": 1,
        "left out: mode change entries": 1,
    }


def test_its_own_thoughts_stay_signed() -> None:
    store = MemoryStore()
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    words = {"type": "text", "text": "hi"}
    sid = bring(store, joined(user("a", None), assistant("b", "a", thought, words)), name=SESSION).session
    fork = session(store, sid)
    fork.append(Message.user("more"))
    content = [line["message"]["content"] for line in sent(store, sid) if line["type"] == "assistant"]
    assert content == [[thought, words]]


def test_every_line_has_a_uuid_and_its_parent() -> None:
    store = MemoryStore()
    lines = [line for line in sent(store, talked(store).id) if "uuid" in line]
    assert [line["parentUuid"] for line in lines] == [None, *[line["uuid"] for line in lines[:-1]]]
    assert all(re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", line["uuid"]) for line in lines)
    assert len({line["uuid"] for line in lines}) == len(lines)


def test_title_and_leaf_are_at_the_end() -> None:
    store = MemoryStore()
    lines = sent(store, talked(store).id)
    assert [line["customTitle"] for line in lines if line["type"] == "custom-title"] == ["Handed over"]
    assert lines[-1]["type"] == "last-prompt"
    assert lines[-1]["leafUuid"] == lines[-3]["uuid"]
    assert lines[-1]["lastPrompt"] == "look at this"


def test_session_without_a_uuid_gets_one_for_its_path_and_command() -> None:
    store = MemoryStore()
    sid = talked(store).id
    [id] = {line["sessionId"] for line in sent(store, sid)}
    assert (
        claude.session_path(entries.SessionHeader(agent="claude", source_id=sid), Workspace("/w"))
        == f"projects/-w/{id}.jsonl"
    )
    assert claude.resume_command(sid) == ["claude", "--resume", id]


def test_added_entries_come_after_the_programs_own_lines() -> None:
    store = MemoryStore()
    data = joined(*asked(), *talk("a", "b"), last_prompt("b"), note("mode", mode="plan"))
    sid = bring(store, data, name=SESSION).session
    held = session(store, sid, clock=Clock())
    held.append(Message.user("ours"))
    out = export_session.export(store, sid, "claude").data
    assert out.startswith(data)
    new = [json.loads(line) for line in out[len(data) :].splitlines()]
    assert [line["type"] for line in new] == ["user", "last-prompt"]
    assert (new[0]["parentUuid"], new[0]["sessionId"], new[0]["cwd"]) == (uuid("b"), SESSION, "/work")


def test_added_entries_and_the_programs_answers_are_imported_again() -> None:
    store = MemoryStore()
    sid = bring(store, joined(*talk("a", "b")), name=SESSION).session
    held = session(store, sid, clock=Clock())
    held.append(Message.user("ours"))
    out = export_session.export(store, sid, "claude").data
    uuids = [json.loads(line)["uuid"] for line in out.splitlines() if b'"uuid"' in line]
    answer = json.loads(talk("c", after="b")[0])
    grown = out + json.dumps({**answer, "parentUuid": uuids[-1], "type": "user"}).encode() + b"\n"
    done = bring(store, grown, name=SESSION)
    assert (done.session, done.new) == (sid, 1)
    assert export_session.export_original(store, sid).data == grown
    assert_clean(store)


def test_leaf_that_is_not_the_last_line_is_named() -> None:
    store = MemoryStore()
    sid = bring(store, pi_file(said("a", None), said("b", "a", role="assistant"), said("c", "a"))).session
    held = session(store, sid)
    held.switch("main")
    lines = sent(store, sid)
    [leaf] = [line["uuid"] for line in lines if "words of b" in json.dumps(line) and "uuid" in line]
    assert lines[-1]["leafUuid"] == leaf
    assert seen(export_session.export(store, sid, "claude").data) == ["u words of a", "a words of b"]


def test_a_leaf_that_others_hang_below_is_chosen_expressly() -> None:
    store = MemoryStore()
    made = StoredSession.new(store, "mine", "/work", Clock())
    for words in ("one", "two"):
        made.append(Message.user(words))
    made.branch("back", made.resolve("leaf~1"))
    made.switch("back")
    out = export_session.export(store, made.id, "claude").data
    assert json.loads(out.splitlines()[-1])["explicit"] is True
    assert seen(out) == ["u one"]


ODD: dict[str, entries.Entry] = {
    "a result without a call": Message(role="tool", tool_call_id="x"),
    "an empty message": Message.user(""),
    "half a character": Message.user("\ud800"),
    "a message of no role": Message(role="custom", content=()),
    "a kind of a later release": entries.UnknownEntry(name="telepathy"),
    "a reset": entries.Reset(),
    "an answer of nobody": Message.assistant("x"),
    "a compaction of the program's own without words": entries.Compaction(
        summary="", preserve={"preservedMessages": 5}
    ),
    "a compaction of nothing": entries.Compaction(summary="S", first_kept="nowhere"),
}


@pytest.mark.parametrize("entry", ODD.values(), ids=ODD)
def test_file_is_valid_for_any_entry(entry: entries.Entry) -> None:
    header = entries.SessionHeader(agent="claude", source_id="s")
    leaving = (
        OutgoingEntry(key="a", parent=None, entry=Message.user("hi")),
        OutgoingEntry(key="b", parent="a", entry=entry),
    )
    data = claude.write(Outgoing(session=header, entries=leaving, leaf="b")).data
    for line in data.splitlines():
        json.loads(line)
    seen(data)


@settings(max_examples=200)
@given(st.lists(st.tuples(ENTRIES, st.integers(0, 9)), min_size=1, max_size=8), st.integers(0, 9), TEXT | st.none())
def test_export_of_any_entries_can_be_imported(
    drawn: list[tuple[entries.Entry, int]], leaf: int, name: str | None
) -> None:
    header = entries.SessionHeader(agent="claude", source_id=name)
    leaving = []
    for at, (entry, below) in enumerate(drawn):
        if isinstance(entry, entries.Compaction):
            entry = dataclasses.replace(entry, first_kept=str(below % (at + 1)))
        leaving.append(OutgoingEntry(key=str(at), parent=str(below % at) if at and below else None, entry=entry))
    out = Outgoing(session=header, entries=tuple(leaving), leaf=str(leaf % len(drawn)))
    data = claude.write(out).data
    assert claude.write(out).data == data
    try:
        source = claude.split(data, name=SESSION, final=True)
    except Malformed:
        assert data == b""
        return
    assert [problem.what for problem in source.problems] == []
