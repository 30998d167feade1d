"""Tests of concurrent writes during a purge: the new data is kept, and the purged data is gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from builders import assert_clean, assert_git_agrees, begun, on_disk, session
from purged import SECRET, find, keys, subjects, traces

from gitsession.errors import Unavailable
from gitsession.model.entries import Message
from gitsession.purge import derived_files as traces_of
from gitsession.purge import purging
from gitsession.store import refs, state
from gitsession.store.git_store import GitStore


@pytest.fixture
def store(tmp_path: Path):
    with on_disk(tmp_path / "store.git") as made:
        yield made


def meanwhile(monkeypatch: pytest.MonkeyPatch, name: str, write) -> list[int]:
    """Call ``write`` just before each run of the step ``name`` of a purge. Return a list with the number of runs."""
    module = {"_move_refs": purging, "_delete_objects": purging, "remove": traces_of}[name]
    step = getattr(module, name)
    runs: list[int] = []

    def first(*words, **named):
        runs.append(len(runs))
        write(len(runs))
        return step(*words, **named)

    monkeypatch.setattr(module, name, first)
    return runs


@pytest.mark.parametrize("step", ["_move_refs", "_delete_objects"])
def test_an_entry_that_another_process_appends_meanwhile_stays(store, monkeypatch, step) -> None:
    said = begun(store, "first", SECRET, "last")
    store.flush()
    key = keys(store, find(store))

    def write(run: int) -> None:
        if run == 1:
            with GitStore.open(store.git_dir) as other:
                session(other, said.id).append(Message.user("meanwhile"))

    assert meanwhile(monkeypatch, step, write) == []
    purging.add(store, key, 1)
    assert subjects(store, refs.leaf(said.id))[-1] == "user: meanwhile"
    assert traces(store) == []
    assert_clean(store)
    assert_git_agrees(store)


def test_a_branch_that_a_stale_process_starts_meanwhile_is_rewritten_before_anything_is_dropped(
    store, monkeypatch
) -> None:
    said = begun(store, "first", SECRET, "last")
    store.flush()
    old = said.leaf
    assert old is not None
    key = keys(store, find(store))
    from gitsession.store.drop_objects import ObjectRemoval

    drop = ObjectRemoval.drop
    runs: list[bool] = []

    def raced(self, victims, is_settled):
        if not runs:
            with GitStore.open(store.git_dir) as other, other.transaction() as tx:
                tx.move(refs.leaf(said.id, "late"), old.oid, expected=None)
        runs.append(drop(self, victims, is_settled))
        return runs[-1]

    monkeypatch.setattr(ObjectRemoval, "drop", raced)
    purging.add(store, key, 1)
    assert runs == [False, True]
    assert "purged: user message" in subjects(store, refs.leaf(said.id, "late"))
    assert traces(store) == []
    assert_clean(store)
    assert_git_agrees(store)


def test_continued_writes_of_purged_text_are_reported(store, monkeypatch) -> None:
    said = begun(store, "first", SECRET, "last")
    store.flush()
    old = said.leaf
    assert old is not None
    key = keys(store, find(store))
    from gitsession.store.drop_objects import ObjectRemoval

    monkeypatch.setattr(ObjectRemoval, "drop", lambda self, victims, is_settled: False)
    with pytest.raises(Unavailable, match="keep writing"):
        purging.add(store, key, 1)
    assert purging.is_pending(store)
    monkeypatch.undo()
    purging.apply(store)
    assert traces(store) == []


def test_git_that_repacks_meanwhile_changes_nothing(store, monkeypatch) -> None:
    from raw import git

    said = begun(store, "first", SECRET, "last")
    store.flush()
    begun(store, "another session")
    store.flush()
    key = keys(store, find(store))
    from gitsession.store.drop_objects import ObjectRemoval

    drop = ObjectRemoval.drop
    runs: list[bool] = []

    def raced(self, victims, is_settled):
        if not runs:
            git(store.git_dir, "repack", "-a", "-d", "-q", "-k")
        runs.append(drop(self, victims, is_settled))
        return runs[-1]

    monkeypatch.setattr(ObjectRemoval, "drop", raced)
    purging.add(store, key, 1)
    assert runs == [False, True]
    assert traces(store) == []
    assert subjects(store, refs.leaf(said.id))[-1] == "user: last"
    assert_git_agrees(store)


def test_maintenance_waits_for_a_running_purge(store, monkeypatch) -> None:
    from functools import partial

    from gitsession.store import maintenance
    from gitsession.store.lock import packing

    begun(store, "first")
    monkeypatch.setattr(maintenance, "packing", partial(packing, wait_seconds=0.01))
    with packing(store.git_dir), pytest.raises(Unavailable):
        maintenance.maintain(store)
    maintenance.maintain(store)


def test_two_drops_in_one_tick_of_the_clock_are_two_generations(tmp_path):
    (tmp_path / state.DROPPED).parent.mkdir()
    seen = set()
    for _ in range(3):
        state.begin_generation(tmp_path)
        os.utime(tmp_path / state.DROPPED, (1, 1))
        now = state.generation_of(tmp_path)
        assert now is not None
        times, _, size = now
        seen.add((times, size))
    assert len(seen) == 3
