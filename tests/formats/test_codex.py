"""Tests of codex rollouts: detection, records, meaning of lines, and headlines."""

from __future__ import annotations

import json
from base64 import b64decode
from datetime import UTC, datetime
from typing import Any

import pytest
from codex_files import (
    ENVIRONMENT,
    NAME,
    PERMISSIONS,
    PIXEL,
    START,
    TALK,
    THREAD,
    assistant,
    at,
    call,
    compacted,
    counted,
    event,
    item,
    joined,
    message,
    output,
    rolled_back,
    rollout,
    said,
    settings,
    turn,
    user,
)

from gitsession.errors import Malformed
from gitsession.formats import claimed
from gitsession.formats.base.fields import to_ms
from gitsession.formats.base.format import Workspace
from gitsession.formats.base.jsonl import record_line
from gitsession.formats.base.record import Source
from gitsession.formats.codex.agent import codex
from gitsession.model import entries
from gitsession.model.blocks import File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Entry
from gitsession.model.headline import Headline

# ---- detection of the format

PRETTY = json.dumps(json.loads(rollout().decode()), indent=4).encode() + b"\n"

CLAIMED = {
    "a rollout": rollout(TALK),
    "a paginated one": rollout(TALK, first=0),
    "a header alone": rollout(),
    "a header longer than what is looked at": rollout(base_instructions={"text": "x" * 100_000})[:65536],
    "a header that was printed over several lines": PRETTY,
    "garbage before the header": b"oops\n\n" + rollout(),
    "a header that lost its id": joined(at("session_meta", id=5)),
    "a compressed one": b"\x28\xb5\x2f\xfd....",
}

NOT_CLAIMED = {
    "nothing": b"",
    "a rollout without its header": joined(TALK),
    "pi's": b'{"type":"session","id":"s1","cwd":"session_meta"}\n',
}


@pytest.mark.parametrize("head", CLAIMED.values(), ids=CLAIMED)
def test_a_rollout_is_claimed(head: bytes) -> None:
    assert claimed(head) is codex


@pytest.mark.parametrize("head", NOT_CLAIMED.values(), ids=NOT_CLAIMED)
def test_anything_else_is_not_claimed(head: bytes) -> None:
    assert not codex.claims(head)


def test_compressed_rollout_is_rejected_with_a_hint() -> None:
    with pytest.raises(Malformed, match="compressed") as error:
        codex.split(b"\x28\xb5\x2f\xfd....", name=NAME)
    assert "zstd -d" in error.value.hint


# ---- records


def speaking(source: Source) -> list[tuple[int, int | None, str]]:
    """Return the line, the parent and the first words of each record."""
    return [(record.line, record.parent, words(record.payload)) for record in source.records]


def words(payload: bytes) -> str:
    said = codex.headline(payload)
    return said.words or said.label


def test_first_session_meta_is_the_header_with_the_thread_id() -> None:
    source = codex.split(rollout(at("session_meta", id="another", timestamp="2020-01-01T00:00:00Z")))
    assert (source.agent, source.source_id, source.started_ms) == ("codex", THREAD, to_ms(START))
    assert [record.line for record in source.meta] == [1]
    assert speaking(source) == [(2, None, "session")]
    assert source.problems == ()


def test_lines_outside_the_conversation_are_grouped_with_the_next_line() -> None:
    noise = event("task_started") + at("world_state", full=True) + at("token_usage_record") + counted(1)
    (record,) = codex.split(rollout(noise, user("hi"))).records
    assert (record.line, len(record.payload.split(b"\n"))) == (6, 5)
    assert json.loads(record_line(record.payload))["payload"]["role"] == "user"


def test_lines_after_the_last_entry_are_the_tail() -> None:
    source = codex.split(rollout(user("hi"), event("task_complete")))
    assert [json.loads(line)["payload"]["type"] for line in (source.tail or b"").split(b"\n")] == [
        "user_message",
        "task_complete",
    ]
    assert codex.split(rollout(said("user", "hi"))).tail == b""


SPEAKS = {
    "a response item": said("user", "hi"),
    "one of a type we do not know": item("telepathy"),
    "a compaction": compacted("s", []),
    "a change of settings": settings(),
    "a roll-back": rolled_back(1),
    "a name": event("thread_name_updated", thread_name="N"),
    "mail of another agent": at("inter_agent_communication", content="hi"),
    "a copy of another thread's header": at("session_meta", id="other"),
    "a type we do not know": at("telepathy"),
}
"""Every line that changes the context, and every unknown line."""


@pytest.mark.parametrize("line", SPEAKS.values(), ids=SPEAKS)
def test_line_that_changes_the_context_is_an_entry(line: Any) -> None:
    assert len(codex.split(rollout(line)).records) == 1


def test_every_record_is_a_child_of_the_previous_one() -> None:
    source = codex.split(rollout(user("hi"), settings("m"), call("c1"), output("c1"), assistant("done")))
    assert speaking(source) == [
        (2, None, "hi"),
        (4, 2, "m"),
        (5, 4, "exec_command"),
        (6, 5, "1 line"),
        (7, 6, "done"),
    ]


def test_a_record_has_the_id_of_its_item() -> None:
    source = codex.split(rollout(said("user", "hi", id="msg_1"), said("user", "hi", id=5), compacted("s")))
    assert [record.source_id for record in source.records] == ["msg_1", None, None]


def test_lines_before_the_header_are_not_grouped() -> None:
    source = codex.split(joined(counted(1)) + b"oops\n" + rollout(said("user", "hi")))
    assert [(record.line, record.parent) for record in source.records] == [(1, None), (2, 1), (4, 2)]
    assert [record.line for record in source.meta] == [3]


def test_file_without_a_header_is_identified_by_its_name() -> None:
    source = codex.split(joined(TALK), name=f"/x/{NAME}")
    assert (source.source_id, source.started_ms) == (THREAD, 0x01A1FFD1326D)
    assert source.problems[0].what == f"no session_meta line: imported as session '{THREAD}'"
    assert codex.split(joined(TALK), name="/x/mine").source_id == "mine"
    with pytest.raises(Malformed):
        codex.split(joined(TALK))


def test_pretty_printed_file_is_read_and_kept_line_by_line() -> None:
    source = codex.split(PRETTY)
    assert (source.source_id, source.started_ms) == (THREAD, to_ms(START))
    assert b"\n".join(record.payload for record in source.records) + b"\n" == PRETTY
    assert "several lines" in source.problems[0].what


def test_partial_line_waits_and_is_reported() -> None:
    data = rollout(user("hi"))
    source = codex.split(data + b'{"type":')
    assert (source.waiting, source.problems[-1].line) == (b'{"type":', 4)
    assert codex.split(data + b'{"type":', final=True).records[-1].payload.endswith(b'{"type":')


# ---- roll-backs (R1)


def parents(data: bytes) -> dict[str, str]:
    """Return, for the first words of each record, those of its parent."""
    source = codex.split(data)
    by_line = {record.line: words(record.payload) for record in source.records}
    return {words(record.payload): by_line.get(record.parent or 0, "") for record in source.records}


def test_r1_a_roll_back_hangs_where_the_turns_it_drops_began() -> None:
    found = parents(rollout(turn("t1"), turn("t2"), turn("t3"), rolled_back(2), turn("t4")))
    assert (found["2 turns"], found["U t4"]) == ("A t1", "2 turns")
    assert found["A t3"] == "mock-model"  # rolled-back turns stay in the store


def test_r1_change_notice_before_a_turn_is_rolled_back_with_it() -> None:
    before = said("developer", PERMISSIONS), said("user", ENVIRONMENT)
    assert parents(rollout(TALK, turn("t3", *before), rolled_back(1)))["1 turn"] == "A t2"


def test_r1_other_developer_messages_are_kept() -> None:
    found = parents(rollout(TALK, turn("t3", said("developer", "be kind"), said("user", ENVIRONMENT)), rolled_back(1)))
    assert found["1 turn"] == "be kind"


def test_r1_too_many_turns_drop_all_turns_and_keep_earlier_items() -> None:
    assert parents(rollout(TALK, rolled_back(9)))["9 turns"] == "environment_context"
    assert parents(rollout(turn("t1"), rolled_back(1)))["1 turn"] == ""


def test_r1_user_items_inserted_by_codex_are_not_turns() -> None:
    aborted = said("user", "<turn_aborted>\nby the user\n</turn_aborted>")
    assert parents(rollout(turn("t1"), turn("t2"), aborted, rolled_back(1)))["1 turn"] == "A t1"


def test_r1_turns_before_a_compaction_count() -> None:
    found = parents(rollout(turn("t1"), turn("t2"), compacted("s", []), turn("t3"), rolled_back(2)))
    assert found["2 turns"] == "A t1"


def test_r1_second_roll_back_counts_the_remaining_turns() -> None:
    found = parents(rollout(turn("t1"), turn("t2"), turn("t3"), rolled_back(1), rolled_back(1)))
    assert found["1 turn"] == "A t1"


@pytest.mark.parametrize("count", [0, -1, "1", None, 1.0, True, 2**80])
def test_r1_a_count_that_is_none_drops_nothing_and_any_is_borne(count: object) -> None:
    parent = parents(rollout(TALK, rolled_back(count), said("user", "end")))["end"]
    assert parent in ("rolled back", "1 turn", f"{count} turns")


# ---- meaning of lines


def view(lines: Any) -> Entry:
    (record,) = codex.split(rollout(lines)).records
    return codex.read(record.payload)


AT_MS = to_ms("2026-11-21T20:34:01.000Z") or 0


def one(role: str, *content: Any, **fields: Any) -> Entry:
    return entries.Message(at_ms=AT_MS, role=role, content=content, **fields)


DATA_URL = f"data:image/png;base64,{PIXEL}"
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}],
             "encrypted_content": "x"}  # fmt: skip
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}

VIEWS = {
    "the user": (said("user", "hi", id="m1"), one("user", Text("hi"), extra={"id": "m1"})),
    "the assistant": (said("assistant", "yo", phase="final"), one("assistant", Text("yo"), extra={"phase": "final"})),
    "a developer": (said("developer", "be kind"), one("developer", Text("be kind"))),
    "a role of its own": (said("ghost", "boo"), one("custom", Text("boo"), extra={"role": "ghost"})),
    "what codex put in": (
        said("user", ENVIRONMENT),
        entries.CustomMessage(
            at_ms=AT_MS, custom_type="environment_context", content=(Text(ENVIRONMENT),), display=False
        ),
    ),
    "a picture": (
        item("message", role="user", content=[{"type": "input_image", "image_url": DATA_URL}]),
        one("user", Image(b64decode(PIXEL), "image/png")),
    ),
    "a picture elsewhere": (
        item("message", role="user", content=[{"type": "input_image", "image_url": "https://x/y.png"}]),
        one("user", File("https://x/y.png", url="https://x/y.png")),
    ),
    "a sound": (
        item("message", role="user", content=[{"type": "input_audio", "data": "x"}]),
        one("user", OtherBlock({"type": "input_audio", "data": "x"})),
    ),
    "a thought": (
        [{"type": "response_item", "payload": REASONING}],
        one("assistant", Thinking("hm", json.dumps(REASONING, separators=(",", ":")))),
    ),
    "a call": (call("c1", "f", '{"a":1}'), one("assistant", ToolCall("c1", "f", {"a": 1}))),
    "a call with arguments that are no object": (
        call("c1", "f", "[1"), one("assistant", ToolCall("c1", "f", {"arguments": "[1"})),
    ),
    "a call of a tool that takes text": (
        item("custom_tool_call", call_id="c1", name="apply_patch", input="*** Begin"),
        one("assistant", ToolCall("c1", "apply_patch", {"input": "*** Begin"})),
    ),
    "a shell call": (
        item("local_shell_call", call_id="c1", action={"command": ["ls"]}),
        one("assistant", ToolCall("c1", "local_shell", {"command": ["ls"]})),
    ),
    "a call without an id": (
        item("function_call", name="f"), one("assistant", OtherBlock({"type": "function_call", "name": "f"})),
    ),
    "what the provider searched": (
        [{"type": "response_item", "payload": SEARCH}], one("assistant", OtherBlock(SEARCH)),
    ),
    "a result": (output("c1", "ok"), one("tool", Text("ok"), tool_call_id="c1")),
    "a result of blocks": (
        output("c1", [{"type": "input_text", "text": "ok"}, {"type": "input_image", "image_url": DATA_URL}]),
        one("tool", Text("ok"), Image(b64decode(PIXEL), "image/png"), tool_call_id="c1"),
    ),
    "a result that failed": (
        output("c1", {"content": "no", "success": False}), one("tool", Text("no"), tool_call_id="c1", is_error=True),
    ),
    "another agent's words": (
        item("agent_message", author="a", recipient="b", content=[{"type": "input_text", "text": "hi"}]),
        entries.CustomMessage(
            at_ms=AT_MS, custom_type="agent_message", content=(Text("hi"),), details={"author": "a", "recipient": "b"}
        ),
    ),
    "files as they were": (
        item("ghost_snapshot", ghost_commit={"id": "abc"}),
        entries.Custom(at_ms=AT_MS, custom_type="ghost_snapshot", data={"id": "abc"}),
    ),
    "a model": (
        at("turn_context", model="gpt", effort="high"),
        entries.ModelChange(at_ms=AT_MS, provider="", model="gpt", extra={"effort": "high"}),
    ),
    "a compaction": (
        compacted("sum", [message("user", "hi")]),
        entries.Compaction(at_ms=AT_MS, summary="sum", preserve={"replacement_history": [message("user", "hi")]}),
    ),
    "a compaction of an older release": (compacted("sum"), entries.Compaction(at_ms=AT_MS, summary="sum")),
    "a roll-back": (
        rolled_back(2), entries.Custom(at_ms=AT_MS, custom_type="thread_rolled_back", data={"num_turns": 2}),
    ),
    "a name": (event("thread_name_updated", thread_name="N"), entries.Title(at_ms=AT_MS, title="N")),
    "an item we do not know": (
        item("telepathy", wave=7),
        entries.UnknownEntry(at_ms=AT_MS, name="response_item", body={
            "timestamp": "2026-11-21T20:34:01.000Z", "type": "response_item",
            "payload": {"type": "telepathy", "wave": 7},
        }),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "entry"), VIEWS.values(), ids=VIEWS)
def test_meaning_of_lines(lines: Any, entry: Entry) -> None:
    assert view(lines) == entry


def test_header_has_the_folder_and_the_parent() -> None:
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": "p", "depth": 1}}}
    (meta,) = codex.split(rollout(forked_from_id="f")).meta
    header = codex.read(meta.payload)
    assert isinstance(header, entries.SessionHeader)
    assert (header.source_id, header.cwd, header.parent, header.at_ms) == (THREAD, "/work", "f", to_ms(START))
    (meta,) = codex.split(joined(at("session_meta", id="c", source=spawned))).meta
    assert codex.read(meta.payload).parent == "p"  # type: ignore[attr-defined]


# ---- headlines

HEADLINES = {
    "the user": (said("user", "hi\nthere"), Headline(
        kind="message", role="user", label="user", words="hi", body="hi\nthere")),
    "the assistant": (said("assistant", "yo"), Headline(
        kind="message", role="assistant", label="assistant", words="yo", body="yo")),
    "a developer": (said("developer", "be\nkind"), Headline(
        kind="message", role="developer", label="developer", words="be")),
    "what codex put in": (said("user", ENVIRONMENT), Headline(
        kind="custom_message", role="custom", label="context", words="environment_context")),
    "a thought": ([{"type": "response_item", "payload": REASONING}], Headline(
        kind="message", role="assistant", label="thinking", words="hm")),
    "a call": (call("c1", "f"), Headline(kind="message", role="assistant", label="assistant", words="f", calls=1)),
    "a search": ([{"type": "response_item", "payload": SEARCH}], Headline(
        kind="message", role="assistant", label="assistant", words="web_search", calls=1)),
    "a result": (output("c1", "a\nb"), Headline(kind="message", role="tool", label="tool", words="2 lines")),
    "a result that failed": (output("c1", {"content": "a", "success": False}), Headline(
        kind="message", role="tool", label="tool", words="error, 1 line")),
    "a model": (at("turn_context", model="gpt", effort="high"), Headline(
        kind="model_change", label="model", words="gpt high")),
    "settings without a model": (at("turn_context", cwd="/"), Headline(kind="turn_context", label="turn_context")),
    "a compaction": (compacted("sum", [{}, {}]), Headline(
        kind="compaction", label="compaction", words="2 items stay", body="sum")),
    "a compaction that tells the model what it is": (
        compacted("Another language model started to solve this problem and so on:\nsum"),
        Headline(kind="compaction", label="compaction", body="sum")),
    "a roll-back": (rolled_back(1), Headline(kind="custom", label="rolled back", words="1 turn")),
    "a name": (event("thread_name_updated", thread_name="N"), Headline(kind="title", label="title", words="N")),
    "another agent's words": (item("agent_message", content=[{"type": "input_text", "text": "hi"}]), Headline(
        kind="custom_message", role="custom", label="agent message", words="hi", body="hi")),
    "a snapshot": (item("ghost_snapshot", ghost_commit={"id": "abc"}), Headline(
        kind="custom", label="ghost_snapshot", words="abc")),
    "an item we do not know": (item("telepathy"), Headline(kind="telepathy", label="telepathy")),
    "a line we do not know": (at("telepathy"), Headline(kind="telepathy", label="telepathy")),
    "a copy of a header": (at("session_meta", id="x", cwd="/w"), Headline(kind="session", label="session", words="/w")),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), HEADLINES.values(), ids=HEADLINES)
def test_headline_of_lines(lines: Any, expected: Headline) -> None:
    (record,) = codex.split(rollout(lines)).records
    found = codex.headline(record.payload)
    assert found.at_ms == AT_MS
    assert found == expected.at(AT_MS)


def test_kind_stated_by_a_message_is_used() -> None:
    for lines, entry in VIEWS.values():
        (record,) = codex.split(rollout(lines)).records
        if not isinstance(entry, entries.UnknownEntry):
            assert codex.headline(record.payload).kind == entry.kind


def test_bytes_that_do_not_parse_are_said_to_be_so() -> None:
    assert codex.headline(b"oops").words == "4 bytes that do not parse"
    assert codex.headline(b"").words == "blank line"
    assert codex.read(b"oops") == entries.Opaque(payload=b"oops", problem="not JSON: Expecting value, column 1")


STRANGE = [None, 5, "x", [], {}, [[]], {"type": 5}, {"type": []}, {"content": 5}, {"content": [5, None, {"text": 5}]}]


@pytest.mark.parametrize("value", STRANGE, ids=repr)
def test_no_value_of_any_field_is_too_strange(value: Any) -> None:
    names = ("message", "reasoning", "function_call", "local_shell_call", "tool_search_call", "function_call_output",
             "tool_search_output", "agent_message", "ghost_snapshot", "compaction")  # fmt: skip
    fields = ("role", "content", "summary", "name", "arguments", "input", "action", "call_id", "output", "tools",
              "ghost_commit", "id")  # fmt: skip
    lines = [line for name in names for field in fields for line in item(name, **{field: value})]
    lines += [
        line
        for kind in ("turn_context", "compacted", "inter_agent_communication", "x", "session_meta")
        for field in ("model", "message", "replacement_history", "content", "source", "id", "effort")
        for line in at(kind, **{field: value})
    ]
    lines += event("thread_rolled_back", num_turns=value) + event("thread_name_updated", thread_name=value)
    lines += [
        {"type": value},
        {"type": "response_item", "payload": value},
        {"type": "event_msg", "payload": value},
        {"type": "compacted", "payload": value, "timestamp": value},
    ]
    for record in codex.split(rollout(lines)).records:
        codex.headline(record.payload)
        codex.read(record.payload)


# ---- location of files


def test_session_file_is_in_the_folder_of_its_date() -> None:
    at_ms = int(datetime(2026, 11, 21, 20, 34, 22, tzinfo=UTC).timestamp() * 1000)
    header = entries.SessionHeader(agent="codex", source_id=THREAD, at_ms=at_ms)
    assert codex.session_path(header, Workspace("/work")) == f"sessions/2026/11/21/{NAME}.jsonl"
    assert codex.resume_command(THREAD) == ["codex", "resume", THREAD]
