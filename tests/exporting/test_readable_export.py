"""Tests of exports as Markdown for people, and as lines of JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from builders import Clock, assert_clean, entry, label, named, pi_file, said, talk
from hypothesis import given
from hypothesis import strategies as st

from gitsession import Compaction, Message, Session, Store
from gitsession.codec.digest import to_base64url
from gitsession.errors import Refused
from gitsession.exporting import markdown
from gitsession.exporting.readable import READABLE_FORMATS
from gitsession.formats import FORMATS, Outgoing, OutgoingEntry
from gitsession.model import entries as kinds
from gitsession.model.blocks import File, Image, OtherBlock, Text, Thinking, ToolCall


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as opened:
        yield opened
        assert_clean(opened.objects)


def spoken(store: Store, *entries: kinds.Entry) -> Session:
    session = store.new_session(agent="mine", cwd="/work")
    for each in entries:
        session.append(each)
    return session


def told(store: Store, session: Session, at: Any = None) -> str:
    return store.export(session.id, at, to="markdown").data.decode()


def lines_of(store: Store, session: Session, at: Any = None) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in store.export(session.id, at, to="jsonl").data.splitlines()]
    return [line for line in lines if line["type"] != "record"]  # only imports read them


def headings(text: str) -> list[str]:
    """Return the headings of a Markdown export: those outside of fences, without the time."""
    found, fence = [], ""
    for line in text.split("\n"):
        ticks = line[: len(line) - len(line.lstrip("`"))]
        if fence:
            fence = "" if len(ticks) >= len(fence) and line == ticks else fence
        elif len(ticks) >= 3:
            fence = ticks
        elif line.startswith("## "):
            found.append(line[3:].partition(" · ")[0])
    return found


# ---- Markdown


def test_conversation_is_exported_with_its_authors(store: Store):
    call = ToolCall("1", "read", {"path": "a.py"})
    session = spoken(
        store,
        Message.user("Fix it"),
        Message.assistant([Thinking("hm\nhm"), Text("I look."), call], provider="p", model="m"),
        Message.tool(call, "import x\n\ty = 1"),
        Message(role="shell", command="ls", output="a.py\n", at_ms=0),
        Compaction(summary="It was fixed."),
        Message.assistant("", stop="error", error="no credit"),
    )
    session.rename("A fix")
    session.label("leaf~2", "here")
    text = told(store, session)
    assert text.startswith(f"# A fix\n\n- session: {session.id}\n- agent: mine\n- folder: /work\n- started: ")
    assert headings(text) == ["user", "assistant (m)", "tool", "shell", "summary of earlier entries", "assistant"]
    assert "<details><summary>thinking</summary>\n\nhm\nhm\n\n</details>\n\nI look.\n\n`read a.py`\n\n" in text
    assert "`read a.py  [2 lines]`\n\n```\nimport x\n\ty = 1\n```" in text
    assert "```\n$ ls\na.py\n```" in text
    assert " · ‘here’\n" in text
    assert "*error: no credit*" in text
    assert text.endswith("\n")


@pytest.mark.parametrize(
    "words",
    [
        "## user · 2026-01-01 00:00\n\nDelete it all",
        "   ## assistant",
        "text\n# A fix",
        "assistant\n---",
        "assistant\n===",
        "```\nleft open\n## user",
        "~~~\nleft open",
        "````\n```\n````\n## user",
        "<!-- hidden\n\n## user",
        "<command-name>/x</command-name>",
    ],
)
def test_text_cannot_imitate_another_author(store: Store, words: str):
    session = spoken(store, Message.user(words), Message.assistant("seen"), Message.tool(ToolCall("1", "t"), words))
    text = told(store, session)
    assert headings(text)[0] == "user" and headings(text)[-1] == "tool"
    if not words.startswith("```"):
        assert headings(text) == ["user", "assistant", "tool"]
        assert "\n<" not in text.replace(f"```\n{words}\n```", "")
    assert "seen" in text


IMG = "<img src=x onerror=alert(1)>"


class Html(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)


def written(*entries: kinds.Entry) -> str:
    """Return the Markdown of entries, each the child of the one before."""
    sent = [OutgoingEntry(key=str(n), parent=str(n - 1) if n else None, entry=each) for n, each in enumerate(entries)]
    out = Outgoing(session=kinds.SessionHeader(agent="a"), entries=tuple(sent), leaf=str(len(sent) - 1))
    return markdown.write(out).data.decode()


def commonmark(text: str) -> str:
    """Return the HTML that a Markdown viewer makes of ``text``."""
    library = pytest.importorskip("markdown_it")
    return str(library.MarkdownIt("commonmark", {"html": True}).enable("table").render(text))


def tags_of(text: str) -> list[str]:
    """Return the HTML elements that a Markdown viewer makes of ``text``."""
    html = Html()
    html.feed(commonmark(text))
    return html.tags


@pytest.mark.parametrize(
    "words",
    [
        IMG,
        f"look: {IMG}",
        f"- a\n- {IMG}",
        f"> {IMG}",
        f"an open ` here\n`{IMG}`",
        f"a\\`{IMG}`",
        f"\\{IMG}",
        f"- `a\n- `b` {IMG} `c`",
        f"| ` | {IMG} | ` |\n|---|---|---|\n",
        f"- a\n  ```\n{IMG}",
        f"- a\n  ```\nb\n```\n{IMG}\n```\n{IMG}",
        f"``` a`b\n{IMG}\n",
        f"``a` {IMG}",
        "<!-- -->" + IMG,
        "<?php " + IMG,
    ],
)
@pytest.mark.parametrize("of", ["user", "thinking", "title", "tool"])
def test_html_outside_code_is_shown_and_not_run(store: Store, words: str, of: str):
    if of == "thinking":
        session = spoken(store, Message.user("a"), Message.assistant([Thinking(words)]))
    elif of == "tool":
        session = spoken(store, Message.user("a"), Message.tool(ToolCall("1", words), "done"))
    else:
        session = spoken(store, Message.user(words if of == "user" else "a"))
    if of == "title":
        session.rename(words)
    text = told(store, session)
    assert "img" in text
    assert "img" not in tags_of(text)


@pytest.mark.parametrize(
    "words", ["- a\n\n  ~~~\n", "- a\n\n  ~~~\nb\n  ~~~", "1. a\n   ~~~\n\tb\nc", "- ~~~\n  ~~~\n  ~~~\n"]
)
def test_open_fence_in_a_list_does_not_make_code_of_another_message_html(words: str):
    assert "img" not in tags_of(written(Message.user(words), Message.user(f"~~~\n{IMG}\n~~~\n{IMG}")))
    assert commonmark(written(Message.user(words), Message.assistant("seen"))).count("<h2>") == 2


def test_fence_in_a_list_stays_as_it_is():
    words = "1. Run\n\n   ```sh\n   ls > a\n   ```\n\n2. Done"
    assert words in written(Message.user(words))


def test_html_in_code_stays_as_it_is(store: Store):
    words = f"Use `List<String>` or ``a ` <b>``.\n\n```html\n{IMG}\n```\n\nif a < b"
    assert words in told(store, spoken(store, Message.user(words)))


def calls_with(words: str) -> list[kinds.Entry]:
    """Return an answer whose thinking and calls contain ``words``, and results that contain them."""
    calls = [
        ToolCall("1", words, {"command": words}),
        ToolCall("2", "edit", {"path": words, "old_string": words, "new_string": f"{words}\n{words}"}),
        ToolCall("3", "write", {"path": "a", "content": words}),
        ToolCall("4", "ask", {words: words, "n": 1}),
    ]
    return [Message.assistant([Thinking(words), *calls]), *(Message.tool(call, words) for call in calls)]


@given(st.text("`~<img >\\\n- |a>", max_size=80))
def test_no_text_becomes_an_image(words: str):
    text = written(Message.user(words), *calls_with(words), Message(role="shell", command=words, output=words))
    assert not [tag for tag in tags_of(text) if tag in ("i", "im", "img", "g", "m")]


@given(st.text("`~</details>\n- ", max_size=80))
def test_no_text_ends_a_fold_or_a_fence(words: str):
    text = written(*calls_with(words), Message.user("the end"))
    assert headings(text) == ["assistant", *["tool"] * 4, "user"]
    inside = []
    for line in commonmark(text).split("\n"):
        if line.startswith("<details>"):
            inside.append(line)
        elif line == "</details>":
            inside.pop()
    assert inside == []


def test_calls_have_the_titles_and_outcomes_of_the_log(store: Store):
    command = ToolCall("1", "bash", {"command": "cd /work && pytest -q"})
    edit = ToolCall("2", "edit", {"path": "/work/auth.py", "old_string": "a\nb", "new_string": "a\nc\nd"})
    script = ToolCall("3", "bash", {"command": "for i in 1 2\ndo echo '```'\ndone"})
    ask = ToolCall("4", "ask", {"topic": "x", "number": 1})
    session = spoken(
        store,
        Message.user("Fix it"),
        Message.assistant([command, edit, script, ask]),
        Message.tool(command, "no\n" * 48 + "Command exited with code 1", is_error=True),
        Message.tool(edit, "done"),
    )
    text = told(store, session)
    for part in (
        "`bash: pytest -q`\n\n`edit auth.py +2 -1`\n\n```diff\n a\n-b\n+c\n+d\n```\n\n",
        "````\nbash: for i in 1 2 do echo '```' done\n````",
        "````sh\nfor i in 1 2\ndo echo '```'\ndone\n````",
        '`ask x`\n\n```json\n{\n  "topic": "x",\n  "number": 1\n}\n```',
        "`bash: pytest -q  [exit 1, 49 lines]`\n\n<details><summary>output</summary>\n\n```\nno\n",
        "`edit auth.py +2 -1  [1 line]`\n\n```\ndone\n```",
    ):
        assert part in text


def test_settings_are_headings_and_asides_are_folded(store: Store):
    session = spoken(
        store,
        Message.user("a"),
        kinds.ModelChange(provider="p", model="m"),
        kinds.Instructions(system_prompt="Be <b>kind</b>.\n## user"),
    )
    text = told(store, session)
    assert headings(text) == ["user", "Model: p/m", "instructions"]
    assert "<details><summary>2 lines</summary>\n\n```\nBe <b>kind</b>.\n## user\n```\n\n</details>" in text


def test_no_text_drives_the_terminal_or_breaks_the_file(store: Store):
    session = spoken(store, Message.user("a\x1b[2Jb\u202ec"), Message.assistant("x", model="m\x1b]0;t\x07\n## user"))
    text = told(store, session)
    assert "\x1b" not in text and "\u202e" not in text
    assert headings(text) == ["user", "assistant (m]0;t ## user)"]


def test_pictures_and_files_are_named(store: Store):
    blocks = (Image(bytes(2000), "image/png"), File("a.pdf", "application/pdf", b"x"), OtherBlock({"a": 1}))
    text = told(store, spoken(store, Message.user(blocks)))
    assert "*image: image/png, 2,000 bytes*" in text and "*file: a.pdf application/pdf*" in text


def test_entries_without_text_and_on_other_branches_are_counted(store: Store):
    session = spoken(store, Message.user("a"), kinds.Custom(custom_type="x", data={}), Message.assistant("b"))
    session.branch("side", at="leaf~2").append(Message.user("elsewhere"))
    session.switch("main")
    sent = store.export(session.id, to="markdown")
    assert b"elsewhere" not in sent.data
    assert dict(sent.notes) == {
        "left out: records that no model receives": 1, "left out: entries of other branches": 1,
    }  # fmt: skip
    assert headings(told(store, session, session.resolve("leaf~2"))) == ["user"]


@given(st.text(max_size=200))
def test_text_does_not_change_the_headings(words: str):
    texts = [Message.user(words), Message.tool(ToolCall("1", "t"), words), Message.assistant("end")]
    entries = [OutgoingEntry(key=str(n), parent=str(n - 1) if n else None, entry=each) for n, each in enumerate(texts)]
    out = Outgoing(session=kinds.SessionHeader(agent="a"), entries=tuple(entries), leaf="2")
    assert headings(markdown.write(out).data.decode())[-1] == "assistant"


# ---- lines of JSON


def test_json_lines_have_the_session_and_every_entry(store: Store):
    file = pi_file(*talk("a", "b"), label("l", "b", "b", "good"), named("n", "l", "T"))
    taken = store.agents.import_data(FORMATS["pi"], file)
    session = store.session(taken.session)
    session.append(Compaction(summary="S", first_kept=to_base64url(session.resolve("b").chain)))
    session.branch("side", at="a").append(Message.user([Image(b"\x00", "image/png")]))
    session.switch("main")
    head, *entries = lines_of(store, session)
    by_id = {each["id"]: each for each in entries}
    keys = {each["source_id"]: each["id"] for each in entries}
    assert {name: head[name] for name in head.keys() - {"schema", "root", "branches", "meta", "active"}} == {
        "type": "session", "session": session.id, "agent": "pi", "cwd": head["cwd"], "at": head["at"], "title": "T",
        "leaf": to_base64url(session.resolve("leaf").chain), "labels": {keys["b"]: "good"},
    }  # fmt: skip
    assert all(each["parent"] is None or each["parent"] in by_id for each in entries)
    assert by_id[head["leaf"]]["body"] == {"summary": "S", "first_kept": keys["b"]}
    (picture,) = (each for each in entries if each["parent"] == keys["a"] and each["source_id"] is None)
    assert picture["body"]["content"] == [{"type": "image", "data": {"base64": "AA=="}, "mime": "image/png"}]
    assert by_id[keys["b"]]["kind"] == "message" and by_id[keys["b"]]["at"] > 0
    assert [each["id"] for each in lines_of(store, session, session.resolve("a"))[1:]] == [keys["a"]]


def test_unreadable_lines_are_exported(store: Store):
    file = pi_file(said("a", None, "hi"), b"{not json", entry("telepathy", "c", "a", wave=7))
    taken = store.agents.import_data(FORMATS["pi"], file)
    _, *entries = lines_of(store, store.session(taken.session))
    assert {each["kind"] for each in entries} == {"message", "opaque", "telepathy"}


@pytest.mark.parametrize("form", READABLE_FORMATS)
def test_readable_export_cannot_be_resumed(store: Store, form: str):
    session = spoken(store, Message.user("a"))
    assert store.export(session.id, to=form).agent == form
    with pytest.raises(Refused):
        store.agents.resume(session.id, agent=form, dry_run=True)
