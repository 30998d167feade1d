"""Which calls of a session run now, in this process."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Running:
    """The calls of a session that run now, in this process: what moves meanwhile is theirs."""

    _calls: list[tuple[Path, str | None]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, workspace: Path, call: str | None) -> tuple[bool, str | None]:
        """Whether another call runs there already, and which one began last."""
        with self._lock:
            others = [other for place, other in self._calls if place == workspace]
            self._calls.append((workspace, call))
        return bool(others), others[-1] if others else None

    def end(self, workspace: Path, call: str | None) -> None:
        with self._lock:
            self._calls.remove((workspace, call))
