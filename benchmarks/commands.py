"""Steps that run whole commands, as a shell does."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import Step
from gitsession.cli.invocation import hook_program

PROGRAM = Path(sys.executable).parent / "gitsession"

_PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""
"""A small program that runs a command. The peak of a process is never below the memory of the process that began it."""


def ours(store: Path, *words: str, **variables: str) -> Step:
    """Return a step that runs ``gitsession words...`` on a store."""
    return command_of(*program_words(), *words, GITSESSION_DIR=str(store), **variables)


def hook(store: Path, event: str, said: bytes) -> Step:
    """Return a step that runs ``gitsession hook`` as an agent does after `gitsession enable`.

    Args:
        store: Path of the store.
        event: Name of the event.
        said: Input of the hook.
    """
    program = hook_program(store)
    return command_of(*program, "hook", event, "--from", "claude", stdin=said)


def status_line(store: Path, **given: str) -> Step:
    """Return a step that runs ``gitsession status-line`` as Claude Code does, with the object ``given`` as input."""
    return command_of(*hook_program(store), "status-line", stdin=json.dumps(given).encode())


def program() -> str:
    """Return the command line with which a hook runs ``gitsession``."""
    return shlex.join(program_words())


def program_words() -> list[str]:
    return [str(PROGRAM)] if PROGRAM.exists() else [sys.executable, "-m", "gitsession"]


def git(store: Path, *words: str) -> Step:
    """Return a step that runs ``git words...`` in a store, without system and user configuration."""
    return command_of("git", f"--git-dir={store}", *words, GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1")


def command_of(*words: str, stdin: bytes = b"", **variables: str) -> Step:
    """Return a step that runs a command without a home folder and discards its output."""
    whole, nothing = environment(**variables), subprocess.DEVNULL
    return lambda _: subprocess.run(words, input=stdin, env=whole, check=True, stdout=nothing, stderr=nothing)


def peak(store: Path, *words: str) -> int:
    """Run ``gitsession words...`` and return the peak resident memory of its largest process in bytes."""
    command = [sys.executable, "-c", _PEAK, *program_words(), *words]
    whole = environment(GITSESSION_DIR=str(store))
    return int(subprocess.run(command, env=whole, stdout=subprocess.PIPE, check=True).stdout)


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of a command. Modules may be stored compiled, as those of an installed package are."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "HOME": "/nonexistent", **variables}
