"""Tests of many refs in one transaction: one write of ``packed-refs`` (git/ref_writer.py).

It is as safe beside git as a lock on each ref.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from raw import git
from ref_files import OID, OID2, child_of, first, traces

from gitsession.git import ref_files
from gitsession.git.ref_files import RefReader
from gitsession.git.ref_writer import RefWriter
from gitsession.store import refs
from gitsession.store.create import MAIN, PROOFS, create
from gitsession.store.git_store import GitStore

MANY = [refs.leaf(f"s{number:03}") for number in range(100)]
ONE, OTHER = MANY[3], MANY[4]
FREE = {name: [None] for name in MANY}
"""Expected values of refs that are to be created."""


@pytest.fixture
def git_dir(tmp_path: Path) -> Path:
    create(tmp_path / "store.git")
    return tmp_path / "store.git"


@pytest.fixture
def writer(git_dir: Path) -> RefWriter:
    return RefWriter(git_dir, git_dir / PROOFS, RefReader(git_dir))


@pytest.fixture
def meanwhile(writer, monkeypatch):
    """Return a function that runs one action just before the new ``packed-refs`` is renamed, and one just after."""

    def arrange(before: Callable[[], object], after: Callable[[], object] = lambda: None) -> None:
        real = writer._replace_packed

        def replace(lock: str, data: bytes) -> None:
            before()
            real(lock, data)
            after()

        monkeypatch.setattr(writer, "_replace_packed", replace)

    return arrange


def loose(git_dir: Path) -> list[str]:
    return sorted(str(file.relative_to(git_dir)) for file in (git_dir / "refs").rglob("*") if file.is_file())


def update_ref(git_dir: Path, words: str) -> None:
    subprocess.run(["git", f"--git-dir={git_dir}", "update-ref", "--stdin"], input=words.encode(), check=True)


def test_many_refs_are_made_moved_and_deleted_by_one_write_each(git_dir, writer):
    begun = first(git_dir)
    second = child_of(git_dir, begun, "second")
    assert writer.move_many(dict.fromkeys(MANY, begun), FREE) == set(MANY)
    assert git(git_dir, "for-each-ref", "--format=%(objectname)", refs.SESSIONS).split() == [begun] * len(MANY)
    assert writer.move_many(dict.fromkeys(MANY, second), {name: [begun] for name in MANY}) == set(MANY)
    assert writer.refs.list(refs.SESSIONS) == dict.fromkeys(MANY, second)
    assert writer.move_many(dict.fromkeys(MANY), {name: [second] for name in MANY}) == set(MANY)
    assert writer.refs.list(refs.SESSIONS) == {}
    assert loose(git_dir) == [MAIN]
    assert not traces(git_dir)


def test_refs_with_other_values_or_own_files_are_left_out(git_dir, writer):
    writer.move(ONE, OID, expected={None})
    writer.move_many({OTHER: OID2}, {OTHER: [None]})
    assert writer.move_many(dict.fromkeys(MANY, OID), FREE) == {*MANY} - {ONE, OTHER}
    assert (writer.refs.read(ONE), writer.refs.read(OTHER)) == (OID, OID2)


def test_ref_is_not_created_in_place_of_a_directory_or_below_another_ref(git_dir, writer):
    below, above = f"{ONE}/below", refs.SESSIONS + "s004"
    writer.move(below, OID, expected={None})
    writer.move_many({OTHER: OID}, {OTHER: [None]})
    new = [ONE, above, f"{OTHER}/below", f"{MAIN}/below", MANY[5], f"{MANY[5]}/below"]
    assert writer.move_many(dict.fromkeys(new, OID2), {name: [None] for name in new}) == {MANY[5]}


def test_deletion_of_a_missing_ref_is_left_to_its_creator(writer):
    assert writer.move_many({ONE: None}, {ONE: [None]}) == set()


@pytest.mark.promise("P16")
def test_ref_created_by_git_during_the_write_is_kept(git_dir, writer, meanwhile, faults):
    end = child_of(git_dir, first(git_dir), "theirs")
    meanwhile(lambda: git(git_dir, "update-ref", ONE, end, "0" * 40))
    with faults.one():
        assert writer.move_many(dict.fromkeys(MANY, first(git_dir)), FREE) == {*MANY} - {ONE}
        assert writer.refs.read(ONE) == end


@pytest.mark.promise("P16")
def test_ref_locked_by_git_before_the_write_is_not_moved(git_dir, writer, meanwhile, faults):
    """git may have compared the ref already, and may lock it after gitsession has checked the lock."""
    lock = git_dir / f"{ONE}.lock"

    def begin() -> None:
        lock.parent.mkdir(parents=True)
        lock.write_text(f"{OID}\n")

    meanwhile(begin)
    with faults.one():
        assert writer.move_many(dict.fromkeys(MANY, OID2), FREE) == {*MANY} - {ONE}
        lock.rename(git_dir / ONE)
        assert not writer.move(ONE, OID2, expected={None})
        assert writer.refs.read(ONE) == OID


@pytest.mark.promise("P16")
def test_ref_created_and_deleted_by_git_during_the_write_is_not_counted_as_written(git_dir, writer, meanwhile, faults):
    end = child_of(git_dir, first(git_dir), "theirs")
    meanwhile(
        lambda: git(git_dir, "update-ref", ONE, end, "0" * 40), lambda: git(git_dir, "update-ref", "-d", ONE, end)
    )
    with faults.one():
        assert writer.move_many(dict.fromkeys(MANY, first(git_dir)), FREE) == {*MANY} - {ONE}
        assert writer.refs.read(ONE) is None


def test_git_that_locks_after_the_write_reads_the_new_value(git_dir, writer, meanwhile):
    begun = first(git_dir)
    end = child_of(git_dir, begun, "theirs")
    told: list[int] = []

    def create_again() -> None:
        words = ["git", f"--git-dir={git_dir}", "update-ref", ONE, end, "0" * 40]
        told.append(subprocess.run(words, capture_output=True).returncode)

    meanwhile(lambda: None, create_again)
    assert writer.move_many(dict.fromkeys(MANY, begun), FREE) == set(MANY)
    assert told == [128]
    assert writer.refs.read(ONE) == begun


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_flush_of_many_refs_that_ends_midway_is_done_by_the_next(git_dir, monkeypatch, moment):
    """The journal has the refs until all of them are durable."""
    real = RefWriter._replace_packed

    def die(self: RefWriter, lock: str, data: bytes) -> None:
        if moment == "after":
            real(self, lock, data)
        raise KeyboardInterrupt

    with GitStore.open(git_dir, flush_on_close=False) as store:
        with store.transaction() as tx:
            for name in MANY:
                tx.move(name, first(git_dir), expected=None)
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(RefWriter, "_replace_packed", die)
            store.flush()
    with GitStore.open(git_dir) as store:
        assert store.refs(refs.SESSIONS) == dict.fromkeys(MANY, first(git_dir))
    assert RefReader(git_dir).list(refs.SESSIONS) == dict.fromkeys(MANY, first(git_dir))
    assert loose(git_dir) == [MAIN]


def test_foreign_lock_on_packed_refs_does_not_delay_a_flush(git_dir):
    (git_dir / "packed-refs.lock").touch()
    with GitStore.open(git_dir) as store:
        with store.transaction() as tx:
            for name in MANY[:40]:
                tx.move(name, first(git_dir), expected=None)
        store.flush()
        assert (store.last_flush_error, store.pending) == (None, 0)
    assert len(loose(git_dir)) == 41


def test_ref_created_by_others_is_renamed_among_many(git_dir):
    begun = first(git_dir)
    ours, theirs = child_of(git_dir, begun, "ours"), child_of(git_dir, begun, "theirs")
    with GitStore.open(git_dir) as store:
        with store.transaction() as tx:
            for name in MANY:
                tx.move(name, ours, expected=None)
        git(git_dir, "update-ref", ONE, theirs)
        store.flush()
        [(name, side)] = store.renamed_branches
        assert (name, store.ref(ONE), store.ref(side)) == (ONE, theirs, ours)
    packed = ref_files.packed_values((git_dir / ref_files.PACKED_REFS).read_bytes())
    assert packed == dict.fromkeys({*MANY} - {ONE}, ours)


def test_maintenance_packs_loose_refs_only_if_there_are_many(git_dir):
    with GitStore.open(git_dir) as store, store.locked():
        assert loose(git_dir) == [MAIN]
        for number, name in enumerate(MANY[:31]):
            (git_dir / name).parent.mkdir(parents=True)
            (git_dir / name).write_text(f"{first(git_dir)}\n")
            assert store.pack_refs() == (32 if number == 30 else 0)
        assert loose(git_dir) == []
