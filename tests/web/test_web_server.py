"""Tests of the server of pages: who may read, the pages, and new entries."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import HOSTILE, Page, assert_harmless, conversation, hostile_session
from served import Client, serving

from gitsession import Message, Session, Store
from gitsession.errors import Unavailable
from gitsession.web import selection, served_sessions, transcript
from gitsession.web.server import WebServer
from gitsession.web.site import Site


@pytest.fixture
def server(store: Store) -> Iterator[WebServer]:
    with serving(store) as server:
        yield server


@pytest.fixture
def client(server: WebServer) -> Client:
    return Client(server)


# ---- who may read


def test_token_in_the_address_becomes_a_cookie(server: WebServer, client: Client) -> None:
    client.headers = {}
    assert client.ask("/")[0] == 403
    path = server.address.removeprefix(server.origin)
    status, headers, body = client.ask(f"{path}&agent=pi")
    assert (status, headers["Location"], body) == (303, "/?agent=pi", "")
    cookie, *attributes = headers["Set-Cookie"].split("; ")
    assert set(attributes) == {"Path=/", "HttpOnly", "SameSite=Strict"}
    client.headers = {"Cookie": cookie}
    assert client.ask("/")[0] == 200


@pytest.mark.parametrize("path", ["/", "/search?q=bug", "/session/20260201-aaaaaaaaaaaaa", "//evil.example/", "/x"])
def test_nothing_is_shown_without_the_token(server: WebServer, client: Client, store: Store, path: str) -> None:
    conversation(store)
    for headers in (
        {},
        {"Cookie": f"{server.cookie_name}=x"},
        {"Cookie": "broken;;=,"},
        {"Cookie": "a=\ud7ff".encode()},
    ):
        client.headers = headers
        for address in (path, f"{path}{'&' if '?' in path else '?'}token=x", f"{path}?token=%00%ff"):
            status, _, body = client.ask(address)
            assert status == 403 and "bug" not in body.replace(address, "") and server.token not in body


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:80", "", "[::1]"])
def test_another_host_is_refused(client: Client, server: WebServer, host: str) -> None:
    assert client.ask("/", Host=host)[0] == 403
    assert client.ask(f"/?token={server.token}", Host=host)[0] == 403
    assert client.ask("/", Host=f"localhost:{server.server_port}")[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:1", "null", "https://localhost"])
def test_another_origin_is_refused(client: Client, server: WebServer, origin: str) -> None:
    assert client.ask("/", Origin=origin)[0] == 403
    assert client.ask("/", Origin=server.origin)[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_server_is_read_only(client: Client, method: str) -> None:
    assert client.ask("/", method)[0] == 405


def test_head_has_no_body(client: Client) -> None:
    status, headers, body = client.ask("/", "HEAD")
    assert (status, body) == (200, "") and int(headers["Content-Length"]) > 1000


def test_answers_forbid_caches_frames_and_other_sites(client: Client) -> None:
    for path in ("/", "/x"):
        headers = client.ask(path)[1]
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "connect-src 'self'" in policy
        assert headers["Cache-Control"] == "no-store" and headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin" and headers["Referrer-Policy"] == "no-referrer"
        assert "Access-Control-Allow-Origin" not in headers


def test_redirect_stays_on_the_server(client: Client, server: WebServer) -> None:
    for path in ("//evil.example/", "///evil.example", "/\\evil.example"):
        location = client.ask(f"{path}?token={server.token}")[1].get("Location", "/")
        assert location.startswith("/") and not location.startswith(("//", "/\\"))


def test_server_listens_only_on_the_loopback_address(server: WebServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    with pytest.raises(Unavailable, match="cannot listen on port"):
        WebServer(server.site, server.server_port)


# ---- bad requests, and a store that changes


@pytest.mark.parametrize(
    "path", [f"/?{'a=1&' * 30}", f"/?{'x' * 60_000}", "/%2e%2e/%2e%2e/etc/passwd", "/[", "/?page=-1"]
)
def test_every_request_is_answered(client: Client, server: WebServer, path: str) -> None:
    status, _, html = client.ask(path)
    assert status in (200, 400, 404)
    assert_harmless(html)
    assert server.failures == []


@pytest.mark.parametrize(
    "line", [b"GET", b"GET / HTTP/9", b"\0\xff / HTTP/1.1", b"GET /" + b"x" * 70_000, b"GET  /  x"]
)
def test_server_survives_a_malformed_request(client: Client, server: WebServer, line: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as connection:
        connection.sendall(line + b"\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            assert b"Traceback" not in connection.recv(1 << 16)
    client.page("/")


def test_removed_session_is_not_found(client: Client, server: WebServer, long: Session, store: Store) -> None:
    addresses = [
        found["data-more"]
        for found in client.page(f"/session/{long.id}").all("div", "entries")
        if found.get("data-more")
    ]
    with Store.open(store.objects.git_dir) as other:
        other.trash.put(long.id)
    for path in (
        f"/session/{long.id}",
        *addresses,
        f"/session/{long.id}/where?entry=abcd",
        f"/session/{long.id}/new?tips=x",
    ):
        assert client.ask(path)[0] == 404
    assert "No session found" in client.page("/").text and "No file found" in client.page("/files").text
    assert server.failures == []


def test_moved_store_is_reported(client: Client, server: WebServer, long: Session, store: Store) -> None:
    store.flush()
    folder = Path(store.objects.git_dir)
    folder.rename(folder.with_name("elsewhere"))
    try:
        for path in ("/", "/files", "/stats", f"/session/{long.id}"):
            status, _, html = client.ask(path)
            assert status in (200, 404, 500)
            assert_harmless(html)
    finally:
        folder.with_name("elsewhere").rename(folder)


def test_many_requests_leave_no_threads_or_files(client: Client, store: Store) -> None:
    conversation(store)
    client.page("/")
    before = threading.active_count(), len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(300):
        assert client.ask("/search?q=bug")[0] == 200
    after = threading.active_count(), len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after[0] <= before[0] + 2 and after[1] <= before[1] + 20


# ---- pages


def test_list_has_all_sessions_and_filters(client: Client, store: Store) -> None:
    conversation(store)
    other = store.new_session(agent="claude", cwd="/elsewhere")
    other.append(Message.user("Write a poem"))
    page = client.page("/")
    assert "A bug" in page.text and "Write a poem" in page.text and "2 sessions" in page.text
    for query, shown in (
        ("agent=claude", "Write a poem"),
        ("project=/work", "A bug"),
        ("text=POEM", "Write a poem"),
        ("text=%2Felse", "Write a poem"),
        ("agent=none", "No session found"),
    ):
        page = client.page(f"/?{query}")
        assert shown in page.text
        assert ("A bug" in page.text) + ("Write a poem" in page.text) <= 1


def test_long_list_has_pages(client: Client, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "ROWS_AT_ONCE", 2)
    for number in range(5):
        store.new_session(agent="pi").append(Message.user(f"prompt {number}"))
    assert [len(client.page(f"/?page={number}").all("li")) for number in range(4)] == [2, 2, 1, 0]
    assert [found["href"] for found in client.page("/?page=1&agent=pi").all("a") if "rel" in found] == [
        "/?agent=pi&page=0", "/?agent=pi&page=2",
    ]  # fmt: skip


def test_search_links_to_the_entry(client: Client, store: Store) -> None:
    session = conversation(store)
    page = client.page("/search?q=fixed")
    node = session.history()[6]
    assert {"href": f"/session/{session.id}?entry={node.oid[:12]}#e-{node.oid[:12]}"} in page.all("a")
    assert len(page.all("mark")) == 2  # fixed, and Fix in an answer
    assert "No entry contains" in client.page("/search?q=nowhere").text
    for query in ("", "q=%22", "q=***", "q=a&role=none", "q=%00", "q=%28"):
        client.page(f"/search?{query}")


def test_session_is_the_page_of_the_export(client: Client, store: Store) -> None:
    session = conversation(store)
    page = client.page(f"/session/{session.id}")
    assert page.entries == Page(store.export(session.id, to="html").data.decode()).entries


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_stays_text_on_every_page(client: Client, store: Store, text: str) -> None:
    session = hostile_session(store, text)
    session.rename(text[:200].encode("utf-8", "replace").decode().replace("\0", ""))
    client.page("/")
    client.page("/?text=" + "%3Cscript%3Ealert(1)%3C/script%3E")
    client.page("/search?q=alert")
    client.page("/search?q=%22%3E%3Cscript%3Ealert(1)")
    assert len(client.page(f"/session/{session.id}").entries) == 14


@pytest.fixture
def long(store: Store, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setattr(transcript, "PART_ENTRIES", 3)
    monkeypatch.setattr(served_sessions, "INLINE_ENTRIES_MAX", 5)
    return conversation(store)


def test_long_session_is_loaded_in_parts(client: Client, long: Session) -> None:
    page = client.page(f"/session/{long.id}")
    assert len(page.entries) == 3
    addresses = [found["data-more"] for found in page.all("div", "entries") if "data-more" in found]
    found = [*page.entries, *(id for address in addresses for id in client.page(address).entries)]
    assert found == Page(client.ask(f"/session/{long.id}")[2]).entries + found[3:]
    assert len(found) == len(set(found)) == 10
    for found_link in [found for found in page.all("a") if found["href"].startswith("?part=")]:
        assert len(client.page(f"/session/{long.id}{found_link['href']}").entries) in (1, 2, 3)


def test_entry_of_a_long_session_can_be_found(client: Client, long: Session) -> None:
    node = long.history()[5]
    status, _, first = client.ask(f"/session/{long.id}/where?entry={node.oid[:12]}")
    assert status == 200
    [address] = [
        found["data-more"]
        for found in client.page(f"/session/{long.id}").all("div", "entries")
        if f"/part/{first}/" in found.get("data-more", "")
    ]
    assert f"e-{node.oid[:12]}" in client.page(address).entries
    assert f"e-{node.oid[:12]}" in client.page(f"/session/{long.id}?entry={node.oid[:12]}").entries


@pytest.mark.parametrize(
    "path",
    ["/session/none", "/session/20260201-aaaaaaaaaaaaa", "/session/{}/part/ffffffffffff/3", "/session/{}/part/x/y",
     "/session/{}/where?entry=ffff", "/session/{}/where", "/session/../../etc", "/nothing", "/session/{}/more",
     "/session/20260201-aaaaaaaaaaaaa/new?tips=x"],
)  # fmt: skip
def test_missing_page_is_not_found(client: Client, long: Session, path: str) -> None:
    status, _, html = client.ask(path.format(long.id))
    assert status == 404
    assert_harmless(html)


def test_very_long_session_opens_with_its_newest_entries(
    client: Client, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_sessions, "NEWEST_FROM", 5)
    monkeypatch.setattr(served_sessions, "NEWEST_ENTRIES", 3)
    session = conversation(store)
    page = client.page(f"/session/{session.id}")
    assert page.entries == [f"e-{node.oid[:12]}" for node in session.history()[-3:]]
    assert {"href": "?all=1"} in page.all("a")
    assert len(client.page(f"/session/{session.id}?all=1").entries) == 10
    assert len(client.page(f"/session/{session.id}?entry={session.history()[1].oid[:12]}").entries) == 10
    page = client.page(f"/session/{session.id}")  # they are ordered now
    assert len(page.entries) == 10
    added = session.append(Message.user("One more"))
    _, [section] = news(client, session, page.all("main")[0]["data-tips"])
    assert Page(section["html"]).entries == [f"e-{added.oid[:12]}"]


# ---- new entries


def news(client: Client, session: Session, tips: str) -> tuple[str, list[dict[str, Any]]]:
    status, _, body = client.ask(f"/session/{session.id}/new?tips={tips}")
    if status == 204:
        return tips, []
    found = json.loads(body)
    return found["tips"], found["sections"]


def tips_of(client: Client, session: Session) -> str:
    return client.page(f"/session/{session.id}").all("main")[0]["data-tips"]


def test_new_entries_follow_the_known_tip(client: Client, store: Store) -> None:
    session = conversation(store)
    tips = tips_of(client, session)
    assert news(client, session, tips) == (tips, [])
    before = session.resolve("main").oid
    first = session.append(Message.user("And now <b>?"))
    second = session.append(Message.assistant("Done."))
    tips, [section] = news(client, session, tips)
    assert (section["after"], section["tip"], section["name"]) == (before, second.oid, "main")
    assert assert_harmless(section["html"]).entries == [f"e-{node.oid[:12]}" for node in (first, second)]
    assert "And now <b>?" in Page(section["rows"]).text
    assert news(client, session, tips) == (tips, [])


@pytest.mark.parametrize("near", [2, 500])
def test_new_branch_from_an_old_entry_has_only_its_own_entries(
    client: Client, store: Store, monkeypatch: pytest.MonkeyPatch, near: int
) -> None:
    monkeypatch.setattr(served_sessions, "_NEAR_ENTRIES", near)
    session = conversation(store)
    tips = tips_of(client, session)
    start = session.history()[2]
    late = session.branch("late", at=start)
    added = late.append(Message.user("From here"))
    tips, [section] = news(client, session, tips)
    assert (section["after"], section["name"]) == (start.oid, "late")
    assert Page(section["html"]).entries == [f"e-{added.oid[:12]}"]


def test_another_process_can_append(client: Client, store: Store, tmp_path: Path) -> None:
    session = conversation(store)
    tips = tips_of(client, session)
    with Store.open(tmp_path / "store.git") as other:
        other.session(session.id).on("main").append(Message.user("from another process"))
    _, [section] = news(client, session, tips)
    assert "from another process" in section["html"]


def test_events_of_agents_are_ingested(store: Store) -> None:
    calls: list[int] = []
    site = Site(store, store.secrets.guard(), lambda: calls.append(1))
    site.answer("/", {})
    assert calls == [1]


def test_threads_can_read_one_session(client: Client, long: Session) -> None:
    failures: list[object] = []
    addresses = [f.get("data-more") or "/" for f in client.page(f"/session/{long.id}").all("div", "entries")]

    def read() -> None:
        failures.extend(status for address in addresses * 4 if (status := client.ask(address)[0]) != 200)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# ---- the command


def test_command_prints_the_address_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store.git") as store:
        conversation(store)
    words = [sys.executable, "-m", "gitsession", "--store", str(tmp_path / "store.git"), "serve"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/\?token=\S{40,})", address)
            assert found is not None
            connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=30)
            connection.request("GET", found[2])
            assert connection.getresponse().status == 303
            connection.close()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, "")
    assert "press Ctrl-C to stop" in err and "Traceback" not in err and found[2] not in err
