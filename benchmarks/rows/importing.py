"""Import session files into a new store, then again unchanged, then with one file ten lines longer.

The peer is the least work of a program that keeps the files: ``json.loads`` of every line and
``zlib`` of its bytes.

*Nothing new in 1,000 files*: the search of ``gitsession import --all`` for files that have changed
since their import. Its peer walks the same folder and calls ``os.stat`` for each file. It is
measured in a process that has the store open, and as a command, whose peer is a Python program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from blake3 import blake3

from benchmarks.data import grown, long_file, made_file
from benchmarks.figures import Line
from benchmarks.measure import Duel, duel, seconds
from benchmarks.workshop import Workshop, bring_all
from gitsession import Store
from gitsession.api.imports import Imports
from gitsession.discovery import discover
from gitsession.formats import FORMATS

TITLE = "Import"

BAR, AGAIN_BAR, ONE_BAR = 3.0, 1.2, 4.0
PEER, WALK = "json.loads and zlib of every line", "a walk, and os.stat of each file"
READER = "a read and blake3 of the file; json.loads, zlib and a durable append of the record"


def measure(shop: Workshop) -> Iterator[Line]:
    taken = shop.files()
    first, again, ten = Duel(), Duel(), Duel()
    longest = max((path for path in taken if path.parent.name != "omp"), key=lambda path: len(taken[path]))
    for _ in range(shop.pick(1, shop.runs, max(shop.runs, 5))):
        with Store.create(shop.folder() / "store.git") as store:
            theirs = seconds(lambda _: _read(taken))
            first.add([seconds(lambda _, store=store: bring_all(store, taken))], [theirs])
            again.add([seconds(lambda _, store=store: bring_all(store, taken))], [theirs])
            one = {longest: grown(taken[longest], 10)}
            theirs = seconds(lambda _, one=one: _read(one))
            ten.add([seconds(lambda _, store=store, one=one: bring_all(store, one))], [theirs])
    size = sum(map(len, taken.values())) / 1e6
    yield first.line(f"import of {len(taken)} files, {size:.0f} MB", PEER, BAR)
    yield again.line(f"import of {len(taken)} files again, nothing new", PEER)
    yield ten.line(f"import of a file of {len(taken[longest]) / 1e6:.1f} MB, ten lines longer", PEER)
    for agent in ("pi", "claude", "codex"):
        yield _one_more(shop, agent)
    yield from _unchanged(shop)


def _one_more(shop: Workshop, agent: str) -> Line:
    """Measure imports, as hooks make them after a turn, of a file that has grown by one record.

    The peer reads and hashes the file, parses and compresses the record, and appends it to another file. The append is
    durable, as that of the import, because otherwise the ratio would depend on the disk.
    """
    rounds = shop.pick(1, 20, 20)
    name, data = long_file(agent, shop.pick(20, 1500, 1500))
    lines = data.splitlines(keepends=True)
    found = Duel()
    for _ in range(shop.pick(1, shop.runs, shop.runs)):
        folder = shop.folder()
        path = folder / name
        path.write_bytes(b"".join(lines[:-rounds]))
        with Store.create(folder / "store.git") as store, open(folder / "kept", "wb") as kept:
            _import_one(store, path, agent)
            mine, theirs = [], []
            for line in lines[-rounds:]:
                with open(path, "ab") as file:
                    file.write(line)
                mine.append(seconds(lambda _, store=store, path=path: _import_one(store, path, agent)))
                theirs.append(seconds(lambda _, path=path, line=line, kept=kept: _keep(path, line, kept)))
            found.add(mine, theirs)
    size = len(data) / 1e6
    return found.line(f"one record more in a file of {agent}, {size:.1f} MB", READER, ONE_BAR)


def _import_one(store: Store, path: Path, agent: str) -> None:
    """Import a file as ``gitsession drain`` does."""
    work = Imports(store.agents, logged=False, histories=False)
    work.take(path, FORMATS[agent])
    work.finish()
    assert not work.failed


def _keep(path: Path, line: bytes, kept: BinaryIO) -> None:
    blake3(path.read_bytes()).digest()
    json.loads(line)
    kept.write(zlib.compress(line))
    kept.flush()
    os.fdatasync(kept.fileno())


def _unchanged(shop: Workshop) -> Iterator[Line]:
    count, home, store_path = shop.pick(3, 1000, 1000), shop.folder(), shop.folder() / "store.git"
    for number in range(count):
        path = home / f".pi/agent/sessions/--work-{number % 20}--/{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made_file(number, 2))
    with Store.create(store_path) as store:
        _import_all(store, home)
    time.sleep(shop.pick(0, 3, 3))  # for three seconds after a change, the catalog also compares all refs
    what = f"nothing new in {count:,} files"
    with Store.open(store_path) as store:
        assert _import_all(store, home) == count
        found = duel(lambda _: _import_all(store, home), lambda _: _walk(home), runs=shop.runs, rounds=5)
        yield found.line(what, WALK, AGAIN_BAR)
    command = [sys.executable, "-m", "gitsession", "--store", store_path, "import", "--all"]
    walk = [sys.executable, "-c", f"import os\nfor at, _, names in os.walk({os.fspath(home)!r}):\n"
            "    for name in names:\n        os.stat(os.path.join(at, name))"]  # fmt: skip
    place = os.environ | {"HOME": os.fspath(home)}
    ours, theirs = (
        lambda _, arguments=arguments: subprocess.run(arguments, env=place, cwd=home, check=True, capture_output=True)
        for arguments in (command, walk)
    )
    yield duel(ours, theirs, runs=shop.runs, rounds=3).line(f"gitsession import --all, {what}", WALK)


def _import_all(store: Store, home: Path) -> int:
    """Import all sessions below ``home``, as ``gitsession import --all`` does; return the number of unchanged files."""
    work = Imports(store.agents)
    for path, format in work.skip_unchanged(discover.find_paths(home, {}, unreadable=True)):
        work.take(path, format)
    work.finish()
    return work.unchanged


def _walk(home: Path) -> None:
    for folder, _, names in os.walk(home):
        for name in names:
            os.stat(os.path.join(folder, name))


def _read(taken: dict[Path, bytes]) -> None:
    for data in taken.values():
        for line in data.split(b"\n"):
            if line:
                json.loads(line)
                zlib.compress(line)
