"""A server of the Model Context Protocol in this process or in another one, and a client without a library."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gitsession import Store
from gitsession.errors import NotAStore
from gitsession.jsonrpc.server import RpcServer
from gitsession.mcp import protocol

PROGRAM = [sys.executable, "-m", "gitsession"]

Json = dict[str, Any]


def missing() -> Store:
    raise NotAStore("cannot open the store 'x': it does not exist", hint="run `gitsession import --all`")


def request(method: str, id: Any = 1, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


def stateless(method: str, version: str = "2026-07-28", id: Any = 1, **params: Any) -> bytes:
    """Return a request of a client without a handshake."""
    names = ("protocolVersion", "clientCapabilities")
    meta = {f"io.modelcontextprotocol/{name}": value for name, value in zip(names, (version, {}), strict=True)}
    return request(method, id, **params, _meta=meta)


def answers(*lines: bytes, open_store: Callable[[], Store] = missing, writes: bool = False) -> list[Json]:
    """Return the messages of a server in this process that receives ``lines``, and answers them in order."""
    out = io.BytesIO()
    served = protocol.McpProtocol(open_store, writes=writes)
    server = RpcServer(served.answer, (), out, cancelling=protocol.CANCELLING, batch_max=0)
    server.serve(io.BytesIO(b"\n".join(lines) + b"\n"))
    return [json.loads(line) for line in out.getvalue().splitlines()]


def call(store: Store, name: str, *, writes: bool = False, **arguments: Any) -> Json:
    """Return the result of a tool."""
    asked = request("tools/call", name=name, arguments=arguments)
    [answer] = answers(asked, open_store=lambda: store, writes=writes)
    assert "error" not in answer, answer
    result: Json = answer["result"]
    return result


def started(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*PROGRAM, "mcp", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder)
