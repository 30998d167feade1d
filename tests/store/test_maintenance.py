"""Tests of maintenance: it loses nothing, and deletes temporary files of dead processes but not of running ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from raw import LEAF, append, git

from gitsession.api import Store
from gitsession.git import pack_writer, process
from gitsession.store import maintenance
from gitsession.store.create import JOURNAL, PROOFS, create
from gitsession.store.git_store import GitStore
from gitsession.store.maintenance import PACKS_MAX, count_packs, maintain


@pytest.fixture
def store(tmp_path: Path):
    create(tmp_path / "store.git")
    with GitStore.open(tmp_path / "store.git") as opened:
        yield opened


def grow(store: GitStore, count: int) -> list[str]:
    oids = []
    for number in range(count):
        oids.append(append(store, f"entry {number}"))
        store.flush()
    return oids


def test_many_packs_become_few_and_every_entry_is_there(store):
    oids = grow(store, 12)
    pending = append(store, "not flushed yet")
    done = maintain(store)
    assert (done.packs_before, done.packs_after < done.packs_before) == (14, True)
    assert git(store.git_dir, "rev-list", LEAF).split() == [pending, *reversed(oids)]
    assert [store.read(oid)[0] for oid in oids] == ["commit"] * 12
    assert store.ref(LEAF) == pending
    git(store.git_dir, "fsck", "--strict", "--full")


def test_no_list_of_all_refs_is_written_for_plain_http(store):
    grow(store, 3)
    maintain(store)
    assert not (store.git_dir / "info/refs").exists()


def test_objects_are_repacked_if_git_cannot_order_packs_and_unreachable_ones_are_kept(store, monkeypatch):
    grow(store, 3)
    with store.transaction() as transaction:
        unreachable = transaction.put("blob", b"nobody points here")
    real = process.run

    def refuses(git_dir, *arguments, **options):
        if "--geometric=2" in arguments:
            return process.ProcessResult(129, b"", "unknown option")
        return real(git_dir, *arguments, **options)

    monkeypatch.setattr(process, "run", refuses)
    assert maintain(store).packs_after == 1
    assert store.read(unreachable) == ("blob", b"nobody points here")


def test_files_of_killed_runs_are_removed(store):
    append(store, "entry")
    packs = store.git_dir / "objects" / "pack"
    ours = [packs / f"{pack_writer.TEMPORARY}0123", store.git_dir / JOURNAL / "tmp-9"]
    others = [packs / "tmp_pack_old", packs / "tmp_idx_old", store.git_dir / "objects" / "tmp_obj_old"]
    young = packs / "tmp_pack_young"
    for path in [*ours, *others, young]:
        path.write_bytes(b"half")
    for path in others:
        os.utime(path, (0, 0))
    os.link(store.git_dir / "gitsession/keep", packs / f"pack-{'a' * 40}.keep")
    proof = store.git_dir / PROOFS / LEAF.replace("/", ":")
    proof.write_text("a" * 40)
    (store.git_dir / LEAF).parent.mkdir(parents=True, exist_ok=True)
    os.link(proof, store.git_dir / f"{LEAF}.lock")
    done = maintain(store)
    assert sorted(done.removed) == sorted(str(path.relative_to(store.git_dir)) for path in [*ours, *others])
    assert young.exists()
    assert not list(packs.glob("*.keep"))
    assert not list((store.git_dir / PROOFS).iterdir())
    assert git(store.git_dir, "rev-parse", LEAF) == store.ref(LEAF)


def test_keeps_stay_while_a_ref_move_waits(store):
    append(store, "entry")
    store.flush()
    (store.git_dir / f"{LEAF}.lock").touch()
    waiting = append(store, "waiting")
    done = maintain(store)
    assert (done.released, store.pending) == (0, 1)
    git(store.git_dir, "repack", "-a", "-d", "-q")
    assert store.read(waiting)[0] == "commit"


def test_closing_a_store_of_many_packs_maintains_it(store):
    grow(store, PACKS_MAX)
    assert count_packs(store.git_dir) > PACKS_MAX
    opened = Store(store)
    opened.close()
    opened.close()
    assert store.last_flush_error is None
    assert count_packs(store.git_dir) < 10
    git(store.git_dir, "fsck", "--strict", "--full")


def test_a_reader_merges_one_batch_at_most(store, monkeypatch):
    grow(store, PACKS_MAX)
    with monkeypatch.context() as patch:
        patch.setattr(maintenance, "BATCH_BYTES", 1000)
        Store.open(store.git_dir).close()
        assert count_packs(store.git_dir) > PACKS_MAX
    Store.open(store.git_dir).close()
    assert count_packs(store.git_dir) < 10


def test_large_packs_are_not_merged_and_do_not_count(store, monkeypatch):
    grow(store, PACKS_MAX)
    maintain(store)
    (merged,) = (store.git_dir / "objects/pack").glob("*.pack")
    monkeypatch.setattr(maintenance, "LARGE_BYTES", merged.stat().st_size)
    oid = append(store, "one more")
    store.flush()
    maintain(store)
    assert merged.exists()
    assert count_packs(store.git_dir) == 2
    assert store.read(oid)[0] == "commit"
    monkeypatch.setattr(maintenance, "LARGE_BYTES", 1)
    monkeypatch.setattr(maintenance, "PACKS_MAX", 2)
    assert not maintenance.is_due(store)


def test_packs_are_not_merged_while_others_wait_for_deltas(store, monkeypatch):
    grow(store, 3)
    monkeypatch.setattr(maintenance, "SECONDS_MAX", 0.0)
    assert maintain(store).packs_after == count_packs(store.git_dir) >= 3
    monkeypatch.setattr(maintenance, "SECONDS_MAX", 60.0)
    assert maintain(store).packs_after == 1


def test_closing_without_git_is_still_closing(store, monkeypatch):
    grow(store, PACKS_MAX)
    monkeypatch.setenv("PATH", "/nonexistent")
    Store(store).close()
    assert store.last_flush_error is None
    assert count_packs(store.git_dir) > PACKS_MAX
