"""Detection of damaged git files in a store: files that contain, list or locate objects.

The checks change no file. The journal detects damage in its own files (store/journal.py).

Files that git derives from packs (multi-pack-index, ``.rev``, ``.bitmap``, commit-graph) end with a SHA-1 of all
preceding bytes, as packs and indexes do. So one check covers all of them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from gitsession.dataclass import dataclass
from gitsession.errors import GitSessionError, Unavailable
from gitsession.git import pack_index, process
from gitsession.git.repository import VerifiedRepository
from gitsession.git.types import Oid

_PACK_BYTES_MIN = 12 + 20
_INDEX_BYTES_MIN = 8 + 256 * 4 + 40
_DERIVED = {
    "objects/pack/multi-pack-index": b"MIDX",
    "objects/info/commit-graph": b"CGPH",
    "objects/info/commit-graphs/*.graph": b"CGPH",
    "objects/pack/*.rev": b"RIDX",
    "objects/pack/*.bitmap": b"BITM",
    "objects/pack/*.mtimes": b"MTME",
}
"""Patterns of the files that git derives from packs, with the first bytes of these files."""


@dataclass(frozen=True, slots=True)
class BadFile:
    """A damaged file.

    ``path``: relative to the store. ``fresh``: for the damaged index of an intact pack, the path of a new index.
    """

    path: str
    problem: str
    fresh: Path | None = None


def find(git_dir: Path, scratch: Path) -> list[BadFile]:
    """Return all damaged files that contain, list or locate objects. Reads the whole store.

    For an intact pack with a damaged index, a new index is created in ``scratch``, where ``Packs`` can read it.
    """
    packs = list(_packs(git_dir, scratch))
    return [*packs, *_derived(git_dir, packs), *_loose(git_dir)]


def object_files(git_dir: Path) -> list[str]:
    """Return the paths of the files that contain, list or locate objects, relative to the store, sorted."""
    patterns = ("objects/pack/*.pack", "objects/pack/*.idx", *_DERIVED)
    found = [file for pattern in patterns for file in git_dir.glob(pattern)]
    loose = [f"objects/{oid[:2]}/{oid[2:]}" for oid in VerifiedRepository(git_dir).loose()]
    return sorted([*(file.relative_to(git_dir).as_posix() for file in found), *loose])


def problem(git_dir: Path, name: str) -> str:
    """Return the problem of a file that ``object_files`` returned; "" if it has none or git has removed it."""
    file = git_dir / name
    magic = next((magic for pattern, magic in _DERIVED.items() if Path(name).match(pattern)), None)
    if magic is not None:
        problem = _derived_problem(file, magic)
    elif name.endswith(".pack"):
        problem = _pack_problem(file) or ("" if file.with_suffix(".idx").exists() else "its index is missing")
    elif name.endswith(".idx"):
        problem = _index_problem(file, file.with_suffix(".pack"))
    else:
        problem = _loose_problem(VerifiedRepository(git_dir), name.removeprefix("objects/").replace("/", ""))
    return problem if file.exists() else ""


def quick_check(git_dir: Path) -> Iterator[BadFile]:
    """Yield packs and indexes with a wrong size, or wrong first or last bytes.

    Only these bytes are read. Raises ``OSError``.
    """
    directory = git_dir / "objects/pack"
    packs = {file.stem: file for file in sorted(directory.glob("*.pack"))}
    indexes = {file.stem: file for file in sorted(directory.glob("*.idx"))}
    for stem, file in packs.items():
        with contextlib.suppress(FileNotFoundError):  # a git process may replace packs at any time
            yield from _quick_check(file, indexes.get(stem))
    for stem in indexes.keys() - packs.keys():
        yield BadFile(f"objects/pack/{stem}.idx", "its pack is missing")


def _quick_check(file: Path, index: Path | None) -> Iterator[BadFile]:
    if file.stat().st_size < _PACK_BYTES_MIN or _bytes(file, 0, 4) != b"PACK":
        yield BadFile(f"objects/pack/{file.name}", "empty, or not a pack")
    elif index is None:
        yield BadFile(f"objects/pack/{file.name}", "its index is missing")
    elif index.stat().st_size < _INDEX_BYTES_MIN or _bytes(index, 0, 8) != pack_index.MAGIC:
        yield BadFile(f"objects/pack/{index.name}", "empty, or not an index")
    elif _bytes(index, -40, 20) != _bytes(file, -20, 20):
        yield BadFile(f"objects/pack/{file.name}", "pack and index do not match: one of them is truncated")


def quarantined_packs(bad: Sequence[BadFile]) -> set[str]:
    """Return the names of the indexes of the packs in ``bad``.

    Such a pack is moved to the quarantine with its index.
    """
    return {Path(found.path).stem + ".idx" for found in bad if found.path.endswith(".pack")}


def checksum_problem(file: Path) -> str:
    """Return the problem of a file that should end with a SHA-1 of all preceding bytes; "" if there is none."""
    try:
        return pack_index.checksum_problem(pack_index.RandomAccessFile(str(file)))
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _packs(git_dir: Path, scratch: Path) -> Iterator[BadFile]:
    directory = git_dir / "objects/pack"
    for file in sorted(directory.glob("*.pack")):
        index = file.with_suffix(".idx")
        body = _pack_problem(file)
        names = "" if body else _index_problem(index, file)
        fresh = _indexed(file, scratch) if names else None
        if body or (names and fresh is None):
            yield BadFile(f"objects/pack/{file.name}", body or "`git index-pack` failed")
        elif names:
            yield BadFile(f"objects/pack/{index.name}", names, fresh)
    for index in sorted(directory.glob("*.idx")):
        if not index.with_suffix(".pack").exists():
            yield BadFile(f"objects/pack/{index.name}", "its pack is missing")


def _indexed(file: Path, scratch: Path) -> Path | None:
    """Create a new index of a pack, next to a link to the pack; return its path, or ``None`` if git fails."""
    folder = scratch / "pack"
    folder.mkdir(exist_ok=True)
    fresh = folder / f"{file.stem}.idx"
    try:
        process.run(None, "index-pack", "-o", str(fresh), str(file))
    except Unavailable:
        return None
    (folder / file.name).symlink_to(file)
    return fresh


def _derived(git_dir: Path, packs: Sequence[BadFile]) -> Iterator[BadFile]:
    """Yield damaged derived files.

    ``packs``: the damaged packs. If a pack is moved to the quarantine, the files derived from that pack are moved, too,
    and are not yielded.
    """
    quarantined = quarantined_packs(packs)
    for pattern, magic in _DERIVED.items():
        for file in sorted(git_dir.glob(pattern)):
            if f"{file.stem}.idx" in quarantined:
                continue
            problem = _derived_problem(file, magic)
            if not problem and quarantined and magic == b"MIDX":
                problem = "it lists a quarantined pack"
            if problem:
                yield BadFile(file.relative_to(git_dir).as_posix(), f"{problem} (git recreates it when needed)")


def _loose(git_dir: Path) -> Iterator[BadFile]:
    repository = VerifiedRepository(git_dir)
    for oid in repository.loose():
        if problem := _loose_problem(repository, oid):
            yield BadFile(f"objects/{oid[:2]}/{oid[2:]}", problem)


def _derived_problem(file: Path, magic: bytes) -> str:
    return checksum_problem(file) or ("" if _bytes(file, 0, 4) == magic else "unexpected file type")


def _loose_problem(repository: VerifiedRepository, oid: Oid) -> str:
    try:
        repository.read_loose(oid)
    except GitSessionError as error:
        return str(error)
    return ""


def _pack_problem(file: Path) -> str:
    return checksum_problem(file) or ("" if _bytes(file, 0, 4) == b"PACK" else "not a pack")


def _index_problem(index: Path, file: Path) -> str:
    try:
        problem = pack_index.PackIndex(str(index)).damage()
        if not problem and _bytes(index, -40, 20) != _bytes(file, -20, 20):
            problem = "the index belongs to another pack"
    except FileNotFoundError:
        return "missing"
    except (GitSessionError, OSError) as error:
        return str(error)
    return problem


def _bytes(file: Path, at: int, count: int) -> bytes:
    with open(file, "rb") as opened:
        opened.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        return opened.read(count)
