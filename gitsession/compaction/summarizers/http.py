"""A summarizer that calls a model over HTTP: OpenAI Chat or Responses, Anthropic Messages, or a compatible server.

Before each request, the key is read from the environment variable that the options name. It is sent in one header, and
never becomes part of an error message, a log or an entry. Requests are sent only to the configured address. Redirects
are not followed.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import IO, Any, ClassVar, TypeAlias
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, OpenerDirector, ProxyHandler, build_opener
from urllib.request import Request as Outgoing

from gitsession.compaction.prompts import Prompt, Writer, find_prompt
from gitsession.compaction.summarizers.options import Options
from gitsession.compaction.summary import Progress, Request, Summary, raise_if_cancelled
from gitsession.dataclass import dataclass
from gitsession.errors import SummaryFailed

RETRY_AFTER_S_MAX = 60.0

_ERROR_CHARS_MAX = 300
_LOOK_S = 0.05
_KEY = "[key]"


def make(options: Options) -> Http:
    """Return a summarizer for ``options``.

    Raises ``SummaryFailed`` if the address or the model is missing, or if the address or the key is not safe to use.
    """
    if not options.url:
        raise SummaryFailed(
            "no URL is set for the summarizer", hint="pass --summarizer-url URL, or set gitsession.summarizerUrl"
        )
    if not options.model:
        raise SummaryFailed(
            "no model is set for the summarizer", hint="pass --model MODEL, or set gitsession.summarizerModel"
        )
    try:
        address = urlsplit(options.url)
        address.port  # noqa: B018 - raises ValueError for an invalid port
    except ValueError:
        raise SummaryFailed("the summarizer URL is invalid") from None
    if address.scheme not in ("http", "https") or not address.hostname:
        raise SummaryFailed("the summarizer URL is not an http or https URL")
    if address.username or address.password or address.query or address.fragment:
        raise SummaryFailed(
            "the summarizer URL contains a user name, a password, a query or a fragment",
            hint="put the key into an environment variable, and set gitsession.summarizerKey to its name",
        )
    if options.key_name and address.scheme == "http" and address.hostname not in LOCAL:
        raise SummaryFailed("cannot send the key: an http URL is not encrypted", hint="pass an https URL")
    return Http(
        api=APIS[options.api],
        url=options.url.rstrip("/"),
        model=options.model,
        key_name=options.key_name,
        environ=options.environ,
        time_limit_s=options.time_limit_s,
        write_prompt=find_prompt(options.prompt),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Http:
    """A summarizer that calls a model over HTTP. For the fields, see ``Options``."""

    NAME: ClassVar[str] = "http"

    api: SummarizerApi
    url: str
    model: str
    key_name: str
    environ: Mapping[str, str] = field(repr=False)
    time_limit_s: float
    write_prompt: Writer

    def summarise(self, request: Request, *, progress: Progress, cancelled: Event) -> Summary:
        prompt = self.write_prompt(request)
        key = self._key()
        body = json.dumps(self.api.body(self.url, self.model, prompt, request.max_tokens)).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json", **self.api.headers(key)}
        outgoing = Outgoing(self.api.address(self.url), body, headers, method="POST")
        deadline = time.monotonic() + self.time_limit_s
        host = urlsplit(self.url).hostname
        progress(f"sending {len(body):,} bytes to {self.model} at {host}")
        status, answer, wait_s = self._ask(outgoing, deadline, cancelled)
        if status == 429 or status >= 500:
            progress(f"{host} returned status {status}; retrying in {wait_s:g} s")
            if time.monotonic() + wait_s >= deadline or wait_s > RETRY_AFTER_S_MAX:
                told = f"returned status {status} and requested a wait of {wait_s:g} s, which is too long"
                raise SummaryFailed(f"the summarizer at {host} {told}")
            cancelled.wait(wait_s)
            raise_if_cancelled(cancelled)
            status, answer, _ = self._ask(outgoing, deadline, cancelled)
        if status != 200:
            reason = _without(key, complaint(answer))
            raise SummaryFailed(f"the summarizer at {host} returned status {status}{reason}")
        summary = self._read(answer)
        if summary is None:
            raise SummaryFailed(f"the summarizer at {host} returned an invalid {self.api.name} response")
        # If a server echoes the request, the key must not become part of an entry.
        return replace(summary, text=summary.text.replace(key, _KEY)) if key else summary

    def _read(self, answer: bytes) -> Summary | None:
        try:
            return self.api.read(json.loads(answer))
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            return None  # the exception contains the response, which may include the key

    def _key(self) -> str:
        if not self.key_name:
            return ""
        key = self.environ.get(self.key_name, "").strip()
        if not key:
            raise SummaryFailed(
                f"the environment variable '{self.key_name}' is empty or not set",
                hint="set it to the key, or set gitsession.summarizerKey to the name of another variable",
            )
        if not (key.isascii() and key.isprintable()):
            raise SummaryFailed(
                f"the key in '{self.key_name}' contains characters that are not allowed in an HTTP header"
            )
        return key

    def _ask(self, outgoing: Outgoing, deadline: float, cancelled: Event) -> Answer:
        """Send a request and return its answer. Raises ``SummaryFailed``.

        The request runs in another thread, so that this thread can check for cancellation. A read from a silent socket
        cannot be interrupted, but it can be abandoned.
        """
        host = urlsplit(self.url).hostname
        answers: SimpleQueue[Answer | str] = SimpleQueue()
        # The loop below enforces the deadline. The socket timeout only ends requests that were abandoned.
        left_s = max(deadline - time.monotonic(), 0.0) + 1.0
        call = HttpRequest(outgoing, left_s)
        Thread(target=call.run, args=(answers,), name="gitsession-http", daemon=True).start()
        try:
            while True:
                with suppress(Empty):
                    answer = answers.get(timeout=_LOOK_S)
                    break
                raise_if_cancelled(cancelled)
                if time.monotonic() >= deadline:
                    raise SummaryFailed(f"the summarizer at {host} did not answer within {self.time_limit_s:g} s")
        finally:
            call.give_up()
        if isinstance(answer, str):
            raise SummaryFailed(f"the request to the summarizer at {host} failed: {answer}")
        return answer


def _without(key: str, text: str) -> str:
    """Return ``text`` from a server as the end of an error message: short, on one line, and without the key."""
    text_without_key = " ".join((text.replace(key, _KEY) if key else text).split())[:_ERROR_CHARS_MAX]
    return f": {text_without_key}" if text_without_key else ""


_OPENAI = "https://api.openai.com"
_ANTHROPIC_VERSION = "2023-06-01"


@dataclass(frozen=True, slots=True)
class SummarizerApi:
    """An HTTP API that can write summaries.

    Attributes:
        name: Name of the API.
        address: Function that returns the URL of requests for the base URL in the options.
        headers: Function that returns the headers for a key.
        body: Function that returns the body of a request.
        read: Function that returns the summary in an answer. If the answer has another structure, it can raise any of
            the errors that an access to the wrong type of value raises.
    """

    name: str
    address: Callable[[str], str]
    headers: Callable[[str], dict[str, str]]
    body: Callable[[str, str, Prompt, int], dict[str, Any]]
    read: Callable[[Any], Summary]


def complaint(answer: bytes) -> str:
    """Return the error message in an answer; "" if there is none. All three APIs send it in the same field."""
    try:
        error = json.loads(answer)["error"]
        message = error if isinstance(error, str) else error["message"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
    return message if isinstance(message, str) else ""


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def _chat_body(base: str, model: str, prompt: Prompt, max_tokens: int) -> dict[str, Any]:
    # OpenAI's own models reject ``max_tokens``. All other servers use this name.
    limit = "max_completion_tokens" if base.startswith(_OPENAI) else "max_tokens"
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
    return {"model": model, "messages": messages, limit: max_tokens, "stream": False}


def _chat_read(answer: Any) -> Summary:
    choice = answer["choices"][0]
    text = choice["message"]["content"] or ""
    if isinstance(text, list):
        text = "".join(part.get("text", "") for part in text)
    usage = _usage(answer.get("usage"), "prompt_tokens", "completion_tokens")
    return Summary(text.strip(), choice.get("finish_reason") == "length", usage)


def _responses_body(_base: str, model: str, prompt: Prompt, max_tokens: int) -> dict[str, Any]:
    return {
        "model": model,
        "instructions": prompt.system,
        "input": prompt.user,
        "max_output_tokens": max_tokens,
        "store": False,
        "stream": False,
    }


def _responses_read(answer: Any) -> Summary:
    parts = [part for item in answer["output"] if item["type"] == "message" for part in item["content"]]
    text = "".join(part["text"] for part in parts if part["type"] == "output_text")
    usage = _usage(answer.get("usage"), "input_tokens", "output_tokens")
    return Summary(text.strip(), answer.get("status") == "incomplete", usage)


def _anthropic_address(base: str) -> str:
    return f"{base}/messages" if base.endswith("/v1") else f"{base}/v1/messages"


def _anthropic_headers(key: str) -> dict[str, str]:
    return {"anthropic-version": _ANTHROPIC_VERSION, **({"x-api-key": key} if key else {})}


def _anthropic_body(_base: str, model: str, prompt: Prompt, max_tokens: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt.user}]
    return {"model": model, "system": prompt.system, "messages": messages, "max_tokens": max_tokens}


def _anthropic_read(answer: Any) -> Summary:
    text = "".join(block["text"] for block in answer["content"] if block["type"] == "text")
    cut_off = answer.get("stop_reason") in ("max_tokens", "model_context_window_exceeded")
    return Summary(text.strip(), cut_off, _usage(answer.get("usage"), "input_tokens", "output_tokens"))


def _usage(usage: Any, input_name: str, output_name: str) -> Mapping[str, int]:
    if not isinstance(usage, Mapping):
        return {}
    counts = {"input": usage.get(input_name), "output": usage.get(output_name)}
    return {name: count for name, count in counts.items() if isinstance(count, int)}


APIS = {
    "openai-chat": SummarizerApi("openai-chat", "{}/chat/completions".format, _bearer, _chat_body, _chat_read),
    "openai-responses": SummarizerApi(
        "openai-responses", "{}/responses".format, _bearer, _responses_body, _responses_read
    ),
    "anthropic": SummarizerApi("anthropic", _anthropic_address, _anthropic_headers, _anthropic_body, _anthropic_read),
}


# One HTTP request in its own thread. The caller can abandon it, so that no server blocks the caller forever.

Answer: TypeAlias = tuple[int, bytes, float]
"""HTTP status, body, and time to wait before a retry, in seconds."""

LOCAL = ("localhost", "127.0.0.1", "::1")

ANSWER_BYTES_MAX = 4 << 20
"""Maximum size of an answer in bytes, about a thousand times the size of a summary.

Parsed JSON may require twenty times as much memory. The worst case is ``[],[],``.
"""

_ERROR_BYTES_MAX = 64 << 10
_RETRY_S = 2.0


class HttpRequest:
    """An HTTP request that another thread can end with ``give_up``.

    ``time_limit_s``: timeout of each socket operation, in seconds.
    """

    def __init__(self, outgoing: Outgoing, time_limit_s: float) -> None:
        self._outgoing = outgoing
        self._time_limit_s = time_limit_s
        self._given_up = Event()
        self._connection: HTTPConnection | None = None
        self._socket: socket.socket | None = None

    def give_up(self) -> None:
        """End the request. Any thread can call this method.

        The shutdown of the socket also ends a request to a server whose headers arrive very slowly or never end.
        """
        self._given_up.set()
        connecting = self._connection.sock if self._connection else None  # a proxy can also be slow
        for each in (connecting, self._socket):
            if each is not None:
                with suppress(OSError):
                    # The shutdown is below TLS, because a TLS shutdown first removes the cipher while the other
                    # thread may write.
                    socket.socket.shutdown(each, socket.SHUT_RDWR)

    def run(self, answers: SimpleQueue[Answer | str]) -> None:
        """Put the answer, or an error message, into ``answers``."""
        try:
            try:
                with self._opener().open(self._outgoing, timeout=self._time_limit_s) as response:
                    answers.put((response.status, self._read(response, ANSWER_BYTES_MAX), 0.0))
            except HTTPError as error:
                with error:
                    answers.put((error.code, self._read(error, _ERROR_BYTES_MAX), _wait_s(error.headers)))
        except _TooLong:
            answers.put("the response is too long")
        except URLError as error:
            answers.put(getattr(error.reason, "strerror", None) or str(error.reason))
        except Exception as error:  # from http, ssl or a socket; its text may contain a header
            answers.put(type(error).__name__)

    def _opener(self) -> OpenerDirector:
        # Requests to this machine do not go through a proxy.
        local = urlsplit(f"//{self._outgoing.host}").hostname in LOCAL
        handlers = [_NoRedirect(), _Watched(self), *([ProxyHandler({})] if local else [])]
        return build_opener(*handlers)

    def watched(self, kind: type[HTTPConnection]) -> type[HTTPConnection]:
        """Return a subclass of ``kind`` whose connections are closed by ``give_up``."""
        call = self

        class Watched(kind):  # type: ignore[valid-type, misc]
            def connect(self) -> None:
                call._connection = self
                super().connect()
                call._socket = self.sock  # HTTPConnection drops its own reference before the response is read
                if call._given_up.is_set():  # the request was ended before it was sent
                    raise TimeoutError

        return Watched

    def _read(self, response: IO[bytes] | HTTPError, bytes_max: int) -> bytes:
        parts, size = [], 0
        # Read the data that has arrived: a read of 64 KiB from a slow server would block long after ``give_up``.
        while not self._given_up.is_set() and (part := response.read1(65536)):  # type: ignore[union-attr]
            parts.append(part)
            size += len(part)
            if size > bytes_max:
                raise _TooLong
        return b"".join(parts)


class _TooLong(Exception):
    pass


class _Watched(HTTPHandler, HTTPSHandler):
    """A handler of both schemes, with connections that ``call.give_up`` closes."""

    def __init__(self, call: HttpRequest) -> None:
        super().__init__()
        self._call = call

    def http_open(self, req: Outgoing) -> HTTPResponse:
        return self.do_open(self._call.watched(HTTPConnection), req)

    def https_open(self, req: Outgoing) -> HTTPResponse:
        return self.do_open(self._call.watched(HTTPSConnection), req)


class _NoRedirect(HTTPRedirectHandler):
    """A handler that follows no redirects, because the conversation and the key are intended for one address."""

    def redirect_request(
        self, req: Outgoing, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Outgoing | None:
        return None  # the redirect itself is the response, and its status is an error for the caller


def _wait_s(headers: Message) -> float:
    """Return the number of seconds to wait from ``Retry-After``, which contains seconds or a date."""
    retry_after = headers.get("Retry-After", "")
    if not retry_after:
        return _RETRY_S
    try:
        if retry_after.strip().isdecimal():
            return float(retry_after)
        return max(parsedate_to_datetime(retry_after).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return _RETRY_S
