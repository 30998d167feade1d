"""Tests of kill -9 at any system call of a rewind of twenty files, or of its undo.

Each file is the old one or the new one, and the interrupted operation can be finished or undone.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import START_MS, Clock
from faults import rewinding
from faults.shim import Fault, Shim, scratch
from rewound import snapshot

from gitsession.api import Store
from gitsession.checkpoints import history
from gitsession.errors import NotFound, Refused
from gitsession.workspace import trees

SHARE = float(os.environ.get("GITSESSION_REWIND_KILLS", "0.03"))
"""Share of the calls that are tried; 1 is all of them."""


class Scene:
    """Copies of one prepared folder, each used for one run."""

    def __init__(self, work: str) -> None:
        self.work = work
        self.shim = Shim()
        self.place = Path(scratch())
        rewinding.prepare(self.place / "base", work)
        with self.copy("whole") as place:
            self.old = snapshot(place / "work")
            ran = self.run(place)
            assert (ran.code, ran.stderr) == (0, "")
            self.calls = ran.calls
            self.new = snapshot(place / "work")
        assert self.old != self.new

    class _Copy:
        def __init__(self, scene: Scene, name: str) -> None:
            self.path = scene.place / name
            shutil.copytree(scene.place / "base", self.path, symlinks=True)

        def __enter__(self) -> Path:
            return self.path

        def __exit__(self, *_: object) -> None:
            shutil.rmtree(self.path)

    def copy(self, name: str) -> _Copy:
        return self._Copy(self, name)

    def run(self, place: Path, fault: Fault | None = None):
        return self.shim.run(self.work, place, fault)

    def points(self) -> list[int]:
        every = range(1, self.calls + 1)
        return sorted(random.Random(0).sample(every, max(1, round(len(every) * SHARE))))

    def close(self) -> None:
        self.shim.close()
        shutil.rmtree(self.place, ignore_errors=True)


@pytest.fixture(scope="module", params=[rewinding.REWIND, rewinding.UNDO])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    made = Scene(request.param)
    yield made
    made.close()


@pytest.mark.promise("P11")
@pytest.mark.parametrize("mode", ["kill-before", "torn"])
@pytest.mark.parametrize("way", ["continue", "abort"])
def test_killed_rewind_can_be_finished_or_undone(scene: Scene, way: str, mode: str, faults) -> None:
    for at in scene.points():
        with faults.one(), scene.copy(f"{way}-{at}") as place:
            ran = scene.run(place, Fault(mode, at))
            assert ran.code in (0, -9), ran.stderr
            judge(scene, place, way)


def judge(scene: Scene, place: Path, way: str) -> None:
    folder = place / "work"
    held = {path: kept for path, kept in snapshot(folder).items() if not path.endswith(b".tmp")}
    assert held.keys() <= scene.old.keys() | scene.new.keys()
    for path in scene.old.keys() | scene.new.keys():
        assert held.get(path) in (scene.old.get(path), scene.new.get(path)), path
    with Store.open(place / "store.git", clock=Clock(START_MS + 2 * 10**6)) as store:
        session = store.session(store.sessions()[0].sid)
        if held != scene.old:
            assert is_safe(store, session.id, scene), "what was there is in a checkpoint"
        begun = bool(store.unfinished())
        if not begun:
            assert held in (scene.old, scene.new)
        elif way == "continue":
            session.files.finish_rewind(folder)
            assert snapshot(folder) == scene.new
        else:
            try:
                session.files.abort_rewind(folder)
                assert snapshot(folder) == scene.old
            except Refused as error:
                assert "it has completed" in str(error)
                assert snapshot(folder) == scene.new
        with pytest.raises(NotFound):
            session.files.finish_rewind(folder)
        if snapshot(folder) == scene.old:
            rewinding.carry_out(store, scene.work, folder)
            assert snapshot(folder) == scene.new
        else:
            (store.undo if scene.work == rewinding.REWIND else store.redo)(folder)
            assert snapshot(folder) == scene.old
        assert store.verify().problems == []


def is_safe(store: Store, sid: str, scene: Scene) -> bool:
    """Return whether a checkpoint has every changed file."""
    differing = {path for path in scene.old.keys() | scene.new.keys() if scene.old.get(path) != scene.new.get(path)}
    for point in history.walk(store.objects, sid):
        states = trees.CachedTrees(store.objects).look_up(point.files, [os.fsdecode(path) for path in differing])
        contents = {path: state and store.objects.read(state.oid)[1] for path, state in states.items()}
        if all(contents[os.fsdecode(path)] == (scene.old.get(path) or ("", None))[1] for path in differing):
            return True
    return False
