"""Housekeeping that git does best, and the traces of runs that were killed.

Packs of ours get the deltas that we do not make (``deltify``), and many small ones become few by ``git repack -d
--geometric=2``. That is safe beside live writers: what is not reachable yet is in kept packs. Loose refs become one
file, by our own ref writer: a killed ``git pack-refs`` leaves locks nobody can judge. Cleaning up wants the store's
lock: whoever holds it knows that what an unfinished write of ours has left belongs to nobody. What other programs leave
is removed when it is a day old.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from gitsession.durable import sync_directory
from gitsession.errors import Corrupt, Unavailable
from gitsession.git import damage, pack_writer, process
from gitsession.git.pack_index import PackIndex, RandomAccessFile
from gitsession.store import create, journal_frames, spill
from gitsession.store.git_store import GitStore
from gitsession.store.lock import packing

PACKS_MAX = 50

_MEND = "`gitsession repair` sets it aside and saves what is good in it"

_FOREIGN_TEMPORARIES = ("tmp_pack_", "tmp_idx_", "tmp_rev_", "tmp_obj_", "tmp_mtimes_", ".tmp-")
_DAY_SECONDS = 86400.0


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """What was done: packs before and after, loose refs packed away, and files of killed runs that are gone."""

    packs_before: int
    packs_after: int
    dead_locks: int
    released: int
    removed: tuple[str, ...]


def maintain(store: GitStore) -> MaintenanceResult:
    """Flush, clean up, pack refs, have git repack.

    Raises ``Unavailable``, without git among other reasons, and ``Corrupt`` where a file is damaged that git wants.
    """
    try:
        return _maintain(store)
    except OSError as error:
        raise Unavailable(f"cannot maintain {store.git_dir}: {error.strerror}") from error


def _maintain(store: GitStore) -> MaintenanceResult:
    git_dir = store.git_dir
    store.flush()
    before = count_packs(git_dir)
    with store.locked():
        dead_locks = store.break_dead_locks()
        released = pack_writer.release_packs(git_dir / "objects") if not store.pending_moves() else 0
        removed = (*_remove_leftovers(git_dir), *spill.sweep(git_dir))
        store.pack_refs()
    try:
        with packing(git_dir):
            _repack(git_dir, deltify(store))
    except Unavailable:
        for bad in damage.glance(git_dir):
            raise Corrupt(f"{bad.path}: {bad.what}; git cannot repack", hint=_MEND) from None
        for file in sorted((git_dir / "objects/pack").glob("*.pack")):
            what = damage.checksum_problem(file)
            if what:
                raise Corrupt(f"objects/pack/{file.name}: {what}; git cannot repack", hint=_MEND) from None
        raise
    return MaintenanceResult(before, count_packs(git_dir), dead_locks, released, removed)


def _repack(git_dir: Path, waiting: Sequence[str]) -> None:
    """``waiting``: packs, by name, whose deltas are not made yet; merged with others they would never be."""
    try:
        process.run(git_dir, "repack", "-d", "-q", "--geometric=2", *(f"--keep-pack={name}" for name in waiting))
    except Unavailable:
        # An older git, or packs it cannot order. -k: what no ref reaches stays; dropping it is not ours to decide.
        process.run(git_dir, "repack", "-a", "-d", "-k", "-q")


def is_due(store: GitStore) -> bool:
    """Whether there are so many packs that reading gets slow."""
    return not store.read_only and count_packs(store.git_dir) >= PACKS_MAX


def count_packs(git_dir: Path) -> int:
    return sum(name.endswith(".pack") for name in os.listdir(git_dir / "objects" / "pack"))


def _remove_leftovers(git_dir: Path) -> Iterator[str]:
    """Under the store's lock. Names are relative to the store."""
    old = time.time() - _DAY_SECONDS
    for directory in ("objects/pack", "objects", create.JOURNAL):
        with os.scandir(git_dir / directory) as entries:
            for entry in entries:
                if _is_left_over(entry, old, ours=directory == create.JOURNAL):
                    os.unlink(entry.path)
                    yield f"{directory}/{entry.name}"
    for index in _lone_indexes(git_dir / "objects/pack"):
        index.unlink()
        yield f"objects/pack/{index.name}"


def _is_left_over(entry: os.DirEntry[str], old: float, *, ours: bool) -> bool:
    if not entry.is_file(follow_symlinks=False):
        return False
    if entry.name.startswith(pack_writer.TEMPORARY) or (ours and entry.name.startswith(journal_frames.TEMPORARY)):
        return True
    try:
        return entry.name.startswith(_FOREIGN_TEMPORARIES) and entry.stat().st_mtime < old
    except FileNotFoundError:
        return False


BATCH_BYTES = 256 << 20
"""Some twenty seconds of git's."""

SECONDS_MAX = 60.0
"""No batch begins later; what is left waits for the next time."""

_COMMAND = (
    "pack-objects", "--stdin-packs", "--no-reuse-delta", "--delta-base-offset", "--window-memory=100m", "-q",
)  # fmt: skip
"""Objects of one pack are not tried against each other where deltas are reused. Memory: of each thread."""

_NOT_OURS = (".keep", ".rev", ".promisor", ".mtimes")
_DELTAS = (6, 7)


def deltify(store: GitStore) -> list[str]:
    """Give the packs that we write, which hold no deltas, one pass of git's; those that have to wait, by file name.

    ``git repack`` takes objects out of a pack as they are and tries none of them against its neighbours there, so what
    was written in one go would stay as it is. This has git pack those packs afresh, and them alone: what it costs goes
    with what is new. The mark that a pack had its pass is the reverse index that git writes beside its packs
    (git/process.py sees to that) and we do not; one that came without is looked through for a delta.

    The new pack is on disk, and found to list every object, before an old one goes. Each object is in a whole pack at
    any moment, whoever is killed and whatever git does meanwhile. Raises ``Unavailable`` and ``Corrupt``.
    """
    directory = store.git_dir / "objects/pack"
    if any(directory.glob("multi-pack-index*")):
        return []  # it names packs: only git may remove one
    batches = list(_batches([file for file in sorted(directory.glob("*.pack")) if _is_without_deltas(file)]))
    end = time.monotonic() + SECONDS_MAX
    while batches and time.monotonic() < end:
        with contextlib.suppress(FileNotFoundError):  # another git replaced packs meanwhile
            _pass(store, batches.pop(0))
    return [file.name for file in chain(*batches)]


def _lone_indexes(directory: Path) -> Iterator[Path]:
    """Indexes without a pack, of which no object is missing: what a kill between two removals leaves."""
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
    """Whether nobody has looked for deltas in this pack, as far as one can tell."""
    if any(file.with_suffix(suffix).exists() for suffix in _NOT_OURS):
        return False
    try:
        index, body = PackIndex(str(file.with_suffix(".idx"))), RandomAccessFile(str(file))
        return not any((body.read(offset, 1) or b"\0")[0] >> 4 & 7 in _DELTAS for offset in index.offsets())
    except (Corrupt, OSError):
        return False  # damaged, or gone since: whoever repacks will say so


def _batches(files: Sequence[Path]) -> Iterator[list[Path]]:
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


def _pass(store: GitStore, old: Sequence[Path]) -> None:
    names = "".join(f"{file.name}\n" for file in old)
    try:
        made = process.run(store.git_dir, *_COMMAND, "objects/pack/pack", stdin=names.encode()).out.decode().strip()
    except Unavailable:
        return  # no git, another git at work, damage: the merge that follows can do without, or says what is wrong
    directory = store.git_dir / "objects/pack"
    new = PackIndex(f"{directory}/pack-{made}.idx")
    sync_directory(directory)
    with store.locked():  # no writer of ours makes the same pack once more meanwhile
        for file in old:
            # Of one object or a few, git may make the very same pack.
            if file.stem != f"pack-{made}" and not file.with_suffix(".keep").exists():
                _remove(file, new)


def _remove(file: Path, new: PackIndex) -> None:
    """The index goes last: git passes over one without its pack, and it tells that nothing is missing."""
    index = file.with_suffix(".idx")
    if any(new.find(raw) is None for raw in PackIndex(str(index)).names()):
        raise Unavailable(f"git left objects of {file.name} out of the pack that was to take its place; both stay")
    os.unlink(file)
    os.unlink(index)


def _bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # git replaces packs at any time
        return 0
