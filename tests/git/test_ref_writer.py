"""Tests of the ref writer beside git's: compare-and-swap, stale and foreign locks, renames, deletions."""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw import git
from ref_files import OID, OID2, child_of, first, traces

from gitsession.errors import Corrupt, Unavailable
from gitsession.git import objects, ref_files
from gitsession.git.ref_files import RefReader
from gitsession.git.ref_writer import RefWriter
from gitsession.store.create import MAIN, PROOFS, create
from gitsession.store.git_store import GitStore

LEAF = "refs/heads/sessions/s1/main"
OTHER = "refs/heads/sessions/s2/main"


@pytest.fixture
def git_dir(tmp_path: Path) -> Path:
    create(tmp_path / "store.git")
    return tmp_path / "store.git"


@pytest.fixture(autouse=True, params=[0, 10_000], ids=["cached lists", "no cached lists"])
def cached_refs_min(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ref_files, "_CACHED_REFS_MIN", request.param)


@pytest.fixture
def refs(git_dir: Path) -> RefReader:
    return RefReader(git_dir)


@pytest.fixture
def writer(git_dir: Path, refs: RefReader) -> RefWriter:
    return RefWriter(git_dir, git_dir / PROOFS, refs)


def test_ref_moves_if_it_has_an_expected_value(git_dir, writer, refs):
    assert writer.move(LEAF, OID, expected={None})
    assert writer.move(LEAF, OID2, expected={OID})
    assert (refs.read(LEAF), traces(git_dir)) == (OID2, [])


def test_a_ref_in_a_new_directory_moves_on_a_machine_that_stood_still(writer, refs, monkeypatch):
    """A process that was suspended for longer than the lock timeout gave up before it created the directory."""
    minutes = itertools.count(step=60.0)
    still = SimpleNamespace(monotonic=lambda: next(minutes), time=time.time, sleep=time.sleep)
    monkeypatch.setattr("gitsession.git.ref_writer.time", still)
    assert writer.move(LEAF, OID, expected={None})
    assert refs.read(LEAF) == OID


def test_ref_with_another_value_is_kept(git_dir, writer, refs):
    writer.move(LEAF, OID, expected={None})
    assert not writer.move(LEAF, OID2, expected={None, OID2})
    assert (refs.read(LEAF), traces(git_dir)) == (OID, [])


def test_moving_a_ref_to_its_value_is_harmless(writer, refs):
    assert writer.move(LEAF, OID, expected={None})
    assert writer.move(LEAF, OID, expected={None})
    assert refs.read(LEAF) == OID


def test_a_packed_ref_is_compared_too(git_dir, writer, refs):
    writer.move(LEAF, first(git_dir), expected={None})
    git(git_dir, "pack-refs", "--all")
    assert not (git_dir / LEAF).exists()
    assert not writer.move(LEAF, OID, expected={None})
    assert writer.move(LEAF, OID, expected={first(git_dir)})
    assert refs.read(LEAF) == OID


def test_ref_replaces_empty_directories(git_dir, writer, refs):
    (git_dir / LEAF / "was" / "here").mkdir(parents=True)
    assert writer.move(LEAF, OID, expected={None})
    assert refs.read(LEAF) == OID


def test_ref_does_not_replace_refs_below_it(git_dir, writer, refs):
    writer.move(f"{LEAF}/below", OID, expected={None})
    assert not writer.move(LEAF, OID2, expected={None})
    assert refs.list("refs/heads/sessions/") == {f"{LEAF}/below": OID}
    assert not traces(git_dir)


def test_a_ref_below_another_ref_is_unavailable(git_dir, writer):
    writer.move(LEAF, OID, expected={None})
    with pytest.raises(Unavailable, match="already a ref"):
        writer.move(f"{LEAF}/below", OID2, expected={None})
    assert not traces(git_dir)


@pytest.mark.promise("P16")
def test_git_may_pack_a_ref_and_remove_its_directory_the_moment_it_has_moved(
    git_dir, writer, refs, monkeypatch, faults
):
    real = os.rename

    def rename_then_pack(old: str, new: str | Path) -> None:
        real(old, new)
        git(git_dir, "pack-refs", "--all")

    monkeypatch.setattr(os, "rename", rename_then_pack)
    with faults.one():
        assert writer.move(LEAF, first(git_dir), expected={None})
        assert not (git_dir / LEAF).parent.exists()
        assert (refs.read(LEAF), traces(git_dir)) == (first(git_dir), [])


def test_the_lock_of_a_dead_writer_is_broken_by_its_proof(git_dir, writer, refs):
    writer.move(LEAF, OID, expected={None})
    proof = git_dir / PROOFS / LEAF.replace("/", ":")
    proof.write_text(OID2)
    os.link(proof, git_dir / f"{LEAF}.lock")
    (git_dir / PROOFS / OTHER.replace("/", ":")).write_text("its writer died before it made a lock")
    assert writer.break_dead_locks() == 2
    assert (refs.read(LEAF), traces(git_dir)) == (OID, [])
    assert writer.move(LEAF, OID2, expected={OID})


def test_foreign_lock_is_never_broken(git_dir, writer, refs):
    writer.move(LEAF, OID, expected={None})
    lock = git_dir / f"{LEAF}.lock"
    lock.touch()
    with pytest.raises(Unavailable, match=r"another program holds"):
        writer.move(LEAF, OID2, expected={OID})
    writer.break_dead_locks()
    assert (refs.read(LEAF), traces(git_dir)) == (OID, [lock])


def test_a_full_disk_leaves_no_lock(git_dir, writer, refs, monkeypatch):
    writer.move(LEAF, OID, expected={None})
    monkeypatch.setattr(os, "rename", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        writer.move(LEAF, OID2, expected={OID})
    monkeypatch.undo()
    assert (refs.read(LEAF), traces(git_dir)) == (OID, [])


def test_refs_are_deleted_loose_packed_and_symbolic(git_dir, writer, refs):
    active = "refs/gitsession/active/s1"
    writer.move(OTHER, first(git_dir), expected={None})
    git(git_dir, "pack-refs", "--all")
    writer.move(LEAF, first(git_dir), expected={None})
    writer.move(active, f"ref: {LEAF}", expected={None})
    ours = {LEAF: {first(git_dir)}, OTHER: {first(git_dir)}, active: {f"ref: {LEAF}"}}
    assert writer.delete(ours) == {}
    assert writer.delete(ours) == {}
    assert refs.list("refs/") == {MAIN: first(git_dir)}


def test_deletion_keeps_refs_that_others_moved(git_dir, writer, refs):
    writer.move(LEAF, first(git_dir), expected={None})
    assert writer.delete({LEAF: {OID}}) == {}
    assert refs.read(LEAF) == first(git_dir)


def test_locked_ref_does_not_delay_other_deletions(git_dir, writer, refs):
    for name in (LEAF, OTHER):
        writer.move(name, first(git_dir), expected={None})
    (git_dir / f"{LEAF}.lock").touch()
    failed = writer.delete({LEAF: {first(git_dir)}, OTHER: {first(git_dir)}})
    assert list(failed) == [LEAF]
    assert refs.list("refs/heads/sessions/") == {LEAF: first(git_dir)}


# -- refs packed by git


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10, 100])
def test_packed_refs_are_found_one_by_one_and_by_prefix(git_dir, refs, count):
    names = sorted(f"refs/heads/sessions/{n:03d}/{branch}" for n in range(count) for branch in ("main", "meta"))
    lines = [f"{n:040x} {name}\n" for n, name in enumerate(names, 1)]
    peeled = [line if n % 3 else f"{line}^{OID}\n" for n, line in enumerate(lines)]
    for text in ("# pack-refs with: peeled fully-peeled sorted \n" + "".join(peeled), "".join(reversed(lines))):
        (git_dir / "packed-refs").write_text(text)
        os.utime(git_dir / "packed-refs", ns=(0, len(text)))
        assert [refs.read(name) for name in names] == [f"{n:040x}" for n in range(1, len(names) + 1)]
        assert sorted(refs.list("refs/heads/sessions/")) == names
        assert sorted(refs.list("refs/heads/sessions/00")) == [name for name in names if "/00" in name]
        assert refs.read("refs/heads/sessions/000") is None
        assert refs.read("refs/heads/zzz") is None


NAMES = [f"refs/heads/sessions/{name}" for name in ("a", "a/b", "a/bc", "a-b", "a.b", "b", "é")]


def many_lines(count=2000):
    names = sorted(f"refs/heads/sessions/{n:04d}/{branch}" for n in range(count) for branch in ("main", "meta"))
    return {name: f"{n:040x}" for n, name in enumerate(names, 1)}


def write_lines(git_dir, values):
    lines = [f"{oid} {name}\n" for name, oid in values.items()]
    (git_dir / "packed-refs").write_text("# pack-refs with: peeled fully-peeled sorted \n" + "".join(lines))


def test_a_few_refs_are_found_in_large_packed_refs_without_reading_all_lines(git_dir, monkeypatch):
    values = many_lines()
    write_lines(git_dir, values)
    monkeypatch.setattr(ref_files, "_sorted_lines", lambda data: pytest.fail("all lines were read"))
    for name in (*list(values)[:5], *list(values)[1990:2010], *list(values)[-5:]):
        assert RefReader(git_dir).read(name) == values[name]
    for name in ("refs/a", "refs/heads/sessions/1000/a", "refs/heads/sessions/1000/z", "refs/zzz", f"refs/{'x' * 180}"):
        assert RefReader(git_dir).read(name) is None
    for directory in ("refs/heads/sessions", "refs/heads/sessions/1000"):
        assert RefReader(git_dir).read(directory) is None
    for prefix in ("refs/heads/sessions/1000/", "refs/heads/sessions/100", "refs/heads/sessions/1999/", "refs/a"):
        expected = {name: oid for name, oid in values.items() if name.startswith(prefix)}
        assert RefReader(git_dir).list(prefix) == expected


def test_many_reads_of_large_packed_refs_read_all_lines_once(git_dir, refs, monkeypatch):
    values = many_lines()
    write_lines(git_dir, values)
    os.utime(git_dir / "packed-refs", (0, 0))
    searched = []
    search = ref_files._lines_around
    monkeypatch.setattr(ref_files, "_lines_around", lambda *args: searched.append(args) or search(*args))
    assert {name: refs.read(name) for name in values} == values
    assert len(searched) == ref_files._SEARCHES_MAX
    assert RefReader(git_dir).list("refs/heads/sessions/") == values


@pytest.mark.parametrize("line", range(0, 4000, 101))
@pytest.mark.parametrize("damaged", ["{oid}  {name}", "{oid} refs/a", "{oid} refs/zzz", "", "{oid} {name}{name}" * 40])
def test_a_damaged_line_of_large_packed_refs_hides_no_other_line(git_dir, line, damaged):
    values = many_lines()
    write_lines(git_dir, values)
    lines = (git_dir / "packed-refs").read_text().splitlines(keepends=True)
    name = lines[line + 1][41:-1]
    lines[line + 1] = damaged.format(oid=values[name], name=name) + "\n"
    (git_dir / "packed-refs").write_text("".join(lines))
    for other in list(values)[line % 37 :: 37]:
        assert RefReader(git_dir).read(other) == (values[other] if other != name else None)


def test_a_new_value_in_large_packed_refs_is_found_at_once(git_dir, refs):
    values = many_lines()
    for oid in (OID, OID2):
        values["refs/heads/sessions/1000/main"] = oid
        write_lines(git_dir, values)
        assert refs.read("refs/heads/sessions/1000/main") == oid


@given(
    before=st.dictionaries(st.sampled_from(NAMES), st.sampled_from([OID, OID2])),
    put=st.dictionaries(st.sampled_from(NAMES), st.sampled_from([OID, OID2])),
    drop=st.sets(st.sampled_from(NAMES)),
)
def test_changed_packed_refs_have_the_new_values_in_order(before, put, drop):
    header = b"# pack-refs with: peeled fully-peeled sorted \n"
    lines = [f"{oid} {name}\n".encode() for name, oid in sorted(before.items())]
    drop -= put.keys()
    expected = {name: oid for name, oid in before.items() if name not in drop} | put
    written = header + b"".join(f"{oid} {name}\n".encode() for name, oid in sorted(expected.items()))
    assert ref_files.changed_packed(header + b"".join(lines), put=put, drop=drop) == written
    assert ref_files.changed_packed(header + b"".join(reversed(lines)), put=put, drop=drop) == written


@pytest.mark.promise("P15")
def test_packed_refs_that_look_like_those_of_a_moment_ago_are_read_again(git_dir, refs, faults):
    """Two runs of `git pack-refs` within one tick of the clock can result in the same size, time and inode."""
    now = time.time_ns()
    for oid in (OID, OID2):
        (git_dir / "packed-refs").write_text(f"# pack-refs with: peeled fully-peeled sorted \n{oid} {LEAF}\n")
        os.utime(git_dir / "packed-refs", ns=(0, now))
        with faults.one():
            assert refs.read(LEAF) == oid


def test_packed_refs_that_were_written_a_moment_ago_are_checked_once(git_dir, refs, monkeypatch):
    checked = []
    check = ref_files._sorted_lines
    monkeypatch.setattr(ref_files, "_sorted_lines", lambda data: checked.append(data) or check(data))
    (git_dir / "packed-refs").write_text(f"{OID} {LEAF}\n")
    assert [refs.read(LEAF) for _ in range(3)] == [OID] * 3
    assert len(checked) == 1
    os.utime(git_dir / "packed-refs", (0, 0))
    assert refs.read(LEAF) == OID
    (git_dir / "packed-refs").write_bytes(b"")
    assert refs.read(LEAF) is None


@pytest.mark.parametrize(
    "damaged",
    [
        f"{OID[:-1]}g {LEAF}", f"{OID[:-1]} 0{LEAF}", f"{OID}{LEAF}", f"{OID} {LEAF}\r", f"{OID} refs/",
        f"{OID} ref/a", f"{OID} refs/a b", f"{OID} refs/a\0", f"{OID} refs/\x7f", f"{OID} ", OID, "", f"^{OID[1:]}",
        f" {OID[1:]} {LEAF}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_damaged_line_of_packed_refs_is_reported_and_hides_no_other_line(git_dir, refs, damaged, at):
    lines = [f"{OID} refs/tags/a", f"{OID2} refs/tags/z"]
    lines.insert(at, damaged)
    written = "".join(f"{line}\n" for line in ["# pack-refs with: sorted ", *lines])
    (git_dir / "packed-refs").write_bytes(written.encode())
    assert refs.list("refs/tags/") == {"refs/tags/a": OID, "refs/tags/z": OID2}
    assert list(refs.damage()) == ["packed-refs"]


def test_packed_refs_out_of_order_are_sorted(git_dir, refs):
    (git_dir / "packed-refs").write_text(f"# pack-refs with: sorted \n{OID} refs/tags/z\n{OID2} refs/tags/a\n")
    assert refs.list("refs/tags/") == {"refs/tags/a": OID2, "refs/tags/z": OID}


def test_refs_are_listed_in_order_whether_loose_or_packed(git_dir, writer, refs):
    values = many_lines(3)
    write_lines(git_dir, {name: oid for name, oid in values.items() if "0001" not in name})
    for name in ("refs/heads/sessions/0001/main", "refs/heads/sessions/0001/meta"):
        (git_dir / name).parent.mkdir(parents=True, exist_ok=True)
        (git_dir / name).write_text(f"{values[name]}\n")
    assert list(refs.list("refs/heads/sessions/").items()) == list(values.items())


def test_a_loose_ref_hides_the_packed_one(git_dir, writer, refs):
    writer.move(LEAF, first(git_dir), expected={None})
    git(git_dir, "pack-refs", "--all")
    writer.move(LEAF, OID, expected={first(git_dir)})
    assert refs.read(LEAF) == refs.list("refs/heads/sessions/")[LEAF] == OID


# -- through a store


def append(store: GitStore, text: str, ref: str = LEAF) -> str:
    with store.transaction() as transaction:
        leaf = store.ref(ref)
        blob = transaction.put("blob", text.encode())
        oid = transaction.put(
            "commit",
            objects.encode_commit(
                tree=transaction.put("tree", objects.encode_tree({"entry.cbor": ("100644", blob)})),
                parents=[leaf] if leaf else [],
                author_name="user",
                author_seconds=0,
                committer_seconds=0,
                message=text.encode(),
            ),
        )
        transaction.move(ref, oid, expected=leaf)
    return oid


def test_ref_moved_by_others_is_renamed_and_the_rest_is_flushed(git_dir):
    with GitStore.open(git_dir) as store:
        root = append(store, "root")
        store.flush()
        ours, elsewhere = append(store, "ours"), append(store, "elsewhere", OTHER)
        theirs = child_of(git_dir, root, "theirs")
        git(git_dir, "update-ref", LEAF, theirs, root)
        store.flush()
        [(name, side)] = store.renamed_branches
        assert (name, side[: len(LEAF) + 1], len(side)) == (LEAF, f"{LEAF}.", len(LEAF) + 9)
        assert store.refs("refs/heads/sessions/") == {LEAF: theirs, side: ours, OTHER: elsewhere}
        assert (store.pending, store.last_flush_error) == (0, None)
    git(git_dir, "fsck", "--strict", "--full")


@pytest.mark.promise("P13")
def test_git_may_move_a_ref_while_a_transaction_looks_at_it(git_dir, faults):
    with GitStore.open(git_dir) as store:
        root = append(store, "root")
        store.flush()
        theirs = child_of(git_dir, root, "theirs")
        with faults.one():
            with store.transaction() as transaction:
                seen = store.ref(LEAF)
                git(git_dir, "update-ref", LEAF, theirs, root)
                transaction.move(LEAF, transaction.put("blob", b"ours"), expected=seen)
            store.flush()
            [(_, side)] = store.renamed_branches
            assert (store.ref(LEAF), store.ref(side)) == (theirs, objects.oid_of("blob", b"ours"))


def test_new_name_depends_on_the_own_tip(git_dir):
    names = set()
    for number in range(2):
        path = git_dir.with_name(f"{number}.git")
        create(path)
        with GitStore.open(path) as store:
            append(store, "ours")
            git(path, "update-ref", LEAF, MAIN)
            store.flush()
            names.add(store.renamed_branches[0][1])
    assert len(names) == 1


def test_foreign_lock_only_delays_its_own_ref(git_dir):
    with GitStore.open(git_dir) as store:
        append(store, "root")
        store.flush()
        (git_dir / f"{LEAF}.lock").touch()
        blocked, free = append(store, "blocked"), append(store, "free", OTHER)
        for _ in range(3):
            store.flush()
            assert isinstance(store.last_flush_error, Unavailable)
            assert git(git_dir, "rev-parse", OTHER) == free
            assert (store.ref(LEAF), store.pending) == (blocked, 1)
        git(git_dir, "repack", "-a", "-d", "-q")
        assert store.read(blocked)[0] == "commit"
        blocked = append(store, "more")
        with GitStore.open(git_dir) as other:
            assert other.ref(LEAF) == blocked
        (git_dir / f"{LEAF}.lock").unlink()
        store.flush()
        assert (store.last_flush_error, store.pending, store.renamed_branches) == (None, 0, [])
    assert git(git_dir, "rev-parse", LEAF) == blocked
    assert not list(git_dir.glob("objects/pack/*.keep"))
    git(git_dir, "fsck", "--strict", "--full")


def test_flush_works_without_git(git_dir, monkeypatch):
    with monkeypatch.context() as patch, GitStore.open(git_dir) as store:
        patch.setenv("PATH", "/nonexistent")
        oid = append(store, "entry")
        append(store, "other", OTHER)
        store.flush()
        with store.transaction() as transaction:
            transaction.move(LEAF, None, expected=oid)
        store.flush()
        assert (store.last_flush_error, store.pending, store.ref(LEAF)) == (None, 0, None)
    assert LEAF not in git(git_dir, "for-each-ref")


# -- packed-refs written by gitsession


def test_refs_are_packed_and_read_as_before(git_dir, writer, refs):
    writer.move(LEAF, first(git_dir), expected={None})
    writer.move(OTHER, first(git_dir), expected={None})
    writer.move("refs/gitsession/active/s1", f"ref: {LEAF}", expected={None})
    before = git(git_dir, "for-each-ref")
    assert writer.pack(["refs/heads/", "refs/gitsession/"]) == 3
    assert list((git_dir / "refs" / "heads").rglob("*")) == []
    assert git(git_dir, "for-each-ref") == before
    assert refs.read(LEAF) == first(git_dir)
    assert (writer.pack(["refs/heads/"]), traces(git_dir)) == (0, [])


def test_packed_refs_is_not_written_if_no_ref_is_loose(git_dir, writer):
    writer.move(LEAF, first(git_dir), expected={None})
    writer.pack(["refs/heads/"])
    before = (git_dir / "packed-refs").stat()
    assert writer.pack(["refs/heads/"]) == 0
    assert (git_dir / "packed-refs").stat() == before


def test_refs_packed_by_git_are_kept_when_gitsession_packs_and_deletes(git_dir, writer, refs):
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    git(git_dir, *who, "tag", "-a", "-m", "annotated", "release", MAIN)
    git(git_dir, "pack-refs", "--all")
    writer.move(LEAF, first(git_dir), expected={None})
    assert writer.pack(["refs/heads/"]) == 1
    before = git(git_dir, "show-ref", "-d")
    assert "refs/tags/release^{}" in before
    assert writer.delete({LEAF: {first(git_dir)}}) == {}
    assert git(git_dir, "show-ref", "-d") == "\n".join(row for row in before.split("\n") if LEAF not in row)
    assert traces(git_dir) == []


def test_ref_deleted_while_it_is_packed_stays_deleted(git_dir, writer, refs):
    writer.move(LEAF, first(git_dir), expected={None})
    (git_dir / "packed-refs.lock").touch()
    with pytest.raises(Unavailable, match=r"packed-refs\.lock"):
        writer.pack(["refs/heads/"])
    (git_dir / "packed-refs.lock").unlink()
    git(git_dir, "update-ref", "-d", LEAF)
    writer.pack(["refs/heads/"])
    assert refs.read(LEAF) is None


def test_a_ref_that_moves_while_it_is_packed_keeps_its_file(git_dir, writer, refs, monkeypatch):
    writer.move(LEAF, first(git_dir), expected={None})
    newer = child_of(git_dir, first(git_dir), "newer")
    changed = ref_files.changed_packed

    def and_then_it_moves(*given, **named):
        git(git_dir, "update-ref", LEAF, newer)
        return changed(*given, **named)

    monkeypatch.setattr(ref_files, "changed_packed", and_then_it_moves)
    writer.pack(["refs/heads/"])
    assert refs.read(LEAF) == newer
    assert (git_dir / LEAF).exists()


def test_foreign_lock_on_packed_refs_only_delays_deletions(git_dir):
    with GitStore.open(git_dir) as store:
        oid = append(store, "entry")
        store.flush()
        git(git_dir, "pack-refs", "--all")
        (git_dir / "packed-refs.lock").touch()
        with store.transaction() as transaction:
            transaction.move(LEAF, None, expected=oid)
        store.flush()
        assert "packed-refs.lock" in str(store.last_flush_error)
        (git_dir / "packed-refs.lock").unlink()
        store.flush()
        assert (store.last_flush_error, store.pending) == (None, 0)
    assert LEAF not in git(git_dir, "for-each-ref")


def test_damaged_line_of_packed_refs_stops_packing_and_hides_no_new_ref(git_dir, writer, refs):
    """The last byte of the file is lost. The next line must not be joined with the damaged one."""
    oid = first(git_dir)
    writer.move(LEAF, oid, expected={None})
    git(git_dir, "pack-refs", "--all")
    packed = git_dir / ref_files.PACKED_REFS
    packed.write_bytes(packed.read_bytes()[:-1])
    writer.move(OTHER, oid, expected={None})
    with pytest.raises(Corrupt, match="packed-refs"):
        writer.pack(["refs/heads/"])
    assert refs.read(OTHER) == oid
    assert traces(git_dir) == []


STRANGE = {
    "longer than a file's name may be with its folders": "refs/heads/" + "a" * 150 + "/" + "a" * 150,
    "not UTF-8": "refs/heads/caf\udce9",
    "with a line end": "refs/heads/main\n12",
    "a copy made by hand": "refs/heads/main (copy)",
}


@pytest.mark.parametrize("name", STRANGE.values(), ids=STRANGE)
def test_ref_with_an_unusual_name_stays_loose(git_dir, writer, refs, name):
    writer.move(LEAF, first(git_dir), expected={None})
    strange = git_dir / name
    strange.parent.mkdir(exist_ok=True)
    strange.write_text(first(git_dir) + "\n")
    writer.pack(["refs/heads/"])
    assert strange.exists()
    assert ref_files.packed_values((git_dir / ref_files.PACKED_REFS).read_bytes()).keys() == {LEAF, MAIN}


def test_ref_recreated_while_it_is_packed_is_kept(git_dir, writer, refs, monkeypatch):
    writer.move(LEAF, first(git_dir), expected={None})
    real = RefWriter._remove

    def meanwhile(self, *words, **named):
        monkeypatch.undo()
        git(git_dir, "update-ref", "-d", LEAF)
        git(git_dir, "update-ref", LEAF, first(git_dir))
        return real(self, *words, **named)

    monkeypatch.setattr(RefWriter, "_remove", meanwhile)
    writer.pack(["refs/heads/"])
    assert refs.read(LEAF) == first(git_dir)


@pytest.mark.parametrize("name", [ref_files.PACKED_REFS, LEAF])
def test_pipe_in_place_of_a_ref_file_does_not_block(git_dir, refs, name):
    (git_dir / name).unlink(missing_ok=True)
    (git_dir / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(git_dir / name)
    with pytest.raises((OSError, Corrupt)):
        refs.read("refs/heads/sessions/s9/main" if name == ref_files.PACKED_REFS else LEAF)


@pytest.mark.promise("P17")
def test_concurrent_pack_refs_does_not_restore_a_deleted_ref(git_dir, writer, refs, faults):
    """git holds the lock of packed-refs from its read to its write. No ref may be deleted meanwhile."""
    oid = first(git_dir)
    writer.move(LEAF, oid, expected={None})
    lock = git_dir / "packed-refs.lock"
    lock.write_bytes(ref_files.changed_packed(b"", put={LEAF: oid}))
    with faults.one():
        failed = writer.delete({LEAF: {oid}})
        assert isinstance(failed[LEAF], Unavailable)
        lock.rename(git_dir / ref_files.PACKED_REFS)
        assert writer.delete({LEAF: {oid}}) == {}
        assert (refs.read(LEAF), traces(git_dir)) == (None, [])


@pytest.fixture
def packed_again(git_dir, monkeypatch):
    """Simulate a git that packs refs right after ``packed-refs`` is written, a number of times."""

    def times(most: int) -> None:
        real, count = os.rename, iter(range(most))

        def rename_then_pack(old: str, new: str | Path) -> None:
            real(old, new)
            if os.path.basename(new) == ref_files.PACKED_REFS and next(count, None) is not None:
                subprocess.run(["git", f"--git-dir={git_dir}", "pack-refs", "--all"], check=False, capture_output=True)

        monkeypatch.setattr(os, "rename", rename_then_pack)

    return times


@pytest.mark.promise("P17")
@pytest.mark.parametrize("again", [0, 1, 3])
def test_ref_packed_by_git_during_its_deletion_is_deleted(git_dir, writer, refs, packed_again, faults, again):
    writer.move(LEAF, first(git_dir), expected={None})
    git(git_dir, "pack-refs", "--all")
    newer = child_of(git_dir, first(git_dir), "newer")
    writer.move(LEAF, newer, expected={first(git_dir)})
    packed_again(again)
    with faults.one():
        assert writer.delete({LEAF: {newer}}) == {}
        assert (refs.read(LEAF), traces(git_dir)) == (None, [])
        assert LEAF not in git(git_dir, "for-each-ref")


@pytest.mark.promise("P18")
def test_endless_pack_refs_delays_a_deletion_and_loses_nothing(git_dir, writer, refs, packed_again):
    oid = first(git_dir)
    writer.move(LEAF, oid, expected={None})
    git(git_dir, "pack-refs", "--all")
    (git_dir / LEAF).parent.mkdir(parents=True)
    (git_dir / LEAF).write_text(oid + "\n")
    packed_again(1000)
    failed = writer.delete({LEAF: {oid}})
    assert (refs.read(LEAF), traces(git_dir)) == (oid, [])
    assert "keeps packing it" in str(failed[LEAF])


NAMES = st.sets(st.lists(st.sampled_from([b"a", b"b", b"/", b"\xc3\xa9", b"\xff"]), max_size=5).map(b"".join))


@given(NAMES, NAMES)
def test_packed_refs_with_a_prefix_are_found(names, prefixes):
    lines = b"".join(OID.encode() + b" refs/" + name + b"\n" for name in sorted(names))
    valid = [name for name in sorted(names) if b"\xff" not in name]  # names that are not UTF-8 are ignored
    for prefix in prefixes:
        wanted = [name for name in valid if name.startswith(prefix)]
        found = ref_files._refs_in_lines(lines, os.fsdecode(b"refs/" + prefix))
        assert found == {f"refs/{name.decode()}": OID for name in wanted}
