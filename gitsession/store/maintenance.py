"""Maintenance of a store: repacking by git, and removal of files left by killed processes.

Packs written by gitsession have no deltas; ``deltify`` adds them. ``git repack -d --geometric=2`` merges small packs,
which is safe while other processes write: objects that are not reachable yet are in packs with a ``.keep`` file. Large
packs are not merged, so the time of a run depends on the amount of new data, not on the size of the store. Loose
refs are packed by gitsession's own ref writer, because a killed ``git pack-refs`` leaves locks whose owner cannot be
determined. The cleanup needs the store's lock: while it is held, files of an unfinished gitsession write cannot belong
to a live process. Files left by other programs are removed when they are a day old.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gitsession.dataclass import dataclass
from gitsession.durable import sync_directory
from gitsession.errors import Corrupt, Unavailable
from gitsession.git import damage, pack_writer, process
from gitsession.git.pack_index import PackIndex, RandomAccessFile
from gitsession.store import create, journal_frames, spill
from gitsession.store.git_store import GitStore
from gitsession.store.lock import packing

PACKS_MAX = 50

LARGE_BYTES = 128 << 20
"""Size in bytes from which a pack is not merged any more."""

_REPAIR_HINT = "run `gitsession repair` to quarantine the file and recover its undamaged objects"

_FOREIGN_TEMPORARIES = ("tmp_pack_", "tmp_idx_", "tmp_rev_", "tmp_obj_", "tmp_mtimes_", ".tmp-")
_DAY_SECONDS = 86400.0


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """The result of maintenance.

    Attributes:
        dead_locks: Number of removed ref locks of dead processes.
        released: Number of packs whose ``.keep`` file was removed.
        removed: Paths of removed leftovers, relative to the store.
        archived: Ids of the sessions that were archived because of their age.
    """

    packs_before: int
    packs_after: int
    dead_locks: int
    released: int
    removed: tuple[str, ...]
    archived: tuple[str, ...] = ()


def maintain(store: GitStore) -> MaintenanceResult:
    """Flush, clean up, pack refs, and repack with git.

    Raises ``Unavailable`` (also if git is not installed), and ``Corrupt`` if a damaged file keeps git from repacking.
    """
    try:
        return _maintain(store)
    except OSError as error:
        raise Unavailable(f"cannot maintain the store '{store.git_dir}': {error.strerror}") from error


def _maintain(store: GitStore) -> MaintenanceResult:
    git_dir = store.git_dir
    store.flush()
    before = count_packs(git_dir)
    with store.locked():
        dead_locks = store.break_dead_locks()
        released = pack_writer.release_packs(git_dir / "objects") if not store.pending_refs() else 0
        removed = (*_remove_leftovers(git_dir), *spill.sweep(git_dir))
        store.pack_refs()
    try:
        with packing(git_dir):
            if deltify(store):
                _repack(git_dir)
    except Unavailable:
        for path, problem in _damaged_packs(git_dir):
            raise Corrupt(f"cannot repack the store: '{path}' is damaged: {problem}", hint=_REPAIR_HINT) from None
        raise
    return MaintenanceResult(before, count_packs(git_dir), dead_locks, released, removed)


def _damaged_packs(git_dir: Path) -> Iterator[tuple[str, str]]:
    """Yield the path and the problem of each damaged pack or index; the cheap checks first."""
    yield from ((bad.path, bad.problem) for bad in damage.quick_check(git_dir))
    for file in _packs(git_dir):
        if problem := damage.checksum_problem(file):
            yield f"objects/pack/{file.name}", problem


def _repack(git_dir: Path) -> None:
    """Merge the packs that are not large, and loose objects.

    With ``-n``, git does not list all refs for clients of plain HTTP. Otherwise it reads the commit of each ref.
    """
    large = [file.name for file in _packs(git_dir) if _bytes(file) >= LARGE_BYTES]
    command = ("repack", "-n", "-d", "-q", *(f"--keep-pack={name}" for name in large))
    if process.run(git_dir, *command, "--geometric=2", accept=(0, 128, 129)).code:
        # This version of git does not support this option, or it cannot arrange the packs by size. -k keeps
        # unreachable objects: maintenance must not drop any.
        process.run(git_dir, *command, "-a", "-k")


def is_due(store: GitStore) -> bool:
    """Return whether the store has so many small packs that reads become slow.

    A process that has only read waits for one batch at most.
    """
    if store.read_only or count_packs(store.git_dir) < PACKS_MAX:
        return False
    sizes = [size for file in _packs(store.git_dir) if (size := _bytes(file)) < LARGE_BYTES]
    return len(sizes) >= PACKS_MAX and (store.has_flushed or store.pending > 0 or sum(sizes) <= BATCH_BYTES)


def count_packs(git_dir: Path) -> int:
    return sum(name.endswith(".pack") for name in os.listdir(git_dir / "objects" / "pack"))


def _packs(git_dir: Path) -> list[Path]:
    return sorted((git_dir / "objects/pack").glob("*.pack"))


def _remove_leftovers(git_dir: Path) -> Iterator[str]:
    """Remove leftover files and yield their paths relative to the store. Needs the store's lock."""
    cutoff = time.time() - _DAY_SECONDS
    for directory in ("objects/pack", "objects", create.JOURNAL):
        with os.scandir(git_dir / directory) as entries:
            for entry in entries:
                if _is_left_over(entry, cutoff, is_journal=directory == create.JOURNAL):
                    os.unlink(entry.path)
                    yield f"{directory}/{entry.name}"
    for index in _lone_indexes(git_dir / "objects/pack"):
        index.unlink()
        yield f"objects/pack/{index.name}"


def _is_left_over(entry: os.DirEntry[str], cutoff: float, *, is_journal: bool) -> bool:
    if not entry.is_file(follow_symlinks=False):
        return False
    if entry.name.startswith(pack_writer.TEMPORARY) or (is_journal and entry.name.startswith(journal_frames.TEMPORARY)):
        return True
    try:
        return entry.name.startswith(_FOREIGN_TEMPORARIES) and entry.stat().st_mtime < cutoff
    except FileNotFoundError:
        return False


BATCH_BYTES = 256 << 20
"""Total size in bytes of the packs that one git process repacks, which takes up to a minute."""

SECONDS_MAX = 60.0
"""Time in seconds after which no further batch begins. The next run continues."""

_COMMAND = (
    "pack-objects", "--stdin-packs", "--no-reuse-delta", "--delta-base-offset", "--window-memory=100m", "-q",
)  # fmt: skip
"""The command that adds deltas to packs.

Without ``--no-reuse-delta``, git does not compare objects of the same pack. The memory limit is per thread.
"""

_FOREIGN_SUFFIXES = (".keep", ".rev", ".promisor", ".mtimes")
_DELTAS = (6, 7)


def deltify(store: GitStore) -> bool:
    """Run git to add deltas to packs that have none; return ``False`` if packs remain for the next run.

    ``git repack`` copies objects from a pack unchanged and does not compare them with other objects of that pack. So
    objects that were written together would never get deltas. This function repacks only packs without deltas, so its
    cost depends on the amount of new data. A pack with a reverse index is not repacked: git writes a reverse index for
    each pack that it creates (git/process.py turns this on), and gitsession writes none. A pack without a reverse index
    is read to find out whether it contains a delta.

    Before an old pack is removed, the new pack is on disk and is known to list every object. So each object is in a
    complete pack at every moment, even if a process is killed or git runs meanwhile. Raises ``Unavailable`` and
    ``Corrupt``.
    """
    directory = store.git_dir / "objects/pack"
    if any(directory.glob("multi-pack-index*")):
        return True  # a multi-pack index names packs, so only git may remove one
    end = time.monotonic() + SECONDS_MAX
    for batch in _batches(file for file in _packs(store.git_dir) if _is_without_deltas(file)):
        if time.monotonic() >= end:
            return False
        with contextlib.suppress(FileNotFoundError):  # another git process replaced packs meanwhile
            _deltify_batch(store, batch)
    return True


def is_deltified(git_dir: Path) -> bool:
    """Return whether git has searched nine tenths of the packs, by size, for deltas (see ``deltify``)."""
    sizes = {file: _bytes(file) for file in _packs(git_dir)}
    searched = sum(size for file, size in sizes.items() if file.with_suffix(".rev").exists())
    return 0 < 0.9 * sum(sizes.values()) <= searched


def _lone_indexes(directory: Path) -> Iterator[Path]:
    """Yield indexes whose pack is missing and whose objects are all in other packs.

    A process that is killed while it removes packs leaves such indexes.
    """
    files = {file: file.with_suffix(".pack").exists() for file in sorted(directory.glob("*.idx"))}
    if all(files.values()):
        return
    with contextlib.suppress(Corrupt, OSError):
        others = [PackIndex(str(file)) for file, has_pack in files.items() if has_pack]
        for file in (file for file, has_pack in files.items() if not has_pack):
            names = PackIndex(str(file)).names()
            if all(any(other.find(raw) is not None for other in others) for raw in names):
                yield file


def _is_without_deltas(file: Path) -> bool:
    """Return whether a pack has no deltas and no sign that git has ever searched it for deltas."""
    if any(file.with_suffix(suffix).exists() for suffix in _FOREIGN_SUFFIXES):
        return False
    try:
        index, body = PackIndex(str(file.with_suffix(".idx"))), RandomAccessFile(str(file))
        return not any((body.read(offset, 1) or b"\0")[0] >> 4 & 7 in _DELTAS for offset in index.offsets())
    except (Corrupt, OSError):
        return False  # the pack is damaged or was removed meanwhile: the repack reports damage


def _batches(files: Iterable[Path]) -> Iterator[list[Path]]:
    batch: list[Path] = []
    size = 0
    for file in files:
        grown = size + _bytes(file)
        if batch and grown > BATCH_BYTES:
            yield batch
            batch, grown = [], grown - size
        batch.append(file)
        size = grown
    if batch:
        yield batch


def _deltify_batch(store: GitStore, old: Sequence[Path]) -> None:
    names = "".join(f"{file.name}\n" for file in old)
    try:
        result = process.run(store.git_dir, *_COMMAND, "objects/pack/pack", stdin=names.encode())
    except Unavailable:
        return  # git is missing or busy, or data is damaged: the next repack reports the problem if it matters
    directory, checksum = store.git_dir / "objects/pack", result.out.decode().strip()
    new = PackIndex(f"{directory}/pack-{checksum}.idx")
    sync_directory(directory)
    with store.locked():  # meanwhile, no other gitsession process can write the same pack again
        for file in old:
            # For a few objects, git may write a pack identical to the old one.
            if file.stem != f"pack-{checksum}" and not file.with_suffix(".keep").exists():
                _remove(file, new)


def _remove(file: Path, new: PackIndex) -> None:
    """Remove a pack, then its index. In between, git ignores the index, and a check for lost objects can read it."""
    index = file.with_suffix(".idx")
    if any(new.find(raw) is None for raw in PackIndex(str(index)).names()):
        raise Unavailable(f"cannot replace pack {file.name}: the new pack is incomplete (both packs are kept)")
    os.unlink(file)
    os.unlink(index)


def _bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # a git process may replace packs at any time
        return 0
