"""The loop of ``gitsession rpc``: JSON-RPC 2.0 with one message per line.

Requests that write, or that read little, are answered in order by one thread. The others are answered by several
threads, so that a summary or a search does not delay an append. A third thread sends the events.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, BinaryIO, TypeAlias

from gitsession import errors
from gitsession.cli.rpc import schema
from gitsession.codec import json_text
from gitsession.errors import GitSessionError, Malformed

Message: TypeAlias = dict[str, Any]

PARSE, REQUEST, METHOD, PARAMS, INTERNAL, CANCELLED = -32700, -32600, -32601, -32602, -32603, -32800
"""Codes of JSON-RPC, and of the Language Server Protocol for a cancelled request."""

CODES: Mapping[type[Exception], int] = {
    errors.GitSessionError: -32000,
    errors.Malformed: -32001,
    errors.InvalidName: -32002,
    errors.NotFound: -32003,
    errors.Ambiguous: -32004,
    errors.NotAStore: -32005,
    errors.MissingObject: -32006,
    errors.Corrupt: -32007,
    errors.Refused: -32008,
    errors.LeafMoved: -32009,
    errors.RefMoved: -32010,
    errors.Unavailable: -32011,
    errors.SummaryFailed: -32012,
    errors.NoBase: -32013,
    OSError: -32011,
}
"""Stable codes of the library's errors. An error has the code of the first of its classes that is listed."""

_THREADS = 4
_BATCH_MAX = 1000
_PENDING_MAX = 1000
"""Maximum number of requests that are not answered yet. After that, no further request is read."""


class _Fault(Exception):
    """A message that is not a valid request."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class RpcServer:
    """A server of the methods in a table.

    ``call``: a function that calls a method, with the name of the method and its arguments. ``methods``: the methods by
    name. ``concurrent``: the names of the methods that may run beside others.
    """

    def __init__(
        self,
        methods: Mapping[str, schema.Method],
        call: Callable[[str, dict[str, Any]], Any],
        concurrent: Collection[str],
        out: BinaryIO,
    ) -> None:
        self._methods, self._call, self._concurrent, self._out = methods, call, concurrent, out
        self._writing = threading.Lock()
        self._waiting: dict[Any, Future[None]] = {}
        self._pending = threading.BoundedSemaphore(_PENDING_MAX)
        self._output_error: OSError | None = None

    def serve(self, stream: BinaryIO) -> None:
        """Answer the requests of a stream, and return when the stream has ended and all requests are answered.

        Raises ``OSError`` if the answers cannot be written: ``BrokenPipeError`` if their reader has closed the pipe.
        """
        with ThreadPoolExecutor(1) as ordered, ThreadPoolExecutor(_THREADS) as others:
            for _, line in json_text.lines(stream):
                if self._output_error is not None:
                    break
                self._receive(line, ordered, others)
        if self._output_error is not None:
            raise self._output_error

    def notify(self, method: str, params: Message) -> None:
        """Send a notification to the client."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _receive(self, line: bytes | None, ordered: ThreadPoolExecutor, others: ThreadPoolExecutor) -> None:
        try:
            value = json_text.parse(line)
        except Malformed as error:
            self._send(_failure(None, PARSE, str(error)))
            return
        request = value if isinstance(value, dict) else {}
        name, id = request.get("method"), request.get("id")
        if name == "cancel" and "id" not in request:
            self._cancel(request.get("params"))
            return
        pool = others if isinstance(name, str) and name in self._concurrent else ordered
        self._pending.acquire()
        done = pool.submit(self._answer_to, value)
        done.add_done_callback(lambda _: self._pending.release())
        if isinstance(id, str | int):
            self._waiting[id] = done
            done.add_done_callback(lambda done: self._finish(id, done))

    def _cancel(self, params: object) -> None:
        """Cancel a request that has not begun."""
        id = params.get("id") if isinstance(params, dict) else None
        waiting = self._waiting.get(id) if isinstance(id, str | int) else None
        if waiting is not None:
            waiting.cancel()

    def _finish(self, id: str | int, done: Future[None]) -> None:
        if self._waiting.get(id) is done:  # a later request may have the same id
            del self._waiting[id]
        if done.cancelled():
            self._send(_failure(id, CANCELLED, "the request was cancelled"))

    def _answer_to(self, value: Any) -> None:
        answer: Message | list[Message] | None
        if not isinstance(value, list):
            answer = self._answer(value)
        elif not value or len(value) > _BATCH_MAX:
            answer = _failure(None, REQUEST, f"a batch must have 1 to {_BATCH_MAX:,} requests")
        else:
            answer = [found for each in value if (found := self._answer(each)) is not None] or None
        if answer is not None:
            self._send(answer)

    def _answer(self, request: Any) -> Message | None:
        """Return the answer to one request; ``None`` for a notification."""
        id = request.get("id") if isinstance(request, dict) else None
        id = id if isinstance(id, str | int | float) and not isinstance(id, bool) else None
        try:
            answer = {"jsonrpc": "2.0", "result": self._result(request), "id": id}
        except _Fault as fault:
            answer = _failure(id, fault.code, str(fault))
        except (GitSessionError, OSError, ValueError, TypeError, CancelledError) as error:
            answer = _failure(id, *_described(error))
        except Exception as error:
            answer = _failure(id, INTERNAL, f"internal error: {type(error).__name__}: {error}")
        is_notification = isinstance(request, dict) and "id" not in request and "method" in request
        return None if is_notification else answer

    def _result(self, request: Any) -> Any:
        if not isinstance(request, dict) or request.get("jsonrpc") != "2.0":
            raise _Fault(REQUEST, 'a request must be an object with "jsonrpc": "2.0"')
        name = request.get("method")
        if not isinstance(name, str):
            raise _Fault(REQUEST, "the method must be a string")
        if name not in self._methods:
            raise _Fault(METHOD, f"unknown method {name[:80]!r}")
        try:
            arguments = schema.bind(self._methods[name], request.get("params"))
        except Malformed as error:
            raise _Fault(PARAMS, f"{error} ({error.hint})" if error.hint else str(error)) from None
        return self._call(name, arguments)

    def _send(self, message: Message | list[Message]) -> None:
        """Write a message on one line. If that fails, the server stops at the next request."""
        data = json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"
        with self._writing:
            try:
                self._out.write(data)
                self._out.flush()
            except OSError as error:
                self._output_error = error
            except ValueError:  # the stream was closed at exit
                self._output_error = BrokenPipeError()


def _described(error: Exception) -> tuple[int, str, Message]:
    """Return the code, the message and the data of an error."""
    code = next((CODES[kind] for kind in type(error).__mro__ if kind in CODES), PARAMS)
    data: Message = {"type": type(error).__name__}
    data |= {"hint": error.hint} if isinstance(error, GitSessionError) and error.hint else {}
    data |= {"candidates": list(error.candidates)} if isinstance(error, errors.Ambiguous) else {}
    return code, str(error), data


def _failure(id: Any, code: int, text: str, data: Message | None = None) -> Message:
    return {"jsonrpc": "2.0", "error": {"code": code, "message": text, **({"data": data} if data else {})}, "id": id}
