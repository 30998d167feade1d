"""What a peer offers."""

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
    """``needs``: the distribution that it is in, ``""`` for Python's own. ``entries_max``: how far it is measured."""

    name: str
    open: Callable[[Path], AbstractContextManager[Append]]
    needs: str = ""
    entries_max: int = 100_000

    @property
    def version(self) -> str | None:
        """``None``: not installed."""
        try:
            return importlib.metadata.version(self.needs) if self.needs else ""
        except importlib.metadata.PackageNotFoundError:
            return None
