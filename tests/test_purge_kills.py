"""kill -9 at any system call of a purge: the next program ends where it would have ended."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults import purging as hurt
from faults.invariants import assert_nothing_left, assert_whole
from faults.shim import Fault, Ran, Shim, scratch
from promises import Faults
from purged import traces

from gitsession.api import Store
from gitsession.store import gitcli, refs
from gitsession.sync import purging

SHARE = float(os.environ.get("GITSESSION_PURGE_KILLS", "0.12"))
"""Of all calls; 1 is all of them."""


class Scene:
    """One prepared store, put back before each run."""

    def __init__(self) -> None:
        self.shim = Shim()
        self._folder = Path(scratch())
        self.place = self._folder / "store.git"
        hurt.prepare(self.place)
        shutil.copytree(self.place, self._folder / "kept", symlinks=True)
        ran = self.run()
        assert ran.code == 0, ran.stderr
        self.calls = ran.calls
        self.ends = self.settled()

    def run(self, fault: Fault | None = None) -> Ran:
        shutil.rmtree(self.place)
        shutil.copytree(self._folder / "kept", self.place, symlinks=True)
        return self.shim.run(hurt.PURGE, self.place, fault)

    def settled(self) -> dict[str, str]:
        """What the refs of sessions hold once the next program has run, which has found all to be gone."""
        with hurt.settle(self.place) as store:
            assert traces(store) == []
            assert not purging.is_pending(store)
            assert_whole(store)
            assert gitcli.fsck(store.git_dir) == []
            assert_nothing_left(store.git_dir)
            ends = dict(store.refs(refs.SESSIONS))
        with Store.open(self.place) as front:
            assert front.verify().problems == []
            assert len(front.sessions()) == 1
        return ends

    def points(self) -> list[int]:
        every = range(1, self.calls + 1)
        return sorted(random.Random(0).sample(every, max(1, round(len(every) * SHARE))))

    def close(self) -> None:
        self.shim.close()
        shutil.rmtree(self._folder, ignore_errors=True)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.close()


@pytest.mark.promise("P7", "P8", "P9")
@pytest.mark.parametrize("mode", ["kill-before", "kill-after", "torn"])
def test_a_purge_killed_at_any_call_is_ended_by_the_next_program(scene: Scene, mode: str, faults: Faults) -> None:
    for at in scene.points():
        with faults.one():
            ran = scene.run(Fault(mode, at))
            assert ran.code in (0, -9) or "ended with -9" in ran.stderr, ran.stderr  # us, or git at work for us
            assert scene.settled() == scene.ends, at
