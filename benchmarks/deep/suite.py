"""Tests at the deep figures of tests/support/figures.py: races, random commands, mutants of bytes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.deep import Fault

PROMISES = ("P13", "P14", "P15", "P16", "P17", "P18", "P19", "P20", "P25", "P30")

FILES = (
    "store/test_concurrent_writers.py",
    "store/test_concurrent_creation.py",
    "store/test_git_housekeeping.py",
    "git/test_hostile_bytes.py",
    "sessions/test_state_machine.py",
)

_TESTS = Path(__file__).resolve().parents[2] / "tests"
_ROW = re.compile(r"^P\d+ +\d+ +(\d+) +(\d+) ", re.MULTILINE)


def faults(seed: int) -> Iterator[Fault]:
    """Repeat each file of tests without end, each time with another seed."""
    while True:
        for name in FILES:
            yield partial(_run, name, seed)
            seed += 1


def _run(name: str, seed: int) -> int:
    environment = {**os.environ, "GITSESSION_DEEP": "1", "GITSESSION_FUZZ_SEED": str(seed)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "timeout=3600"]
    command.append(str(_TESTS / name))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=_TESTS.parent)
    if done.returncode:
        raise AssertionError(done.stdout[-3000:])
    return max((int(injected) for injected, _ in _ROW.findall(done.stdout)), default=1)
