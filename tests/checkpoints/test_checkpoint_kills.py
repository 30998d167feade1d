"""Tests of kill -9 at any system call of a checkpoint: the next one is complete, and the folder is unchanged."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import START_MS, Clock
from checkpoints import contents
from faults import checkpointing
from faults.shim import Fault, Ran, Shim, scratch
from promises import Faults
from restoring import picture
from rewound import snapshot

from gitsession.api import Store
from gitsession.checkpoints import history

SHARE = float(os.environ.get("GITSESSION_CHECKPOINT_KILLS", "0.05"))
"""Share of the calls that are tried; 1 is all of them."""


class Scene:
    """A prepared folder that is restored before each run.

    Its path is constant, because a workspace is identified by it.
    """

    def __init__(self, work: str) -> None:
        self.work = work
        self.shim = Shim()
        self._folder = Path(scratch())
        self.place = self._folder / "it"
        checkpointing.prepare(self.place, work)
        shutil.copytree(self.place, self._folder / "kept", symlinks=True)
        self.calls = self.run().calls
        self.whole = self.told()
        self.files = picture(self.place / "work", times=False)

    def run(self, fault: Fault | None = None) -> Ran:
        shutil.rmtree(self.place)
        shutil.copytree(self._folder / "kept", self.place, symlinks=True)
        return self.shim.run(self.work, self.place, fault)

    def told(self) -> list[tuple[str, dict[str, str]]]:
        """Take a checkpoint, and return the phase and the files of each checkpoint."""
        with self.store() as store:
            checkpointing.look(store, self.work, self.place / "work")
            points = history.history(store.objects, store.sessions()[0].sid)
            assert store.verify().problems == []
            return [(point.entry.phase, contents(store.objects, point)) for point in points]

    def store(self) -> Store:
        return Store.open(self.place / "store.git", clock=Clock(START_MS + 2 * 10**6))

    def points(self) -> list[int]:
        every = range(1, self.calls + 1)
        return sorted(random.Random(0).sample(every, max(1, round(len(every) * SHARE))))

    def close(self) -> None:
        self.shim.close()
        shutil.rmtree(self._folder, ignore_errors=True)


@pytest.fixture(scope="module", params=checkpointing.WORKS)
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    made = Scene(request.param)
    yield made
    made.close()


def test_uninterrupted_checkpoint_has_all_files(scene: Scene) -> None:
    assert len(scene.whole) == (1 if scene.work == checkpointing.FIRST else 2)
    assert scene.whole[-1][1].keys() == {os.fsdecode(path) for path in snapshot(scene.place / "work")} - {"ignored"}


@pytest.mark.promise("P9")
@pytest.mark.parametrize("mode", ["kill-before", "kill-after", "torn"])
def test_a_look_killed_at_any_call_is_made_good_by_the_next_one(scene: Scene, mode: str, faults: Faults) -> None:
    for at in scene.points():
        with faults.one():
            ran = scene.run(Fault(mode, at))
            assert ran.code in (0, -9) or "Unavailable: `git" in ran.stderr, ran.stderr  # git was killed
            assert picture(scene.place / "work", times=False) == scene.files, at
            assert scene.told() == scene.whole, at
            if scene.work != checkpointing.FIRST:
                assert taken_back(scene) == scene.whole[0][1], at


def taken_back(scene: Scene) -> dict[str, str]:
    """Rewind and return the files. The rewind undoes only the recorded differences."""
    folder = scene.place / "work"
    with scene.store() as store:
        session = store.session(store.sessions()[0].sid)
        session.files.rewind(session.files.plan_rewind("leaf", "files", workspace=folder))
    return {os.fsdecode(path): data.decode() for path, (_, data) in snapshot(folder).items() if path != b"ignored"}
