"""The frame of a journal file: where records begin and end. Reads nothing of what is in them.

    <8 digits>   header record record ... zeros
    header       "GSJ1" 00000000 salt[32]
    record       "GSJ1" length:u32be digest[32] payload[length]

The digest is BLAKE3 of (the digest before, or the salt; the length; the payload): chained and salted, so neither an old
record nor bytes inside a hostile payload can pass as the next one after a torn tail. What does not verify is the end.
This module does not compute it: a program that only asks whether there is news walks the lengths
(store/change_stamp.py).
"""

from __future__ import annotations

import os
import re

MAGIC = b"GSJ1"
HEAD_BYTES = 40
SALT_BYTES = 32
TEMPORARY = "tmp-"
ASIDE = "damaged-"
"""What the name of a file that is set aside begins with."""

LOOK_BYTES = 1 << 16
_ZEROS = bytes(LOOK_BYTES)

_NUMBERED = re.compile(r"[0-9]{8}")


def file_name(number: int) -> str:
    return f"{number:08d}"


def numbers(directory: str) -> list[int]:
    """The journal files in ``directory``, oldest first. A clone made by git has no such directory."""
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
    """The length of the payload whose head is at ``offset`` of a file of ``size`` bytes; ``None`` if there is none."""
    raw = os.pread(fd, 8, offset)
    if len(raw) < 8 or raw[:4] != MAGIC:
        return None
    length = int.from_bytes(raw[4:], "big")
    return length if offset + HEAD_BYTES + length <= size else None


def end(fd: int) -> int:
    """Where the last record ends that looks whole, by the lengths alone."""
    size = os.fstat(fd).st_size
    offset = HEAD_BYTES
    while (length := length_at(fd, offset, size)) is not None:
        offset += HEAD_BYTES + length
    return offset


def is_something_behind(fd: int, offset: int, bytes_max: int = LOOK_BYTES) -> bool:
    """Whether anything but zeros is in the next ``bytes_max`` bytes: an end with something behind it may be none."""
    stop = offset + bytes_max
    while offset < stop:
        chunk = os.pread(fd, min(LOOK_BYTES, stop - offset), offset)
        if chunk != _ZEROS[: len(chunk)]:
            return True
        if not chunk:
            break
        offset += len(chunk)
    return False
