"""Random schedules of several stores and a hub (tests/support/simulation.py), and tests that they detect defects.

``GITSESSION_SIMULATIONS=<schedules>`` runs longer schedules, with the hooks of gitsession at every fifth hub.
``GITSESSION_SIMULATIONS_SEED=<number>`` sets the first seed.
"""

from __future__ import annotations

import os
import shutil
from itertools import count
from pathlib import Path

import pytest
from faults.shim import scratch
from purged import SECRET, find, purge
from remotes import begun, forge, shared, store_with, sync
from simulation import simulate

from gitsession.purge import purging
from gitsession.sessions import merge_remote_branches, tombstone
from gitsession.store import histories, refs
from gitsession.sync import syncing

IS_LONG = "GITSESSION_SIMULATIONS" in os.environ
SEEDS = int(os.environ.get("GITSESSION_SIMULATIONS", "20"))
FIRST = int(os.environ.get("GITSESSION_SIMULATIONS_SEED", "0"))
STEPS = 40 if IS_LONG else 20
PARTS = 10
HOOKS_EVERY = 5 if IS_LONG else 67
"""Interval of schedules with a server with hooks.

Each push to it starts a program, so short runs have few of them.
"""
KEEPS_EVERY = 4
"""Interval of schedules with a hub that rejects the deletion of branches."""


@pytest.fixture
def folder():
    """Create a folder in memory if possible, since the durability of the disk is not tested here."""
    made = Path(scratch())
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.timeout(300 + 10 * SEEDS)
@pytest.mark.promise("P42")
@pytest.mark.parametrize("part", range(PARTS))
def test_acknowledged_entries_are_in_every_store_and_all_stores_are_equal(part, folder, faults):
    for seed in range(FIRST + part, FIRST + SEEDS, PARTS):
        with faults.one():
            outcome = simulate(seed, folder, STEPS, hooks=seed % HOOKS_EVERY == 0, keeps=seed % KEEPS_EVERY == 0)
            assert outcome.is_good, f"seed {seed}: {outcome}\n" + "\n".join(outcome.trace)


def test_schedule_with_a_rewritten_archive_ends_well(folder):
    """A purge replaced the archive with that of the remote.

    The pack of the archive was rewritten while it was read.
    """
    assert simulate(6436, folder, 40).is_good


def caught(folder, most: int = 60) -> bool:
    """Return whether one of the first runs finds a problem."""
    for seed in range(most):
        try:
            if not simulate(seed, folder, STEPS * 2).is_good:
                return True
        except Exception:  # a defect can be so serious that the run fails
            return True
    return False


def test_names_by_writer_that_overwrite_are_caught(folder, monkeypatch):
    """The first version of the rule lost a renamed branch that was never pushed."""

    def by_writer(read, held, name, ours, theirs):
        folder, _, branch = name.rpartition("/")
        return f"{folder}/{branch.partition('.')[0]}.aaaaaaaa"

    def overwriting(store, tx, ref, end):
        tx.move(ref, end, expected=store.ref(ref))

    monkeypatch.setattr(histories, "unused_name", by_writer)
    monkeypatch.setattr(merge_remote_branches, "_advance", overwriting)
    assert caught(folder)


def test_names_by_the_tip_of_a_branch_are_caught(folder, monkeypatch):
    """The branch moves after a crash and gets a second name."""
    key = histories._key
    monkeypatch.setattr(histories, "_key", lambda read, ours, theirs: key(read, ours, None))
    assert caught(folder)


def test_overwriting_a_diverged_branch_is_caught(folder, monkeypatch):
    def taken(store, tx, ref, mine, there):
        tx.move(ref, there, expected=mine)
        return merge_remote_branches.SyncedBranch(ref, "forwarded", mine, there)

    monkeypatch.setattr(merge_remote_branches, "_rename_local", taken)
    assert caught(folder)


# ---- purges


@pytest.fixture
def two(tmp_path):
    """Create two stores with a session. The first purges its middle; the second does not have the purge yet."""
    hub = forge(tmp_path / "hub.git")
    with store_with(tmp_path / "a.git", hub) as a, store_with(tmp_path / "b.git", hub) as b:
        begun(a, "first", SECRET, "last")
        sync(a)
        sync(b)
        purge(a, find(a))
        sync(a)
        yield a, b


def forks(a, b) -> bool:
    """Sync all stores and return whether there is an additional branch."""
    for store in (b, a, b):
        sync(store)
    return shared(a) != shared(b) or len(b.refs(refs.SESSIONS)) > 2


def test_a_purge_forks_no_line(two):
    assert not forks(*two)


def differing(monkeypatch):
    """Make each store write another commit for a purged entry."""
    made, turns = tombstone.of_entry, count(1)

    def of_entry(node, digest, parents):
        later = node._replace(author_seconds=node.author_seconds + next(turns))
        return made(later, digest, parents)

    monkeypatch.setattr(tombstone, "of_entry", of_entry)


def hasty(monkeypatch):
    """Merge branches first, and remove purged entries from the store afterwards."""
    apply, take_in = purging.apply, syncing.pull_refs

    def taken(store, remote, talk):
        with monkeypatch.context() as patch:
            patch.setattr(purging, "apply", lambda store: purging.PurgeResult())
            found = take_in(store, remote, talk)
        apply(store)
        return found

    monkeypatch.setattr(syncing, "pull_refs", taken)


@pytest.mark.parametrize("wrong", [differing, hasty])
def test_a_wrong_purge_is_caught(two, folder, monkeypatch, wrong):
    wrong(monkeypatch)
    assert forks(*two)
    assert caught(folder)
