"""What hooks have left becomes sessions and checkpoints: once, in order, each change whose it was."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from claude_code import assistant, call, user
from hooks import Agent, failures, waiting

from gitsession import Store
from gitsession.cli.context import App
from gitsession.live import spool


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    found = Agent(tmp_path)
    found.fill(a="1", b="1")
    return found


def test_what_a_call_changes_in_any_way_is_the_sessions(agent: Agent) -> None:
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


def test_what_the_user_changes_between_calls_is_nobodys(agent: Agent) -> None:
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


def test_a_call_of_which_nobody_says_that_it_has_ended_has_changed_what_the_next_one_finds(agent: Agent) -> None:
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


def test_what_the_user_does_once_another_call_has_begun_is_not_taken_for_that_of_a_call_that_never_ended(
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


def test_of_calls_at_one_time_each_end_still_tells_what_is_the_sessions(agent: Agent) -> None:
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


def test_after_the_end_of_a_turn_no_call_runs(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.calls("t1")
    agent.stops()
    agent.fill(a="the user's")
    agent.prompt("u2", "go on")
    agent.drain()
    assert [phase for phase, _, _ in agent.points()] == ["before", "before"]


def test_what_runs_is_known_from_one_drain_to_the_next(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.calls("t1")
    agent.drain()
    agent.fill(a="2")
    agent.called("t1", event="PostToolUseFailure")
    agent.drain()
    assert [(phase, call, files["a"]) for phase, call, files in agent.points()] == [
        ("before", None, "1"), ("after", "call_t1", "2"),
    ]  # fmt: skip


def test_an_end_without_a_beginning_is_nobodys(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.fill(a="2")
    agent.write(assistant("t1", "u1", call("call_t1"), at=9))
    agent.called("t1")
    agent.drain()
    assert [phase for phase, _, _ in agent.points()] == ["before", "before"]


def test_what_a_sub_agent_does_is_the_sessions_and_is_not_waited_for(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.calls("t1", name="Agent")
    for event in ("PreToolUse", "PostToolUse"):
        agent.tell(event, tool_name="Bash", tool_use_id="call_of_the_sub_agent", agent_id="sub")
        agent.fill(a="by the sub-agent")  # between the two, and once more behind them, which changes nothing
    agent.called("t1", name="Agent")
    assert agent.drain().waiting == 0
    assert [(phase, call, files["a"]) for phase, call, files in agent.points()] == [
        ("before", None, "1"), ("after", "call_of_the_sub_agent", "by the sub-agent"),
    ]  # fmt: skip
    with Store.open(agent.store) as store:
        session = store.session(store.sessions()[0].sid)
        calls, results = session.history()[2:4]
        assert (session.files.at(calls).read("a"), session.files.at(results).read("a")) == (b"1", b"by the sub-agent")


def test_two_sessions_in_one_workspace_each_have_a_line_of_their_own(tmp_path: Path) -> None:
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


def test_a_session_whose_file_is_not_there_yet_waits_and_others_go_on_from_what_it_saw(tmp_path: Path) -> None:
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


def test_a_look_waits_for_the_line_that_it_belongs_to_but_not_for_ever(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.tell("PreToolUse", tool_name="Bash", tool_use_id="call_t1")
    assert agent.drain().waiting == 1
    agent.tell("SessionEnd")
    assert agent.drain().waiting == 0


def test_an_event_whose_session_never_comes_is_set_aside_after_a_day(agent: Agent) -> None:
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


def test_what_was_looked_at_by_hooks_is_where_a_look_by_the_store_goes_on(agent: Agent) -> None:
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


def test_an_older_look_never_comes_behind_a_newer_one(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.drain()
    agent.calls("t1")
    agent.fill(a="2")
    with Store.open(agent.store) as store:
        session = store.session(store.sessions()[0].sid)
        session.files.take_checkpoint("before", agent.workspace)
    agent.drain()
    assert [(phase, files["a"]) for phase, _, files in agent.points()] == [("before", "1"), ("before", "2")]


def test_where_a_look_is_lost_the_next_ones_are_set_aside_and_then_all_is_told_anew(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.drain()
    agent.fill(a="2")
    agent.calls("t1")
    agent.fill(a="3")
    agent.called("t1")
    [lost, _] = waiting(agent.store)
    os.unlink(spool.path(str(agent.store), lost))
    agent.drain()
    assert "the tree of its base" in failures(agent.store)[0]
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
def test_a_bad_file_of_the_spool_is_set_aside_and_named_and_stops_nothing(agent: Agent, data: bytes) -> None:
    name = f"{0:020d}-bad"
    spool.make_folder(spool.folder(str(agent.store)))
    Path(spool.path(str(agent.store), name)).write_bytes(data)
    agent.prompt("u1", "do it")
    done = agent.drain()
    assert done.taken == 1
    assert spool.set_aside(str(agent.store)) == [name]
    assert (agent.store / f"gitsession/spool/{name}.bad").read_bytes() == data
    assert name in failures(agent.store)[0]


def test_an_agent_that_does_not_say_where_its_file_is_is_found_where_agents_keep_theirs(agent: Agent) -> None:
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
def test_odd_words_of_an_agent_stop_nobody_else(agent: Agent, said: dict[str, str]) -> None:
    agent.tell("SessionStart", **said)
    agent.tell("PreToolUse", tool_name="Bash", **said)
    agent.prompt("u1", "do it")
    done = agent.drain()
    assert done.taken >= 1
    assert agent.points()[0][2] == {"a": "1", "b": "1"}


def test_an_event_and_an_agent_that_nobody_knows_are_named_and_the_session_comes_in(agent: Agent) -> None:
    agent.write(user("u1", None, "do it"))
    agent.tell("Somersault")
    done = agent.drain()
    assert len(done.sessions) == 1
    assert failures(agent.store) == ["unknown event 'Somersault'"]


def test_what_hooks_brought_is_no_command_that_undo_takes_back(agent: Agent) -> None:
    agent.prompt("u1", "do it")
    agent.drain()
    with Store.open(agent.store) as store:
        assert store.operations() == []


def test_a_hook_that_gave_up_is_made_good_by_a_look_that_is_nobodys(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_somebody_who_is_at_it_already_is_not_waited_for(agent: Agent) -> None:
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


def test_a_drain_that_fails_in_a_way_nobody_thought_of_stops_no_command(
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
