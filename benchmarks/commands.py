"""Whole commands as a shell runs them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import Step

PROGRAM = Path(sys.executable).parent / "gitsession"


def ours(store: Path, *words: str) -> Step:
    """``gitsession words...`` on a store."""
    return command_of(*_program(), *words, GITSESSION_DIR=str(store))


def hook(store: Path, event: str, said: bytes) -> Step:
    """``gitsession hook`` as `gitsession enable` has an agent run it, which says ``said``."""
    return command_of(*_program(), "--store", str(store), "hook", event, "--from", "claude", stdin=said)


def program() -> str:
    """How a hook runs ``gitsession``."""
    return shlex.join(_program())


def _program() -> list[str]:
    return [str(PROGRAM)] if PROGRAM.exists() else [sys.executable, "-m", "gitsession"]


def git(store: Path, *words: str) -> Step:
    """``git words...`` in a store, without anybody's configuration."""
    return command_of("git", f"--git-dir={store}", *words, GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1")


def command_of(*words: str, stdin: bytes = b"", **environment: str) -> Step:
    """A command whose output nobody reads, with no home."""
    whole = {**os.environ, "HOME": "/nonexistent", **environment}
    nothing = subprocess.DEVNULL
    return lambda _: subprocess.run(words, input=stdin, env=whole, check=True, stdout=nothing, stderr=nothing)
