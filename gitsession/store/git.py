"""The narrow door to libgit2: objects out of packs, as bytes. The only module that imports pygit2.

libgit2 is asked for nothing but packs. It opens no Repository, so no configuration, hook or home directory is read.
Loose objects (we write none; a ``git push`` or a user may) are read by our own few lines: a truncated one makes libgit2
1.9 spin for ever with the GIL held, and no timeout reaches it.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pygit2

from gitsession.errors import Corrupt, MissingObject, Unavailable
from gitsession.store.base import Kind, Oid, RefValue
from gitsession.store.objects import oid_of
from gitsession.store.refreader import RefReader

# Latched by libgit2 at its first write in this process, so it is said before anybody could make one.
pygit2.settings.enable_fsync_gitdir(True)

OBJECT_BYTES_MAX = 1 << 30

_KINDS: Final[tuple[Kind, ...]] = ("commit", "tree", "blob")
_KIND_OF: Final[dict[object, Kind]] = {**dict(enumerate(_KINDS, 1)), **{kind: kind for kind in _KINDS}}
_HEAD = re.compile(rb"(commit|tree|blob|tag) (0|[1-9][0-9]{0,18})\0")
_HEAD_BYTES_MAX = 32
_OID = re.compile(r"[0-9a-f]{40}")


class GitDoor:
    """Objects and refs of the bare repository at ``git_dir``, read only. Safe to share between threads."""

    def __init__(self, git_dir: Path, *, object_bytes_max: int = OBJECT_BYTES_MAX) -> None:
        self._objects = f"{git_dir}/objects"
        self._bytes_max = object_bytes_max
        self._packs = self._open_packs()
        self.ref_reader = RefReader(git_dir)

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        """Raises ``MissingObject``; ``Corrupt``; ``Unavailable`` for an object too large to be worth reading."""
        _check_oid(oid)
        try:
            try:
                return self._read_packed(oid)
            except pygit2.GitError as error:
                if isinstance(error, KeyError):
                    raise
                # Damaged, or in a pack that `git repack` removed before we had opened it: look afresh, once.
                self._packs = self._open_packs()
                return self._read_packed(oid)
        except KeyError:
            return self._read_loose(oid)
        except pygit2.GitError as error:
            raise Corrupt(f"object {oid}: {error}") from None

    def contains(self, oid: Oid) -> bool:
        """Whether the object is there, whole or not."""
        try:
            _check_oid(oid)
        except MissingObject:
            return False
        return self._packs.exists(oid) or os.path.exists(self._loose_path(oid))

    def ref(self, name: str) -> RefValue | None:
        """What ``name`` holds, not followed. Raises ``Corrupt``."""
        return self.ref_reader.read(name)

    def refs(self, prefix: str) -> Mapping[str, RefValue]:
        """Every ref below ``prefix``, in no order."""
        return self.ref_reader.list(prefix)

    def _open_packs(self) -> pygit2.Odb:
        packs = pygit2.Odb()
        packs.add_backend(pygit2.OdbBackendPack(self._objects), 1)
        return packs

    def _read_packed(self, oid: Oid) -> tuple[Kind, bytes]:
        _, size = self._packs.read_header(oid)
        self._check_size(oid, size)
        number, data = self._packs.read(oid)
        return _kind(oid, number), data

    def _read_loose(self, oid: Oid) -> tuple[Kind, bytes]:
        try:
            with open(self._loose_path(oid), "rb") as file:
                self._check_size(oid, os.fstat(file.fileno()).st_size)
                raw = file.read()
        except FileNotFoundError:
            raise MissingObject(f"no object {oid}") from None
        unpacker = zlib.decompressobj()
        try:
            start = unpacker.decompress(raw, _HEAD_BYTES_MAX)
            head = _HEAD.match(start)
            if not head:
                raise Corrupt(f"object {oid}: the loose file is no object")
            size = int(head[2])
            self._check_size(oid, size)
            data = start[head.end() :]
            if size >= len(data):
                data += unpacker.decompress(unpacker.unconsumed_tail, size - len(data) + 1)
        except zlib.error as error:
            raise Corrupt(f"object {oid}: {error}") from None
        kind = _kind(oid, head[1].decode())
        if len(data) != size or oid_of(kind, data) != oid:
            raise Corrupt(f"object {oid}: the loose file is cut short or holds something else")
        return kind, data

    def _loose_path(self, oid: Oid) -> str:
        return f"{self._objects}/{oid[:2]}/{oid[2:]}"

    def _check_size(self, oid: Oid, size: int) -> None:
        if size > self._bytes_max:
            raise Unavailable(f"object {oid} has {size:,} bytes, and the limit is {self._bytes_max:,}")


def _check_oid(oid: Oid) -> None:
    """libgit2 would take the beginning of an id for the whole."""
    if not _OID.fullmatch(oid):
        raise MissingObject(f"no object {oid[:60]!r}: an id has 40 lower-case hexadecimal digits")


def _kind(oid: Oid, found: object) -> Kind:
    kind = _KIND_OF.get(found)
    if kind is not None:
        return kind
    raise Corrupt(f"object {oid} is neither a commit, a tree nor a blob")


def library_versions() -> tuple[str, str]:
    """The versions of pygit2 and of the libgit2 in it."""
    from importlib import metadata  # slow to load, and only asked for here

    return metadata.version("pygit2"), pygit2.LIBGIT2_VERSION
