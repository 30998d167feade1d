"""Tests of the transcript: scrolling, selection, folds, search, and lazy layout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import Driver, browse
from builders import START_MS, Clock

from gitsession import Message, ModelChange, Session, Store, Thinking, ToolCall
from gitsession.browse.rewind import RewindScreen
from gitsession.browse.transcript import Pager, TranscriptScreen

CALL = ToolCall("1", "bash", {"command": "seq 20"})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as made:
        yield made


@pytest.fixture
def session(store: Store) -> Session:
    session = store.new_session(agent="pi", cwd="/work/shop")
    for number in range(30):
        session.append(Message.user(f"prompt {number}", at_ms=START_MS))
        session.append(Message.assistant([Thinking("hmm\nwell"), CALL], at_ms=START_MS))
        session.append(Message.tool(CALL, "\n".join(f"out {at}" for at in range(20)), at_ms=START_MS))
        session.append(Message.assistant(f"answer **{number}**", at_ms=START_MS))
    session.append(ModelChange(provider="anthropic", model="opus", at_ms=START_MS))
    return session


def screen(it: Driver) -> TranscriptScreen:
    assert isinstance(it.screen, TranscriptScreen)
    return it.screen


def selected(it: Driver) -> str:
    node = screen(it).selected
    assert node is not None
    return node.subject


def test_a_transcript_shows_the_end_of_the_branch(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        await it.press("enter")
        assert it.lines[0] == "prompt 0  120 of 120 entries  100 %"
        assert (
            it.body
            == [
                "",
                "  user  2026-02-01 00:00",
                "    prompt 29",
                "",
                "  assistant  2026-02-01 00:00",
                "    thinking (2 lines): hmm well",
                "",
                "    bash: seq 20  [20 lines]",
                "      out 0",
                "      out 1",
                "      out 2",
                "      out 3",
                "      out 4",
                "      out 5",
                "    … 14 more lines (space)",
                "",
                "▌ assistant  2026-02-01 00:00",
                "▌   answer 29",
                "▌",
            ][-21:]
        )
        assert it.lines[-1] == "↑↓ scroll  jk entry  [] prompt  space unfold  t thinking  / search  ? help"

    browse(store, steps, session=session, size=(80, 22))


def test_keys_scroll_lines_and_select_entries_and_prompts(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        await it.press("enter", "k")
        assert selected(it) == "tool bash: 20 lines"
        await it.press("left_square_bracket")
        assert selected(it) == "user: prompt 29"
        await it.press("left_square_bracket")
        assert selected(it) == "user: prompt 28" and it.body[0].startswith("▌ user")
        await it.press("j")
        assert selected(it).startswith("assistant")
        await it.press("right_square_bracket", "right_square_bracket")
        assert selected(it) == "user: prompt 29"
        before = it.body[1:]
        await it.press("up")
        assert it.body[2:] == before[:-1]
        await it.press("down")
        assert it.body[1:] == before
        await it.press("home")
        assert selected(it) == "user: prompt 0" and it.lines[0].endswith("1 of 120 entries  0 %")
        await it.press("up", "pageup")
        assert selected(it) == "user: prompt 0"
        await it.press("pagedown")
        assert "prompt 0" not in "\n".join(it.body)
        await it.press("pageup")
        assert it.body[1] == "    prompt 0"
        await it.press("end", "pagedown", "down")
        assert selected(it) == "assistant: answer **29**" and it.body[-1].startswith("▌")

    browse(store, steps, session=session)


def test_the_selection_stays_on_the_screen_while_lines_scroll(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        await it.press("enter", "home")
        for key, times in (("down", 60), ("up", 30)):
            for _ in range(times):
                screen(it).pager.action_scroll(1 if key == "down" else -1)
            await it.press(key)
            assert any(line.startswith("▌") for line in it.body)

    browse(store, steps, session=session, size=(60, 14))


def test_entries_and_all_entries_are_unfolded_and_folded(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        await it.press("enter", "home", "j", "j")
        assert selected(it) == "tool bash: 20 lines"
        await it.press("space")
        assert "out 12" in it.text
        await it.press("space")
        assert "out 12" not in it.text and "… 14 more lines (space)" in it.text
        await it.press("o")
        assert "out 12" in it.text
        await it.press("o", "home", "t")
        assert "| hmm" in it.text
        await it.press("t")
        assert "thinking (2 lines): hmm well" in it.text

    browse(store, steps, session=session)


def test_settings_are_shown_on_request(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        await it.press("enter")
        assert "anthropic/opus" not in it.text
        await it.press("a", "end")
        assert "model: anthropic/opus" in it.text
        await it.press("a")
        assert "model: anthropic/opus" not in it.text

    browse(store, steps, session=session)


def test_search_selects_matches_in_the_whole_text(store: Store, session: Session) -> None:
    session.append(Message.user("x" * 200 + " needle", at_ms=START_MS))
    session.append(Message.assistant("end", at_ms=START_MS))

    async def steps(it: Driver) -> None:
        await it.press("enter", "home", "slash")
        await it.type("needle")
        await it.press("enter")
        await it.until(lambda: selected(it).startswith("user: xxx"), lambda: it.text)
        await it.press("n")
        await it.see("no later entry contains 'needle'")
        await it.press("end", "N")
        await it.until(lambda: selected(it).startswith("user: xxx"), lambda: it.text)

    browse(store, steps, session=session)


def test_copy_rewind_and_return(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        await it.press("enter", "y")
        assert it.browser.clipboard == "answer **29**"
        await it.press("Y")
        assert it.browser.clipboard.startswith(f"{session.id}@")
        await it.press("left_square_bracket", "left_square_bracket", "r")
        await it.opened(RewindScreen)
        assert isinstance(it.screen, RewindScreen) and it.screen.selected is not None
        assert it.screen.selected.prompt.subject == "user: prompt 28"

    browse(store, steps, session=session)


def test_only_entries_on_the_screen_are_laid_out(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        await it.press("enter")
        assert len(it.screen.query_one(Pager)._cached) < 15
        await it.press("home")
        assert len(it.screen.query_one(Pager)._cached) < 30

    browse(store, steps, session=session)


def test_a_resized_screen_is_laid_out_again(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        await it.press("enter")
        await it._pilot.resize_terminal(40, 12)
        await it._pilot.pause()
        assert max(map(len, it.lines)) <= 40 and len(it.lines) == 12
        assert any(line.startswith("▌ assistant") for line in it.body)

    browse(store, steps, session=session)
