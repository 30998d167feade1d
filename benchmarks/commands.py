"""Whole commands as a shell runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import Step

PROGRAM = Path(sys.executable).parent / "gitsession"


def ours(store: Path, *words: str) -> Step:
    """``gitsession words...`` on a store."""
    command = [str(PROGRAM)] if PROGRAM.exists() else [sys.executable, "-m", "gitsession"]
    return command_of(*command, *words, GITSESSION_DIR=str(store))


def git(store: Path, *words: str) -> Step:
    """``git words...`` in a store, without anybody's configuration."""
    return command_of("git", f"--git-dir={store}", *words, GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1")


def command_of(*words: str, **environment: str) -> Step:
    """A command whose output nobody reads, run in a folder where nothing is."""
    whole = {**os.environ, "HOME": "/nonexistent", **environment}
    return lambda _: subprocess.run(words, env=whole, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
