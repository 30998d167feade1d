"""Tests of kill -9 at any system call of a purge: the next program completes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults import purging as hurt
from faults.invariants import assert_nothing_left, assert_whole
from faults.scene import Scene
from faults.shim import Fault
from promises import Faults
from purged import traces

from gitsession.api import Store
from gitsession.git import process
from gitsession.purge import purging
from gitsession.store import refs

SHARE = float(os.environ.get("GITSESSION_PURGE_KILLS", "0.12"))
"""Share of the calls that are tried; 1 is all of them."""


def settled(place: Path) -> dict[str, str]:
    """Run the next program, check that everything purged is gone, and return the session refs."""
    with hurt.settle(place) as store:
        assert traces(store) == []
        assert not purging.is_pending(store)
        assert_whole(store)
        assert process.fsck(store.git_dir) == []
        assert_nothing_left(store.git_dir)
        ends = dict(store.refs(refs.SESSIONS))
    with Store.open(place) as front:
        assert front.verify().problems == []
        assert len(front.sessions()) == 1
    return ends


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    made = Scene(hurt.prepare)
    yield made
    made.close()


@pytest.mark.promise("P7", "P8", "P9")
@pytest.mark.parametrize("mode", ["kill-before", "kill-after", "torn"])
def test_a_purge_killed_at_any_call_is_ended_by_the_next_program(scene: Scene, mode: str, faults: Faults) -> None:
    points = scene.points(hurt.PURGE, SHARE)
    scene.run(hurt.PURGE)
    ends = settled(scene.place)
    for at in points:
        with faults.one():
            ran = scene.run(hurt.PURGE, Fault(mode, at))
            assert ran.code in (0, -9) or "exit code -9" in ran.stderr, ran.stderr  # gitsession, or its git child
            assert settled(scene.place) == ends, at
