"""Tests of ``gitsession rpc``: the protocol, the methods and their schema, the events, and concurrent requests."""

from __future__ import annotations

import io
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from builders import header as pi_header
from builders import said as user_line
from commands import Run
from rpc_clients import EVENT, PROGRAM, SCHEMA, Client, answers, begin, request, said

import gitsession
from gitsession import Message, Store, errors
from gitsession.cli.rpc import methods
from gitsession.codec import json_text
from gitsession.jsonrpc.server import CANCELLED, CODES, INTERNAL, METHOD, PARAMS, PARSE, REQUEST, RpcServer


@pytest.fixture
def client(here: Path) -> Iterator[Client]:
    client = Client(here)
    yield client
    assert client.close() == 0


def test_session_of_a_client_from_its_first_entry_to_an_export(client: Client, here: Path) -> None:
    """Every method returns what its schema states (``Client.call``)."""
    assert client.call("version")["methods"] == list(methods.METHODS)
    session, ids = begin(client, "Fix the login", "and the tests")
    (here / "a.txt").write_text("1\n")
    assert client.call("checkpoint", session=session, reason="before")["files"] == 1
    (here / "a.txt").write_text("2\n")
    client.call("checkpoint", session=session, phase="after")
    assert client.call("sessions.list")["sessions"][0]["session"] == session
    assert client.call("sessions.list", folder=str(here), newest=0)["sessions"] == []
    assert client.call("sessions.open", session=session[:12])["project"] == str(here)
    assert client.call("read", session=session, at="leaf~1")["body"]["content"] == [
        {"type": "text", "text": "Fix the login"}
    ]
    assert [one["id"] for one in client.call("log", session=session, limit=2)["entries"]] == ids[::-1]
    assert len(client.call("tree", session=session)["entries"]) == 3
    assert client.call("sessions.label", session=session, label="good")["text"] == "good"
    assert client.call("sessions.rename", session=session, title="Login")["text"] == "Login"
    assert client.call("branch.create", session=session, name="side", at="leaf~1")["leaf"] == ids[0]
    assert client.call("branch.switch", session=session, branch="side")["leaf"] == ids[0]
    assert client.call("branch.list", session=session)["branch"] == "side"
    client.call("branch.switch", session=session, branch="main")
    found = client.call("context", session=session, window=1000, policies=["drop-images"], form="anthropic")
    assert [each["id"] for each in found["context"]["messages"]] == ids
    assert found["request"]["messages"][0]["role"] == "user"
    assert client.call("search", query="login", role="user")["hits"][0]["entry"] == ids[0]
    assert client.call("export", session=session, to="markdown")["text"].startswith("# Login")
    assert client.call("rewind.plan", session=session, at=ids[0], workspace=".")["moved"] is True
    assert client.call("rewind.perform", session=session, at=ids[1], parts="conversation")["prompt"] == "and the tests"
    assert client.call("undo", session=session)["command"].startswith("rewind ")
    assert client.call("redo", session=session)["command"].startswith("rewind ")
    fork = client.call("sessions.fork", session=session, at=ids[0])["session"]
    assert client.call("sessions.delete", session=fork)["session"] == fork
    compacted = client.call("compact", session=session, keep_tokens=0, summarizer="extractive")
    assert (compacted["id"] is None) == (compacted["summary"] is None)
    with Store.open() as store:
        assert store.verify().problems == []
        assert [row.sid for row in store.sessions()] == [session]


def test_lines_of_a_file_are_appended_read_and_reported(client: Client) -> None:
    header, first, second = (line.decode() for line in (pi_header("x"), user_line("a", None), user_line("b", "a")))
    assert client.call("subscribe", events=["entry"])["subscription"] == 1
    session = client.call("lines.new", agent="pi", lines=[header])["session"]
    assert client.call("lines.append", session="pi:x", lines=[first, second], after=1)["count"] == 3
    assert client.call("lines.read", session=session) == {
        "session": session,
        "lines": [header, first, second],
        "count": 3,
    }
    assert client.call("lines.read", session=session, after=1, limit=1)["lines"] == [first]
    ids = {client.event()["entry"]["source_id"] for _ in range(3)}
    assert ids == {None, "a", "b"}
    assert client.call("read", session=session, at="b")["body"]["content"] == [{"type": "text", "text": "words of b"}]
    refused = client.ask("lines.append", session=session, lines=[user_line("c", "b").decode()], after=2)["error"]
    assert (refused["code"], refused["data"]["type"]) == (CODES[errors.LeafMoved], "LeafMoved")
    broken = client.ask("lines.append", session=session, lines=['{"type":"custom","id":"\ud800"}'], after=3)["error"]
    assert broken["data"]["type"] == "Malformed"


def test_events_of_all_kinds_are_sent_although_another_process_writes(client: Client, run: Run, here: Path) -> None:
    assert client.call("subscribe") == {"subscription": 1}
    with Store.open() as store:
        session = store.new_session(agent="a", cwd=str(here))
        first = session.append(Message.user("hello"))
        found = [client.event()["event"] for _ in range(4)]
        assert found == ["session-created", "branch-created", "entry", "entry"]
        actions: list[tuple[Any, dict[str, Any]]] = [
            (lambda: session.append(Message.user("two")), {"event": "entry", "branch": "main"}),
            (lambda: session.label(first, "good"), {"event": "label", "text": "good"}),
            (lambda: session.rename("Named"), {"event": "title", "text": "Named"}),
            (lambda: session.files.take_checkpoint(workspace=here), {"event": "checkpoint"}),
            (lambda: session.branch("side", first), {"event": "branch-created", "tip": first.oid}),
            (lambda: session.switch("side"), {"event": "branch-switched", "branch": "side"}),
            (lambda: store.undo(session=session.id), {"event": "branch-switched", "branch": "main"}),
            (lambda: store.undo(session=session.id), {"event": "branch-removed", "branch": "side"}),
            (lambda: store.trash.put(session.id), {"event": "session-removed"}),
        ]
        for act, expected in actions:
            act()
            wanted = {"session": session.id, **expected}
            while not wanted.items() <= (event := client.event()).items():
                pass
            is_of_a_branch = event["event"] == "entry" or event["event"].startswith("branch-")
            assert event.get("branch") in (("main", "side") if is_of_a_branch else (None,))
    client.call("unsubscribe", subscription=1)
    assert client.ask("unsubscribe", subscription=1)["error"]["data"]["type"] == "NotFound"


def test_subscription_reports_only_its_kinds_and_its_session(client: Client) -> None:
    (one, _), (other, _) = begin(client, "a"), begin(client, "b")
    client.call("subscribe", session=one, events=["entry"])
    for session in (other, one):
        client.call("sessions.rename", session=session, title="t")
        client.call("append", session=session, entry=said("c"))
    found = client.event()
    assert (found["session"], found["event"], found["entry"]["body"]["content"][0]["text"]) == (one, "entry", "c")
    assert client.events.empty()


def test_fork_is_one_event_with_its_parent_and_entries_that_it_shares_are_not_new(client: Client) -> None:
    session, ids = begin(client, "a", "b")
    client.call("subscribe")
    fork = client.call("sessions.fork", session=session)["session"]
    client.call("branch.create", session=fork, name="above", at=ids[0])
    new = client.call("append", session=fork, entry=said("c"))["id"]
    found = [client.event()]
    while found[-1].get("entry", {}).get("id") != new:
        found.append(client.event())
    assert {event["session"] for event in found} == {fork}
    assert [event["parent"] for event in found if event["event"] == "session-created"] == [session]
    assert [event["entry"]["kind"] for event in found if event["event"] == "entry"] == ["fork", "message"]


def test_errors_have_stable_codes_and_hints(client: Client) -> None:
    session, ids = begin(client, "a", "b")
    moved = client.ask("append", session=session, entry=said("c"), expected=ids[0])["error"]
    assert (moved["code"], moved["data"]["type"]) == (-32009, "LeafMoved")
    assert moved["data"]["hint"]
    missing = client.ask("read", session=session, at="nothing")["error"]
    assert (missing["code"], missing["data"]["type"]) == (-32003, "NotFound")
    begin(client, "c")
    ambiguous = client.ask("sessions.open", session=session[:6])["error"]
    assert (ambiguous["code"], len(ambiguous["data"]["candidates"])) == (-32004, 2)
    assert client.ask("append", session=session, entry={"kind": "x"})["error"]["code"] == -32001
    assert client.ask("branch.create", session=session, name="../x")["error"]["code"] == -32002
    unknown = client.ask("lines.list")["error"]
    assert (unknown["code"], unknown["message"]) == (METHOD, "unknown method 'lines.list'")


def test_every_error_class_has_its_own_code() -> None:
    classes = {found for found in vars(errors).values() if isinstance(found, type) and issubclass(found, Exception)}
    assert classes <= CODES.keys()
    assert len({CODES[found] for found in classes}) == len(classes)


def test_fork_of_a_moved_branch_and_pending_session(client: Client) -> None:
    session, ids = begin(client, "a", "b")
    forked = client.call("append", session=session, entry=said("c"), expected=ids[0], on_moved="fork")
    assert forked["branch"] != "main"
    assert (
        client.call("append", session=session, entry=said("d"), branch=forked["branch"])["branch"] == forked["branch"]
    )
    new = client.call("sessions.new", agent="a")["session"]
    assert client.call("append", session=new, entry={"kind": "reset"})["stored"] is False
    assert client.call("append", session=new, entry=said("now"))["stored"] is True
    assert client.call("read", session=new, at="leaf~1")["kind"] == "reset"


# ---- the protocol, without a process


INVALID: dict[str, tuple[bytes, int]] = {
    "no JSON": (b"{", PARSE),
    "no UTF-8": (b'"\xff"', PARSE),
    "nested": (b"[" * 100_000, PARSE),
    "a number": (b"1", REQUEST),
    "an empty batch": (b"[]", REQUEST),
    "a large batch": (json.dumps([1] * 1001).encode(), REQUEST),
    "no version": (b'{"id": 1, "method": "double"}', REQUEST),
    "method is a number": (b'{"jsonrpc": "2.0", "id": 1, "method": 1}', REQUEST),
    "unknown method": (request(method="none"), METHOD),
    "unknown parameter": (request(number=1, other=1), PARAMS),
    "missing parameter": (request(), PARAMS),
    "wrong type": (request(number="1"), PARAMS),
    "true is no integer": (request(number=True), PARAMS),
    "wrong item": (request(number=1, choice=[1]), PARAMS),
    "too many values": (b'{"jsonrpc": "2.0", "id": 1, "method": "double", "params": [1, "x", [], 4]}', PARAMS),
    "params is text": (b'{"jsonrpc": "2.0", "id": 1, "method": "double", "params": "x"}', PARAMS),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_message_is_answered_by_its_code_and_the_server_continues(name: str) -> None:
    line, code = INVALID[name]
    first, second = answers(line, request(id="next", number=2))
    assert (first["jsonrpc"], first["error"]["code"]) == ("2.0", code)
    assert second == {"jsonrpc": "2.0", "result": {"number": 4}, "id": "next"}


def test_line_that_is_too_long_is_answered_and_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "LINE_BYTES_MAX", 200)
    first, second = answers(request(number=1, name="x" * 1000), request(number=1))
    assert (first["error"]["code"], "too long" in first["error"]["message"], second["id"]) == (PARSE, True, 1)


def test_batch_is_answered_by_one_array_without_its_notifications() -> None:
    notification = {"jsonrpc": "2.0", "method": "double", "params": [1]}
    calls = [json.loads(request(number)) | {"params": [number]} for number in (1, 2)]
    [found] = answers(json.dumps([calls[0], notification, calls[1], 7]).encode(), json.dumps([notification]).encode())
    assert [one.get("result") for one in found] == [{"number": 2}, {"number": 4}, None]
    assert found[2]["error"]["code"] == REQUEST


def test_unexpected_error_is_answered() -> None:
    def fail(name: str, given: object) -> None:
        raise RuntimeError("broken")

    [found] = answers(request(number=1), call=fail)
    assert found["error"]["code"] == INTERNAL


def test_request_that_waits_can_be_cancelled_and_a_slow_one_delays_no_other() -> None:
    gate, order = threading.Event(), []

    def call(name: str, given: dict[str, Any]) -> str:
        if given["number"] == 0:
            assert gate.wait(60)
        order.append((name, given["number"]))
        if given["number"] == 9:
            gate.set()
        return "done"

    def slow(self: object, number: int) -> str:
        """Wait."""
        return ""

    cancel = b'{"jsonrpc": "2.0", "method": "cancel", "params": {"id": 2}}'
    lines = request(1, "ordered", number=0), request(2, "ordered", number=1), cancel, request(3, "beside", number=9)
    found = answers(*lines, table={"ordered": slow, "beside": slow}, call=call, concurrent=("beside",))
    assert order == [("beside", 9), ("ordered", 0)]
    assert {one["id"]: one.get("error", {}).get("code") for one in found} == {1: None, 2: CANCELLED, 3: None}


def test_requests_of_one_session_are_appended_in_their_order(here: Path) -> None:
    """A client need not wait for an answer before it sends the next entry."""
    client = Client(here)
    session, _ = begin(client, "first")
    for number in range(30):
        entry = said(str(number))
        client.send(
            {"jsonrpc": "2.0", "id": f"n{number}", "method": "append", "params": {"session": session, "entry": entry}}
        )
    assert client.close() == 0
    with Store.open() as store:
        found = store.session(session)
        texts = [entry.text for node in found.history() if isinstance(entry := found.read(node), Message)]
    assert texts == ["first", *map(str, range(30))]


def test_closed_pipe_of_the_answers_ends_the_server_quietly(here: Path) -> None:
    command = f"yes '{request(1, 'version').decode()}' | {' '.join(PROGRAM)} rpc | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=120)
    assert (len(done.stdout.splitlines()), done.stderr) == (1, "")


def test_full_disk_of_the_answers_is_an_error(here: Path) -> None:
    command = f"echo '{request(1, 'version').decode()}' | {' '.join(PROGRAM)} rpc > /dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode != 0, "No space left on device" in done.stderr) == (True, True), done.stderr


def test_requests_without_answers_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitsession.jsonrpc.server._PENDING_MAX", 3)
    gate, read = threading.Event(), []

    class Requests(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            read.append(1)
            if len(read) == 4:
                threading.Timer(0.2, gate.set).start()
            assert len(read) < 6 or gate.is_set(), "a request was read although three have no answer"
            return super().readline(size)

    def wait(name: str, params: object) -> str:
        assert gate.wait(60)
        return ""

    out = io.BytesIO()
    RpcServer(wait, (), out).serve(Requests(b"".join(request(n, "slow") + b"\n" for n in range(9))))
    assert len(out.getvalue().splitlines()) == 9


# ---- the schema


def test_printed_schema_is_that_of_the_methods_and_valid(run: Run) -> None:
    document = json.loads(run("rpc", "--schema"))
    assert [one["name"] for one in document["methods"]] == list(methods.METHODS)
    assert document["info"]["version"] == gitsession.__version__
    for one in document["methods"]:
        assert one["summary"], one["name"]
        jsonschema.Draft202012Validator.check_schema(one["result"]["schema"])
        for parameter in one["params"]:
            assert parameter["description"], (one["name"], parameter["name"])
            jsonschema.Draft202012Validator.check_schema(parameter["schema"])


def test_every_field_of_a_result_is_described() -> None:
    for result in [EVENT, *(one["result"]["schema"] for one in SCHEMA.values())]:
        for name, field in result.get("properties", {}).items():
            assert field.get("description"), name
