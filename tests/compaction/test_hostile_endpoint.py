"""Tests of the http summarizer with malicious endpoints: its time and memory are bounded, and no process hangs."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import ssl
import subprocess
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from http_models import chat_answer, model_at
from summaries import REQUEST, cancelled_after, failing

from gitsession.compaction.summarizers.http import ANSWER_BYTES_MAX
from gitsession.compaction.summary import summarise

ENDS_S = 120.0
"""Maximum duration of a call in seconds, whichever side fails."""

OK = b"HTTP/1.1 200 OK\r\n"

Behaviour = Callable[[socket.socket, threading.Event], object]


class Endpoint:
    """A server that reads a request and then runs ``behave``.

    ``heard`` has the requests. ``cut`` is set when the client closes the connection.
    """

    def __init__(self, behave: Behaviour, tls: ssl.SSLContext | None = None) -> None:
        self.behave, self.tls = behave, tls
        self.heard: list[bytes] = []
        self.done, self.cut = threading.Event(), threading.Event()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.listening.getsockname()[1]}"

    def serve(self) -> None:
        with suppress(OSError):
            peer, _ = self.listening.accept()
            peer.settimeout(ENDS_S)
            with self.tls.wrap_socket(peer, server_side=True) if self.tls else peer as peer:
                try:
                    self.heard.append(read_request(peer))
                    self.behave(peer, self.done)
                    peer.shutdown(socket.SHUT_WR)
                    while peer.recv(1 << 16):
                        pass
                except OSError:
                    pass
                self.cut.set()


def read_request(peer: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += some(peer)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split()[0])
    while len(body) < length:
        body += some(peer)
    return head + b"\r\n\r\n" + body


def some(peer: socket.socket) -> bytes:
    """Receive data.

    Raises:
        OSError: The client has closed the connection, for example after a timeout.
    """
    data = peer.recv(1 << 16)
    if not data:
        raise ConnectionAbortedError
    return data


@contextmanager
def serving(behave: Behaviour, tls: ssl.SSLContext | None = None) -> Iterator[Endpoint]:
    endpoint = Endpoint(behave, tls)
    try:
        yield endpoint
    finally:
        endpoint.done.set()
        with suppress(OSError):
            endpoint.listening.shutdown(socket.SHUT_RDWR)
        endpoint.listening.close()
        endpoint.thread.join(ENDS_S)


def says(data: bytes) -> Behaviour:
    return lambda peer, _: peer.sendall(data)


def repeating(head: bytes, more: bytes, every_s: float = 0.0) -> Behaviour:
    """Return a behavior that sends ``more`` repeatedly without end."""

    def behave(peer: socket.socket, done: threading.Event) -> None:
        peer.sendall(head)
        while not done.wait(every_s):
            peer.sendall(more)

    return behave


def body(data: bytes, head: bytes = b"") -> bytes:
    return OK + head + b"Content-Length: %d\r\n\r\n" % len(data) + data


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"

FOR_EVER = {
    "nothing": lambda peer, _: peer.recv(1),
    "a status line that drips": repeating(b"HTTP/1.1 200 ", b"O", 0.02),
    "headers that drip": repeating(OK + b"X: ", b"x", 0.02),
    "100 Continue, for ever": repeating(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "100 Continue, now and then": repeating(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.02),
    "chunks that drip": repeating(CHUNKED, b"1\r\n \r\n", 0.02),
    "a length of a chunk that drips": repeating(CHUNKED, b"0", 0.02),
    "trailers that drip": repeating(CHUNKED + b"0\r\n", b"x", 0.02),
    "a body that drips": repeating(OK + b"Content-Length: 60000\r\n\r\n", b" ", 0.02),
    "an error that drips": repeating(b"HTTP/1.1 400 no\r\nContent-Length: 60000\r\n\r\n", b" ", 0.02),
}


def ours() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "gitsession-http"]


@pytest.mark.parametrize("how", ["out of time", "cancelled"])
@pytest.mark.parametrize("behave", FOR_EVER.values(), ids=FOR_EVER)
def test_endless_response_is_cut_off_without_a_leftover_thread(behave: Behaviour, how: str) -> None:
    with serving(behave) as endpoint:
        if how == "cancelled":
            assert failing(model_at(endpoint), cancelled=cancelled_after(0.3)) == "the summary was cancelled"
        else:
            assert "within 0.3 s" in failing(model_at(endpoint, time_limit_s=0.3))
        for each in ours():
            each.join(ENDS_S / 4)
        assert not ours()
        assert endpoint.cut.wait(ENDS_S / 4)


REFUSED = {
    "a compressed answer, which nobody asked for": (
        says(body(gzip.compress(json.dumps(chat_answer()).encode()), b"Content-Encoding: gzip\r\n")),
        "invalid openai-chat",
    ),
    "a bomb": (says(body(gzip.compress(bytes(50 << 20)), b"Content-Encoding: gzip\r\n")), "invalid openai-chat"),
    "a flood of headers": (repeating(OK, b"X: y\r\n"), "failed: "),
    "one header without an end": (repeating(OK + b"X: ", b"y" * 9999), "failed: "),
    "an answer without an end": (repeating(OK + b"\r\n", b" " * 9999), "the response is too long"),
    "chunks without an end": (repeating(CHUNKED, b"2710\r\n" + b" " * 10_000 + b"\r\n"), "the response is too long"),
    "an error without an end": (repeating(b"HTTP/1.1 400 no\r\n\r\n", b"x" * 9999), "the response is too long"),
    "a chunk of a negative length": (says(CHUNKED + b"-5\r\nabc"), "failed: "),
    "no length that is one": (says(OK + b"Content-Length: -5\r\n\r\n{"), "invalid openai-chat"),
    "more promised than said": (says(OK + b"Content-Length: 99999999999\r\n\r\n{}"), "127.0.0.1"),
    "no HTTP": (says(b"SSH-2.0-OpenSSH\r\n"), "failed: "),
    "nothing at all": (says(b""), "failed: "),
    "to be asked elsewhere": (says(b"HTTP/1.1 308 x\r\nLocation: http://127.0.0.1:1/\r\n\r\n"), "status 308"),
    "to wait for ever": (says(b"HTTP/1.1 503 x\r\nRetry-After: " + b"9" * 999 + b"\r\n\r\n"), "requested a wait"),
    "another protocol": (says(b"HTTP/1.1 101 x\r\nUpgrade: h2c\r\n\r\n"), "status 101"),
    "brackets": (says(body(b"[" + b"[]," * 1_000_000 + b"[]]")), "invalid openai-chat"),
    "more brackets than we take": (says(body(b"[" + b"[]," * (16 << 18))), "the response is too long"),
    "many digits": (says(body(b"9" * 1_000_000)), "invalid openai-chat"),
}


@pytest.mark.parametrize(("behave", "words"), REFUSED.values(), ids=REFUSED)
def test_bad_response_is_reported_within_bounds(behave: Behaviour, words: str) -> None:
    tracemalloc.start()
    try:
        with serving(behave) as endpoint:
            message = failing(model_at(endpoint))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert words in message
    assert len(message) < 500
    assert most < 30 * ANSWER_BYTES_MAX, "the worst JSON takes some twenty times its length"


def test_no_compressed_response_is_requested() -> None:
    with serving(says(body(json.dumps(chat_answer()).encode()))) as endpoint:
        assert summarise(model_at(endpoint), REQUEST).text == "short"
    [request] = endpoint.heard
    assert b"\r\naccept-encoding: identity\r\n" in request.lower()


# ---- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("openssl"):
        pytest.skip("no openssl here")
    both = tmp_path_factory.mktemp("tls") / "both.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=here"
    more = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", both, "-out", both.with_suffix(".crt")]
    subprocess.run(["openssl", *words.split(), *more], check=True, capture_output=True)
    both.write_bytes(both.read_bytes() + both.with_suffix(".crt").read_bytes())
    return both


def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def test_untrusted_server_receives_nothing(certificate: Path) -> None:
    with serving(says(body(json.dumps(chat_answer()).encode())), tls(certificate)) as endpoint:
        assert "failed: " in failing(model_at(endpoint))
    assert endpoint.heard == []


@pytest.mark.parametrize("ends", [True, False], ids=["answers", "drips"])
def test_over_tls_it_is_the_same(certificate: Path, monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_suffix(".crt")))
    behave = says(body(json.dumps(chat_answer()).encode())) if ends else FOR_EVER["headers that drip"]
    with serving(behave, tls(certificate)) as endpoint:
        if ends:
            assert summarise(model_at(endpoint), REQUEST).text == "short"
        else:
            assert "within 0.5 s" in failing(model_at(endpoint, time_limit_s=0.5))
            assert endpoint.cut.wait(ENDS_S / 4)
            for each in ours():
                each.join(ENDS_S / 4)
            assert not ours()
    assert endpoint.heard or not ends
