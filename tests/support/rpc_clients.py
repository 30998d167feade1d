"""A client of ``gitsession rpc`` in a process, and requests to a server without a process."""

from __future__ import annotations

import contextlib
import io
import json
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import jsonschema

from gitsession.cli.rpc import methods, openrpc
from gitsession.cli.rpc.results import EventParameters
from gitsession.jsonrpc import schema
from gitsession.jsonrpc.server import RpcServer, arguments

PROGRAM = [sys.executable, "-m", "gitsession"]
SCHEMA = {one["name"]: one for one in openrpc.openrpc(methods.METHODS, "1", [])["methods"]}
EVENT = schema.schema_of(EventParameters)


class Client:
    """A client of a server process, which checks each answer and each event against its schema."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen([*PROGRAM, "rpc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder)
        self.events: queue.Queue[dict[str, Any]] = queue.Queue()
        self.answers: queue.Queue[Any] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._last = 0

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            (self.events if isinstance(message, dict) and "method" in message else self.answers).put(message)

    def send(self, message: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        self.send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        answer: dict[str, Any] = self.answers.get(timeout=60)
        assert answer["id"] == self._last
        return answer

    def call(self, method: str, **params: Any) -> Any:
        answer = self.ask(method, **params)
        assert "error" not in answer, answer
        jsonschema.validate(answer["result"], SCHEMA[method]["result"]["schema"])
        return answer["result"]

    def event(self) -> dict[str, Any]:
        message = self.events.get(timeout=60)
        assert message["method"] == "event"
        jsonschema.validate(message["params"], EVENT)
        found: dict[str, Any] = message["params"]
        return found

    def kill(self) -> None:
        """Kill the server in the middle of its work. The answers that it has written can still be read."""
        self.process.kill()
        self._reader.join(60)
        self.process.wait(timeout=60)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._reader.join(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(timeout=60)


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"kind": "message", "body": {"role": role, "content": text}}


def begin(client: Client, *texts: str) -> tuple[str, list[str]]:
    session = client.call("sessions.new", agent="pi", cwd=".")["session"]
    return session, [client.call("append", session=session, entry=said(text))["id"] for text in texts]


def answers(
    *lines: bytes, table: Any = None, call: Any = None, concurrent: tuple[str, ...] = (), ends: bool = True
) -> list[Any]:
    """Return the answers of a server to lines. ``ends``: whether the last line ends with a newline."""

    def double(self: object, number: int, name: str = "x", choice: list[str] | None = None) -> dict[str, int]:
        """Return a number, doubled."""
        return {"number": 2 * number}

    table = table or {"double": double}
    out = io.BytesIO()
    call = call or (lambda name, given: table[name](None, **given))
    server = RpcServer(lambda name, params: call(name, arguments(table, name, params)), concurrent, out)
    server.serve(io.BytesIO(b"\n".join(lines) + b"\n" * ends))
    return [json.loads(line) for line in out.getvalue().splitlines()]


def request(id: object = 1, method: str = "double", **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()
