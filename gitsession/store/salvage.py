"""Salvage of good data from damaged files of a store, and quarantine of these files (git/damage.py detects the damage).

The good data is durable in a new pack before the damaged file is moved into the quarantine. Nothing is ever deleted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gitsession.durable import make_directories, replace, sync_directory, write_new
from gitsession.errors import GitSessionError
from gitsession.git import pack_writer
from gitsession.git.damage import BadFile, quarantined_packs
from gitsession.git.pack_reader import Packs
from gitsession.git.repository import OBJECT_BYTES_MAX
from gitsession.git.types import Kind, Oid
from gitsession.store import create

QUARANTINE = f"{create.CONTROL}/quarantine"

_PACK_SUFFIXES = (".rev", ".bitmap", ".mtimes")
_BATCH_BYTES = 64 << 20


def good_objects(git_dir: Path, bad: Sequence[BadFile]) -> list[Oid]:
    """Return the objects that can be read from the damaged packs in ``bad`` and that no other pack contains."""
    damaged = quarantined_packs(bad)
    if not damaged:
        return []
    packs = Packs(f"{git_dir}/objects", OBJECT_BYTES_MAX)
    retained = set(packs.oids(without=damaged))
    return [oid for oid in dict.fromkeys(packs.oids()) if oid not in retained and _read(packs, oid) is not None]


def save(git_dir: Path, rescued: Iterable[Oid], copies: Mapping[Oid, tuple[Kind, bytes]]) -> None:
    """Write the undamaged objects of packs, and ``copies`` from other stores, to new packs. Needs the store's lock."""
    packs = Packs(f"{git_dir}/objects", OBJECT_BYTES_MAX)
    batch, size = dict(copies), sum(len(data) for _, data in copies.values())
    for oid in rescued:
        found = _read(packs, oid)
        if found is not None:
            batch[oid] = found
            size += len(found[1])
        if size > _BATCH_BYTES:
            pack_writer.write_pack(git_dir / "objects", batch, git_dir / create.KEEP)
            batch, size = {}, 0
    if batch:
        pack_writer.write_pack(git_dir / "objects", batch, git_dir / create.KEEP)


def quarantine(git_dir: Path) -> Path:
    """Return the path of a quarantine folder named after the current time; moving the first file creates the folder."""
    return git_dir / QUARANTINE / time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


def quarantine_files(git_dir: Path, bad: Sequence[BadFile], folder: Path) -> list[str]:
    """Move each file of ``bad`` into the quarantine ``folder``. Needs the store's lock.

    Files that git derives from a pack are moved with the pack. If only the index of a pack is damaged, it is replaced
    by a new one. Returns the old paths of the files that are now in the quarantine, relative to the store.
    """
    moved: list[str] = []
    for found in bad:
        if found.fresh is not None:
            moved += _replace_index(git_dir, found.path, found.fresh, folder)
            continue
        paths = [found.path]
        if found.path.endswith(".pack"):
            stem = found.path.removesuffix(".pack")
            paths = [f"{stem}{suffix}" for suffix in (".pack", ".idx", *_PACK_SUFFIXES, ".keep")]
        for path in paths:
            if os.path.lexists(git_dir / path):
                _move(git_dir, path, folder)
                moved.append(path)
    return moved


def quarantine_copy(git_dir: Path, path: str, folder: Path) -> None:
    """Hard-link a file into the quarantine before it is replaced."""
    target = folder / path
    make_directories(target.parent)
    os.link(git_dir / path, _free_name(target))
    sync_directory(target.parent)


def _read(packs: Packs, oid: Oid) -> tuple[Kind, bytes] | None:
    try:
        return packs.read(oid)
    except GitSessionError:
        return None


def _replace_index(git_dir: Path, path: str, fresh: Path, folder: Path) -> list[str]:
    """Replace the damaged index of an intact pack; keep the damaged index in the quarantine."""
    index = git_dir / path
    existed = index.exists()
    if existed:
        quarantine_copy(git_dir, path, folder)
    # The name does not end in .idx: otherwise a reader would use the file as the index of a missing pack.
    replace(index, fresh.read_bytes(), by=index.with_name(f"{pack_writer.TEMPORARY}{index.stem}"), mode=0o444)
    return [path] if existed else []


def _move(git_dir: Path, path: str, folder: Path) -> None:
    target = folder / path
    make_directories(target.parent)
    os.rename(git_dir / path, _free_name(target))
    sync_directory(target.parent)
    sync_directory((git_dir / path).parent)


def _free_name(path: Path) -> Path:
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}.{number}")
    return free


# ---- refs


def write_note(path: Path, text: str) -> None:
    """Write the old value of a removed ref to a file in the quarantine."""
    make_directories(path.parent)
    write_new(_free_name(path), f"{text}\n".encode())
    sync_directory(path.parent)


def replace_ref_files(git_dir: Path, folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """Replace damaged ref files (loose refs, packed-refs) with ``files``; return the names of the quarantined files.

    Needs the store's lock but no git lock, because git does not move a ref whose file it cannot read. Each file is
    replaced by one rename.
    """
    quarantined = []
    for name, data in files.items():
        if os.path.lexists(git_dir / name):
            quarantined.append(name)
            quarantine_copy(git_dir, name, folder)
        make_directories((git_dir / name).parent)
        replace(git_dir / name, data, by=git_dir / create.CONTROL / f"{pack_writer.TEMPORARY}ref")
    return quarantined
