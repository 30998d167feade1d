"""The hashes of an entry: payload digest and chain digest (docs/reference/format.md, "Digest and chain").

Only this module uses the hash function.
"""

from __future__ import annotations

import base64
import binascii

from gitsession.pattern import pattern

HASH_BYTES = 32

_TO_URL, _FROM_URL = bytes.maketrans(b"+/", b"-_"), bytes.maketrans(b"-_", b"+/")

_OF_32_BYTES = pattern("[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")
"""The output of ``to_base64url`` for 32 bytes. The last character has two unused bits, which must be zero."""


def hash_of(*parts: bytes) -> bytes:
    """Return the BLAKE3-256 hash of the concatenated ``parts``: 32 bytes."""
    from blake3 import blake3  # not loaded by commands that only read commits

    if len(parts) == 1:
        return blake3(parts[0]).digest()
    hasher = blake3()
    for part in parts:
        hasher.update(part)
    return hasher.digest()


class PrefixHasher:
    """A hasher of the beginnings of ``data``, which hashes each byte once."""

    def __init__(self, data: bytes) -> None:
        from blake3 import blake3

        self._data = memoryview(data)
        self._hasher = blake3()
        self._end = 0

    def hash_of(self, end: int) -> bytes:
        """Return the hash of the first ``end`` bytes. ``end`` must not be less than in an earlier call."""
        self._hasher.update(self._data[self._end : end])
        self._end = end
        return self._hasher.digest()


def digest(payload: bytes, holes: bytes = b"") -> bytes:
    """Return the digest of a stored payload: 32 bytes.

    ``holes``: the content of ``holes.cbor``; empty if the payload has no holes.
    """
    return hash_of(payload, holes) if holes else hash_of(payload)


def chain(parent: bytes | None, payload_digest: bytes) -> bytes:
    """Return the chain digest of an entry: 32 bytes. ``parent``: the chain digest of its first parent."""
    return hash_of(payload_digest if parent is None else parent + payload_digest)


def to_base64url(value: bytes) -> str:
    """Return the text form of a chain digest for trailers and addresses: 43 characters for 32 bytes."""
    return binascii.b2a_base64(value, newline=False).translate(_TO_URL, b"=").decode()


def from_base64url(text: str) -> bytes:
    """Return the bytes that ``to_base64url`` encodes as ``text``. Raises ``ValueError`` for any other text."""
    if _OF_32_BYTES.fullmatch(text):
        return binascii.a2b_base64(text.encode().translate(_FROM_URL) + b"=")
    value = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if to_base64url(value) != text:
        raise ValueError(f"not base64url without padding: {text[:50]!r}")
    return value


def to_base32(value: bytes, length: int) -> str:
    """Return the first ``length`` characters of ``value`` in lower-case base32.

    The result is valid in the name of a ref and on any file system.
    """
    return base64.b32encode(value).decode().lower()[:length]
