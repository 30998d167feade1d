"""What is lost, as a value: it stands in a line or a tree where an entry should."""

from __future__ import annotations

from dataclasses import dataclass

from gitsession.errors import Corrupt, Malformed, MissingObject
from gitsession.git.types import Oid

DAMAGE = (Malformed, Corrupt, MissingObject)
"""What stays wrong until somebody mends it."""


@dataclass(frozen=True, slots=True)
class Gap:
    """What is named and is no entry, or cannot be read.

    ``foreign``: it can be read, and is somebody else's commit; no entry of ours is hidden by it. ``before``: the entry,
    or the commit, that stands before it, ``None`` where that is not known. ``is_first``: nothing does, it was the root.
    """

    oid: Oid
    problem: str
    foreign: bool
    before: Oid | None = None
    is_first: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it is not known what stands before it."""
        return self.before is None and not self.is_first
