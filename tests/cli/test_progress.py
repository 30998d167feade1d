"""Tests of progress messages: they are printed at intervals, and only on a terminal."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from builders import begun
from pushed import bare

from gitsession import progress
from gitsession.cli import app as command_line
from gitsession.cli import output
from gitsession.store import create
from gitsession.store.git_store import GitStore


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Replace standard error with a terminal. This is not a fixture, because pytest replaces it before each test."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    return made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the clock with a list whose number the test sets, in seconds."""
    now = [0.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_DELAY_SECONDS", 0)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    create.create(tmp_path / "store.git")
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    with GitStore.open(tmp_path / "store.git") as made:
        begun(made, "hi", "unusual words")
        made.flush()
        yield made


def test_progress_is_limited_to_ten_lines_a_second(monkeypatch, clock) -> None:
    seen = terminal(monkeypatch)
    with output.progress():
        for _ in progress.each("Counting", range(200)):
            clock[0] += 0.01
    assert seen.getvalue().count("\r") == 15
    assert seen.getvalue().startswith("Counting:  25%\r")
    assert seen.getvalue().endswith("Counting: 100%, done.\n")


def test_quick_work_prints_no_progress(monkeypatch, clock) -> None:
    seen = terminal(monkeypatch)
    with output.progress():
        assert list(progress.each("Counting", range(200))) == list(range(200))
        assert list(progress.each("Counting", [])) == []
    assert seen.getvalue() == ""


def test_interrupted_progress_ends_its_line(monkeypatch, at_once) -> None:
    seen = terminal(monkeypatch)
    with pytest.raises(OSError, match="no more"), output.progress():
        for _ in progress.each("Counting", range(200)):
            raise OSError("no more")
    assert seen.getvalue() == "Counting:   0%\r\n"
    list(progress.each("Counting", range(200)))
    assert seen.getvalue() == "Counting:   0%\r\n"


COMMANDS = {
    "verify": (["verify"], "Checking entries"),
    "purge": (["purge", "--match", "unusual words", "--yes"], "Searching sessions"),
    "push": (["push"], "Scanning for secrets"),
    "clone": (["clone", "hub.git", "clone.git"], "Validating entries"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_progress_is_printed_only_on_a_terminal(store, name, at_once, tmp_path, monkeypatch) -> None:
    words, says = COMMANDS[name]
    monkeypatch.chdir(tmp_path)
    hub = bare(tmp_path / "hub.git")
    assert command_line.run(["remote", "add", "origin", str(hub), "--all"]) == 0
    if name == "clone":
        assert command_line.run(["push"]) == 0
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    piped = {"purge": ["--dry-run"], "push": ["--help"], "clone": ["--help"]}.get(name, [])
    assert command_line.run([*words, *piped]) == 0
    assert says not in sys.stderr.getvalue()
    seen = terminal(monkeypatch)
    assert command_line.run([*words, *piped, "--json"]) == 0
    assert says not in seen.getvalue()
    assert command_line.run(words) == 0
    assert f"{says}:   0%\r" in seen.getvalue()


@pytest.mark.parametrize(("words", "says"), [(["ls"], "Reading sessions"), (["search", "hi"], "Indexing sessions")])
def test_first_reader_of_many_sessions_reports_progress(store, at_once, monkeypatch, words, says) -> None:
    seen = terminal(monkeypatch)
    assert command_line.run(words) == 0
    assert f"{says}:   0%\r" in seen.getvalue()


def test_each_operation_has_its_own_delay(monkeypatch, clock) -> None:
    seen = terminal(monkeypatch)
    with output.progress():
        clock[0] += 60
        for _ in progress.each("Counting", range(2)):
            clock[0] += 0.2
    assert seen.getvalue() == ""
