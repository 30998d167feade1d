"""The hash recipe: digest of a payload, chain of a position (docs/reference/format.md, "Digest and chain").

The only module that knows which hash function we use.
"""

from __future__ import annotations

import base64
import re

from blake3 import blake3

HASH_BYTES = 32

_OF_32_BYTES = re.compile("[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")
"""What ``to_base64url`` writes of so many: the last character has two bits too many, which are not set."""


def hash_of(*parts: bytes) -> bytes:
    """BLAKE3-256 of ``parts`` joined: 32 bytes."""
    if len(parts) == 1:
        return blake3(parts[0]).digest()
    hasher = blake3()
    for part in parts:
        hasher.update(part)
    return hasher.digest()


def digest(payload: bytes, holes: bytes = b"") -> bytes:
    """The identity of a stored payload by content: 32 bytes. ``holes`` is the content of ``holes.cbor``, if any."""
    return hash_of(payload, holes) if holes else hash_of(payload)


def chain(parent: bytes | None, payload_digest: bytes) -> bytes:
    """The identity of an entry by content and position: 32 bytes. ``parent`` is the first parent's chain."""
    return hash_of(payload_digest) if parent is None else hash_of(parent, payload_digest)


def to_base64url(value: bytes) -> str:
    """43 characters for 32 bytes: how a chain stands in a trailer and on the command line."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    """The inverse of ``to_base64url``. Raises ``ValueError`` for anything it could not have written."""
    if _OF_32_BYTES.fullmatch(text):
        return base64.urlsafe_b64decode(text + "=")
    value = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if to_base64url(value) != text:
        raise ValueError(f"not base64url without padding: {text[:50]!r}")
    return value


def to_base32(value: bytes, length: int) -> str:
    """The first ``length`` characters in lower-case base32: names that live in refs and on any file system."""
    return base64.b32encode(value).decode().lower()[:length]
