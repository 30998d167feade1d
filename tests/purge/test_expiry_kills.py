"""Tests of kill -9 at any system call of ``prune --checkpoints``: the newest state of each file is kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import START_MS, Clock
from checkpoints import contents
from faults import expiring
from faults.invariants import assert_nothing_left, assert_whole
from faults.scene import Scene
from faults.shim import Fault
from promises import Faults

from gitsession.api import Store
from gitsession.checkpoints.history import history
from gitsession.git import process
from gitsession.git.objects import oid_of
from gitsession.purge import purging
from gitsession.store import refs

SHARE = float(os.environ.get("GITSESSION_EXPIRY_KILLS", "0.02"))
"""Share of the calls that are tried; 1 is all of them."""


def settled(place: Path) -> dict[str, str]:
    """Run the next program, check that everything expired is gone, and return the session refs."""
    git_dir = place / "store.git"
    with Store.open(git_dir, clock=Clock(START_MS + 2 * 10**6)) as store:
        store.purges.apply(store.purges.plan_checkpoints(expiring.BEFORE_MS))
        objects = store.objects
        assert not purging.is_pending(objects)
        sids = [row.sid for row in store.sessions()]
        assert len(sids) == 2
        newest = {contents(objects, history(objects, sid)[-1])["a.txt"] for sid in sids}
        assert newest == {"state 2", "state 5"}
        # Entries that were appended after "state 3" and "state 4" contain their trees.
        states = ("state 0", "state 1", "state 3", "state 4", expiring.DELETED)
        kept = [objects.contains(oid_of("blob", text.encode())) for text in states]
        store.maintain()
        assert_whole(objects)
        assert store.verify().problems == []
    assert process.fsck(git_dir) == []
    assert_nothing_left(git_dir)
    with Store.open(git_dir) as store:
        assert kept == [store.objects.contains(oid_of("blob", text.encode())) for text in states]
        assert kept == [False, False, True, True, True]
        return dict(store.objects.refs(refs.SESSIONS))


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    made = Scene(expiring.prepare)
    yield made
    made.close()


@pytest.mark.promise("P7", "P8", "P9")
@pytest.mark.parametrize("mode", ["kill-before", "kill-after", "torn", "enospc", "enospc-on", "eio"])
def test_an_expiry_that_fails_at_any_call_is_completed_by_the_next_program(
    scene: Scene, mode: str, faults: Faults
) -> None:
    points = scene.points(expiring.EXPIRE, SHARE)
    scene.run(expiring.EXPIRE)
    ends = settled(scene.place)
    for at in points:
        with faults.one():
            scene.run(expiring.EXPIRE, Fault(mode, at))
            assert settled(scene.place) == ends, at
