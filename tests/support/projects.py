"""A repository of a project whose sessions are stored, as a user has it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


def git(place: Path, *words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=place, capture_output=True, check=True).stdout


def begin_project(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a repository in a folder, which may exist, and set the author of its commits."""
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "A")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@b")
    place.mkdir(exist_ok=True)
    git(place, "init", "-q", "-b", "main")
    return place
