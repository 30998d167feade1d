"""Tests of ``gitsession rpc`` with kills, concurrent servers, and clients that do not follow the protocol."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rpc_clients import PROGRAM, Client, answers, begin, request, said

from gitsession import Message, Refused, Store
from gitsession.cli.rpc import subscriptions
from gitsession.jsonrpc.server import CANCELLED, PARSE, RpcServer

MEBIBYTE = 1 << 20


def texts(sid: str) -> list[str]:
    """Return the texts of a session's active branch, the oldest first. The store must be without damage."""
    with Store.open() as store:
        assert store.verify().problems == []
        session = store.session(sid)
        found = (session.read(node) for node in session.history())
        return [entry.text for entry in found if isinstance(entry, Message)]


@pytest.mark.parametrize("after", [1, 7, 20])
def test_entries_that_were_answered_survive_a_kill_and_a_client_continues(here: Path, after: int) -> None:
    client = Client(here)
    session, [last] = begin(client, "first")
    for number in range(60):  # the kill is in the middle of them: at most ``after`` answers are read before
        client.send(json.loads(request(f"n{number}", "append", session=session, entry=said(str(number)))))
    answered = [client.answers.get(timeout=60)["result"]["id"] for _ in range(after)]
    client.kill()
    while not client.answers.empty():
        answered.append(client.answers.get()["result"]["id"])
    client = Client(here)
    stored = [each["id"] for each in client.call("log", session=session)["entries"]][::-1]
    assert stored[1 : len(answered) + 2] == [last, *answered]
    again = client.ask("append", session=session, entry=said("again"), expected=answered[-1])
    if stored[-1] == answered[-1]:
        assert "result" in again
    else:
        assert again["error"]["data"]["type"] == "LeafMoved"
        client.call("append", session=session, entry=said("again"), expected=stored[-1])
    assert client.close() == 0
    found = texts(session)
    assert found == ["first", *map(str, range(len(found) - 2)), "again"]


def test_two_servers_append_to_one_session(here: Path) -> None:
    clients = [Client(here), Client(here)]
    session, _ = begin(clients[0], "first")

    def append(number: int) -> list[str]:
        return [
            clients[number].call("append", session=session, entry=said(f"{number}.{at}"))["branch"] for at in range(25)
        ]

    with ThreadPoolExecutor(2) as pool:
        assert [set(branches) for branches in pool.map(append, range(2))] == [{"main"}, {"main"}]
    assert [client.close() for client in clients] == [0, 0]
    found = texts(session)
    assert len(found) == 51
    for number in range(2):
        assert [text for text in found if text.startswith(f"{number}.")] == [f"{number}.{at}" for at in range(25)]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc")
def test_subscriber_that_does_not_read_blocks_nobody_and_loses_no_event(here: Path) -> None:
    with Store.create(here / "store.git"):
        pass
    command = [*PROGRAM, "--store", "store.git", "rpc"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=here)
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(request(1, "subscribe", events=["entry"]) + b"\n")
    server.stdin.flush()
    assert b"result" in server.stdout.readline()
    with Store.open(here / "store.git") as store:
        session = store.new_session(agent="a")
        for number in range(40):  # 4 MB of events, of which the pipe takes 64 KiB
            session.append(Message.user(f"{number} " + "x" * 100_000))
        ids = [node.oid for node in session.history()]
    assert memory_bytes(server.pid) < 400 * MEBIBYTE
    found = [json.loads(server.stdout.readline())["params"]["entry"]["id"] for _ in ids]
    assert found == ids
    server.stdin.close()
    assert server.stdout.read() == b""
    assert server.wait(60) == 0
    server.stdout.close()


def memory_bytes(pid: int) -> int:
    """Return the largest size that the memory of a process had."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", text)[0]) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc")
def test_line_of_100_megabytes_is_answered_by_an_error(here: Path) -> None:
    client = Client(here)
    assert client.process.stdin is not None
    client.process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "')
    for _ in range(100):
        client.process.stdin.write(b"x" * MEBIBYTE)
    client.process.stdin.write(b'"}\n')
    client.process.stdin.flush()
    answer = client.answers.get(timeout=60)
    assert (answer["id"], answer["error"]["code"]) == (None, PARSE)
    assert "too long (limit: 67,108,864 bytes)" in answer["error"]["message"]
    assert client.call("version")["protocol"] == 1
    assert memory_bytes(client.process.pid) < 300 * MEBIBYTE
    assert client.close() == 0


def test_half_a_line_before_the_end_of_the_input_is_answered_by_an_error() -> None:
    whole, half = request(1, number=1), request(2, number=1)[:-5]
    first, second = answers(whole, half, ends=False)
    assert first["id"] == 1
    assert (second["id"], second["error"]["code"]) == (None, PARSE)


def test_last_line_needs_no_newline() -> None:
    assert [answer["id"] for answer in answers(request(1, number=1), request(2, number=1), ends=False)] == [1, 2]


def test_requests_with_the_same_id_are_all_answered_and_the_waiting_one_can_be_cancelled() -> None:
    received, first, gate = threading.Event(), threading.Event(), threading.Event()

    def call(name: str, given: object) -> str:
        assert (gate if name == "ordered" else received).wait(60)
        return name

    class Requests(io.BytesIO):
        """Requests, of which the cancellation is read after the answer to the first request with the id 7."""

        def readline(self, size: int | None = -1, /) -> bytes:
            line = super().readline(size)
            if b"cancel" in line:
                received.set()
                assert first.wait(60)
            if not line:
                gate.set()
            return line

    class Answers(io.BytesIO):
        def flush(self) -> None:
            first.set()

    out = Answers()
    cancel = b'{"jsonrpc": "2.0", "method": "cancel", "params": {"id": 7}}'
    lines = [request(1, "ordered"), request(7, "beside"), request(7, "ordered"), cancel]
    RpcServer(call, ("beside",), out).serve(Requests(b"\n".join(lines) + b"\n"))
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    assert sorted(str((each["id"], each.get("result"), each.get("error", {}).get("code"))) for each in found) == sorted(
        map(str, [(1, "ordered", None), (7, "beside", None), (7, None, CANCELLED)])
    )


def test_subscriptions_are_limited(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "SUBSCRIPTIONS_MAX", 2)
    with Store.create(here / "store.git") as store:
        found = subscriptions.Subscriptions(store, lambda method, params: None, lambda: None)
        numbers = [found.add(None, None) for _ in range(2)]
        with pytest.raises(Refused, match="2 subscriptions"):
            found.add(None, None)
        found.remove(numbers[0])
        assert found.add(None, None) == 3
        found.close()
