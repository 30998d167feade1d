"""Tests of sessions exported as rollouts: codex's own lines, added entries, and other agents' sessions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import Clock, bring, exported, pi_file, session, talk
from codex_files import call, event, message, output, rolled_back, rollout, turn, user
from codex_outgoing import HEADER, line_of, own
from codex_threads import CHILD_FILE, PARENT_FILE

from gitsession import Store
from gitsession.context import build
from gitsession.context.history import ContextHistory
from gitsession.context.providers import codex as as_codex
from gitsession.formats import FORMATS
from gitsession.formats.base.format import Workspace
from gitsession.formats.base.outgoing import Outgoing, OutgoingEntry, WrittenFile
from gitsession.formats.codex.agent import codex
from gitsession.formats.codex.write import SUMMARY_PREFIX
from gitsession.model import entries
from gitsession.model.blocks import File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Compaction, Entry, Message, Reset, Title
from gitsession.store.memory import MemoryStore


def payloads(written: WrittenFile, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in written.data.splitlines()]
    return [line["payload"] for line in lines if line["type"] == kind]


CALL = ToolCall("call_1|fc_1", "my tool", {"path": "é"})
PICTURE = Image(b"\x89PNG", "image/png")

WORDS: dict[str, tuple[Entry, list[dict[str, Any]]]] = {
    "the user": (Message.user("hi"), [message("user", "hi")]),
    "a picture": (
        Message.user([Text("see"), PICTURE]),
        [{"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "see"},
            {"type": "input_image", "image_url": "data:image/png;base64,iVBORw=="},
        ]}],
    ),
    "a file of text": (Message.user([File("a.py", data=b"x")]), [message("user", '<file name="a.py">\nx\n</file>')]),
    "a file of bytes": (Message.user([File("a.bin", data=b"\xff")]), [message("user", "[file a.bin]")]),
    "words and a call": (
        Message.assistant([Text("look"), CALL], provider="anthropic"),
        [message("assistant", "look"),
         {"type": "function_call", "name": "my_tool", "arguments": '{"path": "é"}', "call_id": "call_1"}],
    ),
    "a result": (
        Message.tool(CALL, "ok"), [{"type": "function_call_output", "call_id": "call_1", "output": "ok"}],
    ),
    "a result with a picture": (
        Message.tool(CALL, [Text("ok"), PICTURE]),
        [{"type": "function_call_output", "call_id": "call_1", "output": [
            {"type": "input_text", "text": "ok"},
            {"type": "input_image", "image_url": "data:image/png;base64,iVBORw=="},
        ]}],
    ),
    "codex's own reasoning": (
        Message.assistant([Thinking("hm", '{"type":"reasoning","id":"rs_1","summary":[]}')]),
        [{"type": "reasoning", "id": "rs_1", "summary": []}],
    ),
    "another's reasoning": (Message.assistant([Thinking("hm", "sig")], provider="anthropic"), []),
    "a search of codex's provider": (
        Message.assistant([OtherBlock({"type": "web_search_call"})]), [{"type": "web_search_call"}],
    ),
    "a system message": (Message(role="system", content=(Text("be kind"),)), [message("developer", "be kind")]),
    "what the model never sees": (entries.Custom(custom_type="x"), []),
}  # fmt: skip


@pytest.mark.parametrize(("entry", "items"), WORDS.values(), ids=WORDS)
def test_an_entry_in_codex_s_words(entry: Entry, items: list[dict[str, Any]]) -> None:
    assert payloads(codex.write(line_of(entry)), "response_item") == items


def test_messages_are_also_written_for_the_display() -> None:
    written = codex.write(line_of(Message.user("hi"), Message.assistant("yo")))
    assert payloads(written, "event_msg") == [
        {"type": "user_message", "message": "hi", "images": []},
        {"type": "agent_message", "message": "yo"},
    ]


def test_long_call_id_is_shortened_equally_in_its_result() -> None:
    long = ToolCall("x" * 90, "f", {})
    written = codex.write(line_of(Message.assistant([long]), Message.tool(long, "ok")))
    asked, answered = payloads(written, "response_item")
    assert asked["call_id"] == answered["call_id"]
    assert len(asked["call_id"]) <= 64


def test_header_has_the_required_fields_and_no_provider() -> None:
    (header,) = payloads(codex.write(line_of(Message.user("hi"))), "session_meta")
    assert header == {
        "id": codex.resume_command(HEADER.source_id or "")[2],
        "timestamp": "2026-11-21T20:34:22.452Z",
        "cwd": "/work",
        "originator": "gitsession",
        "cli_version": "0.0.0",
        "source": "cli",
    }
    place = codex.session_path(HEADER, Workspace("/work"))
    assert place == f"sessions/2026/11/21/rollout-2026-11-21T20-34-22-{header['id']}.jsonl"
    assert codex.split(codex.write(line_of(Message.user("hi"))).data).source_id == header["id"]


def test_compaction_has_its_summary_and_the_kept_messages() -> None:
    written = codex.write(line_of(Message.user("a"), Message.user("b"), Compaction(summary="S", first_kept="k1")))
    assert payloads(written, "compacted") == [{
        "message": f"{SUMMARY_PREFIX}\nS",
        "replacement_history": [message("user", f"{SUMMARY_PREFIX}\nS"), message("user", "b")],
    }]  # fmt: skip


def test_a_reset_is_a_list_of_nothing_and_a_title_a_name() -> None:
    written = codex.write(line_of(Message.user("a"), Reset(), Title(title="N")))
    assert payloads(written, "compacted") == [{"message": "", "replacement_history": []}]
    assert payloads(written, "event_msg")[-1] == {"type": "thread_name_updated", "thread_name": "N"}


def test_entries_that_codex_cannot_represent_are_noted() -> None:
    left = Outgoing(
        session=HEADER,
        entries=(
            OutgoingEntry(key="a", parent=None, entry=Message.user("a")),
            OutgoingEntry(key="b", parent="a", entry=Message.user("b")),
            OutgoingEntry(key="c", parent="a", entry=entries.ModelChange(provider="p", model="m")),
        ),
        leaf="c",
        labels=(entries.Label(target="a", label="L"),),
    )
    written = codex.write(left)
    assert written.notes == {
        "left out: entries of other branches": 1,
        "left out: model change entries": 1,
        "left out: labels": 1,
    }
    assert payloads(written, "response_item") == [message("user", "a")]


def test_empty_session_is_a_header() -> None:
    assert len(codex.write(line_of()).lines) == 1


def test_half_of_a_surrogate_pair_is_written_as_a_replacement_character() -> None:
    assert payloads(codex.write(line_of(Message.user("\ud83d\ude00 \ud800"))), "response_item") == [
        message("user", "\U0001f600 \ufffd"),
    ]


# ---- codex's own files


def test_added_entries_come_after_codexs_own_lines() -> None:
    data = rollout(user("a"), rolled_back(0))
    written = codex.write(own(data, Message.user("ours"))).data
    assert written.startswith(data)
    assert payloads(codex.write(own(data, Message.user("ours"))), "response_item")[-1] == message("user", "ours")


def test_added_lines_continue_the_ordinals() -> None:
    data = rollout(user("a"), event("thread_name_updated", thread_name="N"), first=0)
    written = codex.write(own(data, Message.user("x"), Message.user("y"))).data
    lines = [json.loads(line) for line in written.splitlines()]
    assert [line["ordinal"] for line in lines] == list(range(len(lines)))
    assert [line["type"] for line in lines[-2:]] == ["response_item", "response_item"]


def test_other_branch_is_written_without_a_roll_back() -> None:
    data = rollout(turn("t1"), turn("t2"), rolled_back(1), turn("t3"))
    end_of_t2 = next(str(r.line) for r in codex.split(data).records if codex.headline(r.payload).words == "A t2")
    said = payloads(codex.write(own(data, Message.user("on"), leaf_at=end_of_t2)), "response_item")
    assert [item["content"][0]["text"] for item in said] == ["U t1", "A t1", "U t2", "A t2", "on"]
    back = codex.split(
        codex.write(
            own(
                data,
                leaf_at=next(
                    str(r.line) for r in codex.split(data).records if codex.headline(r.payload).words == "A t3"
                ),
            )
        ).data
    )
    assert len(back.records) == len(codex.split(data).records)


# ---- imports of the exported files


def test_exported_session_has_the_same_context_for_codex() -> None:
    said = [Message.user("hi"), Message.assistant([Text("look"), CALL]), Message.tool(CALL, "ok"),
            Compaction(summary="S"), Message.user([Text("see"), PICTURE]), Message.assistant("done")]  # fmt: skip
    store = MemoryStore()
    data = codex.write(line_of(*said)).data
    opened = session(store, bring(store, data, agent="codex").session)
    assert exported(store, opened.id) == data
    context = build.context(ContextHistory(store, opened.leaf.oid if opened.leaf else None), "codex")
    assert as_codex.request(context)["input"] == [
        message("user", f"{SUMMARY_PREFIX}\nS"),
        *WORDS["a picture"][1],
        message("assistant", "done"),
    ]


# ---- through a store


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as opened:
        yield opened


def said_in(data: bytes) -> list[str]:
    """Import a file and return the texts of its context by the profile of codex."""
    store = MemoryStore()
    line = ContextHistory(store, session(store, bring(store, data, agent="codex").session).leaf.oid)  # type: ignore[union-attr]
    return [item.entry.text for item in build.context(line, "codex").items if isinstance(item.entry, Message)]


def test_own_session_is_exported_to_codex(kept: Store) -> None:
    made = kept.new_session(agent="mine", cwd="/work")
    made.append(Message.user("hi"))
    made.append(Message.assistant("yo"))
    sent = kept.export(made.id, to="codex")
    assert (sent.agent, said_in(sent.data)) == ("codex", ["hi", "yo"])


def test_session_of_pi_is_exported_to_codex(kept: Store) -> None:
    sid = kept.agents.import_data(FORMATS["pi"], pi_file(*talk("a", "b", "c"))).session
    assert said_in(kept.export(sid, to="codex").data) == ["words of a", "words of b", "words of c"]


def test_session_of_codex_is_exported_to_pi(kept: Store) -> None:
    data = rollout(turn("t1"), call("c1"), output("c1"), rolled_back(1), turn("t2"))
    sid = kept.agents.import_data(codex, data).session
    data = kept.export(sid, to="pi").data
    assert b"U t1" in data
    assert FORMATS["pi"].split(data).problems == ()


def test_export_has_added_entries_and_the_original_has_none(kept: Store) -> None:
    data = rollout(turn("t1"))
    sid = kept.agents.import_data(codex, data).session
    assert kept.export(sid).data == data
    kept.session(sid).append(Message.user("ours"))
    assert said_in(kept.export(sid).data) == ["U t1", "A t1", "ours"]
    assert kept.export(sid, original=True).data == data


def test_fork_is_exported_to_codex_without_and_to_others_with_its_base(kept: Store) -> None:
    kept.agents.import_data(codex, PARENT_FILE)
    sid = kept.agents.import_data(codex, CHILD_FILE).session
    assert kept.export(sid).data == CHILD_FILE
    kept.session(sid).append(Message.user("ours"))
    sent = kept.export(sid)
    assert sent.data.startswith(CHILD_FILE.rpartition(b'{"timestamp"')[0][:-1])
    assert (sent.left_out, b"U t1" in sent.data, b"ours" in sent.data) == (0, False, True)
    to_pi = kept.export(sid, to="pi").data
    assert b"U t1" in to_pi
    assert b"ours" in to_pi


def test_thoughts_of_another_model_are_counted() -> None:
    thoughts = [Thinking("hm", "signed"), Thinking("hm hm", None), Text("so")]
    written = codex.write(line_of(Message.assistant(thoughts, provider="anthropic", model="m")))
    assert written.notes == {"left out: another model's reasoning": 2}
