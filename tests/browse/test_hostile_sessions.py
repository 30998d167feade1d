"""Tests of the browser with hostile text, damaged entries, narrow screens, and other agents' sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import Driver, browse
from builders import START_MS, Clock
from rich.cells import cell_len

from gitsession import Message, Session, Store, ToolCall
from gitsession.errors import Unavailable
from gitsession.model.headline import clean

ATTACKS = {
    "escape sequences": "\x1b]0;owned\x07\x1b[2J\x1b[?1049h",
    "the clipboard": "\x1b]52;c;cm0gLXJm\x07",
    "one byte controls": "\x9b31mred\x9b0m \x9d0;owned\x9c",
    "bidirectional text": "\u202egnp.exe\u2066\u2069",
    "markup": "[bold red]x[/] [@click=app.quit]quit[/] [link=http://evil]y[/link]",
    "lines": "one\r\ntwo\u2028three",
    "a huge line": "x" * 300_000,
    "wide letters": "修正登录重定向" * 100,
    "joined emoji": "\U0001f469\u200d\U0001f469\u200d\U0001f467" * 60,
    "combining marks": "e" + "\u0301" * 500,
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as made:
        yield made


def begin(store: Store, text: str) -> Session:
    session = store.new_session(agent="pi", cwd="/work/shop")
    call = ToolCall("1", text[:80], {"command": text})
    edit = ToolCall("2", "edit", {"path": text, "old_string": text, "new_string": f"{text}\n{text}"})
    session.append(Message.user(text, at_ms=START_MS))
    session.append(Message.assistant([*Message.user(text).content, call, edit], at_ms=START_MS))
    session.append(Message.tool(call, text, is_error=True, at_ms=START_MS))
    session.append(Message.tool(edit, text, at_ms=START_MS))
    return session


@pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS)
def test_hostile_text_never_breaks_the_screen(store: Store, text: str) -> None:
    session = begin(store, text)
    session.rename(text.replace("\r\n", " ")[:100])

    async def steps(it: Driver) -> None:
        def check() -> None:
            for line in it.browser.screen._compositor.render_strips():
                assert line.cell_length == 60 == cell_len(line.text)
                assert line.text == clean(line.text)
                assert not any(segment.style and "@click" in segment.style.meta for segment in line)

        check()
        await it.press("enter")
        check()
        await it.press("ctrl+a", "home", "enter")
        check()
        await it.press("o", "end", "home", "pagedown")
        check()
        await it.press("q", "r")
        check()
        await it.press("enter")
        check()
        await it.press("escape", "escape", "f")
        check()
        await it.press("n", "L", "escape", "R")
        check()

    browse(store, steps, size=(60, 16))


@pytest.mark.parametrize("size", [(20, 6), (1, 1), (8, 3), (200, 60)])
def test_any_size_of_the_screen_is_usable(store: Store, size: tuple[int, int]) -> None:
    session = begin(store, "Fix the login")

    async def steps(it: Driver) -> None:
        await it.press("down", "up", "enter", "end", "pageup", "q", "r", "enter", "down", "escape", "escape", "L")

    browse(store, steps, session=session, size=size)


def test_damaged_entries_are_shown_as_gaps(store: Store) -> None:
    session = begin(store, "Fix the login")
    store.flush()
    lost = session.resolve("leaf~1")
    session.append(Message.assistant("after", at_ms=START_MS))
    read = type(store.objects).read

    def damaged(self, oid):  # type: ignore[no-untyped-def]
        if oid == lost.oid:
            from gitsession import MissingObject

            raise MissingObject(f"missing object {oid}")
        return read(self, oid)

    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(type(store.objects), "read", damaged)
    try:

        async def steps(it: Driver) -> None:
            await it.see("cannot be read")
            await it.press("home", "down", "enter", "y", "q", "s", "L", "escape", "f", "n", "r", "escape")
            await it.press("end", "up", "enter")

        browse(store, steps, session=session)
    finally:
        monkeypatch.undo()


def test_an_error_of_the_store_is_shown_in_the_status_line(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = begin(store, "Fix the login")

    def fail(*_: object, **__: object) -> None:
        raise Unavailable("the disk is full", hint="free some space")

    monkeypatch.setattr(Session, "label", fail)
    monkeypatch.setattr(Session, "fork", fail)
    monkeypatch.setattr(Store, "next_undo", fail)

    async def steps(it: Driver) -> None:
        await it.press("L", "x", "enter")
        await it.see("error: the disk is full (free some space)")
        await it.press("up", "f", "y")
        await it.see("error: the disk is full (free some space)")
        await it.press("up", "u")
        await it.see("error: the disk is full (free some space)")

    browse(store, steps, session=session)


def test_a_session_that_was_removed_and_an_entry_that_cannot_be_read_are_errors_on_the_screen(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, session = begin(store, "gone"), begin(store, "Fix the login")

    def fail(*_: object) -> None:
        raise Unavailable("the disk is slow")

    async def steps(it: Driver) -> None:
        store.trash.put(gone.id)
        await it.press("end", "enter")
        assert "error: no session" in it.status
        monkeypatch.setattr(Session, "read", fail)
        await it.press("home", "enter", "ctrl+a", "enter")
        assert "cannot be read: the disk is slow" in it.text

    browse(store, steps)
    assert session.id != gone.id


def test_without_color_the_cursor_is_in_reverse_video(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    begin(store, "Fix the login")
    begin(store, "Other")

    async def steps(it: Driver) -> None:
        strips = it.browser.screen._compositor.render_strips()
        assert all(segment.style and segment.style.reverse for segment in list(strips[1])[:3])
        for strip in strips:
            colors = [
                color for segment in strip if segment.style for color in (segment.style.color, segment.style.bgcolor)
            ]
            assert all(color is None or color.is_default for color in colors)

    browse(store, steps)
