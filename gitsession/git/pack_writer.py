"""Creation of packs: new packs, each with an index (version 2) and without deltas, and packs moved into the store.

``maintain`` adds the deltas later. First the ``.keep`` file is created, then the pack, then the index. The pack and the
index are written under a temporary name, fsynced and renamed. Then the directory is fsynced. If the user runs ``git
repack -ad``, git deletes packed objects that no ref reaches. So the ``.keep`` file exists before the pack has its final
name, and remains until the refs have moved. The ``.keep`` file is a hard link to a durable file whose text names
gitsession. So it needs no separate fsync, is never empty after a power failure, and is never confused with a user's
``.keep`` file.
"""

from __future__ import annotations

import functools
import os
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from struct import pack as binary
from typing import Final, TypeAlias

from gitsession.durable import sync_directory, sync_file, write_new
from gitsession.git.objects import sha1_of
from gitsession.git.types import Kind, Oid

KEEP_TEXT = "gitsession: refs to this pack are still in the journal\n"
TEMPORARY = "gitsession-tmp-"
"""Prefix of the names of unfinished files. `git prune` may delete files whose names begin with ``tmp_``."""

_COMPRESSION = 1
_STORED_BYTES = 64
"""Maximum length in bytes of an object that is not compressed. A tree with one blob has 39, of which 20 are an id."""
_TYPE_OF: Final[dict[Kind, int]] = {"commit": 1, "tree": 2, "blob": 3}


Deflated: TypeAlias = Callable[[], Mapping[Oid, bytes]]
"""A function that returns the compressed forms (``deflate``) of some blobs, which another process has computed."""


def write_pack(
    object_dir: Path, objects: Mapping[Oid, tuple[Kind, bytes]], owner: Path, *, sync: bool = True,
    deflated: Deflated | None = None,
) -> str:  # fmt: skip
    """Write ``objects`` as one pack with a ``.keep`` file; return the name of the pack.

    ``owner``: the file that ``.keep`` links to. On an error, temporary files are removed if the disk allows. Raises
    ``OSError``.
    """
    ready: dict[Oid, bytes] = {}
    if deflated is not None:  # compress the other objects while the process compresses blobs
        ready = {oid: deflate(data) for oid, (kind, data) in objects.items() if kind != "blob"}
        ready.update(deflated())
    body, index = _encode(objects, ready)
    directory = object_dir / "pack"
    name = f"pack-{body[-20:].hex()}"
    temporary = f"{directory}/{TEMPORARY}{os.urandom(8).hex()}"
    keep(owner, directory / f"{name}.keep", sync=sync)
    for data, suffix in ((body, ".pack"), (index, ".idx")):
        write_new(temporary, data, mode=0o444, sync=sync)
        os.rename(temporary, directory / (name + suffix))
    if sync:
        sync_directory(directory)
    return name


def release_packs(object_dir: Path) -> int:
    """Remove all of gitsession's ``.keep`` files; return their number.

    The caller must hold the store's lock, and no ref move may be pending.
    """
    count = 0
    with os.scandir(object_dir / "pack") as entries:
        for entry in entries:
            if entry.name.endswith(".keep") and _has_keep_text(entry):
                os.unlink(entry.path)
                count += 1
    return count


def keep(owner: Path, path: Path, *, sync: bool = True) -> None:
    """Protect a pack from deletion by git: create its `.keep` file ``path``, a link to ``owner``."""
    try:
        try:
            os.link(owner, path)
        except FileNotFoundError:
            write_new(owner, KEEP_TEXT.encode(), sync=sync)
            os.link(owner, path)
    except FileExistsError:
        pass


def move_packs(folder: Path, object_dir: Path, owner: Path | None) -> list[str]:
    """Move the packs in ``folder`` into ``object_dir``, one rename per file; return their names. Raises ``OSError``.

    ``owner``: the file that each ``.keep`` links to; ``None`` to create no ``.keep`` files.
    """
    target = object_dir / "pack"
    moved = []
    for name in packs_in(folder):
        if owner is not None:
            keep(owner, target / f"{name}.keep")
        if (target / f"{name}.idx").exists():
            continue
        for suffix in (".pack", ".rev", ".promisor", ".idx"):  # the index is last: readers find a pack by its index
            file = folder / f"{name}{suffix}"
            if file.exists():
                sync_file(file)
                os.rename(file, target / f"{name}{suffix}")
        moved.append(name)
    sync_directory(target)
    return moved


def packs_in(folder: Path) -> list[str]:
    """Return the names of the packs in a folder."""
    return sorted(file.stem for file in folder.glob("pack-*.idx") if file.with_suffix(".pack").exists())


def _has_keep_text(entry: os.DirEntry[str]) -> bool:
    text = KEEP_TEXT.encode()
    return entry.stat(follow_symlinks=False).st_size == len(text) and Path(entry.path).read_bytes() == text


def _encode(objects: Mapping[Oid, tuple[Kind, bytes]], ready: Mapping[Oid, bytes]) -> tuple[bytes, bytes]:
    parts = [b""]
    rows = []
    offset = 12
    for oid, (kind, data) in objects.items():
        part = _object_head(_TYPE_OF[kind], len(data)) + (ready.get(oid) or deflate(data))
        rows.append((bytes.fromhex(oid), zlib.crc32(part), offset))
        parts.append(part)
        offset += len(part)
    parts[0] = b"PACK" + binary(">II", 2, len(rows))
    body = b"".join(parts)
    checksum = sha1_of(len(body))(body, usedforsecurity=False).digest()
    return body + checksum, _index(sorted(rows), checksum)


def deflate(data: bytes) -> bytes:
    """Compress ``data`` with zlib, using the smallest sufficient window and memory level.

    Most objects are under 2 KB, but zlib's default state takes 256 KiB, which the system may have to allocate each
    time. The smallest objects become one stored block, which takes two bytes more and a tenth of the time.
    """
    size = len(data)
    if size <= _STORED_BYTES:
        return b"\x78\x01" + binary("<BHH", 1, size, size ^ 0xFFFF) + data + binary(">I", zlib.adler32(data))
    window_bits = min(15, max(12, size.bit_length()))
    deflate = zlib.compressobj(_COMPRESSION, zlib.DEFLATED, window_bits, window_bits - 7)
    return deflate.compress(data) + deflate.flush()


@functools.lru_cache(maxsize=4096)
def _object_head(kind: int, length: int) -> bytes:
    """Return the header of an object: type and four bits of the length, then seven bits per byte, lowest bits first."""
    low, length = length & 15, length >> 4
    head = bytearray([kind << 4 | low])
    while length:
        head[-1] |= 128
        head.append(length & 127)
        length >>= 7
    return bytes(head)


def _index(rows: list[tuple[bytes, int, int]], checksum: bytes) -> bytes:
    count = len(rows)
    fan = [0] * 256
    for oid, _, _ in rows:
        fan[oid[0]] += 1
    for byte in range(1, 256):
        fan[byte] += fan[byte - 1]
    far = [offset for _, _, offset in rows if offset >= 1 << 31]
    places = iter(range(len(far)))
    near = [offset if offset < 1 << 31 else 1 << 31 | next(places) for _, _, offset in rows]
    index = b"".join(
        (
            b"\xfftOc" + binary(">I256I", 2, *fan),
            *(oid for oid, _, _ in rows),
            binary(f">{count}I", *(crc for _, crc, _ in rows)),
            binary(f">{count}I{len(far)}Q", *near, *far),
            checksum,
        )
    )
    return index + sha1_of(len(index))(index, usedforsecurity=False).digest()
