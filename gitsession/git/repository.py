"""Read access to the packed and loose objects and the refs of a repository.

The repository is not opened with a git library (docs/decisions/0009): no configuration, hook or home directory is read.
The SHA-1 of every returned object matches its id.
"""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from gitsession.durable import read_regular
from gitsession.errors import Corrupt, GitSessionError, MissingObject, Unavailable
from gitsession.git.objects import oid_of
from gitsession.git.pack_reader import Packs
from gitsession.git.ref_files import RefReader
from gitsession.git.types import Kind, Oid
from gitsession.pattern import pattern

OBJECT_BYTES_MAX = 1 << 30

_REPAIR_HINT = "run `gitsession repair`"

_KINDS: Final[dict[str, Kind]] = {"commit": "commit", "tree": "tree", "blob": "blob"}
_HEAD = pattern(rb"(commit|tree|blob|tag) (0|[1-9][0-9]{0,18})\0")
_HEAD_BYTES_MAX = 32
_OID = pattern(r"[0-9a-f]{40}")
_FOLDER, _REST = re.compile(r"[0-9a-f]{2}"), re.compile(r"[0-9a-f]{38}")


class VerifiedRepository:
    """Objects and ``refs`` of the bare repository at ``git_dir``, read only. Threads may share it."""

    def __init__(self, git_dir: Path, *, object_bytes_max: int = OBJECT_BYTES_MAX) -> None:
        self._objects = f"{git_dir}/objects"
        self._bytes_max = object_bytes_max
        self._packs = Packs(self._objects, object_bytes_max)
        self.refs = RefReader(git_dir)

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        """Return an object. Raises ``MissingObject``, ``Corrupt``, and ``Unavailable`` if it is too large.

        If one copy is damaged, an intact copy is returned. If a damaged pack could contain a missing object,
        ``Corrupt`` is raised instead of ``MissingObject``.
        """
        if not _OID.fullmatch(oid):
            raise MissingObject(f"invalid object id {oid[:60]!r}: expected 40 lower-case hexadecimal digits")
        problem: GitSessionError | None = None
        for read_object in (self._packs.read, self.read_loose, self._read_refreshed):
            try:
                found = read_object(oid)
            except (Corrupt, Unavailable) as error:
                problem = problem or error
                self._packs.forget()
            else:
                if found is not None:
                    return found
        if isinstance(problem, Corrupt):
            raise Corrupt(str(problem), hint=_REPAIR_HINT)
        if problem is not None:
            raise problem
        for name, what in self._packs.suspects().items():
            raise Corrupt(f"object {oid} is missing, and {name} is damaged: {what}", hint=_REPAIR_HINT)
        raise MissingObject(f"missing object {oid}")

    def read_all(self, oids: Iterable[Oid]) -> Iterator[tuple[Oid, Kind, bytes]]:
        """Yield the objects in ``oids`` that can be read from packs, in pack order. Other objects are skipped."""
        return self._packs.read_all(oid for oid in oids if _OID.fullmatch(oid))

    def commits(self) -> Iterator[tuple[Oid, Kind, bytes]]:
        """Yield the commits that can be read from packs."""
        return self._packs.commits()

    def contains(self, oid: Oid) -> bool:
        """Return whether the object exists, intact or damaged."""
        if not _OID.fullmatch(oid):
            return False
        if self._packs.contains(oid) or os.path.exists(self._loose_path(oid)):
            return True
        self._packs.refresh()
        return self._packs.contains(oid)

    @property
    def packed_objects(self) -> int:
        """The number of objects in packs. An object in several packs is counted several times."""
        return self._packs.count

    def refresh(self) -> None:
        """List the packs again, and close packs that no longer exist."""
        self._packs.refresh()

    def oids(self) -> Iterator[Oid]:
        """Yield the id of every object, intact or damaged. An object that is stored twice may be yielded twice."""
        self._packs.refresh()
        yield from self._packs.oids()
        yield from self.loose()

    def loose(self) -> Iterator[Oid]:
        """Yield the ids of the loose objects."""
        for folder in _names(self._objects, _FOLDER):
            for rest in _names(f"{self._objects}/{folder}", _REST):
                yield folder + rest

    def _read_refreshed(self, oid: Oid) -> tuple[Kind, bytes] | None:
        """List the packs again and read from them.

        A pack may be new, or `git repack` may have replaced a pack.
        """
        self._packs.refresh()
        return self._packs.read(oid)

    def read_loose(self, oid: Oid) -> tuple[Kind, bytes] | None:
        """Return the loose object; ``None`` if there is none. Raises the same errors as ``read``."""
        raw = self._loose_bytes(oid)
        if raw is None:
            return None
        unpacker = zlib.decompressobj()
        try:
            start = unpacker.decompress(raw, _HEAD_BYTES_MAX)
            head = _HEAD.match(start)
            if not head:
                raise Corrupt(f"cannot read object {oid}: the loose file is not an object")
            size = int(head[2])
            self._check_size(oid, size)
            data = start[head.end() :]
            if size >= len(data):
                data += unpacker.decompress(unpacker.unconsumed_tail, size - len(data) + 1)
        except zlib.error:
            raise Corrupt(f"cannot read object {oid}: invalid compressed data in the loose file") from None
        kind = _KINDS.get(head[1].decode())
        if kind is None:
            raise Corrupt(f"object {oid} is neither a commit, a tree nor a blob")
        if len(data) != size or oid_of(kind, data) != oid:
            what = "the loose file is truncated, or its content does not match the id"
            raise Corrupt(f"cannot read object {oid}: {what}")
        return kind, data

    def _loose_bytes(self, oid: Oid) -> bytes | None:
        try:
            with contextlib.suppress(FileNotFoundError):
                self._check_size(oid, os.stat(self._loose_path(oid)).st_size)
            return read_regular(self._loose_path(oid))
        except OSError as error:
            raise Corrupt(f"cannot read the loose object {oid}: {error.strerror}") from None

    def _loose_path(self, oid: Oid) -> str:
        return f"{self._objects}/{oid[:2]}/{oid[2:]}"

    def _check_size(self, oid: Oid, size: int) -> None:
        if size > self._bytes_max:
            raise Unavailable(f"object {oid} is too large: {size:,} bytes (limit: {self._bytes_max:,})")


def _names(directory: str, pattern: re.Pattern[str]) -> list[str]:
    try:
        return sorted(name for name in os.listdir(directory) if pattern.fullmatch(name))
    except (FileNotFoundError, NotADirectoryError):
        return []
