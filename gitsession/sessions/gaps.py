"""Gaps: values in the place of entries that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass

from gitsession.errors import Corrupt, Malformed, MissingObject
from gitsession.git.types import Oid

DAMAGE = (Malformed, Corrupt, MissingObject)
"""Errors that persist until the store is repaired."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A place in a history where an entry cannot be read, or where a commit is not an entry.

    Attributes:
        oid: The oid of the entry or commit.
        problem: The reason.
        foreign: Whether it is a readable commit of another program. It hides no entry.
        before: The entry or commit before it, ``None`` if that is unknown.
        is_first: Whether nothing precedes it: it was the root.
    """

    oid: Oid
    problem: str
    foreign: bool
    before: Oid | None = None
    is_first: bool = False

    @property
    def is_open(self) -> bool:
        """True if it is unknown what precedes the gap."""
        return self.before is None and not self.is_first
