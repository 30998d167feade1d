"""A server of pages for a whole store. It is reachable only from this machine, and it changes nothing.

A random token is part of the address that the user opens. The first request with the token sets a cookie, and every
other request requires the cookie, so that neither other users of the machine nor other web sites can read sessions. The
``Host`` header is checked, because a web site can make its name point to this machine (DNS rebinding).
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlencode, urlsplit

from gitsession.errors import NotFound, Unavailable
from gitsession.web.page import policy, render
from gitsession.web.serving import Answer
from gitsession.web.site import Site

LOOPBACK = "127.0.0.1"
_READ_TIMEOUT_SECONDS = 30
_FIELDS_MAX = 20
_NOT_MODIFYING = ("GET", "HEAD")


_PATH = re.compile(r"/(?:[\w-]+/)*[\w-]*", re.ASCII)
"""The paths of pages. A browser could interpret another path, such as ``//host``, as the address of another site."""


class WebServer(ThreadingHTTPServer):
    """A server of the pages of ``site`` on the loopback address. Call ``serve_forever`` to serve."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, site: Site, port: int = 0, on_error: Callable[[Exception], None] = lambda _: None) -> None:
        """Listen on ``port``; 0 selects a free port. ``on_error``: a function that receives errors of requests.

        Raises ``Unavailable`` if the port is in use.
        """
        self.site, self.on_error = site, on_error
        self.token = secrets.token_urlsafe(32)
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except (OSError, OverflowError) as error:
            what = f"cannot listen on port {port}: {getattr(error, 'strerror', None) or error}"
            raise Unavailable(what, hint="pass another --port, or omit it to use a free port") from None

    @property
    def origin(self) -> str:
        """The beginning of the addresses of all pages."""
        return f"http://{LOOPBACK}:{self.server_port}"

    @property
    def address(self) -> str:
        """The address to open, with the token."""
        return f"{self.origin}/?token={self.token}"

    @property
    def cookie_name(self) -> str:
        """The name of the cookie. Servers on other ports share the cookies of this one, so it contains the port."""
        return f"gitsession-{self.server_port}"

    def is_token(self, value: str) -> bool:
        """Return whether ``value`` is the token. The time of the comparison does not depend on ``value``."""
        return hmac.compare_digest(value.encode("utf-8", "replace"), self.token.encode())

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors of connections, such as a browser that closes one."""


class _Handler(BaseHTTPRequestHandler):
    server: WebServer
    timeout = _READ_TIMEOUT_SECONDS
    server_version, sys_version = "gitsession", ""

    def do_GET(self) -> None:
        self._respond()

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: an address may contain the token."""

    def _respond(self) -> None:
        try:
            answer = self._answer()
        except NotFound as error:
            answer = _message(HTTPStatus.NOT_FOUND, "Not found", str(error))
        except Exception as error:  # a database that another process replaces, or a bug: the server keeps running
            self.server.on_error(error)
            answer = _message(HTTPStatus.INTERNAL_SERVER_ERROR, "This page cannot be shown", str(error))
        self._send(answer)

    def _answer(self) -> Answer:
        if self.command not in _NOT_MODIFYING:
            return _message(HTTPStatus.METHOD_NOT_ALLOWED, "Not allowed", "This server is read-only.")
        hosts = [f"{name}:{self.server.server_port}" for name in (LOOPBACK, "localhost")]
        if self.headers.get("Host", "").lower() not in hosts:
            return _message(HTTPStatus.FORBIDDEN, "Forbidden", "The Host header is not that of this server.")
        if self.headers.get("Origin", "").lower() not in ("", *(f"http://{host}" for host in hosts)):
            return _message(HTTPStatus.FORBIDDEN, "Forbidden", "The Origin header is that of another site.")
        try:
            url = urlsplit(self.path if self.path.startswith("/") else "/")
            values = dict(parse_qsl(url.query, max_num_fields=_FIELDS_MAX))
        except ValueError as error:
            return _message(HTTPStatus.BAD_REQUEST, "Bad request", str(error))
        token = values.pop("token", "")
        if token and self.server.is_token(token):
            path = url.path if _PATH.fullmatch(url.path) else "/"
            target = path + (f"?{urlencode(values)}" if values else "")
            cookie = f"{self.server.cookie_name}={token}; Path=/; HttpOnly; SameSite=Strict"
            return Answer(status=HTTPStatus.SEE_OTHER, headers=(("Location", target), ("Set-Cookie", cookie)))
        if not self.server.is_token(self._cookie()):
            text = "Open the address that `gitsession serve` printed. It contains a token."
            return _message(HTTPStatus.FORBIDDEN, "Forbidden", text)
        return self.server.site.answer(url.path, values)

    def _cookie(self) -> str:
        try:
            found = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie_name)
        except CookieError:
            return ""
        return found.value if found is not None else ""

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in (*_HEADERS.items(), *answer.headers):
            self.send_header(name, value)
        if answer.body or answer.status == HTTPStatus.OK:
            self.send_header("Content-Type", answer.type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)


_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": f"{policy(is_served=True)}; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def _message(status: HTTPStatus, title: str, text: str) -> Answer:
    return Answer.html(render("message.html", title=title, text=text, is_served=True), status)
