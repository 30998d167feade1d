"""Tests of the rewind menu: prompts with the files they changed, plans, the five actions, and undo."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import Driver, browse
from builders import START_MS, Clock

from gitsession import Message, Node, Session, Store, ToolCall
from gitsession.browse.dialogs import Ask, TextDialog
from gitsession.browse.prompts import TurnChanges, TurnReader, turn_changes
from gitsession.browse.rewind import ACTIONS, RewindMenu, RewindScreen
from gitsession.browse.tree import TreeScreen


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as made:
        yield made


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "auth.py").write_text("one\ntwo\n")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def session(store: Store, work: Path) -> Session:
    """A session with two prompts. After each, the agent changed files, and checkpoints were taken."""
    session = store.new_session(agent="pi", cwd=str(work))
    for number, text in enumerate(("Fix the login", "Now add a test")):
        call = ToolCall(str(number), "bash", {"command": "make"})
        session.append(Message.user(text, at_ms=START_MS + number * 60_000))
        session.append(Message.assistant([call], at_ms=START_MS + number * 60_000))
        with session.files.checkpoint(work, call=call.id):
            (work / "auth.py").write_text(f"one\nchanged {number}\n")
            if number:
                (work / "test.py").write_text("a\nb\nc\n")
        session.append(Message.tool(call, "ok", at_ms=START_MS + number * 60_000))
    return session


async def menu(it: Driver, prompt: str) -> None:
    """Open the menu of actions for a prompt."""
    await it.press("r")
    await it.opened(RewindScreen)
    await it.see(prompt)
    await it.press("home")
    while prompt not in it.lines[1 + it.screen.query_one("#body").cursor]:  # type: ignore[attr-defined]
        await it.press("down")
    await it.press("enter")
    await it.opened(RewindMenu)


async def confirmed(it: Driver) -> None:
    """Choose the selected action, and answer the question with yes."""
    await it.press("enter")
    await it.opened(Ask)
    await it.press("y")
    await it.opened(TextDialog)


def test_prompts_are_listed_with_the_files_that_changed(store: Store, session: Session) -> None:
    async def steps(it: Driver) -> None:
        await it.press("r")
        await it.see("+1 -1 in 1 file")
        assert it.lines[0] == "Rewind  2 prompts"
        assert it.body == [
            "        59m  +4 -1 in 2 files        Now add a test",
            "         1h  +1 -1 in 1 file         Fix the login",
        ]
        assert it.status.endswith("3 entries")

    browse(store, steps, session=session)


def test_without_checkpoints_the_edits_of_tool_calls_are_counted(store: Store) -> None:
    session = store.new_session(agent="pi", cwd="/work/shop")
    edit = ToolCall("1", "edit", {"path": "/work/shop/a.py", "old_string": "x", "new_string": "y\nz"})
    patch = "a.py\n<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n"
    session.append(Message.user("one"))
    session.append(Message.assistant([edit]))
    session.append(Message.tool(edit, "ok"))
    session.append(Message.user("two"))
    session.append(Message.assistant(patch))
    reader = TurnReader()
    turns = list(reader.add(node for node in session.walk() if isinstance(node, Node)))
    assert [turn.prompt.subject for turn in turns] == ["user: two", "user: one"]
    assert turns[1].following == turns[0].prompt and len(turns[1].entries) == 3
    assert turn_changes(session, turns[1], "/work/shop") == TurnChanges(1, 2, 1)
    assert turn_changes(session, turns[0], "/work/shop") == TurnChanges(1, 1, 1)
    assert TurnChanges(0, 0, 0).text == ""


def test_the_plan_of_each_action_is_shown(store: Store, session: Session, work: Path) -> None:
    async def steps(it: Driver) -> None:
        await menu(it, "Now add a test")
        for action in ACTIONS:
            assert action in it.text
        oid = session.resolve("main~3").oid[:8]
        for part in (f"after {oid} tool bash: 1 line", "on a new branch", "write    auth.py", "remove   test.py"):
            assert part in it.text
        await it.press("2")
        assert "auth.py" not in it.text and "on a new branch" in it.text
        await it.press("3")
        assert "auth.py" in it.text and "on a new branch" not in it.text
        await it.press("4")
        assert "entries, about" in it.text and "(extractive)" in it.text
        await it.press("5")
        assert "nothing changes" in it.text
        await it.press("k", "j", "up", "down", "enter")
        assert isinstance(it.screen, RewindScreen)
        await it.press("enter", "escape", "escape")
        assert isinstance(it.screen, TreeScreen)

    browse(store, steps, session=session)
    assert (work / "auth.py").read_text() == "one\nchanged 1\n"
    assert store.operations() == [] or all("rewind" not in each.command for each in store.operations())


def test_code_and_conversation_are_restored_and_undone(store: Store, session: Session, work: Path) -> None:
    async def steps(it: Driver) -> None:
        await menu(it, "Now add a test")
        await it.press("enter")
        await it.opened(Ask)
        await it.press("n")
        assert (work / "test.py").exists()
        await it.press("enter")
        await confirmed(it)
        for part in ("the conversation continues on branch", "written  auth.py", "removed  test.py", "Now add a test"):
            assert part in it.text
        assert (work / "auth.py").read_text() == "one\nchanged 0\n" and not (work / "test.py").exists()
        await it.press("escape")
        await it.opened(TreeScreen)
        assert "[*rewind-1]" in it.text
        await it.press("u")
        await it.opened(Ask)
        assert "Undo `rewind" in it.text
        await it.press("y")
        await it.opened(TextDialog)
        assert "Undone: rewind" in it.text
        await it.press("escape")
        assert "[*rewind-1]" not in it.text

    browse(store, steps, session=session)
    assert (work / "auth.py").read_text() == "one\nchanged 1\n" and (work / "test.py").exists()


def test_only_the_conversation_is_restored(store: Store, session: Session, work: Path) -> None:
    async def steps(it: Driver) -> None:
        await menu(it, "Fix the login")
        await it.press("2")
        await confirmed(it)

    browse(store, steps, session=session)
    assert (work / "test.py").exists()
    assert store.session(session.id).leaf is not None and len(store.session(session.id).history()) == 1


def test_only_the_code_is_restored(store: Store, session: Session, work: Path) -> None:
    async def steps(it: Driver) -> None:
        await menu(it, "Fix the login")
        await it.press("3")
        await confirmed(it)

    browse(store, steps, session=session)
    assert (work / "auth.py").read_text() == "one\ntwo\n" and not (work / "test.py").exists()
    assert len(store.session(session.id).history()) == 7


def test_entries_are_summarized_from_a_prompt(store: Store, session: Session) -> None:
    for number in range(4):
        session.append(Message.assistant("long answer " * 200, at_ms=START_MS + 70_000 + number))

    async def steps(it: Driver) -> None:
        await menu(it, "Now add a test")
        await it.press("4")
        await confirmed(it)
        assert "Done" in it.text

    browse(store, steps, session=session)
    assert any(node.kind in ("compaction", "branch_summary") for node in store.session(session.id).history())


def test_an_error_of_a_plan_is_shown_and_nothing_happens(store: Store) -> None:
    session = store.new_session(agent="pi", cwd="/nowhere/at/all")
    session.append(Message.user("hello"))

    async def steps(it: Driver) -> None:
        await menu(it, "hello")
        await it.press("3")
        await it.press("enter")
        assert isinstance(it.screen, RewindScreen)

    browse(store, steps, session=session)


def test_many_prompts_are_read_step_by_step(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from gitsession.browse import rewind

    monkeypatch.setattr(rewind, "FIRST_READ", 5)
    monkeypatch.setattr(rewind, "READ_TOGETHER", 7)
    session = store.new_session(agent="pi", cwd="/work/shop")
    for number in range(30):
        session.append(Message.user(f"prompt {number}", at_ms=START_MS))
        session.append(Message.assistant("ok", at_ms=START_MS))

    async def steps(it: Driver) -> None:
        await it.press("r")
        await it.see("Rewind  30 prompts")
        await it.until(lambda: "reading" not in it.lines[0], lambda: it.text)
        assert "prompt 29" in it.body[0]
        await it.press("end", "y")
        assert it.browser.clipboard == "prompt 0"

    browse(store, steps, session=session)
