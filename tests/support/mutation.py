"""Random damage to valid bytes."""

from __future__ import annotations

import random

_TELLING = (0x0A, 0x20, 0x5F, 0x7F, 0x9B, 0xBB, 0xC2, 0xD8, 0xF7, 0xF9, 0xFB, 0xFF)


def mutant(draw: random.Random, seed: bytes) -> bytes:
    """Return ``seed`` with one to four changes: flipped bits, special bytes, deletions, duplications, a cut end."""
    data = bytearray(seed)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(data))
        match draw.randrange(9):
            case 0 | 1:
                data[at] ^= 1 << draw.randrange(8)
            case 2 | 3:
                data[at] = draw.choice(_TELLING)
            case 4 | 5:
                del data[at : at + draw.randint(1, 8)]
                data += b"\0" * (not data)
            case 6 | 7:
                data[at:at] = data[at : at + draw.randint(1, 8)]
            case _:
                del data[max(at, 1) :]
    return bytes(data)
