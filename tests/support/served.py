"""Test helpers for the server of pages: a running server, and a browser that reads its pages."""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Iterator

from pages import Page, assert_harmless

from gitsession import Store
from gitsession.web.server import WebServer
from gitsession.web.site import Site


@contextlib.contextmanager
def serving(store: Store) -> Iterator[WebServer]:
    """Serve the pages of a store. ``failures`` of the server has the errors of requests."""
    failures: list[Exception] = []
    with WebServer(Site(store, store.secrets.guard()), on_error=failures.append) as server:
        server.failures = failures  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class Client:
    """A browser with the cookie of a server."""

    def __init__(self, server: WebServer) -> None:
        self.server = server
        self.headers = {"Cookie": f"{server.cookie_name}={server.token}"}

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=30)
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, headers={**self.headers, **names})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()
        finally:
            connection.close()

    def page(self, path: str) -> Page:
        status, _, html = self.ask(path)
        assert status == 200, html
        return assert_harmless(html)
