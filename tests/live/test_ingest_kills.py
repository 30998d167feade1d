"""Tests of kill -9 at any system call of an ingest and of a hook: events are ingested completely, and once."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from faults import draining
from faults.scene import Scene
from faults.shim import Fault
from hooks import Agent
from promises import Faults

from gitsession.api import Store
from gitsession.live import spool

SHARE = float(os.environ.get("GITSESSION_DRAIN_KILLS", "0.07"))
"""Share of the calls that are tried; 1 is all of them."""

WHOLE = [
    ("before", None, {"a": "1", "b": "1"}),
    ("after", "call_t1", {"a": "call 1", "b": "1", "made1": "1"}),
    ("after", "call_t2", {"a": "call 2", "b": "1", "made1": "1", "made2": "2"}),
    ("after", "call_t3", {"a": "call 3", "b": "1", "made1": "1", "made2": "2", "made3": "3"}),
]


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    made = Scene(draining.prepare)
    yield made
    made.close()


MODES = ["kill-before", "kill-after", "torn"]


@pytest.mark.promise("P7", "P9")
@pytest.mark.parametrize("mode", MODES)
def test_a_drain_killed_at_any_call_is_done_by_the_next_one(scene: Scene, mode: str, faults: Faults) -> None:
    for at in scene.points("drain", SHARE):
        ran = scene.run("drain", Fault(mode, at))
        assert ran.code in (0, -9), ran.stderr
        agent = scene.prepared
        agent.drain()
        assert spool.waiting(str(agent.store)) == []
        assert spool.set_aside(str(agent.store)) == []
        assert agent.points() == WHOLE, at
        with Store.open(agent.store) as store:
            assert store.verify().problems == []
        faults.many(1)


@pytest.mark.promise("P7", "P9")
@pytest.mark.parametrize("mode", MODES)
def test_a_hook_killed_at_any_call_leaves_a_whole_event_or_none(scene: Scene, mode: str, faults: Faults) -> None:
    for at in scene.points("hook", SHARE):
        ran = scene.run("hook", Fault(mode, at))
        assert ran.code in (0, -9), ran.stderr
        agent = Agent(scene.place)
        agent.tell("SessionEnd")
        agent.tell("PreToolUse", tool_name="Bash", tool_use_id="call_t10")
        agent.tell("SessionEnd")
        agent.drain()
        assert spool.waiting(str(agent.store)) == []
        assert spool.set_aside(str(agent.store)) == []
        points = agent.points()
        assert points[:4] == WHOLE, at
        assert [(phase, files["b"]) for phase, _, files in points[4:]] == [("before", "2")], at
        faults.many(1)
