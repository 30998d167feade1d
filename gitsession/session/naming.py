"""The name of a branch that nobody named: it follows from the chain of its first entry (docs/format.md, "Branches")."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import count

from gitsession.codec.digest import to_base32

LENGTHS = (8, 13, 26, 52)

_NUMBER = re.compile(r"(?<=[a-z2-7]{52})-[0-9]+\Z")


def free(chain: bytes, taken: Collection[str]) -> str:
    """The first of the derived names that no branch of the session has."""
    return next(name for name in _derived(chain) if name not in taken)


def stems(chain: bytes) -> set[str]:
    """The names that follow from a chain, as ``stem`` gives them."""
    return {to_base32(chain, length) for length in LENGTHS}


def stem(name: str) -> str:
    """A derived name without the number it has where equal entries stand side by side."""
    return _NUMBER.sub("", name)


def _derived(chain: bytes) -> Iterator[str]:
    for length in LENGTHS:
        yield to_base32(chain, length)
    for number in count(2):
        yield f"{to_base32(chain, LENGTHS[-1])}-{number}"
