"""Tests of ``gitsession compact``: output, exit codes and the resulting session."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import pi_file, said

from gitsession import CompactionRequest, Message, Store
from gitsession.cli import app as command_line

Run = Callable[..., dict[str, Any]]

LONG = "word after word, " * 40
SHORT = f"{sys.executable} -c \"import sys; sys.stdin.read(); print('all in short')\""


@pytest.fixture
def here(here: Path) -> Path:
    """Import a session of ten messages for the working directory."""
    ids = [f"aaaa000{n}" for n in range(10)]
    lines = [
        said(id, parent, f"{id} {LONG}", role=("user", "assistant")[n % 2], at=n + 1)
        for n, (id, parent) in enumerate(zip(ids, [None, *ids[:-1]], strict=True))
    ]
    (here / "session.jsonl").write_bytes(pi_file(*lines, cwd=str(here)))
    assert command_line.run(["import", "session.jsonl"]) == 0
    return here


@pytest.fixture
def run(here: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Return a function that runs a command with ``--json`` and returns its document.

    Args:
        code: Expected exit status. The standard error is in ``stderr`` of the document.
    """

    def run(*words: str, code: int = 0) -> dict[str, Any]:
        capfdbinary.readouterr()
        ended = command_line.run([*words, "--json"])
        out, complaint = capfdbinary.readouterr()
        assert ended == code, complaint.decode()
        return {**(json.loads(out) if out.strip() else {}), "stderr": complaint.decode()}

    return run


@pytest.fixture
def plainly(here: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., str]:
    """Return a function that runs a command and returns its output for people."""

    def plainly(*words: str) -> str:
        capfdbinary.readouterr()
        assert command_line.run(words) == 0
        return capfdbinary.readouterr()[0].decode()

    return plainly


def leaf(run: Run) -> str:
    return str(run("log", "@")["leaf"])


def test_compact_appends_one_entry_and_prints_the_saved_tokens(run: Run) -> None:
    before = run("log", "@")["entries"]
    told = run("compact", "@", "--keep-tokens", "300")
    entries = run("log", "@")["entries"]
    assert [entry["id"] for entry in entries] == [told["id"], *(entry["id"] for entry in before)]
    assert (told["summarized"], told["kept"], told["method"]) == (8, 2, "pi/extractive")
    assert told["first_kept"] == before[1]["id"]
    assert told["tokens_after"] < told["tokens_before"]
    shown = run("context", "@")
    assert shown["tokens"]["used"] == told["tokens_after"]
    assert shown["messages"][0]["kind"] == "compaction"


def test_dry_run_prints_the_same_and_writes_nothing(run: Run) -> None:
    before = leaf(run)
    told = run("compact", "@", "--keep-tokens", "300", "--dry-run")
    assert (told["id"], told["summarized"], told["tokens_after"]) == (None, 8, None)
    assert leaf(run) == before


def test_dry_run_names_the_summarized_and_the_kept_entries(run: Run, plainly: Callable[..., str]) -> None:
    entries = run("log", "@")["entries"]
    told = run("compact", "@", "--keep-tokens", "300", "--dry-run")
    assert (told["summarized_from"], told["summarized_to"]) == (entries[9]["id"], entries[2]["id"])
    assert told["tokens_summarized"] + told["tokens_kept"] == told["tokens_before"]
    assert (told["split_turn"], told["carries_on"], told["onto"]) == (0, False, None)
    text = plainly("compact", "@", "--keep-tokens", "300", "--dry-run")
    assert f"summarize  8 entries, about {told['tokens_summarized']:,} tokens" in text
    assert f"kept  2 entries, about {told['tokens_kept']:,} tokens" in text
    first, last, kept = (text.index(entries[at]["id"][:8]) for at in (9, 2, 1))
    assert first < last < kept
    assert f"{told['tokens_before']:,} now, then about {told['tokens_kept']:,} and those of the summary\n" in text


def test_dry_run_reports_a_split_turn_and_an_updated_summary(run: Run) -> None:
    run("compact", "@", "--keep-tokens", "300")
    with Store.open() as store:
        session = store.session("@")
        for said_next in (Message.user(LONG), Message.assistant(LONG), Message.assistant(LONG)):
            session.append(said_next)
    told = run("compact", "@", "--keep-tokens", "100", "--dry-run")
    assert told["carries_on"]
    assert told["split_turn"] > 0


def test_tokens_of_each_role_and_kind_are_printed_before_and_after(run: Run, plainly: Callable[..., str]) -> None:
    before = run("context", "@")["breakdown"]
    assert run("compact", "@", "--keep-tokens", "300", "--dry-run")["breakdown"] == {"before": before, "after": None}
    told = run("compact", "@", "--keep-tokens", "300")
    assert told["breakdown"] == {"before": before, "after": run("context", "@")["breakdown"]}
    assert told["tokens_before"] == sum(before["role"].values())
    run("undo")
    text = plainly("compact", "@", "--keep-tokens", "300")
    assert f"{told['tokens_before']:,} before, {told['tokens_after']:,} now" in text
    assert f"{before['role']['user']:,} -> " in text


def test_undo_and_redo_of_a_compaction(run: Run) -> None:
    before, shown = leaf(run), run("context", "@")["digest"]
    told = run("compact", "@", "--keep-tokens", "300")
    [operation] = run("undo")["operations"]
    assert operation["command"] == f"compact {told['session']} pi"
    assert (leaf(run), run("context", "@")["digest"]) == (before, shown)
    run("redo")
    assert leaf(run) == told["id"]
    assert run("verify")["problems"] == []


def test_undo_removes_the_branch_of_a_summary_from_an_entry(run: Run) -> None:
    before, branches = leaf(run), run("branch", "@")
    told = run("compact", "@", "--strategy", "from", "--at", "aaaa0008")
    assert told["branch"] != branches["branch"]
    assert told["onto"] == run("show", "@@aaaa0007")["id"]
    assert told["tokens_after"] < told["tokens_before"]
    run("undo")
    assert (leaf(run), run("branch", "@")) == (before, branches)


def test_a_program_that_appends_on_its_own_is_no_command_to_undo(run: Run) -> None:
    """A compaction by an agent at work must not fill the user's operation log."""
    operations = run("op", "log")["operations"]
    with Store.open() as store:
        session = store.session("@")
        assert session.compact(session.compaction.plan(request=CompactionRequest(keep_tokens=300)))
    assert run("op", "log")["operations"] == operations


def test_compact_without_effect_prints_the_reason_and_exits_with_1(run: Run) -> None:
    told = run("compact", "@", code=1)
    assert told["id"] is None
    assert "all entries would be kept" in told["stderr"]
    assert "--keep-tokens" in told["stderr"]


@pytest.mark.parametrize("profile", ["pi", "pi-0.73", "omp"])
def test_saved_tokens_are_printed_even_if_the_profile_trusts_an_older_count(here: Path, run: Run, profile: str) -> None:
    usage = {"input": 90_000, "output": 10, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 90_010}
    ids = [f"cccc000{n}" for n in range(10)]
    lines = [
        said(id, parent, LONG, role=("user", "assistant")[n % 2], at=n + 1, **({"usage": usage} if n % 2 else {}))
        for n, (id, parent) in enumerate(zip(ids, [None, *ids[:-1]], strict=True))
    ]
    (here / "counted.jsonl").write_bytes(pi_file(*lines, id="counted", cwd=str(here)))
    session = run("import", "counted.jsonl")["sessions"][0]["session"]
    told = run("compact", session, "--keep-tokens", "300", "--profile", profile)
    assert told["tokens_before"] > 90_000
    assert told["tokens_after"] < 2_000


def test_a_program_of_the_users_choice_summarises(run: Run) -> None:
    told = run("compact", "@", "--keep-tokens", "300", "--summarizer-command", SHORT)
    assert told["method"] == "pi/command"
    assert run("context", "@")["messages"][0]["summary"] == "all in short"


def test_strategy_and_summarizer_come_from_the_configuration(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = tmp_path / "configuration"
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    for name, value in (("summarizer", "command"), ("summarizerCommand", SHORT)):
        subprocess.run(["git", "config", "--file", configuration, f"gitsession.{name}", value], check=True)
    assert run("compact", "@", "--keep-tokens", "300")["method"] == "pi/command"


@pytest.mark.parametrize("words", ["false", "true", "no-such-program"], ids=["fails", "says nothing", "is not there"])
def test_useless_summarizer_program_leaves_no_entry(run: Run, words: str) -> None:
    before = leaf(run)
    complaint = run("compact", "@", "--keep-tokens", "300", "--summarizer-command", words, code=75)["stderr"]
    assert "nothing was written" in complaint
    assert "Errno" not in complaint
    assert leaf(run) == before
    assert run("compact", "@", "--keep-tokens", "300")["id"]


MISSING = {
    "no program": (["--summarizer", "command"], "--summarizer-command"),
    "no address": (["--summarizer", "http"], "--summarizer-url"),
    "no model": (["--summarizer-url", "http://127.0.0.1:1/v1"], "--model"),
}


@pytest.mark.parametrize(("words", "flag"), MISSING.values(), ids=MISSING)
def test_missing_summarizer_option_is_named_with_its_flag(run: Run, words: list[str], flag: str) -> None:
    assert flag in run("compact", "@", "--keep-tokens", "300", *words, code=75)["stderr"]


def test_invalid_command_line_is_a_usage_error(run: Run) -> None:
    assert (
        "No closing quotation"
        in run("compact", "@", "--keep-tokens", "3", "--summarizer-command", "a 'b", code=2)["stderr"]
    )


def test_an_unknown_summarizer_is_not_found(run: Run) -> None:
    assert "unknown summarizer" in run("compact", "@", "--keep-tokens", "3", "--summarizer", "x", code=3)["stderr"]


def test_up_to_an_entry_and_from_one(run: Run) -> None:
    told = run("compact", "@", "--strategy", "up-to", "--at", "aaaa0004")
    assert (told["summarized"], told["kept"]) == (4, 6)
    told = run("compact", "@", "--strategy", "from", "--at", "aaaa0008")
    kinds = [entry["kind"] for entry in run("log", "@")["entries"]]
    assert (told["summarized"], told["first_kept"]) == (3, None)  # the messages there, and the earlier summary
    assert kinds == ["branch_summary", *["message"] * 8, "session"]


@pytest.mark.parametrize("words", [["--strategy", "from"], ["--at", "leaf"]], ids=["no entry", "no use for one"])
def test_entry_option_requires_a_strategy_that_uses_it(run: Run, words: list[str]) -> None:
    assert "--at ENTRY" in run("compact", "@", *words, code=2)["stderr"]


def test_earlier_context_can_still_be_shown(run: Run) -> None:
    before = run("context", "@")["digest"]
    told = run("compact", "@", "--keep-tokens", "300")
    assert run("context", f"@@{told['id']}~1")["digest"] == before


def test_ctrl_c_leaves_nothing_behind(run: Run, here: Path) -> None:
    before = leaf(run)
    started = here / "started"
    words = f"sh -c 'cat > /dev/null; touch {started}; sleep 600'"
    command = [sys.executable, "-m", "gitsession", "compact", "@", "--keep-tokens", "300"]
    process = subprocess.Popen([*command, "--summarizer-command", words], stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(2400):
            if started.exists():
                break
            time.sleep(0.05)
        assert started.exists()
        os.kill(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=120)
        assert process.returncode == 130
        assert "interrupted (nothing was written)" in told
    finally:
        process.kill()
        process.wait()
    assert leaf(run) == before
    assert run("verify")["problems"] == []
    assert run("compact", "@", "--keep-tokens", "300")["id"]


def test_continued_agents_file_and_compaction_are_both_kept(run: Run, here: Path) -> None:
    """The agent's file does not contain the summary, so its new entries are imported as another branch."""
    told = run("compact", "@", "--keep-tokens", "300")
    with (here / "session.jsonl").open("ab") as file:
        file.write(said("bbbb0001", "aaaa0009", "and another thing", at=11) + b"\n")
    run("import", "session.jsonl")
    ids = {entry["id"] for entry in run("tree", "@")["entries"]}
    assert told["id"] in ids
    assert any(entry.get("source_id") == "bbbb0001" for entry in run("tree", "@")["entries"])
    assert run("verify")["problems"] == []
