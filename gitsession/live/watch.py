"""Repeated checks of session files, for agents without hooks.

The checks read only the names, sizes, modification times and inode numbers of files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

from gitsession.discovery import sources
from gitsession.formats import Format

EVERY_SECONDS = 2.0
ROUNDS_PER_SEARCH = 15
"""Number of rounds between two searches of the folders for new files."""

Found: TypeAlias = "tuple[Path, Format | None]"


class Watch:
    """A detector of changes in session files. ``search``: function that returns all existing session files."""

    def __init__(self, search: Callable[[], Iterable[Found]]) -> None:
        self._search = search
        self._files: list[Found] = []
        self._seen: dict[Path, tuple[int, int, int]] = {}
        self._rounds = 0

    def round(self) -> list[Found]:
        """Return the files that have changed since the last call. The first call returns all files."""
        if self._rounds % ROUNDS_PER_SEARCH == 0:
            self._files = list({path: (path, format) for path, format in self._search()}.values())
            paths = {path for path, _ in self._files}
            self._seen = {path: stamp for path, stamp in self._seen.items() if path in paths}
        self._rounds += 1
        return [(path, format) for path, format in self._files if self._has_changed(path)]

    def _has_changed(self, path: Path) -> bool:
        try:
            status = sources.stamp_of(path)
        except OSError:
            return False
        stamp = (status.st_size, status.st_mtime_ns, status.st_ino)
        changed = self._seen.get(path) != stamp
        self._seen[path] = stamp
        return changed
