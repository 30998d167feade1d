"""Holes: spans of a payload that are stored as separate blobs (docs/reference/format.md, "Holes").

FROZEN under view 1: the choice of the spans (images and very long strings) is part of an entry's oid.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from gitsession.codec import cbor
from gitsession.codec.digest import HASH_BYTES, hash_of
from gitsession.dataclass import dataclass
from gitsession.errors import Malformed

Encoding: TypeAlias = Literal["raw", "base64", "summary"]
ENCODINGS: tuple[Encoding, ...] = ("raw", "base64", "summary")

VAULT, PURGED = "vault", "purged"
"""Encodings of rows without a blob: ``vault`` for a placeholder that replaces a secret, ``purged`` for purged bytes."""

RULE_CHARS_MAX = 40

WHOLE_BYTES_MAX = 1 << 30
"""Maximum size in bytes of a payload with filled holes.

Even a small table can refer to one blob any number of times.
"""

IMAGE_BYTES_MIN = 1024
STRING_BYTES_MIN = 65_536

_DATA_URL = b"data:image/"
_BASE64_MARK = b";base64,"
_MAGIC = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")
_IMAGE = re.compile(rb'(?:data:image/[^"]{0,100}?;base64,)?(?:iVBORw0KG|/9j/|R0lGOD|UklGR|Qk[0-3])')
"""The beginning of each string whose content ``is_image`` accepts. Other strings may begin in the same way."""


@dataclass(frozen=True, slots=True)
class PayloadSpan:
    """The bytes ``start`` to ``end`` of a payload, to be stored as a separate blob with ``encoding``."""

    start: int
    end: int
    encoding: Encoding


@dataclass(frozen=True, slots=True)
class StoredPayload:
    """A payload in its stored form. ``lifted``: the digest, encoding and content of each blob."""

    payload: bytes
    holes: bytes
    lifted: tuple[tuple[bytes, Encoding, bytes], ...]


class PlaceholderSpan(NamedTuple):
    """A placeholder in a payload with filled holes: offset and length in bytes, and the rule that found the secret."""

    offset: int
    length: int
    rule: str


def cut(payload: bytes, spans: Iterable[PayloadSpan], hidden: Iterable[tuple[int, int, str]] = ()) -> StoredPayload:
    """Remove ``spans`` from ``payload``; return the stored form. The spans must be sorted and must not overlap.

    ``hidden``: the placeholders in the payload. Raises ``Malformed`` if the payload is too long.
    """
    if len(payload) > WHOLE_BYTES_MAX:
        raise Malformed(f"the payload is too large: {len(payload):,} bytes (limit: {WHOLE_BYTES_MAX:,})")
    parts: list[bytes] = []
    table: list[cbor.Plain] = []
    lifted: list[tuple[bytes, Encoding, bytes]] = []
    at = offset = 0
    for span in spans:
        parts.append(payload[at : span.start])
        offset += span.start - at
        piece = payload[span.start : span.end]
        content = base64.b64decode(piece) if span.encoding == "base64" else piece
        digest = hash_of(content)
        table.append([offset, 0, digest, span.encoding])
        lifted.append((digest, span.encoding, content))
        at = span.end
    secrets: list[cbor.Plain] = [[offset, length, None, VAULT, rule] for offset, length, rule in hidden]
    if not table:
        return StoredPayload(payload, cbor.encode(secrets) if secrets else b"", ())
    parts.append(payload[at:])
    return StoredPayload(b"".join(parts), cbor.encode(table + secrets), tuple(lifted))


def fill(payload: bytes, holes: bytes, fetch: Callable[[bytes, Encoding], bytes]) -> bytes:
    """Return the payload with its holes filled.

    ``fetch(digest, encoding)`` returns the content of a hole. The content is checked against the digest here. Raises
    ``Malformed`` if the table is invalid, or if the content of a hole does not match the hole's digest.
    """
    if not holes:
        return payload
    parts: list[bytes] = []
    at = 0
    room = WHOLE_BYTES_MAX - len(payload)
    for number, (offset, length, digest, encoding) in enumerate(parse(holes)):
        where = f"holes[{number}]"
        if not at <= offset <= offset + length <= len(payload):
            raise Malformed("the hole is out of order or past the end of the payload", where=where)
        content = fetch(digest, encoding)
        if hash_of(content) != digest:
            raise Malformed("the content does not match the digest", where=where)
        piece = base64.b64encode(content) if encoding == "base64" else content
        room -= len(piece)
        if room < 0:
            raise Malformed(f"the payload is too large: more than {WHOLE_BYTES_MAX:,} bytes", where=where)
        parts += [payload[at:offset], piece]
        at = offset + length
    parts.append(payload[at:])
    return b"".join(parts)


def parse(holes: bytes) -> list[tuple[int, int, bytes, Encoding]]:
    """Return the rows of a hole table whose content is in separate blobs. Raises ``Malformed``."""
    return [row for row in _rows(holes) if isinstance(row, tuple) and not isinstance(row, PlaceholderSpan)]


def hidden(holes: bytes) -> list[PlaceholderSpan]:
    """Return the placeholders in a hole table, in order. ``holes`` may be empty. Raises ``Malformed``."""
    return [row for row in _rows(holes) if isinstance(row, PlaceholderSpan)] if holes else []


def holds_purged(holes: bytes) -> bool:
    """Return whether any placeholder replaces purged text. The vault contains no original of such a payload."""
    return any(row.rule == PURGED for row in hidden(holes))


def _rows(holes: bytes) -> list[tuple[int, int, bytes, Encoding] | PlaceholderSpan | None]:
    """Return the rows of a hole table; ``None`` for a hole that cannot be filled because its bytes were purged."""
    table = cbor.decode(holes)
    if type(table) is not list or not table:
        raise Malformed("expected a list with at least one hole", where="holes")
    rows = [_row(row, f"holes[{number}]") for number, row in enumerate(table)]
    end = 0
    seen = False
    for number, row in enumerate(rows):
        if isinstance(row, PlaceholderSpan):
            seen = True
            if row.offset < end:
                raise Malformed("the placeholders are out of order", where=f"holes[{number}]")
            end = row.offset + row.length
        elif seen:
            raise Malformed("a hole follows the placeholders", where=f"holes[{number}]")
    return rows


def _row(row: cbor.Plain, where: str) -> tuple[int, int, bytes, Encoding] | PlaceholderSpan | None:
    if type(row) is not list or len(row) not in (4, 5):
        raise Malformed("expected [offset, length, digest, encoding]", where=where)
    offset, length, digest, encoding, *more = row
    if type(offset) is not int or type(length) is not int or offset < 0 or length < 0:
        raise Malformed("expected an offset and a length", where=where)
    if encoding == VAULT:
        rule = more[0] if more else None
        if digest is not None or type(rule) is not str or not rule or len(rule) > RULE_CHARS_MAX or not length:
            raise Malformed("expected [offset, length, null, vault, rule]", where=where)
        return PlaceholderSpan(offset, length, rule)
    if encoding == PURGED and digest is None and not more:
        return None
    if type(digest) is not bytes or len(digest) != HASH_BYTES or more:
        raise Malformed("expected a digest of 32 bytes", where=where)
    if encoding not in ENCODINGS:
        raise Malformed(f"unknown encoding {str(encoding)[:40]!r}", where=where)
    return offset, length, digest, encoding


def decode_base64(text: bytes) -> bytes | None:
    """Decode base64; return ``None`` if ``text`` is not canonical base64."""
    if len(text) % 4:
        return None
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data) == text else None


# ---- the spans that become holes


def is_image(data: bytes) -> bool:
    """Return whether ``data`` begins with the signature of a PNG, JPEG, GIF, WebP or BMP file."""
    return (
        data.startswith(_MAGIC)
        or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")
        or (data[:2] == b"BM" and data[6:10] == b"\0\0\0\0")
    )


def holds_image(data: bytes) -> bool:
    """Return whether ``data`` may contain an image. This fast test is used before a slower and more exact one."""
    return any(mark in data for mark in (*_MAGIC, b"RIFF", b"BM"))


def spans_in_json(line: bytes) -> tuple[PayloadSpan, ...]:
    """Return the spans of one line of JSON that become holes. The line need not be valid JSON."""
    if len(line) < STRING_BYTES_MIN and not _may_hold_image(line):
        return ()
    pieces = line.split(b'"')
    return tuple(span for start, end in _literals(pieces) if (span := _span(line, start, end)) is not None)


def _may_hold_image(line: bytes) -> bool:
    """Return whether a quotation mark in ``line`` precedes a long run without others that begins like an image."""
    at = 0
    while at + IMAGE_BYTES_MIN <= len(line):
        end = line.rfind(b'"', at, at + IMAGE_BYTES_MIN)
        if end < 0:
            if _IMAGE.match(line, at):
                return True
            end = line.find(b'"', at + IMAGE_BYTES_MIN)
            if end < 0:
                return False
        at = end + 1
    return False


def _literals(pieces: list[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the start and end offset of each string literal in a line that was split at every quotation mark."""
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
