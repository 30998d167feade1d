"""Malicious packs, each with an index whose checksums are correct."""

from __future__ import annotations

import zlib
from hashlib import sha1
from pathlib import Path
from struct import pack as binary

from gitsession.git.pack_reader import Packs
from gitsession.git.pack_writer import _index

BLOB, OFFSET_DELTA, REF_DELTA = 3, 6, 7


def head(kind: int, size: int) -> bytes:
    low, size = size & 15, size >> 4
    made = bytearray([kind << 4 | low])
    while size:
        made[-1] |= 128
        made.append(size & 127)
        size >>= 7
    return bytes(made)


def number(value: int) -> bytes:
    made = bytearray()
    while True:
        made.append(value & 127 | (128 if value > 127 else 0))
        value >>= 7
        if not value:
            return bytes(made)


def back(distance: int) -> bytes:
    made = [distance & 127]
    while distance := distance >> 7:
        distance -= 1
        made.append(128 | distance & 127)
    return bytes(reversed(made))


def hostile(place: Path, *entries: tuple[bytes, bytes]) -> Packs:
    """Write a pack with these entries. Its index gives each entry the given name, and all checksums are correct."""
    (place / "pack").mkdir(parents=True, exist_ok=True)
    body, rows = b"PACK" + binary(">II", 2, len(entries)), []
    for raw, data in entries:
        rows.append((raw, zlib.crc32(data), len(body)))
        body += data
    checksum = sha1(body).digest()
    (place / "pack/pack-hostile.pack").write_bytes(body + checksum)
    (place / "pack/pack-hostile.idx").write_bytes(_index(sorted(rows), checksum))
    return Packs(str(place), 64 << 20)


ONE, TWO = b"\x11" * 20, b"\x22" * 20
SMALL = head(BLOB, 5) + zlib.compress(b"hello")
BOMB = zlib.compress(bytes(65 << 20), 9)
COPIES = b"\xff\0\0\0\0\xff\xff\xff" * 5000

HOSTILE: dict[str, list[tuple[bytes, bytes]]] = {
    "65 MiB in 65 KiB, honestly": [(ONE, head(BLOB, 65 << 20) + BOMB)],
    "65 MiB that say they are ten bytes": [(ONE, head(BLOB, 10) + BOMB)],
    "ten bytes that say they are 2^62": [(ONE, head(BLOB, 1 << 62) + zlib.compress(bytes(10)))],
    "ten bytes that say they are 63 MiB": [(ONE, head(BLOB, 63 << 20) + zlib.compress(bytes(10)))],
    "a size that does not end": [(ONE, b"\xbf" + b"\xff" * 40)],
    "a type that there is not": [(ONE, head(5, 5) + zlib.compress(b"hello"))],
    "type zero": [(ONE, head(0, 5) + zlib.compress(b"hello"))],
    "no zlib stream": [(ONE, head(BLOB, 5) + b"hello hello")],
    "a stream without an end": [(ONE, head(BLOB, 5) + zlib.compress(b"hello")[:-4])],
    "an object that is another": [(ONE, SMALL)],
    "a delta against itself by name": [(ONE, head(REF_DELTA, 4) + ONE + zlib.compress(b"\5\5\x90\5"))],
    "two deltas against each other": [
        (ONE, head(REF_DELTA, 4) + TWO + zlib.compress(b"\5\5\x90\5")),
        (TWO, head(REF_DELTA, 4) + ONE + zlib.compress(b"\5\5\x90\5")),
    ],
    "a delta against what is not there": [(ONE, head(REF_DELTA, 4) + TWO + zlib.compress(b"\5\5\x90\5"))],
    "a delta before the beginning": [(ONE, head(OFFSET_DELTA, 4) + back(1 << 40) + zlib.compress(b"\5\5\x90\5"))],
    "a delta against its own middle": [(ONE, head(OFFSET_DELTA, 4) + back(0) + zlib.compress(b"\5\5\x90\5"))],
    "a delta that makes terabytes": [
        (TWO, SMALL),
        (ONE, head(OFFSET_DELTA, 12) + back(len(SMALL)) + zlib.compress(b"\5" + number(1 << 45) + b"\x90\5")),
    ],
    "a delta that copies more than it says": [
        (TWO, head(BLOB, 1 << 24) + zlib.compress(bytes(1 << 24))),
        (ONE, head(OFFSET_DELTA, 4 + 4 + len(COPIES)) + b"\x81" + b"\0"
            + zlib.compress(number(1 << 24) + number(60 << 20) + COPIES)),
    ],
}  # fmt: skip
