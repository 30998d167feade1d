"""Which files of a store are damaged, and how what is good in them is saved before they are set aside.

Finding only reads. What git derives from packs (multi-pack-index, ``.rev``, ``.bitmap``, commit-graph) ends in a SHA-1
of the rest, as packs and indexes do, so one look tells for all of them. Saving keeps this order: what is good is
durable in a new pack before the file that it came from is renamed into the quarantine, and nothing is ever deleted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitsession.errors import GitSessionError, Unavailable
from gitsession.store import create, gitcli, pack, packindex
from gitsession.store.base import Kind, Oid
from gitsession.store.durable import make_directories, replace, sync_directory, write_new
from gitsession.store.git import OBJECT_BYTES_MAX, GitDoor
from gitsession.store.packs import Packs

QUARANTINE = f"{create.CONTROL}/quarantine"

_DERIVED = {
    "objects/pack/multi-pack-index": b"MIDX",
    "objects/info/commit-graph": b"CGPH",
    "objects/info/commit-graphs/*.graph": b"CGPH",
    "objects/pack/*.rev": b"RIDX",
    "objects/pack/*.bitmap": b"BITM",
    "objects/pack/*.mtimes": b"MTME",
}
"""What git makes from packs, and how it begins."""

_BESIDE_PACKS = (".rev", ".bitmap", ".mtimes")
_BATCH_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class BadFile:
    """A damaged file, below the store. ``fresh``: where a pack is whole and only its index is not, a new index."""

    path: str
    what: str
    fresh: Path | None = None


def find(git_dir: Path, scratch: Path) -> list[BadFile]:
    """Every damaged file that holds objects, names them, or tells where they are. Reads all of the store.

    Packs that are whole but cannot be searched get a new index in ``scratch``, where ``Packs`` can read them.
    """
    packs = list(_packs(git_dir, scratch))
    return [*packs, *_derived(git_dir, packs), *_loose(git_dir), *_journal(git_dir)]


def packs_to_leave(bad: Sequence[BadFile]) -> set[str]:
    """The indexes, by name, of the packs among ``bad`` that are set aside as a whole."""
    return {Path(found.path).stem + ".idx" for found in bad if found.path.endswith(".pack")}


def good_objects(git_dir: Path, bad: Sequence[BadFile]) -> list[Oid]:
    """What can be read out of the packs among ``bad``, and is in no other pack."""
    leaving = packs_to_leave(bad)
    if not leaving:
        return []
    packs = Packs(f"{git_dir}/objects", OBJECT_BYTES_MAX)
    staying = set(packs.oids(without=leaving))
    return [oid for oid in dict.fromkeys(packs.oids()) if oid not in staying and _read(packs, oid) is not None]


def save(git_dir: Path, rescued: Iterable[Oid], taken: Mapping[Oid, tuple[Kind, bytes]]) -> None:
    """Under the store's lock: what is good in packs, and what others gave, into new packs that are durable."""
    packs = Packs(f"{git_dir}/objects", OBJECT_BYTES_MAX)
    batch, size = dict(taken), sum(len(data) for _, data in taken.values())
    for oid in rescued:
        found = _read(packs, oid)
        if found is not None:
            batch[oid] = found
            size += len(found[1])
        if size > _BATCH_BYTES:
            pack.write_pack(git_dir / "objects", batch, git_dir / create.KEEP)
            batch, size = {}, 0
    if batch:
        pack.write_pack(git_dir / "objects", batch, git_dir / create.KEEP)


def quarantine(git_dir: Path) -> Path:
    """The folder for what is set aside now; it is made with the first file."""
    return git_dir / QUARANTINE / time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


def set_aside(git_dir: Path, bad: Sequence[BadFile], place: Path) -> list[str]:
    """Under the store's lock: each file of ``bad`` into the quarantine ``place``; the files, below the store.

    With a pack goes what git keeps beside it. A pack whose index is damaged gets a new one first.
    """
    moved: list[str] = []
    for found in bad:
        if found.fresh is not None:
            moved += _replace_index(git_dir, found.path, found.fresh, place)
            continue
        paths = [found.path]
        if found.path.endswith(".pack"):
            stem = found.path.removesuffix(".pack")
            paths = [f"{stem}{suffix}" for suffix in (".pack", ".idx", *_BESIDE_PACKS, ".keep")]
        for path in paths:
            if os.path.lexists(git_dir / path):
                _move(git_dir, path, place)
                moved.append(path)
    return moved


def keep_a_copy(git_dir: Path, path: str, place: Path) -> None:
    """A second name in the quarantine for a file that is about to be replaced."""
    aside = place / path
    make_directories(aside.parent)
    os.link(git_dir / path, _free_name(aside))
    sync_directory(aside.parent)


def _read(packs: Packs, oid: Oid) -> tuple[Kind, bytes] | None:
    try:
        return packs.read(oid)
    except GitSessionError:
        return None


# ---- finding


def _packs(git_dir: Path, scratch: Path) -> Iterator[BadFile]:
    directory = git_dir / "objects/pack"
    for file in sorted(directory.glob("*.pack")):
        index = file.with_suffix(".idx")
        body = _pack_problem(file)
        names = "" if body else _index_problem(index, file)
        fresh = _indexed(git_dir, file, scratch) if names else None
        if body or (names and fresh is None):
            yield BadFile(f"objects/pack/{file.name}", body or "git cannot index it")
        elif names:
            yield BadFile(f"objects/pack/{index.name}", names, fresh)
    for index in sorted(directory.glob("*.idx")):
        if not index.with_suffix(".pack").exists():
            yield BadFile(f"objects/pack/{index.name}", "its pack is gone")


def _indexed(git_dir: Path, file: Path, scratch: Path) -> Path | None:
    """A new index of a pack, made by git beside a link to the pack."""
    place = scratch / "pack"
    place.mkdir(exist_ok=True)
    fresh = place / f"{file.stem}.idx"
    try:
        gitcli.run(git_dir, "index-pack", "-o", str(fresh), str(file))
    except Unavailable:
        return None
    (place / file.name).symlink_to(file)
    return fresh


def _derived(git_dir: Path, packs: Sequence[BadFile]) -> Iterator[BadFile]:
    """``packs``: the bad ones; what names a pack that is set aside goes with it."""
    leaving = packs_to_leave(packs)
    for pattern, magic in _DERIVED.items():
        for file in sorted(git_dir.glob(pattern)):
            if f"{file.stem}.idx" in leaving:
                continue
            what = checksum_problem(file)
            if not what and _bytes(file, 0, 4) != magic:
                what = "it is something else"
            if not what and leaving and magic == b"MIDX":
                what = "it names a pack that is set aside"
            if what:
                yield BadFile(file.relative_to(git_dir).as_posix(), f"{what}; git makes it anew when it wants it")


def _loose(git_dir: Path) -> Iterator[BadFile]:
    door = GitDoor(git_dir)
    for oid in door.loose():
        try:
            door.read_loose(oid)
        except GitSessionError as error:
            yield BadFile(f"objects/{oid[:2]}/{oid[2:]}", str(error))


def _journal(git_dir: Path) -> Iterator[BadFile]:
    for file in sorted((git_dir / create.JOURNAL).glob("damaged-*")):
        yield BadFile(f"{create.JOURNAL}/{file.name}", "a journal file with records that do not verify")


def checksum_problem(file: Path) -> str:
    """What is wrong with a file that should end in the SHA-1 of the rest, "" where nothing is."""
    try:
        return packindex.checksum_problem(packindex.File(str(file)))
    except OSError as error:
        return f"it cannot be read: {error.strerror}"


def _pack_problem(file: Path) -> str:
    what = checksum_problem(file)
    if not what and _bytes(file, 0, 4) != b"PACK":
        what = "it is no pack"
    return what


def _index_problem(index: Path, file: Path) -> str:
    try:
        what = packindex.PackIndex(str(index)).damage()
        if not what and _bytes(index, -40, 20) != _bytes(file, -20, 20):
            what = "it is the index of another pack"
    except FileNotFoundError:
        return "it is gone"
    except (GitSessionError, OSError) as error:
        return str(error)
    return what


def _bytes(file: Path, at: int, count: int) -> bytes:
    with open(file, "rb") as opened:
        opened.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        return opened.read(count)


# ---- saving


def _replace_index(git_dir: Path, path: str, fresh: Path, place: Path) -> list[str]:
    """A new index for a whole pack; the damaged one stays in the quarantine."""
    index = git_dir / path
    there = index.exists()
    if there:
        keep_a_copy(git_dir, path, place)
    # Not a name that ends in .idx: a reader would take it for the index of a pack that is gone.
    replace(index, fresh.read_bytes(), by=index.with_name(f"{pack.TEMPORARY}{index.stem}"), mode=0o444)
    return [path] if there else []


def _move(git_dir: Path, path: str, place: Path) -> None:
    aside = place / path
    make_directories(aside.parent)
    os.rename(git_dir / path, _free_name(aside))
    sync_directory(aside.parent)
    sync_directory((git_dir / path).parent)


def _free_name(path: Path) -> Path:
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}.{number}")
    return free


# ---- refs


def note(path: Path, text: str) -> None:
    """Write down in the quarantine what a ref held that is to go."""
    make_directories(path.parent)
    write_new(_free_name(path), f"{text}\n".encode())
    sync_directory(path.parent)


def mend_refs(git_dir: Path, place: Path, files: Mapping[str, bytes]) -> None:
    """Under the store's lock: put ``files`` (loose refs, packed-refs) in the place of damaged ones, which are kept.

    Without git's lock: git moves no ref whose file it cannot read, and one rename does it.
    """
    for name, data in files.items():
        if os.path.lexists(git_dir / name):
            keep_a_copy(git_dir, name, place)
        make_directories((git_dir / name).parent)
        replace(git_dir / name, data, by=git_dir / create.CONTROL / f"{pack.TEMPORARY}ref")
