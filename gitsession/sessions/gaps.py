"""Gaps: positions in a history where an entry cannot be read."""

from __future__ import annotations

from gitsession.dataclass import dataclass
from gitsession.errors import Corrupt, Malformed, MissingObject
from gitsession.git.types import Oid

DAMAGE = (Malformed, Corrupt, MissingObject)
"""Errors that persist until the store is repaired."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A position in a history where an entry cannot be read, or where a commit is not an entry.

    Attributes:
        oid: The oid of the entry or commit.
        problem: The reason why the commit cannot be read as an entry.
        foreign: Whether another program wrote the commit. Such a commit is readable and hides no entry.
        before: The entry or commit before the gap; ``None`` if it is unknown.
        is_first: Whether the entry was the root.
    """

    oid: Oid
    problem: str
    foreign: bool
    before: Oid | None = None
    is_first: bool = False

    @property
    def is_open(self) -> bool:
        """True if the entry before the gap is unknown."""
        return self.before is None and not self.is_first
