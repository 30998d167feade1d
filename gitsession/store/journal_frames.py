"""The frame of a journal file: the positions at which records begin and end. Payloads are not decoded.

    <8 digits>   header record record ... zeros
    header       "GSJ1" 00000000 salt[32]
    record       "GSJ1" length:u32be digest[32] payload[length]

The digest is BLAKE3 of the previous digest (or the salt), the length and the payload. Because the digests are chained
and salted, neither an old record nor bytes inside a hostile payload can pass as the next record after a torn end. The
first record that does not verify marks the end. This module does not compute digests: a program that only checks for
changes follows the lengths (store/change_stamp.py).
"""

from __future__ import annotations

import os

from gitsession.pattern import pattern

MAGIC = b"GSJ1"
HEAD_BYTES = 40
SALT_BYTES = 32
TEMPORARY = "tmp-"
ASIDE = "damaged-"
"""Prefix of the names of damaged journal files that were renamed."""

CHUNK_BYTES = 1 << 16
_ZEROS = bytes(CHUNK_BYTES)

_NUMBERED = pattern(r"[0-9]{8}")


def file_name(number: int) -> str:
    return f"{number:08d}"


def numbers(directory: str) -> list[int]:
    """Return the numbers of the journal files in ``directory``, oldest first.

    After `git clone`, the directory is missing, and the result is empty.
    """
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if _NUMBERED.fullmatch(name))


def header(salt: bytes) -> bytes:
    return MAGIC + bytes(4) + salt


def head(length: int, digest: bytes) -> bytes:
    return MAGIC + length.to_bytes(4, "big") + digest


def length_at(fd: int, offset: int, size: int) -> int | None:
    """Return the payload length of the record at ``offset`` in a file of ``size`` bytes; ``None`` if there is none."""
    raw = os.pread(fd, 8, offset)
    if len(raw) < 8 or raw[:4] != MAGIC:
        return None
    length = int.from_bytes(raw[4:], "big")
    return length if offset + HEAD_BYTES + length <= size else None


def end(fd: int) -> int:
    """Return the end of the last record that appears complete. Only the lengths are checked."""
    size = os.fstat(fd).st_size
    offset = HEAD_BYTES
    while (length := length_at(fd, offset, size)) is not None:
        offset += HEAD_BYTES + length
    return offset


def has_data_after(fd: int, offset: int, bytes_max: int = CHUNK_BYTES) -> bool:
    """Return whether any of the ``bytes_max`` bytes after ``offset`` is not zero.

    If so, ``offset`` may not be the actual end of the records.
    """
    stop = offset + bytes_max
    while offset < stop:
        chunk = os.pread(fd, min(CHUNK_BYTES, stop - offset), offset)
        if chunk != _ZEROS[: len(chunk)]:
            return True
        if not chunk:
            break
        offset += len(chunk)
    return False
