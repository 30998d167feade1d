"""Bulk reads of objects from one pack, in pack order. For speed, the code has no function call for each step.

An object that cannot be read in this way is skipped, whatever the reason. A read of this object alone
(git/pack_reader.py) raises the error. The content of each object is checked against its id.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from gitsession.errors import GitSessionError
from gitsession.git.objects import sha1_of
from gitsession.git.pack_index import RandomAccessFile
from gitsession.git.types import Kind, Oid

COMMIT: Final = 1

_KINDS: Final[dict[int, tuple[Kind, bytes]]] = {1: ("commit", b"commit "), 2: ("tree", b"tree "), 3: ("blob", b"blob ")}
_OFFSET_DELTA: Final = 6
_CHUNK_BYTES = 1 << 17
_HEAD_BYTES = 32
_BASES_BYTES = 8 << 20

Base = tuple[int, bytes]
"""Type number and content of the base object of a delta."""


def read(
    file: RandomAccessFile, locations: Sequence[tuple[int, bytes]], base_at: Callable[[int], Base], bytes_max: int,
    only: int = 0
) -> Iterator[tuple[Oid, Kind, bytes]]:  # fmt: skip
    """Yield the objects at ``locations``: sorted pairs of an offset in the pack and a 20-byte object id.

    ``base_at``: returns the base of a delta, by the offset of the base. ``only``: yield only objects of this type
    number; ``locations`` must then list the whole pack.
    """
    chunk, start, length = b"", 0, 0
    bases: dict[int, Base] = {}
    bases_bytes = 0
    wanted: set[int] = set()
    """Offsets of the objects of type ``only``."""
    for offset, raw in locations:
        at = offset - start
        if at + _HEAD_BYTES > length:
            try:
                chunk, start, at = file.read(offset, _CHUNK_BYTES), offset, 0
            except OSError:
                continue
            length = len(chunk)
        try:
            byte = chunk[at]
            at += 1
            number, size, shift = byte >> 4 & 7, byte & 15, 4
            while byte & 128 and shift < 64:  # a longer number is too large anyway
                byte = chunk[at]
                at += 1
                size |= (byte & 127) << shift
                shift += 7
            base_offset = 0
            if number == _OFFSET_DELTA:
                byte = chunk[at]
                at += 1
                distance = byte & 127
                while byte & 128 and not distance >> 63:
                    byte = chunk[at]
                    at += 1
                    distance = (distance + 1) << 7 | byte & 127
                base_offset = offset - distance
        except IndexError:
            continue
        if only:
            if number != only and base_offset not in wanted:
                continue
            wanted.add(offset)
        if size > bytes_max or (number not in _KINDS and base_offset <= 0):
            continue
        end = at + size + (size >> 8) + 64
        if end > length:
            try:
                chunk, start, end = file.read(start + at, max(_CHUNK_BYTES, end - at)), start + at, end - at
            except OSError:
                continue
            at, length = 0, len(chunk)
        unpacker = zlib.decompressobj()
        try:
            data = unpacker.decompress(chunk[at:end], size + 1)
            if len(data) != size or not unpacker.eof:
                continue
            if base_offset:
                number, base = bases.get(base_offset) or base_at(base_offset)
                data = apply_delta(base, data, bytes_max)
        except (zlib.error, ValueError, GitSessionError, OSError):
            continue
        known = _KINDS.get(number)
        if known is None:
            continue
        kind, head = known
        hasher = sha1_of(len(data))(b"%b%d\0" % (head, len(data)), usedforsecurity=False)
        hasher.update(data)
        if hasher.digest() != raw:
            continue
        bases[offset] = number, data
        bases_bytes += len(data)
        if bases_bytes > _BASES_BYTES:
            bases, bases_bytes = {}, 0
        yield raw.hex(), kind, data


def apply_delta(base: bytes, delta: bytes, bytes_max: int) -> bytes:
    """Apply ``delta``, a sequence of instructions that copy from ``base`` or insert bytes.

    Raises ``ValueError`` if an instruction is invalid, or before the result exceeds its stated size or ``bytes_max``.
    """
    try:
        expected, at = _size(delta, 0)
        result, at = _size(delta, at)
        if expected != len(base):
            raise ValueError(f"expected a base of {expected:,} bytes, found {len(base):,}")
        if result > bytes_max:
            raise ValueError(f"the result has {result:,} bytes (limit: {bytes_max:,})")
        parts = []
        made, end = 0, len(delta)
        while at < end:
            code = delta[at]
            at += 1
            if code & 128:
                start = length = 0
                if code & 1:
                    start = delta[at]
                    at += 1
                if code & 2:
                    start |= delta[at] << 8
                    at += 1
                if code & 4:
                    start |= delta[at] << 16
                    at += 1
                if code & 8:
                    start |= delta[at] << 24
                    at += 1
                if code & 16:
                    length = delta[at]
                    at += 1
                if code & 32:
                    length |= delta[at] << 8
                    at += 1
                if code & 64:
                    length |= delta[at] << 16
                    at += 1
                length = length or 65536
                part = base[start : start + length]
            elif code:
                length = code
                part = delta[at : at + code]
                at += code
            else:
                raise ValueError("unknown instruction")
            made += length
            if len(part) != length or made > result:
                raise ValueError("an instruction reads past the end of its data, or exceeds the stated size")
            parts.append(part)
    except IndexError:
        raise ValueError("truncated") from None
    if made != result:
        raise ValueError("the result is smaller than the stated size")
    return b"".join(parts)


def _size(data: bytes, at: int) -> tuple[int, int]:
    """Decode a number of seven bits per byte, lowest bits first; return the number and the offset after it."""
    size = shift = 0
    while True:
        byte = data[at]
        at += 1
        size |= (byte & 127) << shift
        if byte < 128:
            return size, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
