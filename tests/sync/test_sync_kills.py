"""Tests of kill -9 and disk errors at any system call of a sync: when repeated, it ends in the same state.

The calls are those of gitsession and of git, in the store and on the server.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from faults import syncing as hurt
from faults.invariants import assert_goes_on, assert_nothing_left, assert_whole
from faults.scene import Scene
from faults.shim import Fault
from faults.work import small
from promises import Faults
from remotes import shared, there

from gitsession.api import Store
from gitsession.git import process
from gitsession.store import create, published
from gitsession.sync import cloning
from gitsession.sync.transport import TransportOptions

SHARE = float(os.environ.get("GITSESSION_SYNC_KILLS", "0.003"))
"""Share of the calls that are tried; 1 is all of them."""

ERROR = re.compile(r"^[\w.]+(?=: )", re.MULTILINE)
"""Pattern of the class names of the errors in a traceback."""

Prepare = Callable[[Path], None]
State = tuple[Mapping[str, str], Mapping[str, str]]


class Syncs(Scene):
    """A store, its hub, and their state after each work without faults."""

    def __init__(self, prepare: Prepare) -> None:
        super().__init__(prepare)
        self._ends: dict[str, State] = {}

    def end(self, work: str) -> State:
        """Return the state of the store and the hub after a run without faults."""
        if work not in self._ends:
            ran = self.run(work)
            assert ran.code == 0, ran.stderr
            self._ends[work] = self.judged(work)
        return self._ends[work]

    def again(self, work: str) -> State:
        """Check the state after a kill, and repeat the work."""
        store, hub = self.store(work), self.place / "hub.git"
        for lock in [hub / "packed-refs.lock", *hub.rglob("refs/**/*.lock")]:
            lock.unlink(missing_ok=True)  # git's own; if no process is running, the owner may delete it
        assert process.fsck(hub) == []
        if (hub / "hooks/post-receive").exists():
            Store.open(hub).close()  # opening a server continues an interrupted purge
        if work != hurt.CLONE or not store.exists():
            hurt.do(work, str(self.place))
        return self.judged(work)

    def judged(self, work: str) -> State:
        if work == hurt.PUSH:
            hurt.do(hurt.PULL, str(self.place))  # pending deletions are noted until the next fetch
        store, hub = self.store(work), self.place / "hub.git"
        left = store / create.INCOMING
        assert not left.exists() or not [*left.iterdir()]
        assert [*published.list_records(store)] == []
        with small(), Store.open(store, clock=lambda: 1) as opened:
            ends = shared(opened.objects), there(hub)
            assert_whole(opened.objects)
            assert opened.verify().problems == []
            assert_goes_on(opened)
        assert process.fsck(store) == process.fsck(hub) == []
        assert_nothing_left(store)
        return ends

    def store(self, work: str) -> Path:
        return self.place / ("clone.git" if work == hurt.CLONE else "store.git")


CASES = [
    *((hurt.prepare, work, "kill-before") for work in hurt.WORKS),
    *((hurt.prepare, hurt.SYNC, mode) for mode in ("torn", "eio", "enospc")),
    (hurt.prepare_purging, hurt.SYNC, "kill-before"),
]


@pytest.fixture(scope="module")
def scenes() -> Iterator[Callable[[Prepare], Syncs]]:
    made: dict[Prepare, Syncs] = {}

    def of(prepare: Prepare) -> Syncs:
        if prepare not in made:
            made[prepare] = Syncs(prepare)
        return made[prepare]

    yield of
    for scene in made.values():
        scene.close()


@pytest.mark.promise("P7", "P8", "P9", "P42")
@pytest.mark.parametrize(("prepare", "work", "mode"), CASES)
def test_interrupted_sync_ends_in_the_same_state(
    scenes: Callable[[Prepare], Syncs], prepare: Prepare, work: str, mode: str, faults: Faults
) -> None:
    scene = scenes(prepare)
    expected = scene.end(work)
    for at in scene.points(work, SHARE):
        with faults.one():
            ran = scene.run(work, Fault(mode, at))
            assert ran.code in (0, -9) or ERROR.findall(ran.stderr)[-1].endswith(("Unavailable", "Unfit")), ran.stderr
            assert scene.again(work) == expected, at


def test_files_of_a_killed_clone_are_removed_by_the_next_one(tmp_path: Path) -> None:
    """A folder that another clone is filling, and one that is not a clone's, are kept."""
    Store.create(tmp_path / "source.git").close()
    names = (".to.git.0123456789ab.tmp", ".to.git.ba9876543210.tmp", ".to.git.x.tmp")
    left, held, other = (tmp_path / name for name in names)
    for folder in (left, held, other):
        (folder / "objects").mkdir(parents=True)
        os.utime(folder, (1, 1))
    fd = cloning._lock_folder(held)
    cloning.clone(str(tmp_path / "source.git"), tmp_path / "to.git", TransportOptions())
    os.close(fd)
    assert [folder.exists() for folder in (left, held, other)] == [False, True, True]
    assert sorted(each.name for each in tmp_path.iterdir()) == [held.name, other.name, "source.git", "to.git"]
