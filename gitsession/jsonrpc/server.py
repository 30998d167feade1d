"""The loop of a server of JSON-RPC 2.0 with one message per line, such as ``gitsession rpc``.

Requests that write, or that read little, are answered in order by one thread. The others are answered by several
threads, so that a summary or a search does not delay an append.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias

from gitsession import errors
from gitsession.codec import json_text
from gitsession.errors import GitSessionError, Malformed

if TYPE_CHECKING:
    from gitsession.jsonrpc.schema import Method

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
    errors.PluginFailed: -32014,
    OSError: -32011,
}
"""Stable codes of the library's errors. An error has the code of the first of its classes that is listed."""

_THREADS = 4
BATCH_MAX = 1000
"""Maximum number of requests in a batch."""
_PENDING_MAX = 1000
"""Maximum number of requests that are not answered yet. After that, no further request is read."""


class RequestFault(Exception):
    """The reason why a request cannot be answered. ``data``: the field ``data`` of the error."""

    def __init__(self, code: int, text: str, data: Message | None = None) -> None:
        super().__init__(text)
        self.code, self.data = code, data


class Cancelling(NamedTuple):
    """The notification by which a client cancels a request.

    ``method``: its method. ``parameter``: the parameter with the id of the request. ``is_answered``: whether a
    cancelled request is answered with an error; if not, it is not answered at all.
    """

    method: str = "cancel"
    parameter: str = "id"
    is_answered: bool = True


def arguments(methods: Mapping[str, Method], name: str, params: object) -> dict[str, Any]:
    """Return the checked arguments of a call of one of ``methods``. Raises ``RequestFault``."""
    if name not in methods:
        raise unknown_method(name)
    from gitsession.jsonrpc import schema  # it loads ``inspect``, and a server must start fast

    try:
        return schema.bind(methods[name], params)
    except Malformed as error:
        raise RequestFault(PARAMS, f"{error} ({error.hint})" if error.hint else str(error)) from None


def unknown_method(name: str) -> RequestFault:
    """Return the error for a method that does not exist."""
    return RequestFault(METHOD, f"unknown method {name[:80]!r}")


class RpcServer:
    """A server for one client.

    ``answer``: a function that returns the result of a request, from its method and its parameters. ``concurrent``: the
    names of the methods that may run beside others. ``batch_max``: the maximum number of requests in a batch; 0 if
    batches are refused.
    """

    def __init__(
        self,
        answer: Callable[[str, object], Any],
        concurrent: Collection[str],
        out: BinaryIO,
        *,
        cancelling: Cancelling = Cancelling(),  # noqa: B008 - immutable
        batch_max: int = BATCH_MAX,
    ) -> None:
        self._result_of, self._concurrent, self._out = answer, concurrent, out
        self._cancelling, self._batch_max = cancelling, batch_max
        self._writing = threading.Lock()
        self._waiting: dict[Any, Future[None]] = {}
        self._unwanted: set[str | int] = set()
        """Ids of cancelled requests that are not answered."""
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
        name, id = request.get("method"), _id_of(request)
        if name == self._cancelling.method and "id" not in request:
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
        """Cancel a request that has not begun. If cancelled requests are not answered, drop the answer of any."""
        id = params.get(self._cancelling.parameter) if isinstance(params, dict) else None
        waiting = self._waiting.get(id) if isinstance(id, str | int) else None
        if waiting is None or not isinstance(id, str | int):
            return
        if not self._cancelling.is_answered:
            self._unwanted.add(id)
        waiting.cancel()
        if id not in self._waiting:  # it was finished meanwhile
            self._unwanted.discard(id)

    def _finish(self, id: str | int, done: Future[None]) -> None:
        if self._waiting.get(id) is done:  # a later request may have the same id
            del self._waiting[id]
        if done.cancelled() and self._cancelling.is_answered:
            self._send(_failure(id, CANCELLED, "the request was cancelled"))
        self._unwanted.discard(id)

    def _answer_to(self, value: Any) -> None:
        answer: Message | list[Message] | None
        if not isinstance(value, list):
            answer = self._answer(value)
        elif not self._batch_max:
            answer = _failure(None, REQUEST, "batches are not supported: send one request on each line")
        elif not value or len(value) > self._batch_max:
            answer = _failure(None, REQUEST, f"a batch must have 1 to {self._batch_max:,} requests")
        else:
            answer = [found for each in value if (found := self._answer(each)) is not None] or None
        if answer is not None and not (isinstance(answer, dict) and answer["id"] in self._unwanted):
            self._send(answer)

    def _answer(self, request: Any) -> Message | None:
        """Return the answer to one request; ``None`` for a notification."""
        id = _id_of(request)
        try:
            answer = {"jsonrpc": "2.0", "result": self._result(request), "id": id}
        except RequestFault as fault:
            answer = _failure(id, fault.code, str(fault), fault.data)
        except (GitSessionError, OSError, ValueError, TypeError, CancelledError) as error:
            answer = _failure(id, *_described(error))
        except Exception as error:
            answer = _failure(id, INTERNAL, f"internal error: {type(error).__name__}: {error}")
        is_notification = isinstance(request, dict) and "id" not in request and "method" in request
        return None if is_notification else answer

    def _result(self, request: Any) -> Any:
        if not isinstance(request, dict) or request.get("jsonrpc") != "2.0":
            raise RequestFault(REQUEST, 'a request must be an object with "jsonrpc": "2.0"')
        name = request.get("method")
        if not isinstance(name, str):
            raise RequestFault(REQUEST, "the method must be a string")
        return self._result_of(name, request.get("params"))

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


def _id_of(request: Any) -> str | int | float | None:
    """Return the id of a request; ``None`` if it has none, or one of an invalid type."""
    id = request.get("id") if isinstance(request, dict) else None
    return id if isinstance(id, str | int | float) and not isinstance(id, bool) else None


def _described(error: Exception) -> tuple[int, str, Message]:
    """Return the code, the message and the data of an error."""
    code = next((CODES[kind] for kind in type(error).__mro__ if kind in CODES), PARAMS)
    data: Message = {"type": type(error).__name__}
    data |= {"hint": error.hint} if isinstance(error, GitSessionError) and error.hint else {}
    data |= {"candidates": list(error.candidates)} if isinstance(error, errors.Ambiguous) else {}
    return code, str(error), data


def _failure(id: Any, code: int, text: str, data: Message | None = None) -> Message:
    return {"jsonrpc": "2.0", "error": {"code": code, "message": text, **({"data": data} if data else {})}, "id": id}
