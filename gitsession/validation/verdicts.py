"""What somebody wants a ref to be, why it is refused, and how much anybody may send: values only."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

from gitsession.errors import GitSessionError
from gitsession.git.types import Oid

MEBIBYTE = 1 << 20
TAKE_OUT = "`gitsession sync` takes it out of a store, a forced push out of a server without our hooks"
"""What helps against what was purged and is still somewhere; whoever reads it may be at either end."""


class Proposed(NamedTuple):
    """``ref`` is to go from ``old`` (``None``: it is not there) to ``new`` (``None``: it is to be deleted)."""

    ref: str
    old: Oid | None
    new: Oid | None


class Refusal(NamedTuple):
    """``oid``: the object that is at fault, "" where the ref itself is. ``rule``: its name in docs/server.md."""

    ref: str
    oid: Oid
    what: str
    rule: str

    def __str__(self) -> str:
        at = f" at {self.oid[:10]}" if self.oid else ""
        return f"refused {self.ref}{at}: {self.what} [{self.rule}]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How much one push may hold. ``entries``: new ones; ``seconds``: of judging them; ``payload_bytes``: of an
    agent's record as it is stored; ``whole_bytes``: with its holes filled; ``file_bytes``: of a file or a lifted span;
    ``names``: below ``files/`` of one entry, as far as they are new.
    """

    entries: int = 250_000
    seconds: float = 600.0
    payload_bytes: int = 64 * MEBIBYTE
    whole_bytes: int = 256 * MEBIBYTE
    file_bytes: int = 1024 * MEBIBYTE
    names: int = 1_000_000


class Fault(NamedTuple):
    """What is wrong with one object, and by which rule."""

    rule: str
    what: str


class ValidationTimeout(GitSessionError):
    """Judging took more time than there is for it."""


class Deadline:
    """Until when judging may take, from now on. ``seconds`` may be infinite."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds

    def check(self) -> None:
        """Raises ``ValidationTimeout`` when it has passed."""
        if time.monotonic() > self._until:
            raise ValidationTimeout(f"judging took longer than {self._seconds:g} s: push fewer refs at a time")
