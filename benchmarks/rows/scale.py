"""Compare the cost of an operation in a store of many sessions with that in a store of a tenth of them.

Both stores are generated with the distributions of real session files (``benchmarks/realistic.py``):
many short sessions, some of a thousand entries, branches, titles, several agents and projects. Both
sides are gitsession. Each operation has a *growth*, from which its bar follows:

- *constant*: the sessions that are there do not matter (bar 1.5)
- *with the new*: the cost depends on what is new, here the same in both stores (bar 1.5)
- *with the sessions*: ten times as many may cost twelve times as much (bar 12)

*Archived*: all sessions except the newest 50 are in the archive, on the server too. A sync or a push
lists the server's refs, so without an archive its cost grows with the sessions. *First* operations
build the catalog, the search index, or the copy on the server. Commands include the start of Python.
`python -m benchmarks --only scale --sessions 100000` compares 100,000 sessions with 10,000, and
`python -m benchmarks.deep.large_store` measures one store of that size.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import NamedTuple

from benchmarks import commands
from benchmarks.figures import Line, Spread, Table
from benchmarks.measure import Step, duel
from benchmarks.words import quantity, times
from benchmarks.workshop import Workshop
from gitsession import Message, Store
from gitsession.index import catalogue, search

TITLE = "Scale"

CONSTANT, NEW, SESSIONS = "constant", "with the new", "with the sessions"
FLAT, LINEAR = 1.5, 1.2
KEPT = 50
SESSION_ENTRIES = 20
NEEDLE = "quodlibetical"
_numbers = count()


class Case(NamedTuple):
    """One operation: its growth, a function that prepares it in a store, and whether it is measured only once."""

    growth: str
    prepare: Callable[[Grown], Step]
    once: bool = False


def measure(shop: Workshop) -> Iterator[Line | Table]:
    many = shop.sessions or shop.pick(10, 1_000, 10_000)
    few = max(many // 10, 1)
    factor, sizes = many / few, [f"{number:,} sessions" for number in (many, few)]
    found: list[tuple[str, Line]] = []
    with ExitStack() as stack:
        both = [stack.enter_context(Grown(shop, number)) for number in (many, few)]
        for line in compared(shop, both, CASES, sizes, factor):
            found.append(line)
            yield line[1]
        for what, measured in DISK.items():
            ours, theirs = (measured(grown) / grown.entries() for grown in both)
            ratio = Spread.of([ours / theirs])
            found.append((CONSTANT, Line(f"{what}, {sizes[0]}", sizes[1], FLAT, ratio, ours, theirs, "bytes")))
            yield found[-1][1]
        for grown in both:
            grown.archive_old()
        for line in compared(shop, both, ARCHIVED, sizes, factor):
            found.append(line)
            yield line[1]
    yield growth_table(found, sizes, factor)


def compared(
    shop: Workshop, both: Sequence[Grown], cases: Mapping[str, Case], sizes: Sequence[str], factor: float
) -> Iterator[tuple[str, Line]]:
    """Measure each operation in the large and the small store; yield its claimed growth and the comparison."""
    for what, case in cases.items():
        large, small = (case.prepare(grown) for grown in both)
        rounds, runs = (1, 1) if case.once else (shop.pick(1, 5, 9), shop.runs)
        found = duel(large, small, runs=runs, rounds=rounds, warm_up=int(not case.once))
        yield case.growth, found.line(f"{what}, {sizes[0]}", sizes[1], _bar(case.growth, factor))


def _bar(growth: str, factor: float) -> float:
    return LINEAR * factor if growth == SESSIONS else FLAT


def growth_table(found: Iterable[tuple[str, Line]], sizes: Sequence[str], factor: float) -> Table:
    """Return a table of comparisons, each with its claimed growth. ``sizes``: the names of both stores."""
    rows = [_row(growth, line, factor) for growth, line in found]
    return Table("Growth", ["operation", "claimed", *sizes[::-1], "ratio", "measured"], rows)


def _row(growth: str, line: Line, factor: float) -> list[str]:
    assert line.ratio is not None
    figures = [quantity(value, line.unit) for value in (line.theirs, line.ours)]
    return [line.what.rpartition(", ")[0], growth, *figures, times(line.ratio.median), _growth(line, factor)]


def _growth(line: Line, factor: float) -> str:
    """Return the growth of a measured ratio: the smallest class whose bar it holds."""
    assert line.ratio is not None
    for growth in (CONSTANT, SESSIONS):
        if line.ratio.median <= _bar(growth, factor):
            return growth
    return "faster than the sessions"


class Grown:
    """A store of a number of realistic sessions, open, and a server that has them after ``first sync``."""

    def __init__(self, shop: Workshop, sessions: int) -> None:
        self._shop = shop
        self.path = shop.copy(shop.realistic(sessions))
        self.hub = _hub(shop)
        self.store = Store.open(self.path)
        self.store.remotes.add("origin", str(self.hub))

    def __enter__(self) -> Grown:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()
        shutil.rmtree(self.path)

    def entries(self) -> int:
        return sum(row.entries for row in self.store.sessions())

    @cached_property
    def newest(self) -> str:
        """The id of a new session. It is as long in both stores, because git reads its history to pack new entries."""
        return self.begin(SESSION_ENTRIES)

    def begin(self, entries: int) -> str:
        """Begin a session with a number of messages; return its id."""
        session = self.store.new_session(agent="bench", cwd="/home/dev/bench")
        for number in range(entries):
            session.append(Message.user(f"message {number}"))
        return session.id

    def append(self, text: str = "") -> None:
        """Append one entry to the newest session."""
        self.store.session(self.newest).append(Message.user(text or f"one more, {next(_numbers)}"))

    def command(self, *words: str) -> Step:
        return commands.ours(self.path, *words)

    def archive_old(self) -> None:
        """Archive all sessions except the newest, on a new server too."""
        sids = [row.sid for row in self.store.sessions()[min(KEPT, self._shop.pick(1, KEPT, KEPT)) :]]
        self.store.remotes.remove("origin")
        self.hub = _hub(self._shop)
        if sids:
            self.store.archive.put(*sids)
        self.store.remotes.add("origin", str(self.hub))
        self.store.remotes.sync()
        self.store.maintain()


def _hub(shop: Workshop) -> Path:
    path = shop.folder() / "hub.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(path)], check=True)
    return path


def _command(*words: str) -> Callable[[Grown], Step]:
    return lambda grown: grown.command(*words)


def _first_list(grown: Grown) -> Step:
    """Return a step that lists all sessions without a catalog."""
    (grown.path / catalogue.FILE).unlink(missing_ok=True)
    return grown.command("ls")


def _call(work: Callable[[Grown], object]) -> Callable[[Grown], Step]:
    return lambda grown: lambda _: work(grown)


def _after_one_entry(work: Callable[[Grown], object]) -> Callable[[Grown], Step]:
    """Return a step that also appends an entry, which takes little time."""

    def both(grown: Grown) -> None:
        grown.append()
        work(grown)

    return _call(both)


def _find(grown: Grown) -> Step:
    grown.append(NEEDLE)
    return grown.command("search", NEEDLE)


def _append(grown: Grown) -> Step:
    session = grown.store.session(grown.newest)
    return lambda number: session.append(Message.user(f"one more, {number}"))


def _flush_and_list(grown: Grown) -> None:
    grown.store.flush()
    grown.command("ls", "-n", "10")(0)


def _append_anew(grown: Grown) -> Step:
    sid = grown.newest

    def step(number: int) -> None:
        with Store.open(grown.path) as store:
            store.session(sid).append(Message.user(f"one more, {number}"))

    return step


def _clone(grown: Grown) -> None:
    place = grown.hub.parent / f"clone-{next(_numbers)}.git"
    Store.clone(str(grown.hub), place)[0].close()
    shutil.rmtree(place)


def _packs(grown: Grown) -> int:
    return sum(file.stat().st_size for file in (grown.path / "objects/pack").iterdir())


def _derived(grown: Grown) -> int:
    return sum(file.stat().st_size for name in (catalogue.FILE, search.FILE) for file in grown.path.glob(f"{name}*"))


_SYNC = _command("sync", "--yes")
_PUSH = _after_one_entry(lambda grown: grown.store.remotes.push())

CASES: Mapping[str, Case] = {
    "first ls -n 10": Case(SESSIONS, _command("ls", "-n", "10"), once=True),
    "first ls": Case(SESSIONS, _first_list, once=True),
    "first search": Case(SESSIONS, _find, once=True),
    "first sync": Case(SESSIONS, _SYNC, once=True),
    "clone": Case(SESSIONS, _call(_clone), once=True),
    "ls -n 10": Case(CONSTANT, _command("ls", "-n", "10")),
    "ls": Case(SESSIONS, _command("ls")),
    "search of a rare word": Case(CONSTANT, _find),
    "append": Case(CONSTANT, _append),
    "open, append, close": Case(CONSTANT, _append_anew),
    "new session": Case(CONSTANT, _call(lambda grown: grown.begin(1))),
    "append, flush": Case(CONSTANT, _after_one_entry(lambda grown: grown.store.flush())),
    "append, ls -n 10": Case(NEW, _after_one_entry(lambda grown: grown.command("ls", "-n", "10")(0))),
    "append, flush, ls -n 10": Case(NEW, _after_one_entry(_flush_and_list)),
    "append, push": Case(SESSIONS, _PUSH),
    "sync with nothing new": Case(SESSIONS, _SYNC),
    "maintain with nothing new": Case(CONSTANT, _command("maintain")),
    "append, maintain": Case(NEW, _after_one_entry(lambda grown: grown.store.maintain())),
}
ARCHIVED: Mapping[str, Case] = {
    "archived: append, push": Case(NEW, _PUSH),
    "archived: sync with nothing new": Case(CONSTANT, _SYNC),
    "archived: ls": Case(CONSTANT, _command("ls")),
    "archived: clone": Case(SESSIONS, _call(_clone), once=True),
}
DISK: Mapping[str, Callable[[Grown], int]] = {"packs, by entry": _packs, "catalog and search index, by entry": _derived}
