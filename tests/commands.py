"""The command line in this process, as a user meets it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gitsession.cli import app as command_line

Run = Callable[..., str]


class Ended(AssertionError):
    """A command ended with another code than was expected."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(here: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """``run("ls", "--json")``: standard output. ``code``: what it must end with; ``err``: standard error instead."""

    def run(*words: str, code: int = 0, err: bool = False) -> str:
        capfdbinary.readouterr()
        ended = command_line.run(words)
        out, complaint = capfdbinary.readouterr()
        if ended != code:
            raise Ended(f"{words} ended with {ended}, expected {code}: {complaint.decode()}")
        return (complaint if err else out).decode()

    return run
