"""Housekeeping that git does best, and the traces of runs that were killed.

Packs of ours get the deltas that we do not make (store/deltify.py), and many small ones become few by ``git repack -d
--geometric=2``. That is safe beside live writers: what is not reachable yet is in kept packs. Loose refs become one
file, by our own ref writer: a killed ``git pack-refs`` leaves locks nobody can judge. Cleaning up wants the store's
lock: whoever holds it knows that what an unfinished write of ours has left belongs to nobody. What other programs leave
is removed when it is a day old.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitsession.errors import Corrupt, Unavailable
from gitsession.git import damage, pack_writer, process
from gitsession.store import create, journal_frames, spill
from gitsession.store.deltify import deltify, lone_indexes
from gitsession.store.git_store import GitStore
from gitsession.store.repack_lock import packing

PACKS_MAX = 50

_MEND = "`gitsession repair` sets it aside and saves what is good in it"

_FOREIGN_TEMPORARIES = ("tmp_pack_", "tmp_idx_", "tmp_rev_", "tmp_obj_", "tmp_mtimes_", ".tmp-")
_DAY_SECONDS = 86400.0


@dataclass(frozen=True, slots=True)
class Maintained:
    """What was done: packs before and after, loose refs packed away, and files of killed runs that are gone."""

    packs_before: int
    packs_after: int
    dead_locks: int
    released: int
    removed: tuple[str, ...]


def maintain(store: GitStore) -> Maintained:
    """Flush, clean up, pack refs, have git repack.

    Raises ``Unavailable``, without git among other reasons, and ``Corrupt`` where a file is damaged that git wants.
    """
    try:
        return _maintain(store)
    except OSError as error:
        raise Unavailable(f"cannot maintain {store.git_dir}: {error.strerror}") from error


def _maintain(store: GitStore) -> Maintained:
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
    return Maintained(before, count_packs(git_dir), dead_locks, released, removed)


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
    for index in lone_indexes(git_dir / "objects/pack"):
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
