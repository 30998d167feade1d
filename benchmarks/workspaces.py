"""A git repository as a workspace, with files as large as typical source files."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import Step, seconds


class Work:
    """A user's repository with ``count`` committed files."""

    def __init__(self, path: Path, count: int) -> None:
        self.path = path
        self._chance = random.Random(count)
        letters = bytes(self._chance.choices(b"abcdefghijklmnopqrstuvwxyz     ()=:.\n", k=200_000))
        self._files = []
        for number in range(count):
            file = path / f"part{number % 40:02}/module{number // 40 % 50:02}/sub{number // 2000 % 5}/file{number}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            size, at = min(int(self._chance.lognormvariate(8, 1.2)), 150_000), self._chance.randrange(50_000)
            file.write_bytes(b"%d\n" % number + letters[at : at + size])
            self._files.append(file)
        (path / ".gitignore").write_text("node_modules/\n*.pyc\nbuild/\n")
        git(path, "init", "-q")
        git(path, "add", "--all")
        git(path, "commit", "-qm", "begin")

    def status(self, _: int = 0) -> None:
        git(self.path, "status", "--porcelain")

    def read(self) -> None:
        """Read all files, so that both sides find them in the page cache."""
        for file in self._files:
            file.read_bytes()

    def edit(self, count: int) -> list[Path]:
        """Add a line to ``count`` files, and return the files."""
        chosen = self._chance.sample(self._files, min(count, len(self._files)))
        for file in chosen:
            with file.open("ab") as opened:
                opened.write(b"# %d\n" % self._chance.randrange(10**9))
        return chosen


def in_turn(
    rounds: int, ours: Step, theirs: Step, *, before: Callable[[], object] = lambda: None
) -> tuple[list[float], list[float]]:
    """Measure like ``measure.in_turn``, and call ``before`` before each round."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        before()
        sides = [(ours, times[0]), (theirs, times[1])]
        for step, took in sides if number % 2 else reversed(sides):
            took.append(seconds(step))
    return times[0][1:], times[1][1:]


def git(at: Path, *words: str) -> None:
    passed = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"}
    passed |= {f"GIT_{who}_{what}": "b@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["git", *words], cwd=at, env=passed, check=True, stdout=subprocess.DEVNULL)
