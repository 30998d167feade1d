"""Tests of traces: sessions written in the JSON form of OpenTelemetry's protocol, and traces read as sessions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from builders import shared_files
from commands import Run

from gitsession import Compaction, GitSessionError, Malformed, Message, Store, Thinking, ToolCall, text
from gitsession.frameworks.traces import TraceRecorder, answers_in
from gitsession.model.genai_messages import from_genai, to_genai


def spans_of(data: bytes) -> dict[str, dict[str, Any]]:
    """Return the spans of a trace by name, each with its attributes as a mapping."""
    [resource] = json.loads(data)["resourceSpans"]
    [scope] = resource["scopeSpans"]
    return {
        span["name"]: span | {"attributes": {each["key"]: each["value"] for each in span["attributes"]}}
        for span in scope["spans"]
    }


def messages_of(store: Store, sid: str) -> list[Any]:
    """Return the messages of each branch as a trace holds them, in any order of the branches."""
    session = store.session(sid)
    lines = []
    for name in session.branches():
        entries = [session.read(node) for node in session.on(name).history()]
        lines.append([to_genai(entry) for entry in entries if isinstance(entry, Message)])
    return sorted(lines, key=repr)


def document(*spans: dict[str, Any]) -> bytes:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": list(spans)}]}]}).encode()


def answered(at: int, *inputs: str, output: str = "Done") -> dict[str, Any]:
    """Return a span of an answer. ``inputs``: the texts of the messages, by the user and by the model in turn."""
    roles = ("user", "assistant")
    told = [{"role": roles[n % 2], "parts": [{"type": "text", "content": each}]} for n, each in enumerate(inputs)]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": output}], "finish_reason": "stop"}]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": "c",
        "gen_ai.input.messages": json.dumps(told),
        "gen_ai.output.messages": json.dumps(said),
    }
    values = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    times = {"startTimeUnixNano": str(at * 10**9), "endTimeUnixNano": str((at + 1) * 10**9)}
    return {"traceId": "0" * 32, "spanId": f"{at:016x}", "name": "chat", **times, "attributes": values}


@pytest.fixture
def store() -> Store:
    return Store.in_memory()


def test_a_session_is_a_trace_of_its_answers_and_tools(store: Store) -> None:
    session = store.new_session(agent="mine", cwd="/work")
    call = ToolCall("c1", "bash", {"command": "ls"})
    session.append(Message.user("List the files", at_ms=1_000))
    usage = {"input": 10, "output": 5, "cacheRead": 3}
    session.append(Message.assistant([text("I look."), call], at_ms=2_000, provider="openai", model="gpt", usage=usage))
    session.append(Message.tool(call, "a.py", at_ms=4_000, is_error=True))
    session.append(Compaction(summary="Short", at_ms=5_000))
    session.append(Message.assistant("Failed", at_ms=6_000, stop="error", error="overloaded"))
    spans = spans_of(store.export(session.id, to="otlp").data)
    root, chat, tool = spans["invoke_agent mine"], spans["chat gpt"], spans["execute_tool bash"]
    assert root["attributes"]["gen_ai.conversation.id"] == {"stringValue": session.id}
    assert [event["name"] for event in root["events"]] == ["session.compaction"]
    assert (chat["startTimeUnixNano"], chat["endTimeUnixNano"]) == ("1000000000", "2000000000")
    assert chat["attributes"]["gen_ai.usage.input_tokens"] == {"intValue": "13"}
    [said] = json.loads(chat["attributes"]["gen_ai.output.messages"]["stringValue"])
    assert [part["type"] for part in said["parts"]] == ["text", "tool_call"]
    assert (tool["startTimeUnixNano"], tool["endTimeUnixNano"]) == ("2000000000", "4000000000")
    assert tool["attributes"]["gen_ai.tool.call.arguments"] == {"stringValue": '{"command": "ls"}'}
    assert tool["status"] == {"code": 2} and spans["chat"]["status"] == {"code": 2, "message": "overloaded"}
    assert {span["parentSpanId"] for span in (chat, tool)} == {root["spanId"]}
    assert spans["chat"]["links"] == [{"traceId": chat["traceId"], "spanId": chat["spanId"]}]


def test_a_trace_is_read_as_the_same_messages_and_branches(store: Store) -> None:
    session = store.new_session(agent="mine")
    call = ToolCall("c1", "read", {"path": "a.py"})
    session.append(Message.user("Read it"))
    session.append(Message.assistant([Thinking("Hm"), call], model="m", stop="tool_use"))
    at = session.append(Message.tool(call, "content"))
    session.append(Message.assistant("It is short", model="m", stop="stop"))
    session.branch("side", at=at).append(Message.assistant("It is long", model="m", stop="stop"))
    data = store.export(session.id, to="otlp").data
    with Store.in_memory() as other:
        [done] = TraceRecorder(other).record(answers_in(data))
        assert (done.entries, done.new) == (5, 5)
        assert messages_of(other, done.session) == messages_of(store, session.id)
        [again] = TraceRecorder(other).record(answers_in(data))
        assert (again.session, again.new) == (done.session, 0)
        assert other.session(f"mine:{session.id}").id == done.session


def answers(data: bytes) -> list[Any]:
    """Return the output, the tokens and the status of each answer in a trace, in any order."""
    names = ("gen_ai.output.messages", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")
    found = []
    for resource in json.loads(data)["resourceSpans"]:
        for span in (span for scope in resource["scopeSpans"] for span in scope["spans"] if span["kind"] == 3):
            attributes = {each["key"]: each["value"] for each in span["attributes"]}
            found.append(([attributes.get(name) for name in names], span.get("status")))
    return sorted(found, key=repr)


@pytest.mark.parametrize("agent", ["claude", "codex", "omp", "pi"])
def test_traces_of_the_sample_sessions_can_be_read(store: Store, agent: str) -> None:
    files: Sequence[Path] = shared_files(agent)
    for file in files:
        try:
            done = store.import_file(file)
        except GitSessionError:
            continue  # the samples have files that continue others, and files that are no sessions
        for each in done:
            data = store.export(each.session, to="otlp").data
            with Store.in_memory() as other:
                for found in TraceRecorder(other).record(answers_in(data)):
                    assert answers(other.export(found.session, to="otlp").data) == answers(data), file


def test_only_new_messages_of_a_whole_input_are_appended(store: Store) -> None:
    first = answered(1, "Hello", output="Hi")
    second = answered(2, "Hello", "Hi", "And now?", output="Now this")
    [done] = TraceRecorder(store).record(answers_in(document(first, second)))
    assert (done.entries, done.new) == (4, 4)
    session = store.session("shop:c")
    subjects = [node.subject for node in session.history()][1:]
    assert subjects == ["user: Hello", "assistant: Hi", "user: And now?", "assistant: Now this"]
    third = answered(3, "Hello", "Hi", "And now?", "Now this", "Thanks", output="Welcome")
    [done] = TraceRecorder(store).record(answers_in(document(third)))
    assert done.new == 2 and len(session.branches()) == 1


def test_an_input_that_differs_begins_a_branch(store: Store) -> None:
    spans = [answered(1, "Hello", output="Hi"), answered(2, "Name this conversation", output="Greeting")]
    TraceRecorder(store).record(answers_in(document(*spans, answered(3, "Hello", "Hi", "Again", output="Yes"))))
    session = store.session("shop:c")
    assert set(session.branches()) == {"main", "chat-2"}
    subjects = [node.subject for node in session.on("chat-2").history()][1:]
    assert subjects == ["user: Name this conversation", "assistant: Greeting"]
    leaf = session.on("main").leaf
    assert leaf is not None and leaf.subject == "assistant: Yes"


_ODD_TIME = {
    "attributes": [{"key": "gen_ai.input.messages", "value": {"stringValue": "[]"}}],
    "startTimeUnixNano": "soon",
}
BAD = {
    "not JSON": b"{",
    "a list": b"[]",
    "no spans": b"{}",
    "a number": b'{"resourceSpans": 1}',
    "a time": document(_ODD_TIME),
    "deep": b'{"resourceSpans": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(Malformed, match="not a trace in the JSON form"):
        list(answers_in(data))


def test_odd_messages_are_stored_as_they_are(store: Store) -> None:
    span = answered(1, "Hello")
    odd = [None, {"role": 3, "parts": [{"type": "new", "x": 1}, 7]}, {"role": "user", "content": "plain"}]
    span["attributes"].append({"key": "gen_ai.input.messages", "value": {"stringValue": json.dumps(odd)}})
    [done] = TraceRecorder(store).record(answers_in(document(span)))
    session = store.session(done.session)
    found = [entry for node in session.history() if isinstance(entry := session.read(node), Message)]
    assert [entry.role for entry in found] == ["custom", "custom", "user", "assistant"]
    assert to_genai(found[1])["parts"] == [{"type": "new", "x": 1}, {"type": "other", "content": 7}]


def test_several_tool_results_in_one_message_are_entries_of_their_own() -> None:
    parts = [{"type": "tool_call_response", "id": id, "response": {"ok": id}} for id in ("a", "b")]
    found = list(from_genai({"role": "tool", "parts": parts}))
    assert [(each.role, each.tool_call_id, each.text) for each in found] == [
        ("tool", "a", '{"ok": "a"}'),
        ("tool", "b", '{"ok": "b"}'),
    ]


def test_the_command_line_writes_and_reads_traces(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(document(answered(1, "Find the bug")))
    assert "2 entries  Find the bug" in run("import", "--from", "otlp", str(path))
    assert "Find the bug" in run("log", "shop:c")
    assert json.loads(run("export", "shop:c", "--to", "otlp"))["resourceSpans"]
    assert "cannot be combined" in run("import", "--from", "otlp", "--dry-run", str(path), code=2, err=True)
