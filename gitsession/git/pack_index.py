"""The index of a pack (version 2), which maps object ids to offsets in the pack.

To open an index, only its header is read and its size is checked. To find an object, one of its 256 buckets is read
into a cache, which all indexes share. Large buckets are searched in the file. A wrong offset in the index does no harm,
because the reader of an object verifies the object's id. If an object is not found, ``damage`` checks the whole index
once.
"""

from __future__ import annotations

import itertools
import os
from bisect import bisect_left
from collections.abc import Iterator
from math import isqrt
from struct import unpack

from gitsession.errors import Corrupt
from gitsession.git.objects import sha1_of

MAGIC = b"\xfftOc\0\0\0\2"
_HEAD_BYTES = 8 + 256 * 4
_TRAILER_BYTES = 40
_SMALL_BYTES = 1 << 20
_HASHED_BYTES = 1 << 20
_SCANNED_BYTES = 32 * 20
"""Size of a list of ids up to which it is searched from its start. A larger one is halved first."""
_CACHED_IDS_MAX = 1 << 13
"""Number of ids up to which a bucket is cached: those of a pack of two million objects."""
_BLOCK_BYTES = 1 << 14
_BLOCKS_MAX = 64
_BUCKETS_BYTES_MAX = 64 << 20
"""Size of the cache of buckets, enough for 2.8 million objects."""

Identity = tuple[int, int, int]
"""Size in bytes, modification time in ns, and inode of a file.

If one of them differs, the file was replaced or changed.
"""


def identity_of(stat: os.stat_result) -> Identity:
    return stat.st_size, stat.st_mtime_ns, stat.st_ino


class RandomAccessFile:
    """An open file that is read by offset and closed when it is no longer used.

    A small file is read into memory and closed at once.
    """

    __slots__ = ("_blocks", "_data", "_fd", "identity", "size")

    def __init__(self, path: str, *, small_bytes: int = 0) -> None:
        """Open the file. Raises ``OSError``."""
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # do not block on a named pipe
        self._data = b""
        self._blocks: dict[int, bytes] = {}
        self.identity = identity_of(os.fstat(self._fd))
        self.size = self.identity[0]
        if self.size <= small_bytes:
            self._data = os.pread(self._fd, self.size, 0)
            self.close()

    def read(self, offset: int, count: int) -> bytes:
        """Return up to ``count`` bytes. Raises ``OSError``."""
        if self._fd < 0:
            return self._data[offset : offset + count]
        return os.pread(self._fd, count, offset) if offset < self.size else b""

    def read_cached(self, offset: int, count: int) -> bytes:
        """Return up to ``count`` bytes through a block cache, which serves many small reads near each other.

        The file must not change meanwhile.
        """
        number, at = divmod(offset, _BLOCK_BYTES)
        block = self._blocks.get(number)
        if block is None:
            if len(self._blocks) >= _BLOCKS_MAX:
                self._blocks = {}
            block = self._blocks[number] = self.read(number * _BLOCK_BYTES, _BLOCK_BYTES)
        if at + count <= len(block):
            return block[at : at + count]
        return self.read(offset, count)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)


class _BucketCache:
    """Buckets of pack indexes: their object ids and offsets. When the cache is full, it is emptied."""

    def __init__(self) -> None:
        self._bytes = 0
        self._buckets: dict[int, tuple[bytes, bytes]] = {}

    def get(self, key: int) -> tuple[bytes, bytes] | None:
        return self._buckets.get(key)

    def put(self, key: int, bucket: tuple[bytes, bytes]) -> None:
        size = len(bucket[0]) + len(bucket[1])
        if self._bytes + size > _BUCKETS_BYTES_MAX:
            self._bytes, self._buckets = 0, {}
        self._buckets[key] = bucket
        self._bytes += size


_CACHE = _BucketCache()
_NUMBERS = itertools.count()


class PackIndex:
    """An open index. ``identity``: the ``Identity`` of its file."""

    def __init__(self, path: str) -> None:
        """Open an index. Raises ``Corrupt`` if the file cannot be an index, and ``OSError``."""
        self._file = RandomAccessFile(path, small_bytes=_SMALL_BYTES)
        self.identity = self._file.identity
        head = self._file.read(0, _HEAD_BYTES)
        if not head.startswith(MAGIC) or len(head) < _HEAD_BYTES:
            raise Corrupt("not a version 2 pack index")
        self._fan = (0, *unpack(">256I", head[8:]))
        self.count = count = self._fan[-1]
        self._offsets = _HEAD_BYTES + count * 24
        self._far = self._offsets + count * 4
        room = self._file.size - self._far - _TRAILER_BYTES
        if self._fan != tuple(sorted(self._fan)) or not 0 <= room <= count * 8:
            raise Corrupt(f"invalid fan-out table or wrong size: {self._file.size:,} bytes for {count:,} objects")
        self._key = next(_NUMBERS) << 8
        self._damage: str | None = None

    def find(self, raw: bytes) -> int | None:
        """Return the offset in the pack of the object with the id ``raw`` (20 bytes); ``None`` if it is not listed."""
        first = raw[0]
        bucket = _CACHE.get(self._key | first)
        if bucket is None:
            begin, count = self._fan[first], self._fan[first + 1] - self._fan[first]
            if count > _CACHED_IDS_MAX:
                return self._find_in_file(raw, begin, count)
            names = self._file.read(_HEAD_BYTES + begin * 20, count * 20)
            bucket = names, self._file.read(self._offsets + begin * 4, count * 4)
            _CACHE.put(self._key | first, bucket)
        names, offsets = bucket
        at = _position(names, raw)
        return None if at < 0 else self._offset(offsets[at // 5 : at // 5 + 4])

    def _find_in_file(self, raw: bytes, begin: int, count: int) -> int | None:
        """Return the result of ``find`` for a bucket that is not cached: ``count`` ids from number ``begin`` on.

        Object ids are evenly distributed, so the number of an id can be estimated. The ids near it are read at once.
        """
        spread = 8 + 2 * isqrt(count)
        guess = int.from_bytes(raw[1:5], "big") * count >> 32
        low, high = max(guess - spread, 0), min(guess + spread, count)
        names = self._file.read(_HEAD_BYTES + (begin + low) * 20, (high - low) * 20)
        at = _position(names, raw)
        number = begin + low + at // 20
        if at < 0:
            if names[:20] < raw < names[-20:]:
                return None
            number = bisect_left(range(begin + count), raw, begin, key=self._name)
            if number == begin + count or self._name(number) != raw:
                return None
        return self._offset(self._file.read(self._offsets + number * 4, 4))

    def _name(self, number: int) -> bytes:
        return self._file.read(_HEAD_BYTES + number * 20, 20)

    def names(self) -> Iterator[bytes]:
        """Yield every listed object id, 20 bytes each, in index order."""
        for first in range(256):
            count = self._fan[first + 1] - self._fan[first]
            rows = self._file.read(_HEAD_BYTES + self._fan[first] * 20, count * 20)
            yield from (rows[at : at + 20] for at in range(0, len(rows), 20))

    def locations(self) -> list[tuple[int, bytes]]:
        """Return the offset and the id of each object, in pack order. Raises ``Corrupt``."""
        names = self._file.read(_HEAD_BYTES, self.count * 20)
        stated = unpack(f">{self.count}I", self._file.read(self._offsets, self.count * 4))
        if stated and max(stated) >= 1 << 31:
            stated = tuple(self.offsets())
        return sorted(zip(stated, [names[at : at + 20] for at in range(0, len(names), 20)], strict=False))

    def offsets(self) -> Iterator[int]:
        """Yield the offset of each object in the pack, in the order of ``names``. Raises ``Corrupt``."""
        stated = self._file.read(self._offsets, self.count * 4)
        yield from (self._offset(stated[at : at + 4]) for at in range(0, len(stated), 4))

    def damage(self) -> str:
        """Return a description of the damage to the index; "" if there is none. Reads the whole file once."""
        if self._damage is None:
            try:
                self._damage = checksum_problem(self._file)
            except OSError as error:
                self._damage = f"cannot be read: {error.strerror}"
        return self._damage

    def _offset(self, stated: bytes) -> int:
        near = int.from_bytes(stated, "big")
        if near < 1 << 31:
            return near
        far = self._far + (near & (1 << 31) - 1) * 8
        if far + 8 > self._file.size - _TRAILER_BYTES:
            raise Corrupt("the pack index is damaged: an offset points past the end of the file")
        return int.from_bytes(self._file.read(far, 8), "big")


def _position(names: bytes, raw: bytes) -> int:
    """Return the position of the id ``raw`` in ``names``, sorted ids of 20 bytes each; -1 if it is not there."""
    begin, end = 0, len(names)
    while end - begin > _SCANNED_BYTES:
        middle = (begin + end) // 40 * 20
        if names[middle : middle + 20] <= raw:
            begin = middle
        else:
            end = middle
    at = names.find(raw, begin, end)
    while at % 20 and at > 0:  # skip a match that spans two adjacent ids
        at = names.find(raw, at + 1, end)
    return at


def checksum_problem(file: RandomAccessFile) -> str:
    """Return the problem of a file that should end with the SHA-1 of all preceding bytes; "" if there is none.

    Packs, indexes and all files that git derives from them end with such a checksum. Raises ``OSError``.
    """
    end = file.size - 20
    hasher = sha1_of(end)(usedforsecurity=False)
    for at in range(0, end, _HASHED_BYTES):
        hasher.update(file.read(at, min(_HASHED_BYTES, end - at)))
    return "" if end >= 0 and hasher.digest() == file.read(end, 20) else "wrong checksum"
