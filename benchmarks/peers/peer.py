"""The interface of a peer."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from benchmarks.data import Said

Append: TypeAlias = Callable[[Said], object]


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer.

    ``needs`` is the distribution that must be installed, ``""`` for the standard library. ``entries_max`` is the
    largest measured session, in entries.
    """

    name: str
    open: Callable[[Path], AbstractContextManager[Append]]
    needs: str = ""
    entries_max: int = 100_000

    @property
    def version(self) -> str | None:
        """Return the version of the distribution, or ``None`` if it is not installed."""
        try:
            return importlib.metadata.version(self.needs) if self.needs else ""
        except importlib.metadata.PackageNotFoundError:
            return None
