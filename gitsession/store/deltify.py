"""Deltas for the packs that we write ourselves, which hold none: one pass of git's over each, and no second one.

``git repack`` takes objects out of a pack as they are and tries none of them against its neighbours there, so what was
written in one go would stay as it is. This has git pack those packs afresh, and them alone: what it costs goes with
what is new. The mark that a pack had its pass is the reverse index that git writes beside its packs (git/process.py
sees to that) and we do not; one that came without is looked through for a delta.

The new pack is on disk, and found to list every object, before an old one goes. Each object is in a whole pack at any
moment, whoever is killed and whatever git does meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from gitsession.durable import sync_directory
from gitsession.errors import Corrupt, Unavailable
from gitsession.git import process
from gitsession.git.pack_index import File, PackIndex
from gitsession.store.git_store import GitStore

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
    """Give our packs their pass; those that have to wait, by file name. Raises ``Unavailable`` and ``Corrupt``."""
    directory = store.git_dir / "objects/pack"
    if any(directory.glob("multi-pack-index*")):
        return []  # it names packs: only git may remove one
    batches = list(_batches([file for file in sorted(directory.glob("*.pack")) if _is_without_deltas(file)]))
    end = time.monotonic() + SECONDS_MAX
    while batches and time.monotonic() < end:
        with contextlib.suppress(FileNotFoundError):  # another git replaced packs meanwhile
            _pass(store, batches.pop(0))
    return [file.name for file in chain(*batches)]


def lone_indexes(directory: Path) -> Iterator[Path]:
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
        index, body = PackIndex(str(file.with_suffix(".idx"))), File(str(file))
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
