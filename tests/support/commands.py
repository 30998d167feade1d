"""Test helpers that run commands in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gitsession.cli import app as command_line

Run = Callable[..., str]


class Ended(AssertionError):
    """A command exited with an unexpected status."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty working directory."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(here: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Return a function that runs a command, such as ``run("ls", "--json")``, and returns its standard output.

    Args:
        code: Expected exit status.
        err: Return standard error instead.
    """

    def run(*words: str, code: int = 0, err: bool = False) -> str:
        capfdbinary.readouterr()
        ended = command_line.run(words)
        out, complaint = capfdbinary.readouterr()
        if ended != code:
            raise Ended(f"{words} ended with {ended}, expected {code}: {complaint.decode()}")
        return (complaint if err else out).decode()

    return run


def document(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    assert found["schema"].startswith("gitsession/")
    return found
