"""Read-only access to the side files of sessions (``formats.SideFiles``).

Symbolic links are not followed, and a file outside the agent's folder is not read.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from gitsession.codec.digest import hash_of
from gitsession.errors import Malformed
from gitsession.formats import SharedLines, SideFiles
from gitsession.formats.base import jsonl
from gitsession.formats.base.fields import plain
from gitsession.formats.base.format import Stamp
from gitsession.formats.base.jsonl import LineFailure, Object

FILE_BYTES_MAX = 16 << 20
"""The size in bytes above which a side file is not stored."""

SESSION_BYTES_MAX = 128 << 20
"""The number of bytes of side files that one import of a session stores."""

SHARED_BYTES_MAX = 256 << 20
"""The size in bytes above which a file with lines of all sessions is not read."""


_Line: TypeAlias = tuple[bytes, Object]
"""A line of a shared file, and its JSON object."""


class SideFile(NamedTuple):
    """A side file that was found. ``lines``: the lines of the session, if the file is shared; otherwise ``None``."""

    name: str
    path: str
    stamp: Stamp
    lines: tuple[bytes, ...] | None = None

    def contents(self) -> tuple[bytes, ...]:
        """Return the lines of a shared file, or the content of the file. Raises ``OSError`` and ``Malformed``."""
        return (_read(self.path, FILE_BYTES_MAX),) if self.lines is None else self.lines


class SideFileFinder:
    """A search for side files. Each folder is listed once, and each shared file is read once."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = {}
        self._lines: dict[tuple[str, str], dict[str, list[_Line]]] = {}

    def find(self, wanted: SideFiles, known: Iterable[str] = ()) -> Iterator[SideFile]:
        """Yield the side files that exist. ``known``: names of further files that were side files before."""
        top = os.path.realpath(wanted.folder)
        shared = {each.path: self._shared(wanted.folder, each) for each in wanted.shared}
        globs = (path for glob in wanted.globs for path in self._matches(wanted.folder, glob))
        named = (name for each in wanted.shared for _, line in shared[each.path] for name in each.names(line))
        for name in dict.fromkeys([*globs, *named, *(name for name in known if name not in shared)]):
            path = os.path.join(wanted.folder, name)
            folder = os.path.realpath(os.path.dirname(path))
            try:
                status = os.lstat(path)
            except (OSError, ValueError):
                continue
            if stat.S_ISREG(status.st_mode) and f"{folder}/".startswith(f"{top}/"):
                yield SideFile(name, path, Stamp(status.st_size, status.st_mtime_ns, status.st_ino))
        for name, found in shared.items():
            data = b"".join(raw for raw, _ in found)
            if data:
                stamp = Stamp(len(data), 0, int.from_bytes(hash_of(data)[:7]))
                yield SideFile(name, os.path.join(wanted.folder, name), stamp, tuple(raw for raw, _ in found))

    def _matches(self, folder: str, glob: str) -> list[str]:
        above, _, last = glob.rpartition("/")
        prefix, star, suffix = last.partition("*")
        if not star:
            return [glob]
        names = self._listing(os.path.join(folder, above))
        found = takewhile(lambda name: name.startswith(prefix), names[bisect_left(names, prefix) :])
        return [f"{above}/{name}" for name in found if name.endswith(suffix)]

    def _listing(self, folder: str) -> list[str]:
        if folder not in self._names:
            try:
                self._names[folder] = sorted(os.listdir(folder))
            except OSError:
                self._names[folder] = []
        return self._names[folder]

    def _shared(self, folder: str, wanted: SharedLines) -> list[_Line]:
        path = os.path.join(folder, wanted.path)
        if (path, wanted.field) not in self._lines:
            by_id: dict[str, list[_Line]] = {}
            try:
                lines = _read(path, SHARED_BYTES_MAX).split(b"\n")[:-1]  # the agent may be writing the last line
            except (OSError, Malformed):
                lines = []
            for line in lines:
                value = jsonl.parse(line)
                if not isinstance(value, LineFailure):
                    by_id.setdefault(plain(value.get(wanted.field)), []).append((line + b"\n", value))
            self._lines[path, wanted.field] = by_id
        return self._lines[path, wanted.field].get(wanted.id, [])


def _read(path: str, most: int) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes. Raises ``OSError``, and ``Malformed``."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise Malformed("not a regular file")
        if status.st_size > most:
            raise Malformed(f"the file is too large: {status.st_size:,} bytes (limit: {most:,})")
        return file.read(status.st_size)
