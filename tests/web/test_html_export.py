"""Tests of sessions exported as HTML: content, hostile text, secrets, and the command."""

from __future__ import annotations

import base64
import re
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from builders import Clock, pi_file, said
from commands import Run
from pages import HOSTILE, Page, assert_harmless, conversation, hostile_session, png

from gitsession import Message, Session, Store
from gitsession.errors import Refused, Unavailable
from gitsession.model.blocks import File, Image, Text, ToolCall
from gitsession.sync import secret_scan
from gitsession.web import transcript
from gitsession.web.entries import image_type

SECRET = "ghp_" + "".join("aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"[:36])
RANDOM = "x7Kq2mPz9RtW4vLs8NbYc3Df"


def exported(store: Store, session: Session, at: str | None = None) -> str:
    node = session.resolve(at) if at else None
    return store.export(session.id, node, to="html").data.decode()


def test_page_has_all_branches_and_every_form_of_content(store: Store) -> None:
    session = conversation(store)
    page = assert_harmless(exported(store, session))
    assert page.entries == [
        f"e-{node.oid[:12]}" for node in [*session.history()[1:], *session.on("other").history()[7:]]
    ]
    assert "A bug" in page.text and "/work" in page.text and session.id in page.text
    assert "bash pytest -q" in " ".join(page.text.split())
    assert "exit 1, 3 lines" in page.text
    assert len(page.all("details", "thinking")) == 1 and len(page.all("details", "diff")) == 1
    assert len(page.all("span", "add")) == len(page.all("span", "del")) == 1
    assert page.all("img") == [
        {"src": "data:image/png;base64," + base64.b64encode(png()).decode(), "alt": f"Image, {len(png())} bytes"}
    ]
    assert [found["aria-label"] for found in page.all("section") if "data-tip" in found] == [
        "Branch main",
        "Branch other",
    ]
    assert "works" in page.text and "Branch other begins here" in page.text
    for target in page.all("a"):
        assert target["href"].removeprefix("#") in page.entries


def test_page_of_an_entry_has_only_its_history(store: Store) -> None:
    session = conversation(store)
    page = Page(exported(store, session, "leaf~2"))
    assert "It is fixed." in page.text and "picture" not in page.text and "another way" not in page.text


def test_content_security_policy_allows_only_the_style_sheet_and_the_script_of_the_page(store: Store) -> None:
    html = exported(store, conversation(store))
    [policy] = [
        found["content"] for found in Page(html).all("meta") if found.get("http-equiv") == "Content-Security-Policy"
    ]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'" and rules["img-src"] == "data:"
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        [content] = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(sha256(content.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert rules.keys() == {"default-src", "style-src", "script-src", "img-src", "base-uri", "form-action"}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_stays_text_in_every_field(store: Store, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "PART_ENTRIES", 4)
    session = hostile_session(store, text)
    session.label(
        "leaf", "".join(char for char in text[:50] if char.isprintable() and char not in "~^:?*[\\ ") or "label"
    )
    session.rename(text[:200].encode("utf-8", "replace").decode().replace("\0", ""))
    html = exported(store, session)
    page = assert_harmless(html)
    assert len(page.entries) == 14 and len(page.all("img")) == 1
    assert html.count("<noscript>") == html.count("</noscript>") == len(page.all("noscript")) == 3
    assert not set("\x00\x1b\u202e\u2066\u200b\ufeff") & set(html)


def test_lone_surrogates_of_an_imported_file_are_replaced(run: Run, here: Path) -> None:
    (here / "s.jsonl").write_bytes(pi_file(said("a", None, "a@b"), cwd=str(here)).replace(b"a@b", rb"a\ud800b"))
    run("import", "s.jsonl")
    run("export", "@", "--to", "html", "-o", "page.html")
    assert "a\ufffdb" in assert_harmless((here / "page.html").read_text()).text


def test_parts_after_the_first_are_not_parsed_until_they_are_shown(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "PART_ENTRIES", 3)
    page = Page(exported(store, conversation(store)))
    assert len(page.entries) == 10
    assert [found.get("data-more", "") for found in page.all("div", "entries")] == ["", "inline", "inline", "inline"]


def test_result_in_another_part_than_its_call_has_the_name_of_the_tool(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "PART_ENTRIES", 1)
    session = store.new_session(agent="claude")
    session.append(Message.user("go"))
    session.append(Message.assistant([ToolCall("1", "probe", {}), ToolCall("2", "other", {})]))
    for id in ("1", "2"):
        session.append(Message(role="tool", content=(Text("done"),), tool_call_id=id))
    found = re.findall(r'class="tool">(\w+)</span> <span class="outcome"', exported(store, session))
    assert found == ["probe", "other"]


@pytest.mark.parametrize(
    "data, mime",
    {png(): "image/png", b"\xff\xd8\xff\xe0": "image/jpeg", b"GIF89a": "image/gif", b"RIFF0000WEBPVP8 ": "image/webp",
     b"<svg xmlns='http://www.w3.org/2000/svg'/>": "", b"": "", b"BM": "", b"RIFF0000WAVE": ""}.items(),
)  # fmt: skip
def test_type_of_an_image_is_that_of_its_bytes(data: bytes, mime: str) -> None:
    assert image_type(data) == mime


def test_image_of_another_type_is_only_named(store: Store) -> None:
    session = store.new_session(agent="pi")
    session.append(Message.user([Image(b"<svg onload='alert(1)'/>", "image/png")]))
    page = Page(exported(store, session))
    assert page.all("img") == []
    assert "Image: image/png, 24 bytes" in page.text


def test_long_output_is_cut(store: Store) -> None:
    session = store.new_session(agent="pi")
    call = ToolCall("1", "bash", {"command": "x"})
    session.append(Message.user("go"))
    session.append(Message.assistant([call]))
    session.append(Message.tool(call, "y" * 150_000))
    page = Page(exported(store, session))
    assert "50,000 more characters" in page.text
    assert page.text.count("y") < 101_000


def without_redaction(path: Path) -> Store:
    """Open a store in which new entries are not redacted."""
    subprocess.run(["git", "-C", path, "config", "gitsession.redact", "false"], check=True)
    return Store.open(path, clock=Clock())


def test_redacted_and_unredacted_secrets_are_withheld(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        session = store.new_session(agent="pi")
        session.append(Message.user(f"my token is {SECRET}"))
        done = store.export(session.id, to="html")
        assert SECRET.encode() not in done.data and b"[redacted:" in done.data
        assert done.hidden == 1
    with without_redaction(tmp_path / "store.git") as store:
        session = store.session(session.id)
        session.append(Message.assistant(f"it is {SECRET}"))
        assert SECRET in store.export(session.id, to="markdown").data.decode()
        done = store.export(session.id, to="html")
        assert SECRET.encode() not in done.data
        assert done.hidden == 2


def test_unredacted_secrets_are_withheld_outside_of_entries_too(tmp_path: Path) -> None:
    Store.create(tmp_path / "store.git").close()
    with without_redaction(tmp_path / "store.git") as store:
        session = store.new_session(agent="pi", cwd=f"/work/{SECRET}")
        session.append(Message.user(f"{SECRET} is my token"))
        session.label("leaf", SECRET)
        session.append(Message.assistant("ok"))
        assert SECRET in store.catalogue().session(session.id).name
        assert SECRET.encode() not in store.export(session.id, to="html").data


def test_allowed_secret_is_shown(tmp_path: Path) -> None:
    Store.create(tmp_path / "store.git").close()
    with without_redaction(tmp_path / "store.git") as store:
        session = store.new_session(agent="pi")
        node = session.append(Message.user(f"the sample {SECRET}"))
        secret_scan.allow(store.objects, secret_scan.at(store.objects, session.id, node))
        assert SECRET.encode() in store.export(session.id, to="html").data


def test_secrets_cannot_be_revealed_in_a_page(store: Store) -> None:
    session = conversation(store)
    with pytest.raises(Refused, match="with secrets"):
        store.export(session.id, to="html", with_secrets=True)


def test_suspicious_text_is_reported_once(store: Store) -> None:
    session = store.new_session(agent="pi")
    session.append(Message.user(f"key {RANDOM} and again {RANDOM}"))
    session.append(Message.assistant([ToolCall("1", "bash", {"command": f"use {RANDOM}"})]))
    [found] = store.export(session.id, to="html").suspicious
    assert found == f"{session.history()[1].oid[:12]}: {RANDOM[:6]}… (24 characters)"


def test_long_suspicious_text_is_reported(store: Store) -> None:
    session = store.new_session(agent="pi")
    session.append(Message.user(f"key {RANDOM * 20}"))
    assert len(store.export(session.id, to="html").suspicious) == 1


def test_suspicious_titles_labels_and_files_are_reported(store: Store) -> None:
    session = store.new_session(agent="pi")
    session.append(Message.user([Text("see"), File("a.txt", url=f"https://a.b/c?key={RANDOM[:-1]}")]))
    session.label("leaf", f"1{RANDOM[1:]}")
    session.rename(f"2{RANDOM[1:]}")
    found = [text.partition(": ")[2][:1] for text in store.export(session.id, to="html").suspicious]
    assert sorted(found) == ["1", "2", "k"]


@pytest.mark.parametrize(
    "text",
    ["3f786850e387550fdab836ed7e6dc881de23001b", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "getUserAccountSettingsById2",
     "sha512-7Kq2mPz9RtW4vLs8NbYc3Df==", "/var/folders/x7/Kq2mPz9RtW4vLs8NbYc3Df", "toolu_01A09q90qw90lq917835lq9",
     "sha256=f64171715db65a2d11b674e2c14c77ee25dc1562afc7a169d5cfab2ac6e9e689",
     "9.34.0__bb836aa7b2e219846c64121374bac6ed/node_modules/"],
)  # fmt: skip
def test_digests_names_and_paths_are_not_suspicious(store: Store, text: str) -> None:
    session = store.new_session(agent="pi")
    session.append(Message.user(f"see {text}"))
    assert store.export(session.id, to="html").suspicious == ()


def test_missing_library_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from gitsession import web

    session = conversation(store)
    monkeypatch.setattr(web, "_LIBRARIES", ("jinja2", "no_such_library"))
    with pytest.raises(Unavailable, match="no_such_library is not installed") as error:
        store.export(session.id, to="html")
    assert error.value.hint == "install with: pip install 'gitsession[web]'"


# ---- the command


def imported(run: Run, here: Path, text: str) -> None:
    (here / "s.jsonl").write_bytes(pi_file(said("a", None, text), cwd=str(here)))
    run("import", "s.jsonl")


def test_command_writes_a_private_file(run: Run, here: Path) -> None:
    imported(run, here, "hello <b>")
    assert run("export", "@", "--to", "html", "-o", "page.html") == ""
    assert (here / "page.html").stat().st_mode & 0o777 == 0o600
    assert "hello &lt;b&gt;" in (here / "page.html").read_text()
    run("export", "@", "--to", "html", "-o", "page.html", code=4)


def test_command_lists_suspicious_text_and_requires_consent(run: Run, here: Path) -> None:
    imported(run, here, f"key {RANDOM}")
    complaint = run("export", "@", "--to", "html", "-o", "page.html", code=2, err=True)
    assert f"{RANDOM[:6]}… (24 characters)" in complaint and RANDOM not in complaint
    assert "pass --yes" in complaint and not (here / "page.html").exists()
    assert RANDOM[:6] in run("export", "@", "--to", "html", "-o", "page.html", "--yes", err=True)
    assert RANDOM in (here / "page.html").read_text()


def test_page_of_a_damaged_session_names_the_gap(store: Store) -> None:
    session = conversation(store)
    node = session.history()[3]
    read = store.objects.read

    def damaged(oid: str):
        if oid == node.tree:
            from gitsession.errors import Corrupt

            raise Corrupt("the object is damaged")
        return read(oid)

    store.objects.read = damaged
    store.objects.read_all = lambda oids: iter(())
    page = assert_harmless(exported(store, session))
    assert "This entry cannot be read: the object is damaged" in page.text
    assert "It is fixed." in page.text
