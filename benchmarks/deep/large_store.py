"""Time, processor time and memory of commands in one very large store.

`python -m benchmarks.deep.large_store FOLDER --sessions 100000 --longest 4000` generates a store of that size below
``FOLDER`` and runs each command there. The row *Scale* (``benchmarks/rows/scale.py``) compares two sizes and repeats
each operation; this script reaches sizes at which that takes days. Each result is appended to ``FOLDER/results.md`` at
once, as a row of a Markdown table. A second run continues with the store that it finds. With ``--no-consolidate``, git
sends the packs without a search for deltas, as it does with consolidated ones. With ``--hub-from-copy``, the hub is a
mirror of the store made by git, and the first sync finds all refs there. The distributions of
``benchmarks/realistic.py`` give about 112 entries per session, with ``--longest 8`` 12 entries.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import commands, realistic
from benchmarks.rows.scale import KEPT, NEEDLE
from benchmarks.words import quantity
from gitsession import Message, Store
from gitsession.index import catalogue, search

REPEATED = 3
HEAD = "| operation | wall | processor | peak memory |\n|---|---|---|---|\n"
KEPT_DAYS = 14
"""Days at the end of the generated year whose sessions the archiving by age keeps."""


class Usage(NamedTuple):
    """The resources that a process and its own children used: seconds and bytes."""

    wall: float
    processor: float
    peak: int


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deep.large_store")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--longest", type=int, default=4_000, help="most entries on the branch main of a session")
    parser.add_argument("--no-consolidate", dest="consolidate", action="store_false", help="leave the packs as written")
    parser.add_argument("--hub-from-copy", action="store_true", help="let git copy the store to the hub")
    parser.add_argument("--only", action="append", default=[], help="run only operations whose name contains this text")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        STEPS[given.step](given.folder, given.sessions, given.longest, given.consolidate)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    with open(given.folder / "results.md", "a") as page:
        page.write(HEAD)
        for what, times, words, variables in _operations(given):
            if any(text in what for text in given.only or [""]):
                for _ in range(times):
                    page.write(_row(what, used(words, variables)))
                    page.flush()
        page.writelines(_disk(given.folder / "store.git"))


def _operations(given: argparse.Namespace) -> Iterator[tuple[str, int, Sequence[str], dict[str, str]]]:
    """Yield each operation: its name, the number of runs, its command, and environment variables."""
    folder = given.folder
    store, hub = folder / "store.git", folder / "hub.git"
    program = str(commands.PROGRAM)
    at_store = {"GITSESSION_DIR": str(store)}

    def step(name: str) -> list[str]:
        return [
            sys.executable, "-m", "benchmarks.deep.large_store", str(folder), "--step", name,
            "--sessions", str(given.sessions), "--longest", str(given.longest),
            *([] if given.consolidate else ["--no-consolidate"]),
        ]  # fmt: skip

    def ours(what: str, *words: str, times: int = 1) -> tuple[str, int, Sequence[str], dict[str, str]]:
        return what, times, [program, *words], at_store

    if not store.exists():
        yield "generate", 1, step("generate"), {}
    if given.hub_from_copy and not hub.exists():
        yield "copy the store to the hub", 1, ["git", "clone", "--quiet", "--mirror", str(store), str(hub)], {}
    elif not hub.exists():
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(hub)], check=True)
    yield ours("first ls -n 10", "ls", "-n", "10")
    yield ours("ls -n 10 before the first ls", "ls", "-n", "10", times=REPEATED)
    yield ours("first ls", "ls")
    yield ours("ls", "ls", times=REPEATED)
    yield ours("ls -n 10", "ls", "-n", "10", times=REPEATED)
    if (store / catalogue.FILE).exists():  # it does not if only the store is generated
        newest = _newest(store)
        for name in ("show", "log", "context"):
            yield ours(name, name, newest, times=REPEATED)
    yield "open, append, close", REPEATED, step("append"), {}
    yield ours("ls -n 10 after an append", "ls", "-n", "10")
    yield "append, flush", REPEATED, step("flush"), {}
    yield ours("ls -n 10 after a flush", "ls", "-n", "10")
    yield ours("ls -n 10", "ls", "-n", "10")
    yield ours("first search", "search", NEEDLE)
    yield ours("search of a rare word", "search", NEEDLE, times=REPEATED)
    yield ours("remote add", "remote", "add", "origin", str(hub))
    if not given.consolidate:  # git would search for deltas in each pack that it sends
        for repository in (store, hub):
            yield "no deltas", 1, ["git", f"--git-dir={repository}", "config", "pack.window", "0"], {}
    yield ours("first sync", "sync", "--yes")
    yield ours("sync with nothing new", "sync", times=REPEATED)
    yield "append, push", REPEATED, step("push"), {}
    yield ours("maintain with nothing new", "maintain", times=REPEATED)
    yield "append, maintain", REPEATED, step("maintain"), {}
    yield ours("clone", "clone", str(hub), str(folder / "clone.git"))
    yield "remove", 1, ["rm", "-rf", str(folder / "clone.git")], {}
    last_day_s = realistic.FIRST_DAY_S + 86_400 * (realistic.DAYS - KEPT_DAYS)
    age = f"{int((time.time() - last_day_s) / 86_400)}d"
    yield "archive after", 1, ["git", f"--git-dir={store}", "config", "gitsession.archiveAfter", age], {}
    yield ours("archive by age", "maintain")
    yield ours("archived: ls", "ls", times=REPEATED)
    yield ours(f"archive all except {KEPT}", "archive", "--keep", str(KEPT))
    yield ours("archived: sync of the archive", "sync")
    yield ours("archived: sync with nothing new", "sync", times=REPEATED)
    yield "archived: append, push", REPEATED, step("push"), {}
    yield ours("archived: ls", "ls", times=REPEATED)
    yield "archived: open, append, close", REPEATED, step("append"), {}
    yield ours("archived: maintain with nothing new", "maintain", times=REPEATED)
    yield ours("archived: clone", "clone", str(hub), str(folder / "clone.git"))
    yield "remove", 1, ["rm", "-rf", str(folder / "clone.git")], {}


def _newest(store: Path) -> str:
    """Return the id of the newest session. Another process finds it, so that this one stays small."""
    words = [str(commands.PROGRAM), "ls", "-n", "1", "--json"]
    listed = subprocess.run(words, env=commands.environment(GITSESSION_DIR=str(store)), check=True, capture_output=True)
    return str(json.loads(listed.stdout)["sessions"][0]["session"])


def used(words: Sequence[str], variables: dict[str, str]) -> Usage:
    """Run a command without output. This process stays small, because a peak includes the memory of the parent."""
    start = time.perf_counter()
    with open(os.devnull, "w") as nowhere:
        child = subprocess.Popen(words, env=commands.environment(**variables), stdin=nowhere, stdout=nowhere)
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        print(f"{' '.join(words)}: exit code {child.returncode}", file=sys.stderr)
    return Usage(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def _row(what: str, usage: Usage) -> str:
    figures = [quantity(usage.wall, "s"), quantity(usage.processor, "s"), quantity(usage.peak, "bytes")]
    return f"| {what} | {' | '.join(figures)} |\n"


def _disk(store: Path) -> Iterator[str]:
    for what, files in {
        "packs": (store / "objects/pack").iterdir(),
        "catalog": store.glob(f"{catalogue.FILE}*"),
        "search index": store.glob(f"{search.FILE}*"),
        "refs": [store / "packed-refs"],
    }.items():
        size = sum(file.stat().st_size for file in files)
        yield f"| disk: {what} | | | {quantity(size, 'bytes')} |\n"


def _append(folder: Path, *_: object) -> None:
    with Store.open(folder / "store.git", flush_on_close=False) as store:
        store.session(store.sessions(1)[0].sid).append(Message.user(f"one more {NEEDLE}, {time.time()}"))


def _flush(folder: Path, *_: object) -> None:
    _append(folder)
    with Store.open(folder / "store.git") as store:
        store.flush()


def _push(folder: Path, *_: object) -> None:
    _append(folder)
    with Store.open(folder / "store.git") as store:
        store.remotes.push()


def _maintain(folder: Path, *_: object) -> None:
    _append(folder)
    with Store.open(folder / "store.git") as store:
        store.maintain()


def _generate(folder: Path, sessions: int, longest: int, consolidate: bool) -> None:
    realistic.fill(folder / "store.git", sessions, longest=longest, consolidate=consolidate)


STEPS: Mapping[str, Callable[[Path, int, int, bool], None]] = {
    "generate": _generate, "append": _append, "flush": _flush, "push": _push, "maintain": _maintain
}  # fmt: skip

if __name__ == "__main__":
    main()
