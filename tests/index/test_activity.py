"""Tests of tool calls, results, changes of files, and costs in the catalog."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import Clock, joined
from claude_code import SESSION, assistant, call, result, user

from gitsession import Message, ToolCall
from gitsession.api import Store
from gitsession.formats import FORMATS
from gitsession.index.activity import actions_of, call_of_result
from gitsession.index.file_changes import paths_changed_by, sessions_that_changed
from gitsession.index.statistics import statistics


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as opened:
        yield opened


def titles(store: Store) -> list[tuple[str, str]]:
    """Return the tool calls and results of the only session, the oldest first."""
    [row] = store.sessions()
    found = [actions_of(store.catalogue().db, node) for node, _ in store.session(row.sid).tree().walk()]
    return [
        *((it.title, "") for each in found for it in each.calls),
        *((it.title, it.outcome) for each in found for it in each.results),
    ]


def test_the_calls_and_results_of_an_imported_session(store: Store) -> None:
    lines = [
        user("a", None),
        assistant("b", "a", call("c1", "Bash", command="pytest -q")),
        result("c", "b", "c1"),
        assistant("d", "c", call("c2", "Edit", file_path="app.py", old_string="a", new_string="b\nc")),
        result("e", "d", "c2"),
    ]
    store.agents.import_data(FORMATS["claude"], joined(*lines), name=SESSION)
    assert titles(store) == [
        ("Bash: pytest -q", ""), ("Edit app.py +2 -1", ""),
        ("Bash: pytest -q", "1 line"), ("Edit app.py +2 -1", "1 line"),
    ]  # fmt: skip
    [row] = store.sessions()
    assert row.changed == 1


def test_appended_entries_are_added(store: Store) -> None:
    session = store.new_session(agent="pi", cwd="/w")
    session.append(Message.user("write"))
    writing = ToolCall("c", "write", {"path": "/w/a.txt", "content": "1\n2\n"})
    session.append(Message.assistant([writing], usage={"input": 5, "output": 2, "cost": {"total": 0.25}}))
    assert titles(store) == [("write a.txt +2 -0", "")]
    session.append(Message.tool(writing, "no space left", is_error=True))
    assert titles(store)[1:] == [("write a.txt +2 -0", "error, 1 line")]
    session.append(Message.assistant("again", usage={"input": 5, "output": 2, "cost": {"total": 0.5}}))
    [row] = store.sessions()
    assert (row.changed, row.cost, row.tokens) == (0, 0.75, 14)  # a call that failed changed nothing
    assert sessions_that_changed(store.catalogue().db, "/w/a.txt", "a.txt") == set()


def test_a_repeated_id_of_a_call_belongs_to_the_newest_call_without_result(store: Store) -> None:
    session = store.new_session(agent="pi", cwd="/w")
    outcomes = [("first", True), ("second", False), ("third", True)]
    for name, fails in outcomes:
        session.append(Message.user(f"write {name}"))
        writing = ToolCall("call_1", "write", {"path": f"/w/{name}", "content": "1\n"})
        session.append(Message.assistant([writing]))
        if name == "second":
            store.catalogue()  # the next entries are added to the catalog later
        session.append(Message.tool(writing, "done", is_error=fails))
    assert titles(store) == [
        ("write first +1 -0", ""), ("write second +1 -0", ""), ("write third +1 -0", ""),
        ("write first +1 -0", "error, 1 line"), ("write second +1 -0", "1 line"),
        ("write third +1 -0", "error, 1 line"),
    ]  # fmt: skip
    db = store.catalogue().db
    results = [node for node, _ in session.tree().walk() if node.role == "tool"]
    calls = [call_of_result(db, session.read, node, "call_1") for node in results]
    assert [it.arguments["path"] for it in calls if it is not None] == ["/w/first", "/w/second", "/w/third"]
    assert call_of_result(db, session.read, results[0], "other") is None
    [row] = statistics(db, [session.id], "agent").groups
    assert (row.calls, row.failures, row.added) == (3, 2, 1)
    assert paths_changed_by(db, session.id) == {"/w/second"}


def test_repeated_ids_in_one_message_are_matched_in_their_order(store: Store) -> None:
    session = store.new_session(agent="pi", cwd="/w")
    session.append(Message.user("write"))
    calls = [ToolCall("c", "write", {"path": f"/w/{name}", "content": ""}) for name in "ab"]
    session.append(Message.assistant(calls))
    for each, fails in zip(calls, (False, True), strict=True):
        session.append(Message.tool(each, "done", is_error=fails))
    assert titles(store)[2:] == [("write a +0 -0", "1 line"), ("write b +0 -0", "error, 1 line")]
    assert paths_changed_by(store.catalogue().db, session.id) == {"/w/a"}


def test_a_result_on_another_branch_belongs_to_the_call_of_its_branch(store: Store) -> None:
    session = store.new_session(agent="pi", cwd="/w")
    start = session.append(Message.user("write"))
    for name, fails in (("a", True), ("b", False)):
        branch = session if name == "a" else session.branch("other", at=start)
        writing = ToolCall("c", "write", {"path": f"/w/{name}", "content": ""})
        branch.append(Message.assistant([writing]))
        branch.append(Message.tool(writing, "done", is_error=fails))
    assert paths_changed_by(store.catalogue().db, session.id) == {"/w/b"}


def test_a_session_with_one_id_for_all_calls_is_indexed_in_linear_time(store: Store) -> None:
    session = store.new_session(agent="pi", cwd="/w")
    running = ToolCall("c", "bash", {"command": "true"})
    for _ in range(1500):
        session.append(Message.assistant([running]))
    for _ in range(1500):
        session.append(Message.tool(running, "done"))
    began = time.process_time()
    store.catalogue()
    assert time.process_time() - began < 30


def test_an_undone_entry_is_removed(store: Store) -> None:
    lines = [user("a", None), assistant("b", "a", call("c1", "Write", file_path="/work/a", content="1"))]
    for number in (1, 2):
        store.agents.import_data(FORMATS["claude"], joined(*lines[:number]), name=SESSION)
    assert (store.sessions()[0].changed, len(titles(store))) == (1, 1)
    store.undo()
    assert (store.sessions()[0].changed, titles(store)) == (0, [])


def test_the_lines_of_a_moved_file_count_once(store: Store) -> None:
    patch = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-1\n+2\n+3\n*** End Patch"
    session = store.new_session(agent="codex")  # the folder is unknown, so the paths remain relative
    session.append(Message.user("move it"))
    session.append(Message.assistant([ToolCall("c", "apply_patch", {"input": patch})]))
    [found] = store.sessions()
    db = store.catalogue().db
    [row] = statistics(db, [found.sid], "agent").groups
    assert (row.added, row.removed) == (2, 1)
    for name in ("a", "b"):
        assert sessions_that_changed(db, f"/elsewhere/{name}", name) == {found.sid}
        assert not sessions_that_changed(db, f"/elsewhere/{name}", f"./{name}")
