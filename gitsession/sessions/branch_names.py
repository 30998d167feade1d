"""The name of a branch that nobody named: it follows from the chain of its first entry (docs/reference/format.md)."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count

from gitsession.codec.digest import to_base32

LENGTHS = (8, 13, 26, 52)

_NUMBER = re.compile(r"(?<=[a-z2-7]{52})-[0-9]+\Z")


class BranchNamer:
    """Gives derived names that no branch has. ``is_taken`` tells whether one has; what was given is not given again.

    Equal entries side by side have one chain: what was tried for it is remembered, or many of them would take forever.
    """

    def __init__(self, is_taken: Callable[[str], bool]) -> None:
        self._is_taken = is_taken
        self._next: dict[bytes, int] = {}

    def free(self, chain: bytes) -> str:
        """The first of the names that follow from ``chain`` that is free."""
        stem = to_base32(chain, LENGTHS[-1])
        for number in count(self._next.get(chain, 0)):
            name = stem[: LENGTHS[number]] if number < len(LENGTHS) else f"{stem}-{number - len(LENGTHS) + 2}"
            if not self._is_taken(name):
                self._next[chain] = number + 1
                return name
        raise AssertionError("numbers do not end")


def stems(chain: bytes) -> set[str]:
    """The names that follow from a chain, as ``stem`` gives them."""
    stem = to_base32(chain, LENGTHS[-1])
    return {stem[:length] for length in LENGTHS}


def stem(name: str) -> str:
    """A derived name without the number it has where equal entries stand side by side."""
    return _NUMBER.sub("", name)
