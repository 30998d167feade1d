"""A delta, as packs hold them: instructions that copy from a base or insert, checked before anything is made."""

from __future__ import annotations


def apply(base: bytes, delta: bytes, bytes_max: int) -> bytes:
    """What ``delta`` makes of ``base``. Raises ``ValueError`` where they do not fit, before more than that is made."""
    try:
        expected, at = _size(delta, 0)
        result, at = _size(delta, at)
        if expected != len(base):
            raise ValueError(f"is made against {expected:,} bytes, not {len(base):,}")
        if result > bytes_max:
            raise ValueError(f"makes {result:,} bytes, and the limit is {bytes_max:,}")
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
                raise ValueError("holds an instruction that does not exist")
            made += length
            if len(part) != length or made > result:
                raise ValueError("copies what is not there, or more than it says")
            parts.append(part)
    except IndexError:
        raise ValueError("is cut short") from None
    if made != result:
        raise ValueError("makes less than it says")
    return b"".join(parts)


def _size(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, lowest first, and where it ends."""
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
