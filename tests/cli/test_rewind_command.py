"""Tests of the commands checkpoint, rewind, diff, undo and redo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import claude_code
import pytest
from rewound import fill, put, snapshot

from gitsession.api import Store
from gitsession.checkpoints import rewinding
from gitsession.cli import app as command_line
from gitsession.cli import exits
from gitsession.model.entries import Message

Run = Callable[..., str]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = fill(tmp_path / "work", {"a.txt": "one\n", "notes.md": "mine\n"})
    monkeypatch.chdir(folder)
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    return folder


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    def run(*words: str, code: int = 0) -> str:
        capfdbinary.readouterr()
        ended = command_line.run(words)
        out, complaint = capfdbinary.readouterr()
        assert ended == code, f"{words} ended with {ended}: {complaint.decode()}"
        return (out + complaint).decode()

    return run


@pytest.fixture
def sid(here: Path) -> str:
    """Create a session with a call that changed ``a.txt`` and created ``new.txt``."""
    with Store.create(os.environ["GITSESSION_DIR"]) as store:
        session = store.new_session(agent="agent", cwd=str(here))
        session.append(Message.user("change it,\nplease"))
        session.append(Message.assistant("I will."))
        with session.files.checkpoint(here, reason="bash: edit"):
            put(here, "a.txt", "two\n")
            put(here, "new.txt", "new\n")
        session.append(Message.user("and now?"))
        return session.id


def document(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    assert found.pop("schema").startswith("gitsession/")
    return found


def test_rewind_prints_the_action_and_reason_for_each_file(run, here, sid):
    put(here, "new.txt", "the user's\n")
    text = run("rewind", "root")
    assert "written  a.txt    the session changed it" in text
    assert "left     new.txt  it was changed since, but not by the session" in text
    assert "on branch rewind-1; the other branch is kept" in text
    assert (here / "a.txt").read_text() == "one\n"


def test_text_of_the_message_is_printed(run, sid):
    assert run("rewind", f"{sid}@leaf~2").endswith("change it,\nplease\n")


def test_rewind_of_an_agents_session_prints_how_to_continue_there(run, here, tmp_path):
    lines = [claude_code.user("a", None), claude_code.assistant("b", "a"), claude_code.user("c", "b")]
    (tmp_path / "s.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    run("import", str(tmp_path / "s.jsonl"))
    with Store.open(os.environ["GITSESSION_DIR"]) as store:
        [row] = store.sessions()
    told = run("rewind", f"{row.sid}@leaf~1", "--conversation")
    assert f"gitsession resume {row.sid}` continues it in claude" in told
    assert "resume" not in run("rewind", f"{row.sid}@root", "--conversation"), "nothing to go on with"


def test_log_of_files_does_not_attribute_existing_files_to_the_tool(sid):
    command = [sys.executable, "-m", "gitsession", "git", "log", "--format=%s", f"sessions/{sid}/files", "--", "files/"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["checkpoint: bash: edit", "checkpoint: before bash: edit"]


def test_rewind_without_checkpoints_prints_that_files_are_kept(run, here):
    with Store.create(os.environ["GITSESSION_DIR"]) as store:
        store.new_session(agent="agent", cwd=str(here)).append(Message.user("hi"))
    assert "no checkpoints" in run("rewind", "leaf", "--dry-run")
    assert "no checkpoints" in run("rewind", "leaf")


def test_a_rehearsal_changes_nothing(run, here, sid):
    before = snapshot(here)
    text = run("rewind", "root", "--dry-run")
    assert "write   a.txt    the session changed it" in text
    assert "remove  new.txt  the session created it" in text
    assert snapshot(here) == before
    assert "no operations" in run("op", "log", code=exits.NOTHING)


def test_undo_and_redo_print_the_result_for_files(run, here, sid):
    before = snapshot(here)
    run("rewind", "root")
    assert "written  new.txt  its state before the command" in run("undo")
    assert snapshot(here) == before
    assert "removed  new.txt  its state after the command" in run("redo")
    assert "files)" in run("op", "log")


def test_documents_for_programs(run, here, sid):
    planned = document(run("rewind", "root", "--dry-run", "--json"))
    assert [(file["path"], file["action"]) for file in planned["files"]] == [("a.txt", "write"), ("new.txt", "remove")]
    done = document(run("rewind", "root", "--json"))
    assert [(file["path"], file["did"]) for file in done["files"]] == [("a.txt", "written"), ("new.txt", "removed")]
    assert (done["branch"], done["moved"], done["workspace"]) == ("rewind-1", True, str(here))
    undone = document(run("undo", "--json"))
    assert [file["did"] for file in undone["files"]] == ["written", "written"]
    assert undone["operations"][0]["files"]["session"] == sid


def test_rewind_of_only_files_or_only_the_conversation(run, here, sid):
    assert "the conversation" not in run("rewind", "root", "--files")
    assert (here / "a.txt").read_text() == "one\n"
    run("undo")
    assert "a.txt" not in run("rewind", "root", "--conversation")
    assert (here / "a.txt").read_text() == "two\n"


def test_files_and_conversation_named_together_are_both(run, here, sid):
    told = run("rewind", "root", "--conversation", "--files")
    assert "the conversation continues" in told
    assert (here / "a.txt").read_text() == "one\n"


def test_file_edited_by_the_user_is_merged_and_a_conflict_is_reported(run, here, sid):
    long = [f"{n}\n" for n in range(9)]
    for name in ("both.txt", "same.txt"):
        put(here, name, "".join(long))
    with Store.open(os.environ["GITSESSION_DIR"]) as store, store.session(sid).files.checkpoint(here):
        for name in ("both.txt", "same.txt"):
            put(here, name, "".join(["session\n", *long[1:]]))
    put(here, "both.txt", "".join(["session\n", *long[1:8], "user\n"]))
    put(here, "same.txt", "".join(["user\n", *long[1:]]))
    before = snapshot(here)
    told = run("rewind", "root", "--dry-run", "--files")
    assert "merge     both.txt  merged: changes by others are kept" in told
    assert "conflict  same.txt  conflict: your edits overlap with the session's" in told
    planned = document(run("rewind", "root", "--dry-run", "--json", "--files"))["files"]
    actions = {file["path"]: file["action"] for file in planned}
    assert (actions["both.txt"], actions["same.txt"]) == ("merge", "conflict")
    assert snapshot(here) == before
    told = run("rewind", "root", "--files")
    assert "written  both.txt  merged: changes by others are kept" in told
    assert "left     same.txt  conflict: your edits overlap with the session's" in told
    assert (here / "both.txt").read_text() == "".join([*long[:8], "user\n"])
    told = run("rewind", "root", "--files", code=exits.NOTHING)
    assert told.endswith("nothing changed\n"), "all is not as it was there"
    run("undo")
    assert snapshot(here) == before


def test_unchanged_files_are_not_listed(run, here, sid):
    put(here, "a.txt", "one\n")
    rehearsed = run("rewind", "root", "--dry-run")
    assert "new.txt" in rehearsed
    assert "a.txt" not in rehearsed
    told = run("rewind", "root")
    assert "files: 1 removed:" in told
    assert "a.txt" not in told
    assert len(document(run("rewind", "root", "--dry-run", "--json", code=exits.NOTHING))["files"]) == 2


def test_rewind_without_effect_prints_that(run, sid):
    run("rewind", "root")
    assert "nothing would change" in run("rewind", "root", "--dry-run", code=exits.NOTHING)
    assert "nothing changed" in run("rewind", "root", code=exits.NOTHING)


def test_a_checkpoint_by_hand_is_kept_once(run, here, sid):
    put(here, "notes.md", "mine, and more\n")
    assert "1 file changed" in run("checkpoint", "-m", "before I try")
    assert "nothing has changed" in run("checkpoint")
    assert document(run("checkpoint", "--json"))["new"] is False


def test_checkpoint_lists_left_out_paths(run, here, sid):
    os.mkfifo(here / "pipe")
    (here / "inner/.git").mkdir(parents=True)
    fill(here / "inner/.git", {"HEAD": "ref: refs/heads/main\n"})
    (here / "inner/.git/objects").mkdir()
    (here / "inner/.git/refs").mkdir()
    assert "left out: inner" in run("checkpoint")


def test_git_can_apply_the_output_of_diff(run, here, sid):
    text = run("diff", f"{sid}@root")
    assert "-one\n+two\n" in text
    assert "new.txt" in text
    assert "new.txt" not in run("diff", f"{sid}@root", "leaf", "--", "a.txt")
    assert [file["path"] for file in document(run("diff", "--json", f"{sid}@root"))["files"]] == ["a.txt", "new.txt"]
    assert "no differences" in run("diff", f"{sid}@leaf", code=exits.NOTHING)


def test_killed_rewind_is_shown_by_doctor_and_can_be_finished(run, here, sid, monkeypatch):
    before = snapshot(here)
    with monkeypatch.context() as broken:
        broken.setattr(rewinding, "restore", _unavailable)
        assert "no room" in run("rewind", "root", code=exits.TRY_AGAIN)
    assert "not completed: 'rewind" in run("doctor", code=exits.INTEGRITY)
    assert "rewind --continue" in run("rewind", "root", code=exits.REFUSED)
    told = run("rewind", "--abort")
    assert "are as they were before the rewind" in told
    assert "undo" not in told
    assert snapshot(here) == before
    assert "no interrupted rewind" in run("rewind", "--continue", code=exits.NOT_FOUND)


@pytest.mark.parametrize("verb", ["undo", "redo"])
def test_undo_is_rejected_while_a_rewind_is_unfinished(run, here, sid, monkeypatch, verb):
    run("label", f"{sid}@root", "good")
    with monkeypatch.context() as broken:
        broken.setattr(rewinding, "restore", _unavailable)
        run("rewind", "root", code=exits.TRY_AGAIN)
    assert "rewind --abort" in run(verb, code=exits.REFUSED)
    monkeypatch.chdir(here.parent)
    run("undo")


def test_interrupted_rewind_prints_how_to_finish_it(run, here, sid, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(rewinding, "restore", _interrupted)
        assert "rewind --continue" in run("rewind", "root", code=exits.INTERRUPTED)
    run("rewind", "--continue")
    assert (here / "a.txt").read_text() == "one\n"


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def _unavailable(*_: object, **__: object) -> None:
    from gitsession.errors import Unavailable

    raise Unavailable("no room")


WRONG = {
    "no entry": ("rewind",),
    "a session without an entry": ("rewind", "@"),
    "both ways to end one": ("rewind", "--continue", "--abort"),
    "an end that is rehearsed": ("rewind", "--continue", "--dry-run"),
    "three ends": ("diff", "@", "leaf", "root"),
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG)
def test_wrong_usage_is_reported(run, sid, words):
    run(*words, code=exits.USAGE)


def test_folder_that_is_not_a_workspace_is_rejected_by_name(run, sid, tmp_path):
    text = run("checkpoint", sid, "--workspace", "/", code=exits.REFUSED)
    assert "as a workspace" in text


def test_missing_workspace_is_reported_with_the_option_to_name_another(run, here, sid, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    here.rename(tmp_path / "moved")
    assert "--workspace" in run("rewind", f"{sid}@root", code=exits.NOT_FOUND)
    run("rewind", f"{sid}@root", "--workspace", str(tmp_path / "moved"))
    assert (tmp_path / "moved/a.txt").read_text() == "one\n"
