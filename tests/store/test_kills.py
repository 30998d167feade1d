"""Tests of kill -9 at any system call of any command: it is done completely or not at all, and no lock is left."""

from __future__ import annotations

import pytest
from faults.bench import Bench
from faults.shim import Fault
from faults.work import WORKLOADS

SHARES = {"kill-before": 0.06, "kill-after": 0.03, "torn": 0.06}
"""Share of the calls that are killed. The deep run (benchmarks/deep) kills all of them."""


@pytest.mark.promise("P7", "P8", "P9")
@pytest.mark.parametrize("mode", SHARES)
@pytest.mark.parametrize("work", WORKLOADS)
def test_a_command_killed_at_any_call_is_done_or_not_done(work: str, mode: str, bench: Bench, faults) -> None:
    for at in bench.points(work, mode, SHARES[mode]):
        with faults.one():
            bench.kill(work, Fault(mode, at))


@pytest.mark.promise("P7", "P8", "P9")
@pytest.mark.parametrize("work", ["undo", "maintain"])
def test_the_git_children_may_be_killed_with_it(work: str, bench: Bench, faults) -> None:
    for at in bench.points(work, "kill-before", 0.15, seed=1):
        with faults.one():
            bench.kill(work, Fault("kill-before", at, group=True))
