"""Names of branches that the user did not name.

They are computed from the chain digest of the first entry (docs/reference/format.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count

from gitsession.codec.digest import to_base32

LENGTHS = (8, 13, 26, 52)

_NUMBER = re.compile(r"(?<=[a-z2-7]{52})-[0-9]+\Z")


class BranchNamer:
    """A generator of unused branch names. ``is_taken``: a function that returns whether a name is in use.

    No name is returned twice. Equal entries below one parent have the same chain digest and get numbered names. The
    last number for each digest is cached, so that many equal entries do not take quadratic time.
    """

    def __init__(self, is_taken: Callable[[str], bool]) -> None:
        self._is_taken = is_taken
        self._next: dict[bytes, int] = {}

    def free(self, chain: bytes) -> str:
        """Return the first unused name for the chain digest ``chain``."""
        stem = to_base32(chain, LENGTHS[-1])
        for number in count(self._next.get(chain, 0)):
            name = stem[: LENGTHS[number]] if number < len(LENGTHS) else f"{stem}-{number - len(LENGTHS) + 2}"
            if not self._is_taken(name):
                self._next[chain] = number + 1
                return name
        raise AssertionError("unreachable")


def stems(chain: bytes) -> set[str]:
    """Return the possible names for a chain digest, without numbers. See ``stem``."""
    stem = to_base32(chain, LENGTHS[-1])
    return {stem[:length] for length in LENGTHS}


def stem(name: str) -> str:
    """Return a computed name without the number that distinguishes equal entries below one parent."""
    return _NUMBER.sub("", name)
