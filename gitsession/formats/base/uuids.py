"""Names for agents that want a UUID."""

from __future__ import annotations

from hashlib import sha256


def uuid_from(*parts: object) -> str:
    """A UUID that follows from ``parts``."""
    digest = bytearray(sha256("/".join(map(str, parts)).encode("utf-8", "backslashreplace")).digest()[:16])
    digest[6], digest[8] = digest[6] & 0x0F | 0x80, digest[8] & 0x3F | 0x80  # version 8: made in a way of our own
    found = digest.hex()
    return "-".join((found[:8], found[8:12], found[12:16], found[16:20], found[20:]))
