"""Tests of the list of sessions: order, filter, and keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import Driver, browse
from builders import START_MS, Clock

from gitsession import Message, Store
from gitsession.browse.dialogs import TextDialog
from gitsession.browse.session_list import SessionList
from gitsession.browse.tree import TreeScreen


@pytest.fixture
def store(tmp_path: Path):
    with Store.create(tmp_path / "store.git", clock=Clock()) as made:
        yield made


def begin(store: Store, text: str, *, agent: str = "pi", cwd: Path | str = "/work/shop") -> str:
    session = store.new_session(agent=agent, cwd=str(cwd))
    session.append(Message.user(text, at_ms=START_MS))
    session.append(Message.assistant("Done.", at_ms=START_MS + 1000))
    return session.id


def test_the_list_shows_age_agent_title_and_project(store: Store) -> None:
    sid = begin(store, "Fix the login redirect", agent="claude")

    async def steps(it: Driver) -> None:
        assert it.lines[0] == "Sessions  1 session"
        assert it.body == ["         59m  claude    Fix the login redirect                    shop"]
        assert it.status == f"{sid}  2 entries  1 branch  2026-02-01 00:00  /work/shop"
        assert it.lines[-1] == "type to filter   enter open   ^y copy id   ^u undo   esc quit   ? help"

    browse(store, steps)


def test_a_wide_list_shows_entries_and_branches(store: Store) -> None:
    session = store.session(begin(store, "Fix the login redirect"))
    session.branch("other", at="root")

    async def steps(it: Driver) -> None:
        [line] = it.body
        assert line.split() == ["59m", "pi", "2", "2", "br", "Fix", "the", "login", "redirect", "shop"]

    browse(store, steps, size=(120, 40))


def test_sessions_of_the_current_folder_come_first_and_are_marked(store: Store, tmp_path: Path) -> None:
    begin(store, "near", cwd=tmp_path)
    begin(store, "far")

    async def steps(it: Driver) -> None:
        assert [line[:2] + line[24:28] for line in it.body] == ["● near", "  far "]

    browse(store, steps, folder=str(tmp_path))


def test_typing_filters_by_title_agent_and_project(store: Store) -> None:
    begin(store, "Fix the login redirect", agent="claude", cwd="/work/shop")
    begin(store, "Write the tests", agent="codex", cwd="/work/bank")

    async def steps(it: Driver) -> None:
        for typed, title in (("LOGIN", "Fix the login"), ("codex bank", "Write the tests"), ("shop fix", "Fix the")):
            await it.type(typed)
            assert it.lines[0] == f"Sessions  1 of 2 sessions  filter: {typed}▏"
            assert len(it.body) == 1 and title in it.body[0]
            await it.press("escape")
        assert it.lines[0] == "Sessions  2 sessions"
        await it.type("x?")
        await it.press("backspace")
        assert "filter: x▏" in it.lines[0]
        await it.type("yz")
        assert it.body == ["no session matches"]
        await it.press("enter", "ctrl+y", "ctrl+u")
        assert isinstance(it.screen, SessionList)

    browse(store, steps)


def test_pasted_text_filters_too(store: Store) -> None:
    from textual.events import Paste

    begin(store, "one")
    begin(store, "two")

    async def steps(it: Driver) -> None:
        it.screen.post_message(Paste("tw\x07o\n"))
        await it.see("1 of 2 sessions")

    browse(store, steps)


def test_enter_opens_the_tree_and_escape_returns_and_quits(store: Store) -> None:
    begin(store, "Fix the login redirect")

    async def steps(it: Driver) -> None:
        await it.press("enter")
        assert isinstance(it.screen, TreeScreen)
        await it.press("escape")
        assert isinstance(it.screen, SessionList)
        await it.press("escape")

    assert browse(store, steps).return_value is None


def test_a_question_mark_shows_the_keys(store: Store) -> None:
    begin(store, "Fix the login redirect")

    async def steps(it: Driver) -> None:
        await it.press("question_mark")
        assert isinstance(it.screen, TextDialog)
        assert "Copy the session id" in it.text
        await it.press("escape")
        assert isinstance(it.screen, SessionList)

    browse(store, steps)


def test_the_session_id_is_copied(store: Store) -> None:
    sid = begin(store, "Fix the login redirect")

    async def steps(it: Driver) -> None:
        await it.press("ctrl+y")
        assert it.browser.clipboard == sid
        assert it.status == f"copied: {sid}"

    browse(store, steps)


def test_an_empty_store_is_shown(store: Store) -> None:
    async def steps(it: Driver) -> None:
        assert it.lines[0] == "Sessions  0 sessions"
        await it.press("down", "enter", "ctrl+y", "ctrl+u", "end", "pageup")

    browse(store, steps)


def test_only_visible_sessions_are_laid_out(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        begin(store, f"session {number}")
    rows = store.sessions()
    many = [row._replace(sid=f"{row.sid}{number}", title=f"title-{number}") for number in range(4000) for row in rows]
    monkeypatch.setattr(Store, "sessions", lambda self: many)
    painted: set[int] = set()
    parts = SessionList._parts

    def counted(self: SessionList, index: int, width: int):
        painted.add(index)
        return parts(self, index, width)

    monkeypatch.setattr(SessionList, "_parts", counted)

    async def steps(it: Driver) -> None:
        assert it.lines[0] == "Sessions  12,000 sessions"
        assert len(painted) <= 24
        await it.press("end")
        assert max(painted) == 11_999
        assert len(painted) <= 48
        await it.type("title-3999")
        assert "3 of 12,000 sessions" in it.lines[0]

    browse(store, steps)
