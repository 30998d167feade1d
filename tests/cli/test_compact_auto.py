"""Tests of ``gitsession compact --auto``, the scheduled automatic compaction."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from builders import pi_file, said
from commands import Run, document
from places import ROOT

from gitsession import Message, Store

LONG = "word after word, " * 100  # 400 tokens


def configure(**settings: str) -> None:
    for name, value in settings.items():
        subprocess.run(["git", "config", "--global", f"gitsession.{name}", value], check=True)


def written(folder: Path) -> str:
    """Store a session of about 2,400 tokens for ``folder``, configure a limit of 1,500, and return its id."""
    with Store.open() as store:
        session = store.new_session(agent="test", cwd=str(folder))
        for number in range(3):
            session.append(Message.user(f"Do the task {number}. {LONG}"))
            session.append(Message.assistant(f"The task {number} is done. {LONG}"))
    configure(compaction="client", compactionThreshold="1500", compactionKeepTokens="500")
    return session.id


@pytest.fixture
def sid(here: Path) -> str:
    return written(here)


def kinds(run: Run) -> list[str]:
    return [entry["kind"] for entry in document(run("log", "@", "--json"))["entries"]]


def test_due_compaction_is_applied_by_the_policy_and_can_be_undone(run: Run, sid: str) -> None:
    before = kinds(run)
    told = document(run("compact", "--auto", "--json"))
    assert (told["session"], told["method"], told["nothing"]) == (sid, "pi/extractive", None)
    assert told["tokens_after"] < 1_500
    assert kinds(run) == ["compaction", *before]
    run("undo")
    assert kinds(run) == before


def test_second_run_reports_why_none_is_due(run: Run, sid: str) -> None:
    assert "summarized" in run("compact", "--auto")
    before = kinds(run)
    assert re.fullmatch(
        r"no compaction is due: the context has [\d,]+ tokens, and the limit is 1,500\n", run("compact", "--auto")
    )
    told = document(run("compact", "--auto", "--json"))
    assert told["id"] is None
    assert told["nothing"].endswith("and the limit is 1,500")
    assert kinds(run) == before


@pytest.mark.parametrize("is_due", [True, False])
def test_dry_run_writes_nothing(run: Run, sid: str, is_due: bool) -> None:
    configure(compactionThreshold="1500" if is_due else "90k")
    before = kinds(run)
    assert ("summarize  " if is_due else "no compaction is due: ") in run("compact", "--auto", "--dry-run")
    assert kinds(run) == before


def test_policy_that_is_off_is_the_reason(run: Run, sid: str) -> None:
    configure(compaction="off")
    assert run("compact", "--auto") == (
        "no compaction is due: automatic compaction is off: set gitsession.compaction to 'client'\n"
    )


def test_captured_session_is_left_to_its_agent(run: Run, sid: str, here: Path) -> None:
    lines = [said("a0", None, LONG, at=1), said("a1", "a0", LONG * 8, role="assistant", at=2)]
    (here / "session.jsonl").write_bytes(pi_file(*lines, id="captured", cwd=str(here)))
    session = document(run("import", "session.jsonl", "--json"))["sessions"][0]["session"]
    assert run("compact", "--auto", session) == (
        "no compaction is due: the session was recorded by pi, which compacts its context on its own\n"
    )
    assert document(run("compact", session, "--keep-tokens", "100", "--json"))["id"]


OPTIONS = {
    "strategy": ["--strategy", "pi"],
    "entry": ["--strategy", "from", "--at", "leaf"],
    "tokens": ["--keep-tokens", "5"],
    "summarizer": ["--summarizer", "extractive"],
    "program": ["--summarizer-command", "true"],
    "api": ["--summarizer-api", "anthropic"],
    "server": ["--summarizer-url", "http://127.0.0.1"],
    "model": ["--model", "large"],
}


@pytest.mark.parametrize("words", OPTIONS.values(), ids=OPTIONS)
def test_option_that_the_policy_determines_is_refused(run: Run, sid: str, words: list[str]) -> None:
    complaint = run("compact", "--auto", *words, code=2, err=True)
    flags = ", ".join(word for word in words if word.startswith("--"))
    assert f"--auto cannot be combined with {flags}: the configured policy determines this" in complaint
    assert "compaction" not in kinds(run)


def test_window_profile_and_focus_can_be_combined(run: Run, sid: str) -> None:
    configure(compactionThreshold="50%")
    assert "unknown: set gitsession.compactionWindow" in run("compact", "--auto")
    words = ["--window", "2000", "--profile", "pi", "--focus", "the task"]
    node = document(run("compact", "--auto", *words, "--json"))["id"]
    with Store.open() as store:
        assert getattr(store.session(sid).read(node), "instructions", None) == "the task"


def test_invalid_policy_is_refused(run: Run, sid: str) -> None:
    configure(compaction="sometimes")
    assert "mode is 'sometimes'" in run("compact", "--auto", code=4, err=True)


@pytest.mark.parametrize("summarizers", ["command", "http:small"])
def test_failed_summarizer_leaves_no_entry(run: Run, sid: str, summarizers: str) -> None:
    configure(compactionSummarizers=summarizers)
    assert "(nothing was written)" in run("compact", "--auto", code=75, err=True)
    assert "compaction" not in kinds(run)


def test_branch_under_compaction_is_skipped(run: Run, sid: str) -> None:
    with Store.open() as store, store.session(sid).compaction.due():
        assert run("compact", "--auto") == "no compaction is due: the branch is being compacted already\n"
        assert "summarize  " in run("compact", "--auto", "--dry-run")
    assert "summarized  " in run("compact", "--auto")


# ---- the how-to guide


PAGE = (ROOT / "docs/how-to/compact-on-a-schedule.md").read_text()


@pytest.fixture
def shop() -> Path:
    """Return ``~/shop``, a git repository with a session that is due, and install ``~/.local/bin/gitsession``."""
    program, folder = Path.home() / ".local/bin/gitsession", Path.home() / "shop"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gitsession "$@"\n')
    program.chmod(0o755)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    written(folder)
    return folder


def block(language: str) -> str:
    [found] = re.findall(rf"^  ```{language}\n(.*?)^  ```$", PAGE, re.DOTALL | re.MULTILINE)
    return textwrap.dedent(found)


def stored_kinds() -> list[str]:
    with Store.open() as store:
        [row] = store.sessions()
        return [node.kind for node in store.session(row.sid).history()]


def test_line_of_the_crontab_compacts(shop: Path) -> None:
    schedule, command = block("crontab").strip().split(" cd ", 1)
    assert re.fullmatch(r"\*/\d+( \*){4}", schedule)
    environ = {name: value for name, value in os.environ.items() if name.startswith(("HOME", "GIT_", "XDG_"))}
    words = ["/bin/sh", "-c", f"cd {command}"]
    done = subprocess.run(words, env={**environ, "PATH": "/usr/bin:/bin"}, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert "compaction" in stored_kinds()


def test_hook_of_git_compacts_after_a_commit(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = shop / ".git/hooks/post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(block("sh"))
    hook.chmod(0o755)
    monkeypatch.setenv("PATH", f"{Path.home() / '.local/bin'}{os.pathsep}{os.environ['PATH']}")
    identity = ["-c", "user.name=A", "-c", "user.email=a@b"]
    subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "Start"], cwd=shop, check=True)
    for _ in range(600):
        if "compaction" in stored_kinds():
            return
        time.sleep(0.1)
    pytest.fail("the hook did not compact the session")


def test_messages_of_the_guide_are_those_of_the_program() -> None:
    source = "".join(path.read_text() for path in (ROOT / "gitsession").rglob("compact*.py"))
    source += (ROOT / "gitsession/compaction/trigger.py").read_text()
    for message in re.findall(r"^- \*\*`(.*?)`\*\*", PAGE, re.MULTILINE):
        assert message.replace("claude", "{self._handle.agent}") in source
