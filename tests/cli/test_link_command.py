"""Tests of ``gitsession link show``: the sessions that wrote the lines of a commit."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from commands import Run, document
from projects import begin_project

from gitsession import Message, ToolCall
from gitsession.api import Session, Store

HIDDEN = "\x1b[31m\u202e"


@pytest.fixture
def store(run: Run, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Return an empty store. The current folder is a repository."""
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    begin_project(here, monkeypatch)
    return Store.create(tmp_path / "store.git")


def git(place: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=place, capture_output=True, check=True).stdout.decode()


def commit(place: Path, message: str = "Work") -> None:
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", message)


def calling(session: Session, prompt: str, name: str, *, is_error: bool = False, **arguments: Any) -> None:
    """Append a prompt, a tool call and its result."""
    session.append(Message.user(prompt))
    call = ToolCall("call", name, arguments)
    session.append(Message.assistant([call]))
    session.append(Message.tool(call, "done", is_error=is_error))


def shares(run: Run, *words: str, code: int = 0) -> dict[str, Any]:
    return document(run("link", "show", *words, "--json", code=code))


def test_the_share_of_each_session_entry_and_file(run: Run, here: Path, store: Store) -> None:
    (here / "app.py").write_text("import os\n")
    commit(here, "By hand")
    first = store.new_session(agent="pi", cwd=str(here))
    calling(first, "Print", "write", path="app.py", content="import os\n\nprint(os.name)\nprint(1)\n")
    calling(first, "Fail", "write", path="app.py", content="failed\n", is_error=True)
    second = store.new_session(agent="claude", cwd=str(here))
    calling(second, "Print more", "Edit", file_path="app.py", old_string="print(1)", new_string="print(2)\nprint(3)")
    second.append(Message.user("Use sed"))
    with second.files.checkpoint(here):
        (here / "made.txt").write_text("made\n")
    store.close()
    (here / "app.py").write_text("import os\n\nprint(os.name)\nprint(2)\nprint(3)\n# by hand\n")
    (here / "logo").write_bytes(bytes(range(256)))
    commit(here, f"Print {HIDDEN} more")
    found = shares(run)
    assert (found["added"], found["subject"]) == (6, f"Print {HIDDEN} more")
    assert [(it["session"], it["lines"], it["share"]) for it in found["sessions"]] == [
        (second.id, 3, 0.5), (first.id, 2, 0.3333),
    ]  # fmt: skip
    assert [(it["prompt"], it["lines"]) for it in found["entries"]] == [("Print", 2), ("Print more", 2), ("Use sed", 1)]
    app, logo, made = found["files"]
    assert (app["path"], app["added"]) == ("app.py", 5)
    assert {it["session"]: it["lines"] for it in app["sessions"]} == {first.id: 2, second.id: 2}
    assert (logo["added"], logo["sessions"], logo["entries"]) == (None, [], [])
    assert [(it["session"], it["share"], it["prompt"]) for it in made["entries"]] == [(second.id, 1.0, "Use sed")]
    lines = run("link", "show", "HEAD").splitlines()
    assert lines[1] == "6 added lines in 3 files"
    assert lines[3].split()[1:4] == ["claude", "3", "(50%)"]
    assert lines[8].split()[:3] == ["-", "1", "(17%)"]
    short = sorted(session.id.rpartition("-")[2][:7] for session in (first, second))
    assert lines[-3].split() == ["app.py", "+5", short[0], "2", "(40%),", short[1], "2", "(40%),", "-", "1", "(20%)"]
    assert lines[-2].split() == ["logo", "binary"]
    shown = "\n".join(lines)
    assert "\x1b" not in shown and "\u202e" not in shown


def test_later_sessions_are_ignored(run: Run, here: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "a").write_text("one\n")
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"{int(time.time()) - 3600} +0000")
    commit(here)
    session = store.new_session(agent="pi", cwd=str(here))
    calling(session, "Write", "write", path="a", content="one\n")
    store.close()
    assert shares(run, code=1)["sessions"] == []
    assert "no session changed the files of commit" in run("link", "show", code=1, err=True)


def test_a_session_that_only_deleted_a_file(run: Run, here: Path, store: Store) -> None:
    (here / "a").write_text("one\n")
    commit(here)
    session = store.new_session(agent="codex", cwd=str(here))
    patch = "*** Begin Patch\n*** Delete File: a\n*** End Patch\n"
    calling(session, "Delete", "exec_command", cmd=f"apply_patch <<'EOF'\n{patch}EOF\n")
    store.close()
    (here / "a").unlink()
    commit(here)
    found = shares(run)
    assert [(it["session"], it["lines"], it["share"]) for it in found["sessions"]] == [(session.id, 0, 0.0)]
    assert "a  " in run("link", "show")


def test_a_file_that_git_renamed_with_the_agent(run: Run, here: Path, store: Store) -> None:
    text = "".join(f"line {number}\n" for number in range(20))
    (here / "old").write_text(text)
    commit(here)
    session = store.new_session(agent="codex", cwd=str(here))
    patch = "*** Begin Patch\n*** Update File: old\n*** Move to: new\n@@\n line 19\n+line 20\n*** End Patch\n"
    calling(session, "Rename", "apply_patch", input=patch)
    store.close()
    (here / "old").unlink()
    (here / "new").write_text(f"{text}line 20\n")
    commit(here)
    [file] = shares(run)["files"]
    assert (file["path"], file["added"], file["sessions"][0]["share"]) == ("new", 1, 1.0)


def test_the_trailer_names_a_session_without_checkpoints(run: Run, here: Path, store: Store) -> None:
    session = store.new_session(agent="pi", cwd=str(here))
    calling(session, "Write", "write", path="a", content="one\n")
    other = store.new_session(agent="pi", cwd=str(here))
    other.append(Message.user("only asks"))
    store.close()
    (here / "a").write_text("one, by hand\n")
    git(here, "add", "a")
    (here / "message").write_text("Work\n")
    run("link", "message", "message")
    assert f"Session: {session.id}@" in (here / "message").read_text()


@pytest.mark.parametrize("revision", ["none", "--", "HEAD~7", f"{HIDDEN}\n"])
def test_an_unknown_commit_is_reported(run: Run, here: Path, store: Store, revision: str) -> None:
    store.close()
    (here / "a").write_text("one\n")
    commit(here)
    text = run("link", "show", revision, code=1 if revision == "--" else 3, err=True)
    assert "\x1b" not in text and "\u202e" not in text


def test_a_folder_without_a_repository(run: Run, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.close()
    monkeypatch.chdir(tmp_path)
    assert "no commit 'HEAD' in the current folder" in run("link", "show", code=3, err=True)


def test_a_large_commit_with_hostile_names(run: Run, here: Path, store: Store) -> None:
    session = store.new_session(agent=f"pi{HIDDEN}", cwd=str(here))
    text = "".join(f"line {number}\n" for number in range(100_000))
    name = f"x{HIDDEN}\ny"
    calling(session, f"Write {HIDDEN}", "write", path=name, content=text)
    store.close()
    (here / name).write_text(text.replace("line 500\n", "changed\n"))
    Path(os.fsdecode(os.fsencode(here) + b"/\xff")).write_text("\xff")
    for number in range(300):
        (here / f"{number}").write_text(f"{number}\n")
    commit(here)
    found = shares(run)
    assert [(it["lines"], it["share"]) for it in found["sessions"]] == [(99_999, 0.997)]
    shown = run("link", "show")
    assert "\x1b" not in shown and "\u202e" not in shown
