"""Tests of commit trailers that name the session, with a real git and the hook of gitsession."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from projects import begin_project

from gitsession import Message, Store
from gitsession.cli import app as command_line
from gitsession.errors import Refused
from gitsession.sync import commit_trailers

HOUR_MS = 3_600_000
PATIENT = """
import sys
from gitsession.cli import app
from gitsession.cli.commands import link
link.SECONDS_MAX = 60
sys.exit(app.run(sys.argv[1:]))
"""
"""The command line with a longer time limit for its hook, so that a busy machine does not affect the result."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a repository with the hook. The store is the user's own."""
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    place = begin_project(tmp_path / "project", monkeypatch)
    assert command_line.run(["link", "enable", str(place)]) == 0
    git(place, "config", commit_trailers.PROGRAM, shlex.join([sys.executable, "-c", PATIENT]))
    return place


def git(place: Path, *words: str, stdin: str = "", editor: str = "true") -> str:
    env = {**os.environ, "GIT_EDITOR": editor}
    done = subprocess.run(["git", *words], cwd=place, input=stdin, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def session_in(place: Path, *words: str, ago_hours: float = 0) -> str:
    """Create a session in the folder and return the address of its newest entry."""
    at_ms = int(time.time() * 1000 - ago_hours * HOUR_MS)
    with Store.open(os.environ["GITSESSION_DIR"] if Path(os.environ["GITSESSION_DIR"]).exists() else None,
                    clock=lambda: at_ms) as store:  # fmt: skip
        session = store.new_session(agent="agent", cwd=str(place))
        node = [session.append(Message.user(text)) for text in words][-1]
        return commit_trailers.address(session.id, node)


@pytest.fixture
def store(project: Path) -> None:
    Store.create(os.environ["GITSESSION_DIR"]).close()


def commit(place: Path, *words: str, **how: str) -> str:
    """Commit and return the value of the trailer, or "" if there is none."""
    git(place, "commit", "-q", "--allow-empty", *(words or ("-m", "Work")), **how)
    return git(place, "log", "-1", "--format=%(trailers:key=Session,valueonly)")


@pytest.mark.usefixtures("store")
def test_commit_names_the_newest_entry_of_the_current_session(project: Path) -> None:
    session_in(project, "earlier", ago_hours=1)
    newest = session_in(project, "hi", "more")
    assert commit(project) == newest
    assert command_line.run(["show", newest]) == 0


def edited_in(place: Path, **files: str) -> str:
    """Create a session in the folder whose tool writes files, and return the address of its newest entry."""
    with Store.open(os.environ["GITSESSION_DIR"]) as store:
        session = store.new_session(agent="agent", cwd=str(place))
        node = session.append(Message.user("edit"))
        with session.files.checkpoint(place):
            for name, text in files.items():
                (place / name).write_text(text)
        return commit_trailers.address(session.id, node)


@pytest.mark.usefixtures("store")
def test_commit_names_the_session_that_wrote_the_staged_files(project: Path) -> None:
    editor = edited_in(project, a="one\n", b="two\n")
    other = edited_in(project, c="three\n")
    session_in(project, "only asks")
    git(project, "add", "a", "b")
    assert commit(project) == editor
    git(project, "add", "c")
    assert commit(project) == other


@pytest.mark.usefixtures("store")
def test_session_with_the_staged_content_is_named(project: Path) -> None:
    (project / "sub").mkdir()
    first = edited_in(project / "sub", a="first\n")
    git(project, "add", "sub/a")
    second = edited_in(project / "sub", a="second\n")
    assert commit(project) == first
    assert commit(project, "-am", "Work") == second


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("others", [0, 1, 2])
def test_commit_of_files_that_no_session_changed_has_no_trailer(project: Path, others: int) -> None:
    if others > 1:
        edited_in(project, a="one\n")
    if others > 0:
        session_in(project, "only asks")
    session_in(project, "hi")
    (project / "mine").write_text("mine\n")
    git(project, "add", "mine")
    done = subprocess.run(["git", "commit", "-qm", "Work"], cwd=project, capture_output=True, text=True, check=True)
    assert done.stderr == "no session of the last hours changed a staged file: the commit names no session\n"
    assert git(project, "log", "-1", "--format=%B") == "Work"


@pytest.mark.usefixtures("store")
def test_a_commit_that_changes_no_file_names_the_newest_session(project: Path) -> None:
    edited_in(project, a="one\n")
    newest = session_in(project, "hi")
    assert commit(project) == newest


@pytest.mark.usefixtures("store")
def test_nothing_is_printed_without_a_session(project: Path) -> None:
    (project / "mine").write_text("mine\n")
    git(project, "add", "mine")
    done = subprocess.run(["git", "commit", "-qm", "Work"], cwd=project, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.usefixtures("store")
def test_a_session_below_the_top_counts_and_one_elsewhere_does_not(project: Path, tmp_path: Path) -> None:
    (project / "sub").mkdir()
    (tmp_path / "project-2").mkdir()
    inside = session_in(project / "sub", "hi", ago_hours=1)
    session_in(tmp_path / "project-2", "elsewhere")
    assert commit(project) == inside


@pytest.mark.usefixtures("store")
def test_old_session_is_not_named(project: Path) -> None:
    old = session_in(project, "hi", ago_hours=5)
    assert commit(project) == ""
    commit_trailers.enable(project, ["true"], 6)  # it only writes the settings
    assert command_line.run(["link", "enable", str(project), "--hours", "6"]) == 0
    assert commit(project) == old


@pytest.mark.usefixtures("store")
def test_a_worktree_has_its_own_sessions(project: Path, tmp_path: Path) -> None:
    session_in(project, "in the first")
    commit(project)
    git(project, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "side")
    assert commit(tmp_path / "tree") == ""
    there = session_in(tmp_path / "tree", "in the second")
    assert commit(tmp_path / "tree") == there


@pytest.mark.usefixtures("store")
def test_existing_trailers_are_kept_and_ours_is_added(project: Path) -> None:
    newest = session_in(project, "hi")
    assert commit(project, "-m", "Work", "-m", "Signed-off-by: A <a@b>") == newest
    assert "Signed-off-by: A <a@b>\nSession: " in git(project, "log", "-1", "--format=%B")
    assert commit(project, "-m", "Work\n\nSession: mine") == "mine"


@pytest.mark.usefixtures("store")
def test_amended_commit_keeps_its_trailer(project: Path) -> None:
    first = session_in(project, "hi")
    commit(project)
    session_in(project, "later")
    assert commit(project, "--amend", "--no-edit") == first


@pytest.mark.usefixtures("store")
def test_empty_message_still_aborts_the_commit(project: Path) -> None:
    session_in(project, "hi")
    done = subprocess.run(
        ["git", "commit", "--allow-empty"], cwd=project, capture_output=True, text=True, check=False,
        env={**os.environ, "GIT_EDITOR": "true"},
    )  # fmt: skip
    assert done.returncode == 1
    assert "empty commit message" in done.stderr


BROKEN = {
    "there is no store": lambda at: None,
    "the store is damaged": lambda at: (at.mkdir(), (at / "gitsession").mkdir(), (at / "HEAD").write_text("")),
    "gitsession is gone": lambda at: subprocess.run(
        ["git", "-C", str(at.parent / "project"), "config", commit_trailers.PROGRAM, "/nowhere/gitsession"], check=True
    ),
}


@pytest.mark.parametrize("break_it", BROKEN.values(), ids=BROKEN)
def test_no_commit_fails_for_us(project: Path, tmp_path: Path, break_it) -> None:
    break_it(tmp_path / "store.git")
    assert commit(project) == ""


def test_existing_hook_runs_first_and_may_stop_the_commit(project: Path) -> None:
    commit_trailers.disable(project)
    hook = project / ".git/hooks" / commit_trailers.HOOK
    hook.write_text('#!/bin/sh\necho "theirs" >> "$1"\n')
    hook.chmod(0o755)
    assert commit_trailers.enable(project, ["true"])
    commit(project)
    assert "theirs" in git(project, "log", "-1", "--format=%B")
    (project / ".git/hooks" / f"{commit_trailers.HOOK}.local").write_text("#!/bin/sh\nexit 1\n")
    done = subprocess.run(["git", "commit", "--allow-empty", "-qm", "x"], cwd=project, capture_output=True, check=False)
    assert done.returncode == 1
    assert commit_trailers.disable(project)
    assert hook.read_text() == "#!/bin/sh\nexit 1\n"
    assert not commit_trailers.disable(project)


def test_hooks_that_lie_elsewhere_are_not_written_to(project: Path) -> None:
    git(project, "config", "core.hooksPath", ".husky")
    with pytest.raises(Refused, match="husky") as refused:
        commit_trailers.enable(project, ["true"])
    assert "gitsession link message" in refused.value.hint


def test_enabling_twice_changes_nothing_the_second_time(project: Path) -> None:
    words = ["gitsession", "--store", "it"]
    commit_trailers.enable(project, words)
    assert not commit_trailers.enable(project, words)
    assert commit_trailers.is_enabled(project)
