"""Tests of the state of a session at an entry: modes, permissions, todo lists, plans, marks, and changed lines."""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import claude_code as claude
import codex_files as codex
import opencode_files as opencode
import pytest
from builders import Clock, entry, header, joined, said

from gitsession import (
    Mark,
    Message,
    ModeChange,
    Permission,
    PlanChange,
    Session,
    SessionState,
    Todo,
    TodoItem,
    ToolCall,
)
from gitsession.api import Store
from gitsession.cli.session_format import formatted
from gitsession.context import build
from gitsession.context.history import ContextHistory
from gitsession.formats import FORMATS
from gitsession.index import entry_rows
from gitsession.sessions import content, graph, history_state
from gitsession.store import refs


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as opened:
        yield opened


def lines_of(state: SessionState) -> list[str]:
    return [f"{item.status}: {item.text}" for item in state.todos]


def imported(store: Store, agent: str, data: bytes, name: str = "named") -> Session:
    store.agents.import_data(FORMATS[agent], data, name=name)
    assert_catalog_equals_walk(store)
    return store.session(store.sessions()[0].sid)


def assert_catalog_equals_walk(store: Store) -> None:
    """Assert for each entry that the state in the catalog is the one that a walk from the root computes."""
    db = store.catalogue().db
    for row in store.sessions():
        for node, _ in store.session(row.sid).tree().walk():
            line = graph.history(store.objects, node.oid)
            walked = history_state.walk(line, functools.partial(content.entry_of, store.objects))
            assert entry_rows.state_at(db, entry_rows.row_in_any_session(db, node)) == walked


def test_own_entries_set_the_state_from_their_entry_on(store: Store) -> None:
    session = store.new_session(agent="a", cwd="/w")
    first = session.append(Message.user("begin"))
    session.append(ModeChange(mode="plan"))
    listed = session.append(Todo(items=(TodoItem("Mend", "in_progress"), TodoItem("Test"))))
    session.append(Permission(decision="allow", tool="bash", pattern="git push *", scope="session"))
    session.append(Permission(decision="allow", tool="bash", pattern="rm *"))
    session.append(PlanChange(plan="1. Mend\n2. Test"))
    session.append(Mark(name="shared", value="https://example.com/s/1"))
    edited = session.append(
        Message.assistant([ToolCall("c", "edit", {"path": "/w/a", "old_string": "x", "new_string": "y\nz"})])
    )
    session.append(Todo(items=(TodoItem("Mend", "completed"), TodoItem("Test", "cancelled"))))
    session.append(Permission(decision="deny", tool="bash", pattern="git push *", scope="always"))
    session.append(PlanChange())
    session.append(Mark(name="shared"))
    assert session.state(first) == SessionState()
    assert lines_of(session.state(listed)) == ["in_progress: Mend", "pending: Test"]
    assert session.state(edited) == SessionState(
        modes={"mode": "plan"},
        permissions={"bash(git push *)": "allow"},
        todos=(TodoItem("Mend", "in_progress"), TodoItem("Test")),
        plan="1. Mend\n2. Test",
        marks={"shared": "https://example.com/s/1"},
        added=2,
        removed=1,
        files=1,
    )
    end = session.state()
    assert (lines_of(end), end.plan, end.marks) == (["completed: Mend", "cancelled: Test"], None, {})
    assert end.permissions == {"bash(git push *)": "deny"}
    assert_catalog_equals_walk(store)


def test_a_branch_and_a_fork_have_the_state_of_their_own_history(store: Store) -> None:
    session = store.new_session(agent="a", cwd="/w")
    session.append(Message.user("begin"))
    session.append(Todo(items=(TodoItem("Mend"),)))
    at = session.append(Message.assistant("well"))
    session.append(Todo(items=(TodoItem("Mend", "completed"),)))
    fork = session.fork(at)
    fork.append(Message.user("more"))
    side = session.branch("side", at)
    side.append(Todo())
    assert lines_of(session.on("main").state()) == ["completed: Mend"]
    assert lines_of(fork.state()) == ["pending: Mend"]
    assert lines_of(side.state()) == []
    assert_catalog_equals_walk(store)


def test_the_list_has_the_state_at_the_active_tip(store: Store) -> None:
    session = store.new_session(agent="a", cwd="/w")
    session.append(Message.user("begin"))
    session.append(ModeChange(mode="plan"))
    session.append(Todo(items=(TodoItem("Mend", "completed"), TodoItem("Test"), TodoItem("Rest", "cancelled"))))
    session.append(Mark(name="archived", value=""))
    writing = ToolCall("c", "write", {"path": "/w/a", "content": "1\n2\n"})
    session.append(Message.assistant([writing]))
    [row] = store.sessions()
    assert (row.mode, row.done, row.todos, row.marked, row.added, row.removed) == ("plan", 1, 2, "archived", 2, 0)
    assert formatted(row, "%(mode) %(todo) %(marks) +%(added) -%(removed)") == "plan 1/2 archived +2 -0"
    session.append(Message.tool(writing, "no space left", is_error=True))
    [row] = store.sessions()
    assert (row.added, session.state().files) == (0, 0)  # a call that failed changed nothing


def test_a_fork_has_the_state_before_it_even_if_its_origin_is_not_in_the_catalog_yet(store: Store) -> None:
    session = store.new_session(agent="a", cwd="/w")
    session.append(Message.user("begin"))
    at = session.append(ModeChange(mode="plan"))
    session.append(Message.user("more"))
    fork = session.fork()
    fork.append(Message.user("in the fork"))
    fork.branch("back", at)
    fork.switch("back")
    store.flush()
    path = shutil.copytree(store.objects.git_dir, store.objects.git_dir.parent / "other.git")
    for name in store.objects.refs(f"{refs.SESSIONS}{session.id}/"):
        subprocess.run(["git", "update-ref", "-d", name], cwd=path, check=True)
    with Store.open(path) as other:
        [row] = other.sessions()
        assert (row.sid, row.active, row.mode) == (fork.id, "back", "plan")


def test_todos_modes_and_plans_of_claude_code(store: Store) -> None:
    todos = [
        {"content": "Mend", "status": "completed", "activeForm": "Mending"},
        {"content": "Test", "status": "in_progress", "activeForm": "Testing"},
    ]
    session = imported(
        store,
        "claude",
        joined(
            claude.user("a", None, permissionMode="plan"),
            claude.assistant("b", "a", claude.call("c1", "ExitPlanMode", plan="# The plan")),
            claude.result("c", "b", "c1"),
            claude.note("permission-mode", permissionMode="acceptEdits"),
            claude.note("worktree-state", worktreeSession={"worktreePath": "/w/tree"}),
            claude.assistant("d", "c", claude.call("c2", "TodoWrite", todos=todos)),
            claude.result("e", "d", "c2", toolUseResult={"oldTodos": [], "newTodos": todos}),
            claude.note("tag", tag="release"),
        ),
        claude.SESSION,
    )
    state = session.state()
    assert lines_of(state) == ["completed: Mend", "in_progress: Test"]
    assert (state.plan, state.marks) == ("# The plan", {"tag": "release"})
    assert state.modes == {"mode": "acceptEdits", "worktree": "/w/tree"}
    before = session.state(claude.uuid("c"))
    assert (before.modes, before.todos) == ({"mode": "plan"}, ())


def test_the_mode_in_a_context_does_not_depend_on_the_catalog(store: Store) -> None:
    said = claude.assistant("b", "a", {"type": "text", "text": "x"})
    lines = joined(claude.user("a", None, permissionMode="plan"), said)
    session = imported(store, "claude", lines, claude.SESSION)
    context = session.context()
    alone = build.context(ContextHistory(store.objects, session.history()[-1].oid), profile="claude")
    assert (context.mode, context.digest) == (alone.mode, alone.digest)
    assert context.mode is None
    assert session.state().modes == {"mode": "plan"}


def test_an_unknown_permission_mode_is_shown_as_it_is(store: Store) -> None:
    lines = joined(claude.user("a", None, permissionMode="askTwice"), claude.user("b", "a", permissionMode="m" * 9_000))
    session = imported(store, "claude", lines, claude.SESSION)
    first, last = (session.state(claude.uuid(name)).modes["mode"] for name in "ab")
    assert (first, len(last), last[-1]) == ("askTwice", 300, "…")


def test_a_mode_before_a_line_that_is_no_message_counts(store: Store) -> None:
    session = imported(
        store,
        "claude",
        joined(
            claude.user("a", None),
            claude.assistant("b", "a", claude.call("c1", "Read", file_path="/w/a")),
            claude.note("permission-mode", permissionMode="plan"),
            claude.note("custom-title", customTitle="T"),
            claude.user("c", "b"),
        ),
        claude.SESSION,
    )
    assert session.state().modes == {"mode": "plan"}


def test_tasks_of_claude_code_are_changed_one_by_one(store: Store) -> None:
    session = imported(
        store,
        "claude",
        joined(
            claude.user("a", None),
            claude.assistant("b", "a", claude.call("c1", "TaskCreate", subject="Mend", description="...")),
            claude.result("c", "b", "c1", toolUseResult={"task": {"id": "1", "subject": "Mend"}}),
            claude.assistant("d", "c", claude.call("c2", "TaskCreate", subject="Test", description="...")),
            claude.result("e", "d", "c2", toolUseResult={"task": {"id": "2", "subject": "Test"}}),
            claude.assistant("f", "e", claude.call("c3", "TaskUpdate", taskId="1", status="in_progress")),
            claude.assistant("g", "f", claude.call("c4", "TaskUpdate", taskId="1", status="completed")),
            claude.assistant("h", "g", claude.call("c5", "TaskUpdate", taskId="2", status="deleted")),
            claude.assistant("i", "h", claude.call("c6", "TaskUpdate", taskId="9", status="completed")),
        ),
        claude.SESSION,
    )
    assert lines_of(session.state(claude.uuid("f"))) == ["in_progress: Mend", "pending: Test"]
    assert session.state().todos == (TodoItem("Mend", "completed", id="1"),)


def test_plan_items_and_settings_of_codex(store: Store) -> None:
    plan = '{"explanation":"why","plan":[{"step":"Mend","status":"completed"},{"step":"Test","status":"in_progress"}]}'
    session = imported(
        store,
        "codex",
        codex.rollout(
            codex.user("begin"),
            codex.settings(collaboration_mode={"mode": "plan", "settings": {}}),
            codex.call("c1", "update_plan", plan),
            codex.output("c1", "Plan updated"),
            codex.assistant("<proposed_plan>\n# Steps\n</proposed_plan>"),
        ),
        "rollout",
    )
    state = session.state()
    assert lines_of(state) == ["completed: Mend", "in_progress: Test"]
    assert state.modes == {"approval": "never", "sandbox": "danger-full-access", "mode": "plan"}
    assert state.plan == "# Steps"


def goal(status: str, objective: object = "Release 2.0") -> codex.Lines:
    times = {"tokensUsed": 0, "timeUsedSeconds": 0, "createdAt": 0, "updatedAt": 0}
    stated = {"threadId": codex.THREAD, "objective": objective, "status": status, **times}
    return codex.event("thread_goal_updated", threadId=codex.THREAD, goal=stated)


def test_the_goal_of_codex_is_a_mark(store: Store) -> None:
    session = imported(
        store,
        "codex",
        codex.rollout(
            codex.user("begin"),
            goal("paused"),
            goal("active"),
            codex.assistant("one"),
            goal("active", objective=["none"]),
            codex.event("thread_goal_updated", goal=None),
            codex.assistant("two"),
            goal("complete"),
            codex.settings(),
        ),
        "rollout",
    )
    assert [session.state(node).marks.get("goal") for node in session.history()] == [
        None,
        None,
        "active: Release 2.0",
        "active: Release 2.0",
        "complete: Release 2.0",
    ]
    assert store.sessions()[0].marked == "goal"


PROFILES: dict[str, tuple[object, str | None]] = {
    "disabled": ({"type": "disabled"}, "disabled"),
    "managed": (
        {
            "type": "managed",
            "file_system": {
                "type": "restricted",
                "entries": [
                    {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"},
                    {"path": {"type": "path", "path": "/w"}, "access": "write"},
                    {"path": {"type": "glob_pattern", "pattern": "*.key"}, "access": "none"},
                ],
            },
            "network": "restricted",
        },
        "managed, read root, write /w, none *.key, network restricted",
    ),
    "unrestricted": (
        {"type": "managed", "file_system": {"type": "unrestricted"}, "network": "enabled"},
        "managed, unrestricted files, network enabled",
    ),
    "older": ({"network": {"enabled": False}, "file_system": {"entries": []}}, "network restricted"),
    "malformed": ({"type": 1, "file_system": {"entries": [1, {"path": 2}]}, "network": []}, None),
    "a text": ("managed", None),
}


@pytest.mark.parametrize(("profile", "shown"), PROFILES.values(), ids=PROFILES)
def test_the_permission_profile_of_codex_is_a_mode(store: Store, profile: object, shown: str | None) -> None:
    settings = codex.settings(permission_profile=profile)
    session = imported(store, "codex", codex.rollout(codex.user("begin"), settings), "rollout")
    assert session.state().modes.get("permission_profile") == shown


def test_todos_marks_and_permissions_of_opencode(store: Store) -> None:
    todos = [{"id": "1", "content": "Mend", "status": "cancelled", "priority": "high"}]
    writing = opencode.tool("c1", name="todowrite", input={"todos": todos})
    about = opencode.info(
        share={"url": "https://opncd.ai/s/abc", "secret": "never shown"},
        permission=[{"permission": "bash", "pattern": "git *", "action": "allow"}],
    )
    about["time"]["archived"] = 5
    talk = [opencode.user("u1", "begin", at=1), opencode.answer("a1", "well", at=2, parts=[writing])]
    session = imported(store, "opencode", opencode.export(talk, about))
    state = session.state()
    assert state.todos == (TodoItem("Mend", "cancelled", "high", "1"),)
    assert state.marks == {"shared": "https://opncd.ai/s/abc", "archived": ""}
    assert (state.permissions, state.modes) == ({"bash(git *)": "allow"}, {"mode": "build"})
    assert store.sessions()[0].marked == "archived shared"
    assert "never shown" not in repr(state)


def test_todos_and_modes_of_omp(store: Store) -> None:
    def phases(status: str) -> list[object]:
        return [{"name": "One", "tasks": [{"content": "Mend", "status": status}]}]

    tool = {"toolCallId": "c1", "toolName": "todo", "isError": False}
    session = imported(
        store,
        "omp",
        joined(
            header(),
            said("a", None),
            said("b", "a", role="toolResult", details={"phases": phases("in_progress")}, **tool),
            entry("mode_change", "c", "b", mode="plan"),
            entry("service_tier_change", "d", "c", serviceTier="priority"),
            entry("custom", "e", "d", customType="user_todo_edit", data={"phases": phases("abandoned")}),
        ),
    )
    assert lines_of(session.state("b")) == ["in_progress: Mend"]
    assert lines_of(session.state()) == ["cancelled: Mend"]
    assert session.state().modes == {"mode": "plan", "service_tier": "priority"}


def test_todos_of_an_extension_of_pi(store: Store) -> None:
    details = {"action": "toggle", "todos": [{"id": 1, "text": "Mend", "done": True}], "nextId": 2}
    tool = {"toolCallId": "c1", "toolName": "todo", "isError": False}
    session = imported(
        store, "pi", joined(header(), said("a", None), said("b", "a", role="toolResult", details=details, **tool))
    )
    assert session.state().todos == (TodoItem("Mend", "completed", id="1"),)


def test_the_size_of_a_state_is_limited(store: Store) -> None:
    session = store.new_session(agent="a", cwd="/w")
    session.append(Message.user("begin"))
    for number in range(60):
        session.append(Permission(decision="allow", tool=str(number), pattern="x" * 900, scope="session"))
        session.append(Mark(name=f"n{number}", value="y" * 900))
    state = session.state()
    rules = [rule.partition("(")[0] for rule in state.permissions]
    assert rules == [str(number) for number in range(60 - len(rules), 60)]  # the newest ones
    assert 5_000 < sum(map(len, (*state.permissions, *state.permissions.values()))) <= history_state.CHARS_MAX
    largest = store.catalogue().db.execute("SELECT max(length(said)) FROM anchors").fetchone()[0]
    assert largest < 2 * history_state.CHARS_MAX + 2_000
    assert_catalog_equals_walk(store)


def test_rows_for_the_catalog_do_not_grow_with_the_list(store: Store) -> None:
    session = store.new_session(agent="a", cwd="/w")
    session.append(Message.user("begin"))
    items = (TodoItem("x" * 1_000_000, "in_progress"), *(TodoItem(f"item {number}") for number in range(10_000)))
    session.append(Todo(items=items))
    assert session.state().todos == items
    assert store.catalogue().db.execute("SELECT max(length(said)) FROM anchors").fetchone()[0] < 200
    assert (store.sessions()[0].done, store.sessions()[0].todos) == (0, 10_001)


DAMAGED: dict[str, Callable[[], bytes]] = {
    "a list that is text": lambda: claude.assistant("b", "a", claude.call("c1", "TodoWrite", todos="none")),
    "an item without text": lambda: claude.assistant("b", "a", claude.call("c1", "TodoWrite", todos=[{"x": 1}])),
    "a status that is 1": lambda: claude.assistant("b", "a", claude.call("c", "TaskUpdate", taskId="1", status=1)),
    "an id that is a number": lambda: claude.result("b", "a", "c", toolUseResult={"task": {"id": 1, "subject": "x"}}),
    "phases that are numbers": lambda: claude.result("b", "a", "c", toolUseResult={"phases": [1, {"tasks": 2}]}),
    "a mode that is a list": lambda: claude.user("b", "a", permissionMode=["plan"]),
}


@pytest.mark.parametrize("line", DAMAGED.values(), ids=DAMAGED)
def test_a_malformed_list_or_mode_changes_nothing(store: Store, line: Callable[[], bytes]) -> None:
    session = imported(store, "claude", joined(claude.user("a", None), line()), claude.SESSION)
    assert session.state() == SessionState()
