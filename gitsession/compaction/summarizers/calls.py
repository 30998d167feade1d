"""One HTTP request, on a thread of its own, that can be given up: no server holds anybody for ever."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from queue import SimpleQueue
from threading import Event
from typing import IO, TypeAlias
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, OpenerDirector, ProxyHandler, build_opener
from urllib.request import Request as Outgoing

Answer: TypeAlias = tuple[int, bytes, float]
"""Status, body, and the seconds to wait before another try."""

LOCAL = ("localhost", "127.0.0.1", "::1")

ANSWER_BYTES_MAX = 4 << 20
"""A thousand times a summary. As JSON it may take twenty times as much memory: the worst is `[],[],`."""

_ERROR_BYTES_MAX = 64 << 10
_RETRY_S = 2.0


class HttpRequest:
    """``time_limit_s``: for each wait of the socket. ``give_up`` ends all of it."""

    def __init__(self, outgoing: Outgoing, time_limit_s: float) -> None:
        self._outgoing = outgoing
        self._time_limit_s = time_limit_s
        self._given_up = Event()
        self._connection: HTTPConnection | None = None
        self._socket: socket.socket | None = None

    def give_up(self) -> None:
        """From any thread: the socket is shut, so that one that drips headers, or continues for ever, ends too."""
        self._given_up.set()
        connecting = self._connection.sock if self._connection else None  # a proxy may drip, too
        for each in (connecting, self._socket):
            if each is not None:
                with suppress(OSError):
                    # Below TLS: its own shutdown takes the cipher off first, and the other thread may be writing.
                    socket.socket.shutdown(each, socket.SHUT_RDWR)

    def run(self, answers: SimpleQueue[Answer | str]) -> None:
        """Put the answer, or why there is none."""
        try:
            try:
                with self._opener().open(self._outgoing, timeout=self._time_limit_s) as response:
                    answers.put((response.status, self._read(response, ANSWER_BYTES_MAX), 0.0))
            except HTTPError as error:
                with error:
                    answers.put((error.code, self._read(error, _ERROR_BYTES_MAX), _wait_s(error.headers)))
        except _TooLong:
            answers.put("its answer has no end")
        except URLError as error:
            answers.put(getattr(error.reason, "strerror", None) or str(error.reason))
        except Exception as error:  # of http, ssl and sockets; their text may quote a header, their name does not
            answers.put(type(error).__name__)

    def _opener(self) -> OpenerDirector:
        # A proxy is for the world outside: what is meant for this machine does not go through it.
        local = urlsplit(f"//{self._outgoing.host}").hostname in LOCAL
        handlers = [_NoRedirect(), _Plain(self), _Tls(self), *([ProxyHandler({})] if local else [])]
        return build_opener(*handlers)

    def watched(self, kind: type[HTTPConnection]) -> type[HTTPConnection]:
        """A class of connections that end when this is given up."""
        call = self

        class Watched(kind):  # type: ignore[valid-type, misc]
            def connect(self) -> None:
                call._connection = self
                super().connect()
                call._socket = self.sock  # the connection itself lets go of it before the answer is read
                if call._given_up.is_set():  # before anything is said
                    raise TimeoutError

        return Watched

    def _read(self, response: IO[bytes] | HTTPError, bytes_max: int) -> bytes:
        parts, size = [], 0
        # What is there, however little: of a server that drips, a whole part would be waited for long after giving up.
        while not self._given_up.is_set() and (part := response.read1(65536)):  # type: ignore[union-attr]
            parts.append(part)
            size += len(part)
            if size > bytes_max:
                raise _TooLong
        return b"".join(parts)


class _TooLong(Exception):
    pass


class _Plain(HTTPHandler):
    def __init__(self, call: HttpRequest) -> None:
        super().__init__()
        self._connection = call.watched(HTTPConnection)

    def http_open(self, req: Outgoing) -> HTTPResponse:
        return self.do_open(self._connection, req)


class _Tls(HTTPSHandler):
    def __init__(self, call: HttpRequest) -> None:
        super().__init__()
        self._connection = call.watched(HTTPSConnection)

    def https_open(self, req: Outgoing) -> HTTPResponse:
        return self.do_open(self._connection, req)


class _NoRedirect(HTTPRedirectHandler):
    """The conversation and the key are for one address."""

    def redirect_request(
        self, req: Outgoing, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Outgoing | None:
        return None  # the answer comes back as it is: a status that is no success


def _wait_s(headers: Message) -> float:
    """What ``Retry-After`` asks for, in seconds or as a date."""
    stated = headers.get("Retry-After", "")
    if not stated:
        return _RETRY_S
    try:
        if stated.strip().isdecimal():
            return float(stated)
        return max(parsedate_to_datetime(stated).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return _RETRY_S
