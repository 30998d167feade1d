"""Tests of delta compression: git repacks each pack once, and no pack is deleted before its objects are elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from raw import LEAF, git

from gitsession import durable
from gitsession.errors import Unavailable
from gitsession.git import objects, pack_writer, process
from gitsession.store import maintenance
from gitsession.store.create import create
from gitsession.store.git_store import GitStore
from gitsession.store.maintenance import maintain

COUNT = 40


@pytest.fixture
def store(tmp_path: Path):
    create(tmp_path / "store.git")
    with GitStore.open(tmp_path / "store.git") as opened:
        maintain(opened)  # the first pack of the store is already repacked
        yield opened


@pytest.fixture
def passes(monkeypatch) -> list[list[str]]:
    """Record the packs of every delta pass."""
    real, asked = process.run, []

    def run(git_dir, *arguments, **options):
        if arguments[0] == "pack-objects":
            asked.append(options["stdin"].decode().split())
        return real(git_dir, *arguments, **options)

    monkeypatch.setattr(process, "run", run)
    return asked


def text(number: int, of: str = "") -> bytes:
    return "\n".join(f"{of} line {line} of what is much the same in {number}" for line in range(60)).encode()


def in_one_go(store: GitStore, of: str = "") -> list[str]:
    """Append many entries in one transaction, and thus one pack, as an import does."""
    oids: list[str] = []
    with store.transaction() as transaction:
        seen = store.ref(LEAF)
        leaf = [seen] if seen else []
        for number in range(COUNT):
            tree = objects.encode_tree({"entry.cbor": ("100644", transaction.put("blob", text(number, of)))})
            commit = objects.encode_commit(
                tree=transaction.put("tree", tree),
                parents=leaf,
                author_name="user",
                author_seconds=0,
                committer_seconds=0,
                message=b"entry",
            )
            leaf = [transaction.put("commit", commit)]
            oids += leaf
        transaction.move(LEAF, oids[-1], expected=seen)
    store.flush()
    return oids


def packs(store: GitStore) -> dict[str, int]:
    """Return the inodes of the packs by name."""
    return {file.name: file.stat().st_ino for file in (store.git_dir / "objects/pack").glob("*.pack")}


def one_pack(store: GitStore, of: str = "") -> tuple[list[str], Path]:
    before = packs(store)
    oids = in_one_go(store, of)
    (new,) = packs(store).keys() - before.keys()
    return oids, store.git_dir / "objects/pack" / new


def deltas(store: GitStore) -> int:
    files = map(str, (store.git_dir / "objects/pack").glob("*.idx"))
    return sum(len(line.split()) == 7 for line in git(store.git_dir, "verify-pack", "-v", *files).split("\n"))


def whole(store: GitStore, oids: list[str]) -> None:
    assert git(store.git_dir, "rev-list", "--reverse", LEAF).split() == oids
    assert [store.read(oid)[0] for oid in oids] == ["commit"] * len(oids)
    git(store.git_dir, "fsck", "--strict", "--full")


def test_pack_of_one_transaction_gets_deltas(store, passes):
    oids, written = one_pack(store)
    assert deltas(store) == 0
    maintain(store)
    assert passes == [[written.name]]
    assert not written.exists()
    assert deltas(store) > COUNT / 2
    whole(store, oids)


def test_a_pack_has_one_pass_and_no_second(store, passes):
    oids = in_one_go(store)
    maintain(store)
    before = packs(store)
    maintain(store)
    assert (packs(store), len(passes)) == (before, 1)
    more, written = one_pack(store, "other")
    maintain(store)
    assert passes[1:] == [[written.name]]
    whole(store, oids + more)


def test_a_pack_in_which_no_delta_is_found_has_no_second_pass_either(store, passes):
    with store.transaction() as transaction:
        alone = transaction.put("blob", b"of one object git makes the very same pack" * 40_000)
    pack_writer.release_packs(store.git_dir / "objects")
    before = packs(store).keys()
    maintenance.deltify(store)
    maintenance.deltify(store)
    assert (packs(store).keys(), len(passes)) == (before, 1)
    assert store.read(alone)[0] == "blob"


def test_old_pack_of_git_is_recognized_by_its_deltas(store, passes):
    oids = in_one_go(store)
    git(store.git_dir, "-c", "pack.writeReverseIndex=false", "repack", "-adfq")
    assert not list((store.git_dir / "objects/pack").glob("*.rev"))
    before = packs(store)
    maintain(store)
    assert (packs(store), passes) == (before, [])
    whole(store, oids)


def test_unreachable_objects_are_kept(store):
    in_one_go(store)
    with store.transaction() as transaction:
        unreachable = [transaction.put("blob", text(number, "nobody points here") * 400) for number in range(3)]
    maintain(store)
    assert [store.read(oid)[0] for oid in unreachable] == ["blob"] * 3


def test_a_kept_pack_is_left_alone(store, passes):
    _, written = one_pack(store)
    written.with_suffix(".keep").write_text("mine")
    before = packs(store)
    maintain(store)
    assert (packs(store), passes) == (before, [])


def test_packs_in_a_multi_pack_index_are_only_removed_by_git(store, passes):
    oids = in_one_go(store)
    git(store.git_dir, "multi-pack-index", "write")
    maintain(store)
    assert passes == []
    whole(store, oids)


def test_large_packs_are_merged_in_batches_in_order(store, passes, monkeypatch):
    made = [one_pack(store, of) for of in "abc"]
    oids = [oid for part, _ in made for oid in part]
    before = packs(store)
    monkeypatch.setattr(maintenance, "BATCH_BYTES", 1)
    monkeypatch.setattr(maintenance, "SECONDS_MAX", 0.0)
    maintain(store)
    assert (packs(store), passes) == (before, [])
    monkeypatch.setattr(maintenance, "SECONDS_MAX", 60.0)
    maintain(store)
    assert passes == [[name] for name in sorted(file.name for _, file in made)]
    assert deltas(store) > COUNT
    whole(store, oids)


def test_pack_is_kept_if_git_left_out_an_object(store, monkeypatch):
    oids, other = one_pack(store, "a")
    oids += in_one_go(store, "b")
    real = process.run

    def leaves_out(git_dir, *arguments, **options):
        if arguments[0] == "pack-objects":
            options["stdin"] = f"{other.name}\n".encode()
        return real(git_dir, *arguments, **options)

    monkeypatch.setattr(process, "run", leaves_out)
    with pytest.raises(Unavailable, match="both packs are kept"):
        maintenance.deltify(store)
    whole(store, oids)


def test_packs_are_merged_even_if_git_makes_no_deltas(store, monkeypatch):
    oids = [oid for of in "abc" for oid in in_one_go(store, of)]
    real = process.run

    def refuses(git_dir, *arguments, **options):
        if arguments[0] == "pack-objects":
            raise Unavailable("unknown option")
        return real(git_dir, *arguments, **options)

    monkeypatch.setattr(process, "run", refuses)
    done = maintain(store)
    assert done.packs_after < done.packs_before
    whole(store, oids)


def test_pack_removed_by_another_git_does_not_stop_maintenance(store, monkeypatch):
    oids = in_one_go(store)

    def repacked_meanwhile(directory):
        git(store.git_dir, "repack", "-adfq", "--window=3")
        durable.sync_directory(directory)

    monkeypatch.setattr(maintenance, "sync_directory", repacked_meanwhile)
    maintain(store)
    whole(store, oids)


def test_index_without_its_pack_from_a_killed_run_is_removed(store, monkeypatch):
    oids, written = one_pack(store)
    index = written.with_suffix(".idx")
    unlink = os.unlink

    def killed(path, **options):
        if Path(path) == index:
            raise KeyboardInterrupt
        unlink(path, **options)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(os, "unlink", killed)
        maintain(store)
    assert (written.exists(), index.exists()) == (False, True)
    whole(store, oids)
    assert maintain(store).removed == (f"objects/pack/{index.name}",)
    assert not index.exists()
    whole(store, oids)


def test_last_index_of_lost_objects_is_kept(store):
    _, lost = one_pack(store, "a")
    in_one_go(store, "b")
    lost.unlink()
    assert list(maintenance._lone_indexes(store.git_dir / "objects/pack")) == []
