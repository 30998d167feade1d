"""Tests of the pack reader: packs of git are read correctly, and malicious packs are rejected within bounds."""

from __future__ import annotations

import os
import random
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import SHARED, bring, on_disk, pi_file, said, shared_files
from damage import in_child
from hostile_packs import BLOB, BOMB, HOSTILE, OFFSET_DELTA, ONE, back, head, hostile, number
from promises import Faults
from raw import git, git_bytes

from gitsession.errors import Corrupt, GitSessionError, MissingObject, Unavailable
from gitsession.git import pack_index, pack_reader, pack_scan
from gitsession.git.objects import oid_of
from gitsession.git.pack_index import PackIndex, RandomAccessFile
from gitsession.git.pack_reader import Packs
from gitsession.git.pack_scan import apply_delta
from gitsession.git.pack_writer import _index, write_pack
from gitsession.git.repository import VerifiedRepository


def objects_by_git(path: Path) -> dict[str, tuple[str, bytes]]:
    raw = git_bytes(path, "cat-file", "--batch-all-objects", "--unordered", "--batch")
    found, at = {}, 0
    while at < len(raw):
        end = raw.index(b"\n", at)
        oid, kind, size = raw[at:end].decode().split()
        found[oid] = kind, raw[end + 1 : end + 1 + int(size)]
        at = end + 2 + int(size)
    return found


@pytest.mark.parametrize("how", [["-adf", "--depth=50", "--window=50"], ["-ad"], ["-adf", "--depth=0"]], ids=" ".join)
def test_every_object_is_as_git_reads_it(tmp_path: Path, how: list[str]) -> None:
    with on_disk(tmp_path / "store.git") as store:
        parents = (None, *(f"e{n}" for n in range(150)))
        bring(store, pi_file(*(said(f"e{n}", parents[n], f"much the same {n % 7} " * 40) for n in range(150))))
        for file in shared_files("pi")[:2] if SHARED.exists() else []:
            bring(store, file.read_bytes(), agent="pi", name=file.stem)
    git(store.git_dir, "repack", *how)
    packs = Packs(f"{store.git_dir}/objects", 1 << 30)
    there = objects_by_git(store.git_dir)
    assert {oid: packs.read(oid) for oid in there} == there
    assert {oid: (kind, data) for oid, kind, data in packs.read_all(there)} == there
    commits = {oid: found for oid, found in there.items() if found[0] == "commit"}
    assert {oid: (kind, data) for oid, kind, data in packs.commits()} == commits
    assert set(packs.oids()) == set(there)
    assert packs.suspects() == {}


def test_objects_of_a_pack_that_was_written_after_the_first_read_are_read_together(tmp_path: Path) -> None:
    with on_disk(tmp_path / "store.git") as store:
        packs = Packs(f"{store.git_dir}/objects", 1 << 30)
        assert len(list(packs.commits())) == 1  # the first commit of a store
        bring(store, pi_file(said("e1", None, "first")))
        store.flush()
        there = objects_by_git(store.git_dir)
        assert {oid for oid, *_ in packs.read_all(there)} == set(there)
        bring(store, pi_file(said("e1", None, "second"), id="s2"))
        store.flush()
        later = objects_by_git(store.git_dir)
        assert {oid for oid, *_ in packs.commits()} == {oid for oid, found in later.items() if found[0] == "commit"}


# ---- malicious packs


@pytest.mark.promise("P31")
@pytest.mark.parametrize("entries", HOSTILE.values(), ids=HOSTILE)
def test_malicious_pack_is_rejected_within_bounds(
    tmp_path: Path, faults: Faults, entries: list[tuple[bytes, bytes]]
) -> None:
    packs = hostile(tmp_path, *entries)

    def work(tell: Callable[[object], None]) -> None:
        with pytest.raises((Corrupt, Unavailable)):
            packs.read(ONE.hex())
        assert ONE.hex() not in {oid for oid, *_ in (*packs.read_all([ONE.hex()]), *packs.commits())}
        tell("refused")

    with faults.one():
        assert in_child(work, memory=160 << 20) == ["refused"]


def test_oid_across_two_rows_is_not_found(tmp_path: Path) -> None:
    first, second = b"\x11" + b"\0" * 9 + b"\x11" + b"U" * 9, b"\x11" + b"3" * 9 + b"D" * 10
    sought = first[10:] + second[:10]
    for listed, expected in (((first, second), None), ((first, second, sought), 7)):
        path = tmp_path / f"{len(listed)}.idx"
        path.write_bytes(_index([(raw, 0, 7 if raw == sought else 1) for raw in listed], bytes(20)))
        assert PackIndex(str(path)).find(sought) == expected


@pytest.mark.parametrize("cached", [0, 1 << 13])
@pytest.mark.parametrize("spread", ["as digests are", "close together"])
def test_every_listed_name_is_found_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spread: str, cached: int
) -> None:
    monkeypatch.setattr(pack_index, "_CACHED_IDS_MAX", cached)
    head = b"\x11" if spread == "as digests are" else b"\x11" * 3
    drawn = random.Random(5)
    names = sorted({head + drawn.randbytes(20 - len(head)) for _ in range(3000)})
    listed, others = names[::2], names[1::2]
    path = tmp_path / "some.idx"
    path.write_bytes(_index([(raw, 0, 12 + at) for at, raw in enumerate(listed)], bytes(20)))
    index = PackIndex(str(path))
    assert [index.find(raw) for raw in listed] == [12 + at for at in range(len(listed))]
    assert {index.find(raw) for raw in [*others, b"\x11" + bytes(19), b"\x11" + b"\xff" * 19, bytes(20)]} == {None}


def test_buckets_of_many_indexes_take_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_index, "_BUCKETS_BYTES_MAX", 100_000)
    drawn = random.Random(5)
    listed = [sorted(drawn.randbytes(20) for _ in range(4_000)) for _ in range(8)]
    files = [tmp_path / f"{at}.idx" for at in range(len(listed))]
    for file, names in zip(files, listed, strict=True):
        file.write_bytes(_index([(raw, 0, 12 + at) for at, raw in enumerate(names)], bytes(20)))
    indexes = [PackIndex(str(file)) for file in files]
    tracemalloc.start()
    for _ in range(2):
        for index, names in zip(indexes, listed, strict=True):
            assert [index.find(raw) for raw in names] == [12 + at for at in range(4_000)]
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 300_000  # all buckets take 768,000 bytes


def test_pieces_read_cached_others_are_those_of_the_file(tmp_path: Path) -> None:
    data = os.urandom(100_000)
    (tmp_path / "file").write_bytes(data)
    file = RandomAccessFile(str(tmp_path / "file"))
    edges = [edge + step for edge in (0, 16_384, 32_768, 98_304, 100_000) for step in (-40, -1, 0, 1, 40)]
    for offset in (edge for edge in edges if edge >= 0):
        for count in (1, 32, 20_000):
            assert file.read_cached(offset, count) == data[offset : offset + count]
    file.close()


def test_valid_object_above_the_limit_is_rejected_by_its_size(tmp_path: Path) -> None:
    oid = oid_of("blob", bytes(65 << 20))
    packs = hostile(tmp_path, (bytes.fromhex(oid), head(BLOB, 65 << 20) + BOMB))
    with pytest.raises(Unavailable, match="limit"):
        packs.read(oid)


LOOSE = {
    "65 MiB in 65 KiB, honestly": b"blob %d\0" % (65 << 20) + bytes(65 << 20),
    "65 MiB that say they are ten bytes": b"blob 10\0" + bytes(65 << 20),
    "ten bytes that say they are 2^62": b"blob %d\0" % (1 << 62) + bytes(10),
    "ten bytes that say they are 10^23": b"blob %d\0" % 10**23 + bytes(10),
    "a size below zero": b"blob -1\0" + bytes(10),
    "a size in other digits": "blob ١٠\0".encode() + bytes(10),
    "no head": bytes(100),
}


@pytest.mark.promise("P31")
@pytest.mark.parametrize("data", LOOSE.values(), ids=LOOSE)
def test_malicious_loose_object_is_rejected_within_bounds(tmp_path: Path, faults: Faults, data: bytes) -> None:
    oid = "ab" + "c" * 38
    (tmp_path / "objects/ab").mkdir(parents=True)
    (tmp_path / f"objects/ab/{oid[2:]}").write_bytes(zlib.compress(data, 9))
    door = VerifiedRepository(tmp_path, object_bytes_max=64 << 20)

    def work(tell: Callable[[object], None]) -> None:
        with pytest.raises((Corrupt, Unavailable)):
            door.read(oid)
        tell("refused")

    with faults.one():
        assert in_child(work, memory=64 << 20) == ["refused"]


DELTAS = {
    "empty": b"",
    "no result": b"\5",
    "against other bytes": b"\6\5\x90\5",
    "an instruction that there is not": b"\5\5\0",
    "a copy from behind the end": b"\5\5\x91\1\5",
    "an insertion that is cut short": b"\5\5\5ab",
    "a copy that is cut short": b"\5\5\x91",
    "less than it says": b"\5\5\x90\4",
    "more than it says": b"\5\5\x90\5\x90\1",
    "a size of a hundred bytes": b"\xff" * 100,
}


@pytest.mark.parametrize("delta", DELTAS.values(), ids=DELTAS)
def test_invalid_delta_is_rejected(delta: bytes) -> None:
    with pytest.raises(ValueError):
        apply_delta(b"hello", delta, 1 << 20)


# ---- other files in the folder of packs


def two_copies(tmp_path: Path) -> tuple[VerifiedRepository, str, Path]:
    """Create an object that is loose and in a pack; the copy in the pack is damaged."""
    (tmp_path / "objects/pack").mkdir(parents=True)
    oid = oid_of("blob", b"hello")
    write_pack(tmp_path / "objects", {oid: ("blob", b"hello")}, tmp_path / "keep")
    [file] = tmp_path.glob("objects/pack/*.pack")
    return VerifiedRepository(tmp_path), oid, file


def damaged(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 255
    file.chmod(0o600)
    file.write_bytes(data)


def test_intact_copy_of_an_object_is_read(tmp_path: Path) -> None:
    door, oid, file = two_copies(tmp_path)
    damaged(file, 14)
    with pytest.raises(Corrupt, match=file.name):
        door.read(oid)
    assert list(door.read_all([oid])) == []
    (tmp_path / f"objects/{oid[:2]}").mkdir()
    (tmp_path / f"objects/{oid[:2]}/{oid[2:]}").write_bytes(zlib.compress(b"blob 5\0hello"))
    assert door.read(oid) == ("blob", b"hello")


@pytest.mark.parametrize("at", [3, 500, 1040, -30], ids=["magic", "fan-out", "name", "checksum of the pack"])
def test_object_hidden_by_a_damaged_index_is_not_reported_missing(tmp_path: Path, at: int) -> None:
    _, _, file = two_copies(tmp_path)
    damaged(file.with_suffix(".idx"), at)
    with pytest.raises(Corrupt, match=file.stem):
        VerifiedRepository(tmp_path).read("1" * 40)


def test_pack_without_an_index_is_reported(tmp_path: Path) -> None:
    door, oid, file = two_copies(tmp_path)
    file.with_suffix(".idx").unlink()
    with pytest.raises(Corrupt, match=f"{file.name} is damaged: its index is missing"):
        VerifiedRepository(tmp_path).read(oid)
    assert door.read(oid) == ("blob", b"hello"), "an index that is open stays in use"


def test_missing_object_is_missing_if_no_pack_is_damaged(tmp_path: Path) -> None:
    door, _, _ = two_copies(tmp_path)
    with pytest.raises(MissingObject):
        door.read("1" * 40)


def test_packs_that_git_merged_meanwhile_are_found_again(tmp_path: Path) -> None:
    with on_disk(tmp_path / "store.git") as store:
        bring(store, pi_file(said("a", None)))
        store.flush()
        objects = objects_by_git(store.git_dir)
        door = VerifiedRepository(store.git_dir)
        git(store.git_dir, "repack", "-adq")
        assert {oid: door.read(oid) for oid in objects} == objects


def test_pipe_or_folder_named_like_a_pack_does_not_block(tmp_path: Path) -> None:
    _, oid, file = two_copies(tmp_path)
    os.mkfifo(file.parent / "pack-pipe.idx")
    (file.parent / "pack-folder.idx").mkdir()
    assert VerifiedRepository(tmp_path).read(oid) == ("blob", b"hello")
    with pytest.raises(GitSessionError):
        VerifiedRepository(tmp_path).read("1" * 40)


def test_many_packs_do_not_use_up_the_files_a_process_may_open(tmp_path: Path) -> None:
    (tmp_path / "objects/pack").mkdir(parents=True)
    written = {oid_of("blob", data): ("blob", data) for data in (b"%d" % n for n in range(200))}
    for oid, found in written.items():
        write_pack(tmp_path / "objects", {oid: found}, tmp_path / "keep", sync=False)
    door = VerifiedRepository(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    assert {oid: door.read(oid) for oid in written} == written
    assert len(os.listdir("/proc/self/fd")) < before + 80


def test_pack_that_had_the_last_object_is_searched_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first sync asks for the tips of all branches, and those of one session are in one pack."""
    (tmp_path / "objects/pack").mkdir(parents=True)
    packs = [
        {oid_of("blob", data): ("blob", data) for data in (b"%d" % n for n in range(at, at + 50))} for at in (0, 50)
    ]
    for objects in packs:
        write_pack(tmp_path / "objects", objects, tmp_path / "keep", sync=False)
    searched = 0
    find = PackIndex.find

    def counted(index: PackIndex, raw: bytes) -> int | None:
        nonlocal searched
        searched += 1
        return find(index, raw)

    monkeypatch.setattr(PackIndex, "find", counted)
    repository = VerifiedRepository(tmp_path)
    assert all(repository.contains(oid) for objects in packs for oid in objects)
    assert searched <= 102  # at most one search more when the pack changes


def test_pack_that_is_read_as_a_whole_has_the_same_objects(tmp_path: Path) -> None:
    """A damaged object is reported in both ways of reading, and the other objects are read in both."""
    (tmp_path / "objects/pack").mkdir(parents=True)
    written = {oid_of("blob", data): ("blob", data) for data in (b"%d" % n * 50 for n in range(200))}
    write_pack(tmp_path / "objects", written, tmp_path / "keep")
    [file] = tmp_path.glob("objects/pack/*.pack")
    index = PackIndex(str(file.with_suffix(".idx")))
    lost = [list(written)[n] for n in (3, 120, 199)]
    for oid in lost:
        damaged(file, (index.find(bytes.fromhex(oid)) or 0) + 4)
    packs = Packs(f"{tmp_path}/objects", 1 << 30)
    for _ in range(2):
        for oid, found in written.items():
            if oid in lost:
                with pytest.raises(Corrupt):
                    packs.read(oid)
            else:
                assert packs.read(oid) == found


def test_objects_of_a_pack_that_inflates_to_much_are_not_all_cached(tmp_path: Path) -> None:
    (tmp_path / "objects/pack").mkdir(parents=True)
    zeros = {oid_of("blob", data): ("blob", data) for data in (b"%d" % n + bytes(250_000) for n in range(400))}
    write_pack(tmp_path / "objects", zeros, tmp_path / "keep", sync=False)
    [file] = tmp_path.glob("objects/pack/*.pack")
    assert file.stat().st_size < 1 << 20, "small, but 100 MB when inflated"
    packs = Packs(f"{tmp_path}/objects", 1 << 30)
    tracemalloc.start()
    try:
        assert all(packs.read(oid) == found for oid, found in zeros.items())
        assert tracemalloc.get_traced_memory()[1] < 80 << 20, "a cache of bases and 16 MiB of whole packs"
    finally:
        tracemalloc.stop()


def test_bulk_read_of_interleaved_chains_of_deltas_is_bounded(tmp_path, monkeypatch):
    applied = []
    real = pack_scan.apply_delta
    monkeypatch.setattr(pack_scan, "apply_delta", lambda *words: (applied.append(made := real(*words)), made)[1])
    monkeypatch.setattr(pack_reader, "_CACHE_BYTES", 0)  # as if the chains were too many for the cache
    monkeypatch.setattr(pack_reader, "_BASES_COST_MIN", 1 << 20)
    base = bytes(400_000)  # larger than the objects of a bulk read
    delta = zlib.compress(number(len(base)) * 2 + b"\xf0" + len(base).to_bytes(3, "little"))
    first = head(BLOB, len(base)) + zlib.compress(base)
    link = head(OFFSET_DELTA, len(zlib.decompress(delta)))
    entries, last = [(b"\0\0" * 10, first)], len(first)
    for at in range(1, 60):
        entries.append((at.to_bytes(2, "big") * 10, link + back(last) + delta))
        last = len(entries[-1][1])
    packs = hostile(tmp_path, *entries)
    assert list(packs.read_all([raw.hex() for raw, _ in entries])) == []
    assert 0 < len(applied) < 60
