"""Tests of the pages of files: the changed files, the changes of one file, and the origin of its lines."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from builders import joined
from claude_code import SESSION, assistant, call, user
from pages import HOSTILE, conversation, hostile_session
from served import Client

from gitsession import Message, Session, Store, ToolCall
from gitsession.formats import FORMATS
from gitsession.web import file_pages, selection


def change(session: Session, name: str, *, is_error: bool = False, **arguments: str) -> str:
    """Append a tool call and its result. Return the id of the entry in a page."""
    requested = ToolCall(f"call {len(list(session.history()))}", name, arguments)
    node = session.append(Message.assistant([requested]))
    session.append(Message.tool(requested, "failed" if is_error else "done", is_error=is_error))
    return node.oid[:12]


@pytest.fixture
def session(store: Store, tmp_path: Path) -> Session:
    """Return a session that changed two files in a recorded folder, and failed to change a third one."""
    folder = tmp_path / "work"
    folder.mkdir()
    session = store.new_session(agent="pi", cwd=str(folder))
    source = ""
    for prompt, line in (("Write an app", "import os\n"), ("Print the <name>", "print(os.name)\n")):
        session.append(Message.user(prompt))
        edit = ToolCall(prompt, "edit", {"path": "app.py", "oldText": source, "newText": source + line})
        session.append(Message.assistant([edit]))
        source += line
        with session.files.checkpoint(folder, call=edit.id, reason="edit"):
            (folder / "app.py").write_text(source)
        session.append(Message.tool(edit, "done"))
    change(session, "write", path="b.txt", content="x\n")
    change(session, "write", path="never.txt", is_error=True, content="x\n")
    session.rename("An app")
    return session


def test_list_has_the_changed_files(client: Client, session: Session, store: Store, tmp_path: Path) -> None:
    conversation(store)
    page = client.page("/files")
    paths = [found["href"] for found in page.all("a") if found["href"].startswith("/files/history")]
    app, text = (quote(f"{tmp_path}/work/{name}", safe="") for name in ("app.py", "b.txt"))
    assert sorted(paths) == sorted(f"/files/history?path={path}" for path in ("%2Fwork%2Fa.py", app, text))
    assert "never.txt" not in page.text and "3 files" in page.text
    for query, shown in (("text=A.PY", "/work/a.py"), (f"session={session.id}", "b.txt"), ("agent=none", "No file")):
        page = client.page(f"/files?{query}")
        assert shown in page.text and ("/work/a.py" in page.text) + ("b.txt" in page.text) <= 1
    assert "An app" in client.page(f"/files?session={session.id}").text


def test_long_list_of_files_has_pages(client: Client, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "ROWS_AT_ONCE", 1)
    for number in range(3):
        page = client.page(f"/files?page={number}&text=work")
        assert len(page.all("li")) == (number < 2)
    links = [found["href"] for found in client.page("/files?page=1&text=work").all("a") if "rel" in found]
    assert links == ["/files?text=work&page=0"]


def test_history_links_to_the_entries(client: Client, session: Session, tmp_path: Path) -> None:
    path = f"{tmp_path}/work/app.py"
    page = client.page(f"/files/history?path={quote(path)}")
    nodes = [node.oid[:12] for node in session.history() if node.role == "assistant"]
    links = [found["href"] for found in page.all("a") if found["href"].startswith("/session")]
    assert links == [f"/session/{session.id}?entry={oid}#e-{oid}" for oid in (nodes[1], nodes[0])]
    assert "Print the <name>" in page.text and "Write an app" in page.text and "An app" in page.text
    for link in links:
        entry = link.partition("#")[2]
        assert entry in client.page(link.partition("#")[0]).entries


def test_renamed_file_has_its_earlier_changes(client: Client, store: Store) -> None:
    session = store.new_session(agent="codex", cwd="/work")
    session.append(Message.user("Write"))
    change(session, "write", path="old.txt", content="x\n")
    patch = "*** Begin Patch\n*** Update File: old.txt\n*** Move to: new.txt\n@@\n-x\n+y\n*** End Patch"
    change(session, "apply_patch", input=patch)
    page = client.page("/files/history?path=/work/new.txt")
    assert "write" in page.text and "Path/work/old.txt" in page.text


def test_lines_have_the_prompt_that_led_to_them(client: Client, session: Session, tmp_path: Path) -> None:
    page = client.page(f"/files/lines?path={quote(f'{tmp_path}/work/app.py')}")
    assert [found["start"] for found in page.all("ol")] == ["1", "2"]
    words = " ".join(page.text.split())
    assert (
        words.index("Write an app")
        < words.index("import os")
        < words.index("Print the <name>")
        < words.index("print(os.name)")
    )
    assert len([found for found in page.all("a") if found["href"].startswith(f"/session/{session.id}?entry=")]) == 2


def test_file_on_the_disk_is_not_read(client: Client, session: Session, tmp_path: Path) -> None:
    (tmp_path / "work/b.txt").write_text("the disk")
    (tmp_path / "work/app.py").write_text("the disk")
    assert "No checkpoint contains" in client.page(f"/files/lines?path={tmp_path}/work/b.txt").text
    assert "the disk" not in client.page(f"/files/lines?path={tmp_path}/work/app.py").text
    assert client.ask("/files/lines?path=/etc/passwd")[0] == client.ask("/files/history?path=/etc/passwd")[0] == 404


def test_long_file_is_cut(client: Client, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_pages, "_LINES_MAX", 1)
    monkeypatch.setattr(file_pages, "_LINE_CHARS_MAX", 8)
    page = client.page(f"/files/lines?path={tmp_path}/work/app.py")
    assert "It has 2 lines, of which the first 1 are shown" in page.text
    assert "import o" in page.text and "import os" not in page.text and len(page.all("code")) == 1


@pytest.mark.parametrize(
    "query", ["", "?path=", "?path=%00", "?path=../../etc/passwd", "?path=%ff%fe", "?path=" + "x" * 5000, "?path=%27--"]
)
@pytest.mark.parametrize("page", ["history", "lines"])
def test_unknown_file_is_not_found(client: Client, session: Session, page: str, query: str) -> None:
    assert client.ask(f"/files/{page}{query}")[0] == 404


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_paths_and_prompts_stay_text(client: Client, store: Store, text: str) -> None:
    hostile_session(store, text)
    links = [found["href"] for found in client.page("/files").all("a") if found["href"].startswith("/files/history")]
    assert links
    for link in links:
        for address in (link, link.replace("history", "lines")):
            page = client.page(address)
            assert not set("\x00\x1b\u202e\u2066\u200b\ufeff") & set(page.text)


def test_lone_surrogates_in_a_path_are_replaced(client: Client, store: Store) -> None:
    lines = [user("a", None), assistant("b", "a", call("c1", "Write", file_path="/work/a@<b>.txt", content="1"))]
    store.agents.import_data(FORMATS["claude"], joined(*lines).replace(b"a@", rb"a\ud800"), name=SESSION)
    [link] = [found["href"] for found in client.page("/files").all("a") if found["href"].startswith("/files/history")]
    assert "/work/a?<b>.txt" in client.page(link).text
