"""Workloads for fault injection: short runs of commands of the public API.

Every command is seeded by its number, so its result depends only on the earlier state, and the states that a run may
leave are known in advance (``states``). The result of each command is written to descriptor 1: ``ok <number>``, ``fail
<number> <why>`` after a disk error, or ``no <number> <why>`` if the command had nothing to work on.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import raw
from builders import START_MS, Clock, nonces, pi_file, talk

from gitsession.api import Session, Store
from gitsession.compaction.plan import CompactionRequest, Plan
from gitsession.compaction.summary import Summary
from gitsession.compaction.write_summary import SummaryOptions
from gitsession.errors import GitSessionError, NotFound, Unavailable
from gitsession.formats import FORMATS
from gitsession.git import process
from gitsession.model.entries import Message
from gitsession.store import journal
from gitsession.store.git_store import GitStore
from gitsession.store.writing import IdleTimer

SIDE = "refs/heads/sessions/s1/side"
ATTEMPTS = 3

_PREALLOCATED_BYTES = 1 << 15
_URANDOM = os.urandom


class World:
    """A store, and the sessions that the commands of one run use."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.sessions: dict[str, Session] = {}

    def __getitem__(self, name: str) -> Session:
        """Return the session called ``name``. ``old`` exists from the beginning."""
        if name not in self.sessions:
            if name != "old":
                raise NotFound(f"no session {name} in this run")
            [oldest] = self.store.sessions()[-1:]
            self.sessions[name] = self.store.session(oldest.sid)
        return self.sessions[name]

    def append(self, name: str, text: str) -> None:
        if self[name].leaf is None:
            raise NotFound(f"session {name} has not begun")
        self[name].append(Message.user(text))

    def begin(self, name: str, text: str) -> None:
        if name not in self.sessions:
            self.sessions[name] = self.store.new_session(agent="agent", cwd="/work")
        self.sessions[name].append(Message.user(text))

    def branch(self, of: str, name: str, at: str = "leaf") -> None:
        self.sessions[name] = self[of].branch(name, at)

    def fork(self, of: str, name: str) -> None:
        self.sessions[name] = self[of].fork()

    def compact(self, name: str, strategy: str = "up-to", at: str = "leaf") -> None:
        self._shorten(name, self[name].compaction.plan(strategy, request=CompactionRequest(at=self[name].resolve(at))))

    def leave(self, name: str, to: str) -> None:
        self._shorten(name, self[name].compaction.plan_leaving(to))

    def _shorten(self, name: str, plan: Plan) -> None:
        self[name].compact(plan, SummaryOptions(summarizer=Briefly()), undoable=True)

    def bring(self, *ids: str) -> None:
        self.store.agents.import_data(FORMATS["pi"], pi_file(*talk(*ids), id="imported"), name="imported")

    def raw(self, text: str, ref: str = raw.LEAF) -> None:
        raw.append(self.store.objects, text, ref)


class Briefly:
    """A summarizer that always returns the same summary."""

    def summarise(self, *_: object, **__: object) -> Summary:
        return Summary("short")


Command: TypeAlias = Callable[[World], object]

_LARGE = "large" * (1 << 18)
_LONG = "word after word, " * 40

WORKLOADS: dict[str, list[Command]] = {
    "append": [
        lambda world: world.append("old", "one"),
        lambda world: world.begin("new", "first words"),
        lambda world: world.store.flush(),
        lambda world: world.append("new", "two"),
        lambda world: world.append("old", "three"),
        lambda world: world.store.flush(),
        lambda world: world.append("new", "four"),
    ],
    "branch": [
        lambda world: world.branch("old", "side"),
        lambda world: world.append("side", "beside"),
        lambda world: world["old"].switch("side"),
        lambda world: world.store.flush(),
        lambda world: world.append("old", "on main again"),
        lambda world: world.store.undo(),
        lambda world: world.store.flush(),
    ],
    "names": [
        lambda world: world["old"].label("leaf", "here"),
        lambda world: world["old"].rename("A title"),
        lambda world: world.fork("old", "forked"),
        lambda world: world.append("forked", "elsewhere"),
        lambda world: world.store.flush(),
        lambda world: world["old"].label("leaf", "there"),
        lambda world: world.store.flush(),
    ],
    "undo": [
        lambda world: world.branch("old", "side"),
        lambda world: world.store.flush(),
        lambda world: world.store.undo(),
        lambda world: world.store.flush(),
        lambda world: world.store.redo(),
        lambda world: world.append("side", "beside"),
        lambda world: world.store.flush(),
    ],
    "import": [
        lambda world: world.bring("a", "b", "c"),
        lambda world: world.store.flush(),
        lambda world: world.bring("a", "b", "c", "d"),
        lambda world: world.store.undo(),
        lambda world: world.store.redo(),
        lambda world: world.store.flush(),
    ],
    "large": [
        lambda world: world.append("old", _LARGE),
        lambda world: world.append("old", "small"),
        lambda world: world.store.flush(),
        lambda world: world.append("old", _LARGE + "again"),
    ],
    "maintain": [
        lambda world: world.append("old", "one"),
        lambda world: world.store.maintain(),
        lambda world: world.append("old", "two"),
        lambda world: world.branch("old", "side"),
        lambda world: world.store.flush(),
        lambda world: world.store.undo(),
        lambda world: world.store.flush(),
    ],
    "compact": [
        lambda world: world.append("old", _LONG),
        lambda world: world.append("old", "go on"),
        lambda world: world.compact("old"),
        lambda world: world.append("old", _LONG),
        lambda world: world.store.flush(),
        lambda world: world.compact("old"),
        lambda world: world.store.undo(),
        lambda world: world.store.flush(),
    ],
    "from": [
        lambda world: world.append("old", _LONG),
        lambda world: world.compact("old", "from"),
        lambda world: world.append("old", "on the new branch"),
        lambda world: world.store.flush(),
        lambda world: world["old"].switch("main"),
        lambda world: world.append("old", "on the old one"),
        lambda world: world.store.flush(),
    ],
    "leave": [
        lambda world: world.branch("old", "side"),
        lambda world: world.append("side", _LONG),
        lambda world: world.leave("side", "main"),
        lambda world: world.store.flush(),
        lambda world: world.store.undo(),
        lambda world: world.leave("old", "leaf~1"),
        lambda world: world.append("old", "on a branch beside"),
        lambda world: world.store.flush(),
    ],
    "raw": [
        lambda world: world.raw("a.0"),
        lambda world: world.raw("b.0", SIDE),
        lambda world: world.store.flush(),
        lambda world: world.raw("a.1"),
        lambda world: world.raw("b.1", SIDE),
        lambda world: world.store.flush(),
        lambda world: world.raw("a.2"),
    ],
}


def get_ready() -> None:
    """Prepare this process to run only workloads, with its git children under the shim."""
    _make_small()
    process._PASSED_VARIABLES += ("LD_PRELOAD", "FI_CONTROL")


@contextmanager
def small() -> Iterator[None]:
    """Speed up the creation and copying of stores in the block: short journal files, and no automatic flush."""
    kept = journal.PREALLOCATED_BYTES, IdleTimer.touch
    _make_small()
    try:
        yield
    finally:
        journal.PREALLOCATED_BYTES, IdleTimer.touch = kept


def _make_small() -> None:
    journal.PREALLOCATED_BYTES, IdleTimer.touch = _PREALLOCATED_BYTES, lambda self: None


def prepare(git_dir: Path) -> None:
    """Create the store with which every workload begins: a session in git, and more entries in the journal."""
    os.urandom = nonces(b"prepare")
    try:
        with small():
            _prepare(git_dir)
    finally:
        os.urandom = _URANDOM


def _prepare(git_dir: Path) -> None:
    clock = Clock()
    with Store.create(git_dir, clock=clock) as store:
        session = store.new_session(agent="agent", cwd="/work")
        session.append(Message.user("in git"))
        session.append(Message.user("in git too"))
        store.flush()
        sid = session.id
        raw.append(store.objects, "in git")
    with Store.open(git_dir, clock=clock, flush_on_close=False) as store:
        store.session(sid).append(Message.user("in the journal"))
        raw.append(store.objects, "in the journal")
        store.sessions()


def do(name: str, git_dir: str, skip: Collection[int] = (), *, states: bool = False, retry: bool = False) -> None:
    """Run a workload.

    Args:
        name: Name of the workload.
        git_dir: Path of the store.
        skip: Numbers of commands to leave out.
        states: Report the values of all refs after each command.
        retry: Retry a command that fails, up to ``ATTEMPTS`` times.
    """
    clock = Clock()
    try:
        store = Store.open(git_dir, clock=clock, flush_on_close=False)
    except Unavailable as error:
        _tell("fail", 0, str(error))
        return
    world = World(store, clock)
    _seed(world, 0, 0)
    _tell("ok", 0, json.dumps(dict(store.objects.refs("refs/")) if states else None))
    for number, command in enumerate(WORKLOADS[name], 1):
        if number not in skip:
            for attempt in range(ATTEMPTS if retry else 1):
                _seed(world, number, attempt)
                if _did(world, command, number, states):
                    break
    store.close()


def _did(world: World, command: Command, number: int, states: bool) -> bool:
    """Return whether the command needs no retry."""
    try:
        command(world)
    except Unavailable as error:
        _tell("fail", number, str(error))
        return False
    except GitSessionError as error:
        _tell("no", number, str(error))
        return True
    _tell("ok", number, json.dumps(dict(world.store.objects.refs("refs/")) if states else None))
    return True


def _seed(world: World, number: int, attempt: int) -> None:
    world.clock.at_ms = START_MS + number * 100_000
    os.urandom = nonces(f"{number} {attempt}".encode())


def _tell(word: str, number: int, rest: str) -> None:
    os.write(1, f"{word} {number} {' '.join(rest.split())}\n".encode())


def append_as_granted(git_dir: str, flush_every: int = 20) -> None:
    """Append to two refs and flush at intervals. Report each append as ``<ref> <oid>``.

    Each line of input is the number of further entries.
    """
    store = GitStore.open(git_dir, flush_on_close=False)
    for number in itertools.chain.from_iterable(_granted()):
        ref = (raw.LEAF, SIDE)[number % 3 == 0]
        text = f"{number} " + "words " * (number * 37 % 400)
        oid = raw.append(store, text, ref)
        os.write(1, f"{ref} {oid}\n".encode())
        if number % flush_every == flush_every - 1:
            store.flush()


def _granted() -> Iterator[range]:
    end = 0
    for row in sys.stdin:
        start, end = end, end + int(row)
        yield range(start, end)


REPLAYED = [name for name in WORKLOADS if name not in ("large", "maintain")]
"""Workloads for replay. A large write adds nothing to a small one, and the writes of git's packs are not logged."""


SHARES = {"eio": 0.02, "enospc": 0.02, "edquot": 0.01, "eintr": 0.02, "short": 0.06, "eio-on": 0.01, "enospc-on": 0.01}
"""Share of the calls that fail, by fault. The deep run (benchmarks/deep) tries all calls."""

TRIED_AGAIN = ("append", "names", "import", "raw", "compact", "from")
