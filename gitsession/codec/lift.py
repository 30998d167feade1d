"""Which spans of a payload are kept in blobs of their own: images, and very long strings.

FROZEN under view 1 (docs/format.md, "Holes"): what is lifted is part of an entry's oid.
"""

from __future__ import annotations

from collections.abc import Iterator

from gitsession.codec.holes import PayloadSpan, decode_base64

IMAGE_BYTES_MIN = 1024
STRING_BYTES_MIN = 65_536

_DATA_URL = b"data:image/"
_BASE64_MARK = b";base64,"


_MAGIC = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")


def is_image(data: bytes) -> bool:
    """Whether ``data`` begins as PNG, JPEG, GIF, WebP or BMP files do."""
    return (
        data.startswith(_MAGIC)
        or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")
        or (data[:2] == b"BM" and data[6:10] == b"\0\0\0\0")
    )


def holds_image(data: bytes) -> bool:
    """Whether an image could lie somewhere in ``data``: a cheap look before a dear one."""
    return any(mark in data for mark in (*_MAGIC, b"RIFF", b"BM"))


def spans_in_json(line: bytes) -> tuple[PayloadSpan, ...]:
    """The spans to lift from one line of JSON; it need not parse."""
    if len(line) < IMAGE_BYTES_MIN:
        return ()
    pieces = line.split(b'"')
    if len(line) < STRING_BYTES_MIN and max(map(len, pieces)) < IMAGE_BYTES_MIN:
        return ()
    return tuple(span for start, end in _literals(pieces) if (span := _span(line, start, end)) is not None)


def _literals(pieces: list[bytes]) -> Iterator[tuple[int, int]]:
    """Where the string literals lie in bytes that were split at every quotation mark."""
    at = 0
    start: int | None = None
    for piece in pieces[:-1]:
        at += len(piece)
        if start is None:
            start = at + 1
        elif (len(piece) - len(piece.rstrip(b"\\"))) % 2 == 0:
            yield start, at
            start = None
        at += 1


def _span(line: bytes, start: int, end: int) -> PayloadSpan | None:
    if end - start < IMAGE_BYTES_MIN:
        return None
    image_start = start
    if line.startswith(_DATA_URL, start):
        mark = line.find(_BASE64_MARK, start, start + 100)
        image_start = mark + len(_BASE64_MARK) if mark >= 0 else start
    if end - image_start >= IMAGE_BYTES_MIN:
        head = decode_base64(line[image_start : image_start + 24])
        if head is not None and is_image(head) and decode_base64(line[image_start:end]) is not None:
            return PayloadSpan(image_start, end, "base64")
    return PayloadSpan(start, end, "raw") if end - start >= STRING_BYTES_MIN else None
