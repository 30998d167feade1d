"""Tests of the screen with the tree of a session: lines, keys, and commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import Driver, browse
from builders import START_MS, Clock

from gitsession import Message, Session, Store, ToolCall
from gitsession.browse import tree as tree_module
from gitsession.browse.session_list import SessionList
from gitsession.browse.transcript import TranscriptScreen
from gitsession.browse.tree import TreeScreen


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as made:
        yield made


@pytest.fixture
def session(store: Store) -> Session:
    """A session with the active branch ``main`` and a branch ``side`` that starts at the second prompt."""
    session = store.new_session(agent="pi", cwd="/work/shop")
    call = ToolCall("1", "bash", {"command": "pytest -q"})
    edit = ToolCall("2", "edit", {"path": "/work/shop/auth.py", "old_string": "a\nb", "new_string": "a\nc"})

    session.append(Message.user("Fix the login", at_ms=START_MS))
    session.append(Message.assistant([call], at_ms=START_MS + 1000))
    failed = "1 failed\nCommand exited with code 1"
    session.append(Message.tool(call, failed, is_error=True, at_ms=START_MS + 2000))
    side = session.branch("side")
    session.append(Message.assistant([edit], at_ms=START_MS + 60_000))
    session.append(Message.tool(edit, "ok", at_ms=START_MS + 60_000))
    session.append(Message.assistant("Fixed.", at_ms=START_MS + 61_000))
    side.append(Message.user("Try middleware", at_ms=START_MS + 70_000))
    side.append(Message.assistant("Done in middleware.", at_ms=START_MS + 71_000))
    session.switch("main")
    return session


LINES = [
    "02-01 00:00  • user: Fix the login",
    "             • bash: pytest -q  [exit 1, 2 lines]",
    "02-01 00:01    ├─ ⊟ user: Try middleware",
    "               │  assistant: Done in middleware.  [side]",
    "             • edit auth.py +1 -1  [1 line]",
    "             • assistant: Fixed.  [*main]",
]


def test_lines_show_commands_files_outcomes_and_branches(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        assert it.lines[0] == "Fix the login  9 entries"
        assert it.body == LINES
        tip = session.resolve("main")
        assert it.status == f"{tip.oid[:12]}  2026-02-01 00:01  {session.id}  branch main"
        assert it.lines[-1] == "enter read  / search  ^o filter  ^←→ fold  s switch  f fork  r rewind  ? help"

    browse(store, steps, session=session)


def test_a_wide_tree_shows_ids_and_times(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        oid = session.resolve("main").oid[:8]
        assert it.body[-1] == f"{oid}  2026-02-01 00:01  • assistant: Fixed.  [*main]"

    browse(store, steps, session=session, size=(120, 40))


def test_filters_are_cycled_and_selected_by_pis_keys(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        seen = {}
        for _ in range(5):
            await it.press("ctrl+o")
            seen[it.lines[0].partition("filter: ")[2]] = [line[13:] for line in it.body]
        assert list(seen) == ["no tools", "user only", "labelled", "all", ""]
        assert seen["no tools"][-1] == "• assistant: Fixed.  [*main]" and len(seen["no tools"]) == 4
        assert seen["user only"] == ["• user: Fix the login", "  ├─ user: Try middleware"]
        assert seen["labelled"] == ["no entry matches"[13:]] and len(seen["all"]) == 9
        assert it.body == LINES
        await it.press("O")
        assert it.lines[0].endswith("filter: all")
        for key, mode in (("d", ""), ("t", "no tools"), ("u", "user only"), ("l", "labelled"), ("a", "all")):
            await it.press(f"ctrl+{key}")
            assert it.lines[0].partition("filter: ")[2] == mode
        await it.press("ctrl+a")
        assert it.body == LINES

    browse(store, steps, session=session)


def test_branches_are_folded_and_unfolded(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        await it.press("home", "down", "down", "down", "ctrl+left")
        assert "Try" in it.body[2] and it.status.startswith(session.on("side").history()[-2].oid[:12])
        await it.press("ctrl+left")
        assert it.body[2] == "02-01 00:01    ├─ ⊞ user: Try middleware  (+1)"
        assert len(it.body) == 5
        await it.press("ctrl+right")
        assert it.body == LINES
        await it.press("ctrl+left", "ctrl+left")
        assert it.status.startswith(session.resolve("main~5").oid[:12])
        await it.press("alt+left")
        assert it.body == ["02-01 00:00  • ⊞ user: Fix the login  (+5)"]
        await it.press("alt+right", "alt+right")
        assert it.body[2].endswith("⊞ user: Try middleware  (+1)")
        await it.press("alt+right")
        assert it.body == LINES

    browse(store, steps, session=session)


def test_search_shows_matching_lines_until_escape(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        await it.press("slash")
        await it.type("middleware")
        await it.press("enter")
        assert it.lines[0] == "Fix the login  9 entries  search: middleware"
        assert len(it.body) == 2
        await it.press("escape")
        assert it.body == LINES
        await it.press("escape")
        assert isinstance(it.screen, SessionList)

    browse(store, steps, session=session)


def test_an_entry_is_labelled_and_the_label_removed(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        await it.press("home", "L")
        await it.type("good")
        await it.press("enter")
        assert it.body[0] == LINES[0] + "  ['good']"
        await it.press("ctrl+l")
        assert len(it.body) == 1
        await it.press("ctrl+l", "home", "L", *["backspace"] * 4, "enter")
        assert it.body == LINES
        await it.press("L")
        await it.type("side")
        await it.press("enter")
        await it.see("error: cannot set label 'side'")

    browse(store, steps, session=session)


def test_the_active_branch_is_switched(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        await it.press("s")
        assert "active branch main is the only one" in it.status
        await it.press("home", "down", "down", "s")
        await it.until(lambda: "[*side]" in it.text, lambda: it.text)
        assert [line[13:] for line in it.body] == [
            "• user: Fix the login",
            "• bash: pytest -q  [exit 1, 2 lines]",
            "  ├─ ⊟ edit auth.py +1 -1  [1 line]",
            "  │  assistant: Fixed.  [main]",
            "• user: Try middleware",
            "• assistant: Done in middleware.  [*side]",
        ]
        await it.press("escape")

    browse(store, steps, session=session)
    assert store.session(session.id).branch_name == "side"


def test_a_branch_is_chosen_if_several_contain_the_entry(store: Store, session: Session) -> None:
    session.branch("third", at="main~2")

    async def steps(it: Driver) -> None:
        await it.press("home", "s")
        assert "Make active" in it.text and " 1  side" in it.text and " 2  third" in it.text
        await it.press("2")
        await it.see("third is the active branch")

    browse(store, steps, session=session)
    assert store.session(session.id).branch_name == "third"


def test_a_fork_is_created_after_a_question(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        await it.press("home", "f")
        assert "Create a session that continues from this entry?" in it.text
        await it.press("n")
        assert len(store.sessions()) == 1
        await it.press("f", "y")
        assert isinstance(it.screen, TreeScreen) and it.screen.session.id != session.id
        assert "user: Fix the login" in it.body[0]
        await it.press("escape", "escape")
        assert it.lines[0] == "Sessions  2 sessions"

    browse(store, steps, session=session)


def test_text_and_addresses_are_copied(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        await it.press("y")
        assert (it.browser.clipboard, it.status) == ("Fixed.", "copied: 6 characters")
        await it.press("Y")
        assert it.browser.clipboard == f"{session.id}@{session.resolve('main').oid[:12]}"

    browse(store, steps, session=session)


def test_undo_asks_and_names_the_command(store: Store, session: Session) -> None:
    session.label("root", "begin")

    async def steps(it: Driver) -> None:
        await it.press("u")
        await it.see("Undo `label")
        await it.press("n", "u")
        await it.see("Undo `label")
        await it.press("y")
        await it.see("undone: label")

    browse(store, steps, session=session)
    assert store.session(session.id).names().labels == {}


def test_enter_opens_the_transcript_at_the_entry(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        await it.press("home", "down", "enter")
        assert isinstance(it.screen, TranscriptScreen)
        assert it.screen.selected == session.resolve("main~3")
        await it.press("q")
        assert isinstance(it.screen, TreeScreen)

    browse(store, steps, session=session)


def test_a_long_session_is_shown_before_it_is_read(
    store: Store, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        session.append(Message.user(f"prompt {number}", at_ms=START_MS + 90_000))
    monkeypatch.setattr(tree_module, "READ_AT_ONCE", 20)

    async def steps(it: Driver) -> None:
        screen = it.screen
        assert isinstance(screen, TreeScreen)
        await it.see("49 entries")
        assert screen.complete
        assert it.body[-1].endswith("• user: prompt 39  [*main]")
        assert it.status.startswith(session.resolve("main").oid[:12])

    browse(store, steps, session=session)


def test_a_new_entry_of_another_process_is_shown_on_request(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        session.append(Message.user("and now?", at_ms=START_MS + 90_000))
        await it.press("ctrl+r")
        assert "user: and now?  [*main]" in it.text

    browse(store, steps, session=session)


def test_a_scroll_bar_does_not_hide_the_end_of_a_line(store: Store, session: Session) -> None:
    call = ToolCall("9", "bash", {"command": "x" * 200})
    for _ in range(30):
        session.append(Message.assistant([call], at_ms=START_MS))
        session.append(Message.tool(call, "ok", at_ms=START_MS))

    async def steps(it: Driver) -> None:
        assert all(line[:79].endswith("  [1 line]") for line in it.body[:-1])
        assert it.body[-1][:79].endswith("  [1 line]  [*main]")

    browse(store, steps, session=session)
