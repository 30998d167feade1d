"""Tests of the hook command: it prints nothing and exits with 0 for any input and any store."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hooks import Agent, failures, run, told, waiting
from processes import together
from raw import git

from gitsession import Store
from gitsession.cli import hooking
from gitsession.live import events, spooled_events

WORDS = {
    "nothing": b"",
    "no JSON": b"hello",
    "cut short": b'{"session_id": "x',
    "a list": b"[]",
    "a number": b"7",
    "nested too deep": b"[" * 200_000,
    "not UTF-8": b'{"session_id": "\xff\xfe", "cwd": "/"}',
    "zeros": b"\0" * 1000,
    "names that are numbers": b'{"session_id": 7, "cwd": 8, "transcript_path": [], "tool_use_id": {}}',
    "lone surrogates": b'{"session_id": "\\ud800", "cwd": "/\\udcff", "prompt": "\\ud800"}',
    "a zero byte in a path": b'{"session_id": "x", "cwd": "/a\\u0000b"}',
    "a folder that is not there": b'{"session_id": "x", "cwd": "/nonexistent/folder"}',
    "a relative folder": b'{"session_id": "x", "cwd": "."}',
    "the root": b'{"session_id": "x", "cwd": "/"}',
    "an infinite number": b'{"session_id": "x", "at": 1e999, "cwd": "/"}',
    "two of one name": b'{"tool_name": "Read", "tool_name": "Bash", "cwd": "/"}',
}


@pytest.mark.parametrize("event", ["PreToolUse", "SessionStart", "Somersault", "../../x", ""])
@pytest.mark.parametrize("data", WORDS.values(), ids=WORDS)
def test_hook_accepts_any_input_and_the_next_command_works(tmp_path: Path, event: str, data: bytes) -> None:
    store = tmp_path / "store.git"
    told(store, event, data)
    assert {path.parent for path in store.rglob("*.event")} <= {store / "gitsession/spool"}
    Store.create(store).close()
    with Store.open(store) as opened:
        opened.drain()
        assert opened.sessions() == []


def test_hook_prints_nothing_exits_with_0_and_creates_private_folders(tmp_path: Path) -> None:
    store = tmp_path / "not" / "there.git"
    done = run(store, "SessionStart", {"session_id": "x", "cwd": str(tmp_path)})
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    [file] = (store / "gitsession/spool").iterdir()
    for path in (tmp_path / "not", store, store / "gitsession", store / "gitsession/spool"):
        assert path.stat().st_mode & 0o777 == 0o700
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("words", [[], ["--nonsense"], ["--from"], ["--from", "../x"], ["a", "b"]])
def test_unexpected_options_do_not_change_that(tmp_path: Path, words: list[str]) -> None:
    done = run(tmp_path / "store.git", "SessionStart", b"{}", *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_errors_of_a_hook_are_reported_by_doctor(tmp_path: Path) -> None:
    store = tmp_path / "store.git"
    Store.create(store).close()
    run(store, "PreToolUse", {"session_id": "x", "cwd": "/nonexistent/folder"})
    command = [sys.executable, "-m", "gitsession", "--store", str(store)]
    done = subprocess.run([*command, "doctor"], capture_output=True, text=True, check=False)
    assert "PreToolUse: cannot open the workspace '/nonexistent/folder'" in done.stdout
    subprocess.run([*command, "drain", "--forget-failures"], capture_output=True, check=True)
    done = subprocess.run([*command, "doctor"], capture_output=True, text=True, check=False)
    assert "nonexistent" not in done.stdout


def test_events_set_aside_are_forgotten_too_and_kept_private(tmp_path: Path) -> None:
    store = tmp_path / "store.git"
    Store.create(store).close()
    place = store / "gitsession/spool"
    place.mkdir()
    for name in ("1-a", "2-b"):
        (place / f"{name}.event").write_bytes(name.encode())
    command = [sys.executable, "-m", "gitsession", "--store", str(store)]
    done = subprocess.run([*command, "doctor"], capture_output=True, text=True, check=False)
    assert "2 events cannot be ingested" in done.stdout
    assert "gitsession drain --forget-failures" in done.stdout
    subprocess.run([*command, "drain", "--forget-failures"], capture_output=True, check=True)
    done = subprocess.run([*command, "doctor"], capture_output=True, text=True, check=False)
    assert "cannot be ingested" not in done.stdout
    assert sorted(file.read_bytes() for file in (place / "forgotten").iterdir()) == [b"1-a", b"2-b"]
    assert (place / "forgotten").stat().st_mode & 0o777 == 0o700


def test_a_tool_that_only_reads_leaves_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store.git"
    for event in ("PreToolUse", "PostToolUse"):
        told(store, event, {"session_id": "x", "cwd": str(tmp_path), "tool_name": "Read", "tool_input": {}})
    assert not store.exists()


NOT_READ_ONLY = {
    "another tool": {"tool_name": "Bash"},
    "its words say so": {"tool_name": "Bash", "tool_input": {"command": '"tool_name":"Read"'}},
    "what it is given says so": {"tool_name": "Task", "tool_input": {"tool_name": "Read"}},
    "no name": {"tool_input": {}},
    "a name that is none": {"tool_name": 7},
    "a longer name": {"tool_name": "ReadAndWrite"},
}


@pytest.mark.parametrize("said", NOT_READ_ONLY.values(), ids=NOT_READ_ONLY)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (",", " :\n ")])
def test_unknown_tool_is_not_read_only(said: dict, separators: tuple[str, str]) -> None:
    assert not events.read_only(json.dumps(said, separators=separators).encode())
    assert events.read_only(json.dumps({**said, "tool_name": "Read", "tool_input": {}}, separators=separators).encode())


def test_too_large_event_is_a_failure_and_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store.git"
    done = run(store, "PostToolUse", b'{"session_id": "' + b"x" * (hooking.STDIN_BYTES_MAX + 1) + b'"}')
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert waiting(store) == []
    assert "more than 32 MiB" in failures(store)[0]


def test_endless_input_is_not_waited_for(tmp_path: Path) -> None:
    code = "import sys\nfrom gitsession.cli import hooking\nhooking.STDIN_SECONDS = 0.2\nhooking.run(sys.argv[1:])"
    command = [sys.executable, "-c", code, "--store", str(tmp_path / "store.git"), "hook", "SessionStart"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        assert child.wait(120) == 0
    assert "no end within" in failures(tmp_path / "store.git")[0]


def test_closed_streams_are_no_harm(tmp_path: Path) -> None:
    command = f'"{sys.executable}" -m gitsession --store "{tmp_path}/store.git" hook Stop <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", command], check=False).returncode == 0


def test_long_scan_is_given_up_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    from gitsession.live import spool_snapshot

    monkeypatch.setattr(hooking, "CAPTURE_SECONDS", 0.1)
    monkeypatch.setattr(spool_snapshot, "spool_snapshot", lambda *_, **__: time.sleep(30))
    agent = Agent(tmp_path)
    assert agent.tell("PreToolUse", tool_name="Bash", tool_use_id="t")
    assert "longer than 0.1 s" in failures(agent.store)[0]
    [name] = waiting(agent.store)
    event = spooled_events.read(agent.store, name)
    assert event is not None
    assert event.snapshot is None
    assert event.workspace == str(agent.workspace)


def test_a_store_that_cannot_be_written_to_is_no_harm(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    done = run(blocked / "store.git", "PreToolUse", {"session_id": "x", "cwd": str(tmp_path)})
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_full_disk_leaves_no_half_event(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "large").write_bytes(os.urandom(400_000))

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    store = tmp_path / "store.git"
    done = run(store, "PreToolUse", {"session_id": "x", "cwd": str(work), "tool_name": "Bash"}, preexec_fn=small)
    assert (done.returncode, done.stdout) == (0, b"")
    assert not list(store.rglob("*.tmp"))
    for name in waiting(store):
        event = spooled_events.read(store, name)
        assert event is not None
        assert event.snapshot is None


def test_concurrent_hooks_capture_all_files_together(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    agent.fill(a="1")
    agent.prompt("u1", "do it")
    for call in ("t1", "t2", "t3", "t4"):
        agent.calls(call)

    def ends(call: str) -> None:
        (agent.workspace / call).write_text(call)
        agent.called(call)

    together(*(lambda call=call: ends(call) for call in ("t1", "t2", "t3", "t4")))
    agent.stops()
    agent.drain()
    phases = [phase for phase, _, _ in agent.points()]
    assert phases[0] == "before"
    assert set(phases[1:]) == {"after"}
    assert agent.points()[-1][2].keys() == {"a", "t1", "t2", "t3", "t4"}


def test_missing_store_is_created_for_waiting_events(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    agent.fill(a="1")
    agent.prompt("u1", "do it")
    command = [sys.executable, "-m", "gitsession", "--store", str(agent.store)]
    assert b"it does not exist" in subprocess.run([*command, "ls"], capture_output=True, check=False).stderr
    subprocess.run([*command, "init"], capture_output=True, check=True)
    done = subprocess.run([*command, "ls", "--json"], capture_output=True, check=True)
    assert len(json.loads(done.stdout)["sessions"]) == 1
    assert agent.points() == [("before", None, {"a": "1"})]


@pytest.mark.parametrize("redacts", [True, False])
def test_file_with_purged_bytes_is_not_captured_again(tmp_path: Path, *, redacts: bool) -> None:
    agent = Agent(tmp_path)
    Store.create(agent.store).close()
    if not redacts:
        git(agent.store, "config", "gitsession.redact", "false")
    (agent.workspace / "notes").write_text("the heron flies at midnight")
    agent.prompt("u1", "hello")
    agent.calls("a1", command="date")
    with Store.open(agent.store) as store:
        store.drain()
        assert holders(store) == 1
        store.purges.apply(store.purges.plan(text="heron"))
        assert holders(store) == 0
    (agent.workspace / "other").write_text("as it was")
    agent.calls("a2", command="date")
    assert not any(b"heron" in file.read_bytes() for file in (agent.store / "gitsession/spool").rglob("*.event"))
    with Store.open(agent.store) as store:
        store.drain()
        assert holders(store) == 0
    assert (("notes", "secret: purged"),) in [entry.skipped for entry in agent.entries()]


def holders(store: Store) -> int:
    return sum(store.objects.read(oid) == ("blob", b"the heron flies at midnight") for oid in store.objects.oids())


def test_store_itself_is_never_scanned(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    agent.store = agent.workspace / "store.git"
    agent.fill(a="1")
    agent.prompt("u1", "do it")
    agent.drain()
    assert agent.points() == [("before", None, {"a": "1"})]


def test_the_top_of_the_repository_is_the_workspace(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    subprocess.run(["git", "init", "-q", agent.workspace], check=True)
    inside = agent.workspace / "inside"
    inside.mkdir()
    agent.fill(a="1")
    whole, agent.workspace = agent.workspace, inside
    agent.prompt("u1", "do it")
    agent.drain()
    assert agent.entries()[0].workspace == str(whole)


@pytest.mark.parametrize("words", [["hook", "--help"], ["hook", "Stop", "-h"]])
def test_people_get_help(tmp_path: Path, words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "gitsession", *words], capture_output=True, text=True, check=True)
    assert "EVENT" in done.stdout
