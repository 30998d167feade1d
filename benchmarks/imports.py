"""The modules that a command imports, with the time of each, as ``python -X importtime`` reports them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.commands import environment

PYTHON, GITSESSION, REST = "the start of Python", "gitsession", "other standard library"
_PACKAGES = ("click", "sqlite3", "json", "cbor2", "blake3", "pygit2")
GROUPS = (PYTHON, *_PACKAGES, REST, GITSESSION)


def times(store: Path, words: Sequence[str], *, runs: int) -> Mapping[str, tuple[int, int]]:
    """Return the number of modules and their time in us by group, for one command.

    The time of a module is the shortest of several runs. A module of the standard library belongs to the package that
    imports it first, so ``click`` includes ``uuid``.
    """
    base = {name for name, _, _ in _imported("-c", "pass")}
    best: dict[str, tuple[int, str]] = {}
    for _ in range(runs):
        for name, time_us, importers in _imported("-m", "gitsession", *words, GITSESSION_DIR=str(store)):
            group = PYTHON if name in base else _group(name, importers)
            best[name] = min(best.get(name, (time_us, group)), (time_us, group))
    found = {group: [time_us for time_us, its in best.values() if its == group] for group in GROUPS}
    return {group: (len(all_us), sum(all_us)) for group, all_us in found.items()}


def _group(name: str, importers: Sequence[str]) -> str:
    owners = [each.partition(".")[0] for each in (name, *importers)]
    if owners[0] == GITSESSION:
        return GITSESSION
    return next((owner for owner in owners if owner in _PACKAGES), REST)


def _imported(*words: str, **variables: str) -> Iterator[tuple[str, int, list[str]]]:
    """Yield each module with its own time in us, and the modules that were importing it, the nearest first."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        check=True,
        env=environment(**variables),
    )
    lines = [line.removeprefix("import time:").split("|") for line in done.stderr.splitlines() if "|" in line]
    importers: list[str] = []
    for own_us, _, name in reversed(lines[1:]):  # an importer is printed after the modules that it imports
        level = (len(name) - len(name.lstrip()) - 1) // 2
        del importers[level:]
        yield name.strip(), int(own_us), importers[::-1]
        importers.append(name.strip())
