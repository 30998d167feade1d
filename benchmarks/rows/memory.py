"""Compare the peak memory of a command with the size of its input, or with that in a smaller store.

An import of one large session file is compared with the size of the file. The bar is 600 MB for 1,000
MB. A file of 64 MiB or more is read in parts (decision 0040). Lines have 11 KB, and each needs about 1
KB of memory.

The commands on many sessions are compared with the same command on a tenth of the sessions. The
longest session is as long in both stores. It bounds the memory, and not the store (bar 1.5). An index
of ids may grow: the table shows the additional memory by session. A figure is that of the largest
process of the command, including the interpreter and git. The sessions are those of the row *Scale*,
for the import files of pi with 20 lines, one of them with 2,000.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping

from benchmarks import commands
from benchmarks.agent_files import large
from benchmarks.data import made_file
from benchmarks.figures import Line, Spread, Table
from benchmarks.workshop import Workshop
from gitsession import Store

TITLE = "Memory"

BAR, FLAT = 0.6, 1.5


def measure(shop: Workshop) -> Iterator[Line | Table]:
    bar = BAR if shop.size == "full" else None
    for agent in ("claude", "codex"):
        folder = shop.folder()
        file = large(agent, folder, shop.pick(100_000, 100_000_000, 1_000_000_000))
        size = file.path.stat().st_size
        what = f"{agent}, {size / 1e6:,.0f} MB: memory of its import"
        yield _line(
            what, "the size of the file", bar, commands.peak(folder / "store.git", "import", str(file.path)), size
        )
        file.path.unlink()
    yield from _of_many_sessions(shop)


def _of_many_sessions(shop: Workshop) -> Iterator[Line | Table]:
    many = shop.pick(10, 1_000, 10_000)
    few = many // 10
    rows = []
    for what, run in _COMMANDS.items():
        ours, theirs = (run(shop, sessions) for sessions in (many, few))
        yield _line(f"{what} of {many:,} sessions: memory", f"{few:,} sessions", FLAT, ours, theirs)
        rows.append([what, f"{theirs / 1e6:.0f} MB", f"{ours / 1e6:.0f} MB", f"{(ours - theirs) / (many - few):,.0f}"])
    head = ["command", f"{few:,} sessions", f"{many:,} sessions", "bytes by additional session"]
    yield Table("Peak memory of one process", head, rows)


def _import(shop: Workshop, sessions: int) -> int:
    folder = shop.folder()
    (folder / "files").mkdir()
    for number in range(sessions):
        longest = shop.pick(20, 2_000, 2_000)
        (folder / f"files/{number}.jsonl").write_bytes(made_file(number, 20 if number else longest))
    return commands.peak(folder / "store.git", "import", str(folder / "files"))


def _verify(shop: Workshop, sessions: int) -> int:
    return commands.peak(shop.realistic(sessions), "verify")


def _clone(shop: Workshop, sessions: int) -> int:
    folder = shop.folder()
    return commands.peak(folder, "clone", str(shop.realistic(sessions)), str(folder / "store.git"))


def _push(shop: Workshop, sessions: int) -> int:
    path, hub = shop.copy(shop.realistic(sessions)), shop.folder() / "hub.git"
    subprocess.run(["git", "init", "-q", "--bare", str(hub)], check=True)
    with Store.open(path) as store:
        store.remotes.add("origin", str(hub))
    return commands.peak(path, "push", "--yes")


_COMMANDS: Mapping[str, Callable[[Workshop, int], int]] = {
    "import": _import,
    "verify": _verify,
    "clone": _clone,
    "first push": _push,
}


def _line(what: str, peer: str, bar: float | None, ours: int, theirs: int) -> Line:
    return Line(what, peer, bar, Spread.of([ours / theirs]), ours, theirs, "bytes")
