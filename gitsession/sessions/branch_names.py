"""Names of branches that the user did not name.

They follow from the chain of the first entry (docs/reference/format.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count

from gitsession.codec.digest import to_base32

LENGTHS = (8, 13, 26, 52)

_NUMBER = re.compile(r"(?<=[a-z2-7]{52})-[0-9]+\Z")


class BranchNamer:
    """A generator of unused names. ``is_taken``: returns whether a branch has a name. No name is returned twice.

    Equal entries below one parent have the same chain. The last number for a chain is remembered, so that many of them
    do not take quadratic time.
    """

    def __init__(self, is_taken: Callable[[str], bool]) -> None:
        self._is_taken = is_taken
        self._next: dict[bytes, int] = {}

    def free(self, chain: bytes) -> str:
        """Return the first unused name that follows from ``chain``."""
        stem = to_base32(chain, LENGTHS[-1])
        for number in count(self._next.get(chain, 0)):
            name = stem[: LENGTHS[number]] if number < len(LENGTHS) else f"{stem}-{number - len(LENGTHS) + 2}"
            if not self._is_taken(name):
                self._next[chain] = number + 1
                return name
        raise AssertionError("unreachable")


def stems(chain: bytes) -> set[str]:
    """Return the names that follow from a chain, without numbers; see ``stem``."""
    stem = to_base32(chain, LENGTHS[-1])
    return {stem[:length] for length in LENGTHS}


def stem(name: str) -> str:
    """Return a derived name without the number that it has for equal entries below one parent."""
    return _NUMBER.sub("", name)
