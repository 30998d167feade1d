"""Tests of ingest: hook events become sessions and checkpoints, once and in order, with correct attribution."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from claude_code import assistant, call, user
from hooks import Agent, failures, waiting

from gitsession import Store
from gitsession.cli.invocation import App
from gitsession.live import spool


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    found = Agent(tmp_path)
    found.fill(a="1", b="1")
    return found


def test_any_change_by_a_call_is_attributed_to_the_session(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.calls("t1", command="sed -i s/1/2/ a; rm b")
    agent.fill(a="2", b=None, c="new")
    agent.called("t1", command="sed -i s/1/2/ a; rm b")
    done = agent.drain()
    assert (done.waiting, done.checkpoints, done.failed) == (0, 2, [])
    assert agent.points() == [
        ("before", None, {"a": "1", "b": "1"}),
        ("after", "call_t1", {"a": "2", "c": "new"}),
    ]
    assert agent.entries()[1].reason == "Bash: sed -i s/1/2/ a; rm b"


def test_changes_of_the_user_between_calls_are_not_attributed(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.calls("t1")
    agent.called("t1")
    agent.fill(a="the user's")
    agent.calls("t2")
    agent.fill(b="2")
    agent.called("t2")
    agent.drain()
    assert [(phase, files["a"], files["b"]) for phase, _, files in agent.points()] == [
        ("before", "1", "1"), ("before", "the user's", "1"), ("after", "the user's", "2"),
    ]  # fmt: skip


def test_a_checkpoint_belongs_to_the_entry_that_calls(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.calls("t1")
    agent.fill(a="2")
    agent.called("t1")
    agent.drain()
    with Store.open(agent.store) as store:
        session = store.session(store.sessions()[0].sid)
        asked, calls, results = session.history()[1:4]
        assert dict(session.files.at(asked)).keys() == dict(session.files.at(calls)).keys() == {"a", "b"}
        assert session.files.at(calls).read("a") == b"1"
        assert session.files.at(results).read("a") == b"2"


def test_unfinished_call_is_attributed_the_changes_before_the_next_one(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.calls("t1")
    agent.fill(a="2")
    agent.calls("t2")
    agent.fill(a="3")
    agent.stops()
    agent.drain()
    assert [(phase, call, files["a"]) for phase, call, files in agent.points()] == [
        ("before", None, "1"), ("after", "call_t1", "2"), ("after", "call_t2", "3"),
    ]  # fmt: skip


def test_changes_of_the_user_during_a_later_call_are_not_attributed_to_an_unfinished_one(
    agent: Agent,
) -> None:
    agent.prompt("u1", "do it")
    agent.calls("t1")
    agent.fill(a="2")
    agent.calls("t2")
    agent.fill(a="3")
    agent.called("t2")
    agent.fill(a="the user's")
    agent.calls("t3")
    agent.called("t3")
    agent.fill(a="the user's own")
    agent.stops()
    agent.drain()
    assert [(phase, call, files["a"]) for phase, call, files in agent.points()] == [
        ("before", None, "1"), ("after", "call_t1", "2"), ("after", "call_t2", "3"),
        ("before", "call_t3", "the user's"), ("before", None, "the user's own"),
    ]  # fmt: skip


def test_each_end_of_concurrent_calls_attributes_changes(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.calls("t1")
    agent.calls("t2")
    agent.fill(a="2")
    agent.called("t2")
    agent.fill(a="3")
    agent.called("t1")
    agent.drain()
    assert [(phase, call, files["a"]) for phase, call, files in agent.points()] == [
        ("before", None, "1"), ("after", "call_t2", "2"), ("after", "call_t1", "3"),
    ]  # fmt: skip


def test_no_call_runs_after_the_end_of_a_turn(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.calls("t1")
    agent.stops()
    agent.fill(a="the user's")
    agent.prompt("u2", "go on")
    agent.drain()
    assert [phase for phase, _, _ in agent.points()] == ["before", "before"]


def test_running_calls_are_remembered_between_ingests(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.calls("t1")
    agent.drain()
    agent.fill(a="2")
    agent.called("t1", event="PostToolUseFailure")
    agent.drain()
    assert [(phase, call, files["a"]) for phase, call, files in agent.points()] == [
        ("before", None, "1"), ("after", "call_t1", "2"),
    ]  # fmt: skip


def test_end_without_a_start_is_not_attributed(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.fill(a="2")
    agent.write(assistant("t1", "u1", call("call_t1"), at=9))
    agent.called("t1")
    agent.drain()
    assert [phase for phase, _, _ in agent.points()] == ["before", "before"]


def test_changes_of_a_sub_agent_are_attributed_and_not_waited_for(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.calls("t1", name="Agent")
    for event in ("PreToolUse", "PostToolUse"):
        agent.tell(event, tool_name="Bash", tool_use_id="call_of_the_sub_agent", agent_id="sub")
        agent.fill(a="by the sub-agent")  # between the two calls, and again after them without a change
    agent.called("t1", name="Agent")
    assert agent.drain().waiting == 0
    assert [(phase, call, files["a"]) for phase, call, files in agent.points()] == [
        ("before", None, "1"), ("after", "call_of_the_sub_agent", "by the sub-agent"),
    ]  # fmt: skip
    with Store.open(agent.store) as store:
        session = store.session(store.sessions()[0].sid)
        calls, results = session.history()[2:4]
        assert (session.files.at(calls).read("a"), session.files.at(results).read("a")) == (b"1", b"by the sub-agent")


def test_two_sessions_in_one_workspace_have_separate_checkpoints(tmp_path: Path) -> None:
    one = Agent(tmp_path)
    two = Agent(tmp_path, "22222222-2222-4333-8444-555555555555", one.workspace)
    one.fill(a="1")
    one.prompt("u1", "one")
    two.prompt("u1", "two")
    one.calls("t1")
    one.fill(a="one")
    one.called("t1")
    two.calls("t1")
    two.fill(b="two")
    two.called("t1")
    one.calls("t2")
    one.drain()
    assert [phase for phase, _, _ in one.points()] == ["before", "after", "before"]
    assert [(phase, files) for phase, _, files in two.points()] == [
        ("before", {"a": "1"}), ("before", {"a": "one"}), ("after", {"a": "one", "b": "two"}),
    ]  # fmt: skip


def test_session_without_its_file_waits_and_others_continue_from_its_checkpoint(tmp_path: Path) -> None:
    late = Agent(tmp_path)
    late.fill(a="1")
    late.prompt("u1", "late")
    late.file.rename(tmp_path / "hidden")
    late.fill(a="2")
    other = Agent(tmp_path, "22222222-2222-4333-8444-555555555555", late.workspace)
    other.prompt("u1", "other")
    done = other.drain()
    assert (done.taken, done.waiting) == (1, 1)
    assert other.points() == [("before", None, {"a": "2"})]
    (tmp_path / "hidden").rename(late.file)
    assert late.drain().waiting == 0
    assert late.points() == [("before", None, {"a": "1"})]


def test_checkpoint_waits_for_its_entry_for_a_limited_time(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.tell("PreToolUse", tool_name="Bash", tool_use_id="call_t1")
    assert agent.drain().waiting == 1
    agent.tell("SessionEnd")
    assert agent.drain().waiting == 0


def test_event_of_a_missing_session_is_set_aside_after_a_day(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.file.unlink()
    assert agent.drain().waiting == 1
    day = spool_time(agent) + 25 * 3600 * 1000
    done = agent.drain(day)
    assert done.waiting == 0
    assert len(spool.set_aside(str(agent.store))) == 1
    assert "did not appear within a day" in failures(agent.store)[0]


def spool_time(agent: Agent) -> int:
    return int(waiting(agent.store)[0].partition("-")[0]) // 1_000_000


def test_draining_twice_adds_nothing(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.calls("t1")
    agent.fill(a="2")
    agent.called("t1")
    kept = agent.store.parent / "kept"
    shutil.copytree(agent.store / "gitsession/spool", kept)
    agent.drain()
    first = agent.points()
    for file in kept.glob("*.event"):
        shutil.copy(file, agent.store / "gitsession/spool")
    assert agent.drain().taken == 3
    assert agent.points() == first


def test_checkpoint_of_the_library_continues_from_those_of_hooks(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.drain()
    with Store.open(agent.store) as store:
        session = store.session(store.sessions()[0].sid)
        with session.files.checkpoint(agent.workspace):
            agent.fill(a="by the library")
    agent.calls("t1")
    agent.fill(a="by a tool")
    agent.called("t1")
    agent.drain()
    assert [(phase, files["a"]) for phase, _, files in agent.points()] == [
        ("before", "1"), ("after", "by the library"), ("after", "by a tool"),
    ]  # fmt: skip


def test_older_scan_never_follows_a_newer_one(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.drain()
    agent.calls("t1")
    agent.fill(a="2")
    with Store.open(agent.store) as store:
        session = store.session(store.sessions()[0].sid)
        session.files.take_checkpoint("before", agent.workspace)
    agent.drain()
    assert [(phase, files["a"]) for phase, _, files in agent.points()] == [("before", "1"), ("before", "2")]


def test_events_after_a_lost_scan_are_set_aside_and_the_next_one_is_complete(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.drain()
    agent.fill(a="2")
    agent.calls("t1")
    agent.fill(a="3")
    agent.called("t1")
    [lost, _] = waiting(agent.store)
    os.unlink(spool.path(str(agent.store), lost))
    agent.drain()
    assert "whose tree is unknown" in failures(agent.store)[0]
    agent.calls("t2")
    agent.fill(a="4")
    agent.called("t2")
    agent.drain()
    assert [(phase, files["a"]) for phase, _, files in agent.points()] == [
        ("before", "1"), ("before", "3"), ("after", "4"),
    ]  # fmt: skip


BAD = {
    "nothing": b"",
    "no line end": b'{"v": 1}',
    "no JSON": b"{\n",
    "a later version": b'{"v": 2, "at_ms": 1, "data": {}}\n',
    "no time": b'{"v": 1, "data": {}}\n',
    "a time beyond all": b'{"v": 1, "at_ms": 1e99, "data": {}}\n',
    "no object": b'{"v": 1, "at_ms": 1}\n[]',
    "said in a list": b'{"v": 1, "at_ms": 1, "data": []}\n',
    "a look of no kind": b'{"v": 1, "at_ms": 1, "data": {}, "look": 7}\n',
    "nested too deep": b'{"v": 1, "at_ms": 1}\n' + b"[" * 200_000,
}


def look(changes: object, contents: bytes = b"") -> bytes:
    told = {"workspace": "/w", "before": None, "base": None, "name": "n", "skipped": [], "appeared": []}
    head = {"v": 1, "at_ms": 1, "data": {}, "look": {**told, "changes": changes}}
    return json.dumps(head).encode() + b"\n" + contents


X = "c1b0730ca6d5e9de6fcc29e5f8ed3ce5b6f1b6b9"
BAD |= {
    "content cut short": look([["a", "100644", X, 5]], b"x"),
    "content that is another": look([["a", "100644", X, 1]], b"y"),
    "more content than said": look([], b"y"),
    "a size below nothing": look([["a", "100644", X, -1]]),
    "a size beyond all": look([["a", "100644", X, 1 << 60]]),
    "a mode of no file": look([["a", "40000", X, 0]]),
    "up and away": look([["../a", None, None, 0]]),
    "git's own folder": look([[".git/config", None, None, 0]]),
    "an absolute path": look([["/etc/passwd", None, None, 0]]),
    "a row too short": look([["a"]]),
    "a workspace that is no path": look([]).replace(b'"/w"', b'"/\\ud800"'),
    "a workspace that is none": look([]).replace(b'"/w"', b"7"),
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_invalid_spool_file_is_set_aside_and_reported(agent: Agent, data: bytes) -> None:
    name = f"{0:020d}-bad"
    spool.make_folder(spool.folder(str(agent.store)))
    Path(spool.path(str(agent.store), name)).write_bytes(data)
    agent.prompt("u1", "do it")
    done = agent.drain()
    assert done.taken == 1
    assert spool.set_aside(str(agent.store)) == [name]
    assert (agent.store / f"gitsession/spool/{name}.bad").read_bytes() == data
    assert name in failures(agent.store)[0]


def test_missing_file_path_is_found_in_the_agents_folders(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    place = Path.home() / ".claude/projects/-work"
    place.mkdir(parents=True)
    agent.file = agent.file.rename(place / agent.file.name)
    for name in waiting(agent.store):
        file = Path(spool.path(str(agent.store), name))
        file.write_bytes(file.read_bytes().replace(b'"transcript_path"', b'"something"'))
    assert agent.drain().waiting == 0
    assert agent.points() == [("before", None, {"a": "1", "b": "1"})]


ODD = {
    "half a letter": {"session_id": "\ud800", "transcript_path": "/\ud800", "tool_use_id": "\udfff"},
    "a zero": {"session_id": "\0", "transcript_path": "/a\0b"},
    "a device": {"session_id": "x", "transcript_path": "/dev/zero"},
    "a folder": {"session_id": "x", "transcript_path": "/"},
    "no session": {"session_id": "x", "transcript_path": "/etc/hostname"},
}


@pytest.mark.parametrize("said", ODD.values(), ids=ODD)
def test_unusual_fields_do_not_stop_other_events(agent: Agent, said: dict[str, str]) -> None:
    agent.tell("SessionStart", **said)
    agent.tell("PreToolUse", tool_name="Bash", **said)
    agent.prompt("u1", "do it")
    done = agent.drain()
    assert done.taken >= 1
    assert agent.points()[0][2] == {"a": "1", "b": "1"}


def test_unknown_event_and_agent_are_reported_and_the_session_is_imported(agent: Agent) -> None:
    agent.write(user("u1", None, "do it"))
    agent.tell("Somersault")
    done = agent.drain()
    assert len(done.sessions) == 1
    assert failures(agent.store) == ["unknown event 'Somersault'"]


def test_ingested_entries_are_not_an_operation_to_undo(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.drain()
    with Store.open(agent.store) as store:
        assert store.operations() == []


def test_scan_after_a_failed_hook_is_not_attributed(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    from gitsession.live import spool_snapshot

    agent.prompt("u1", "do it")
    agent.calls("t1")
    agent.fill(a="2")
    monkeypatch.setattr(spool_snapshot, "BYTES_MAX", 0)
    agent.called("t1")
    monkeypatch.undo()
    agent.drain()
    assert [(phase, files["a"]) for phase, _, files in agent.points()] == [("before", "1"), ("before", "2")]
    assert "of changes in" in failures(agent.store)[0]


def test_ingest_does_not_wait_for_a_running_one(agent: Agent) -> None:
    from gitsession.store.lock import StoreLock

    agent.prompt("u1", "do it")
    Store.create(agent.store).close()
    lock = StoreLock(agent.store / "gitsession/spool/drain.lock")
    lock.acquire()
    try:
        assert agent.drain().busy
    finally:
        lock.release()
        lock.close()
    assert agent.drain().taken == 1


def test_unexpected_ingest_error_does_not_stop_a_command(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("never thought of")

    agent.prompt("u1", "do it")
    Store.create(agent.store).close()
    monkeypatch.setattr(Store, "drain", fail)
    app = App(str(agent.store))
    assert app.store().sessions() == []
    app.close()
    assert "never thought of" in capsys.readouterr().err
