"""Read-only access to the side files of sessions (``formats.SideFiles``).

Symbolic links are not followed, and a file outside the agent's folder is not read.
"""

from __future__ import annotations

import json
import os
import stat
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple, TypeAlias

from gitsession.codec.digest import hash_of
from gitsession.discovery.regular_files import opened
from gitsession.errors import GitSessionError, Malformed
from gitsession.formats import SharedLines, SideFiles
from gitsession.formats.base import jsonl
from gitsession.formats.base.fields import plain
from gitsession.formats.base.format import Stamp
from gitsession.formats.base.jsonl import LineFailure, Object

FILE_BYTES_MAX = 15 << 20
"""The size in bytes above which a side file is not stored. A payload has at most 16 MiB."""

SESSION_BYTES_MAX = 128 << 20
"""The number of bytes of side files that one import of a session stores."""

SHARED_BYTES_MAX = 256 << 20
"""The size in bytes above which a file with lines of all sessions is not read."""


EVERYTHING = "**"

_SESSION_FILE = ".jsonl"
_FOLDERS_MAX, _FILES_MAX = 1_000, 10_000
_SMALL_BYTES_MAX = 64 << 10

_Line: TypeAlias = tuple[bytes, Object]
"""A line of a shared file, and its JSON object."""


class SideFile(NamedTuple):
    """A side file that was found.

    ``lines``: the lines of the session, if the file is shared; otherwise ``None``. ``data``: the content, if it was
    made from rows of a database; b"" if there are no rows any more.
    """

    name: str
    path: str
    stamp: Stamp
    lines: tuple[bytes, ...] | None = None
    executable: bool = False
    data: bytes | None = None

    def contents(self) -> tuple[bytes, ...]:
        """Return the lines of a shared file, or the content of the file. Raises ``OSError`` and ``Malformed``."""
        if self.lines is not None:
            return self.lines
        return (_read(self.path, FILE_BYTES_MAX) if self.data is None else self.data,)


def document(name: str, path: str, data: bytes) -> SideFile:
    """Return the side file ``name`` with the content ``data``, which was made from rows of the database ``path``."""
    return SideFile(name, path, _stamp(data), data=data)


def _stamp(data: bytes) -> Stamp:
    return Stamp(len(data), 0, int.from_bytes(hash_of(data)[:7]))


class SideFileFinder:
    """A search for side files. Each folder is listed once, and each shared file is read once."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = {}
        self._lines: dict[tuple[str, str], dict[str, list[_Line]]] = {}
        self._files: dict[tuple[str, str], dict[bytes, list[str]]] = {}
        self._problems: list[str] = []

    def take_problems(self) -> list[str]:
        """Return the problems of shared files since the last call. Each shared file has at most one."""
        found, self._problems = self._problems, []
        return found

    def find(self, wanted: SideFiles, known: Iterable[str] = ()) -> Iterator[SideFile]:
        """Yield the side files that exist. ``known``: names of further files that were side files before."""
        top = os.path.realpath(wanted.folder)
        shared = {each.path: self._shared(wanted.folder, each) for each in wanted.shared}
        globs = [path for glob in wanted.globs for path in self._matches(wanted.folder, glob)]
        globs += [path for glob, line in wanted.with_line for path in self._with_line(wanted.folder, glob, line)]
        named = (name for each in wanted.shared for _, line in shared[each.path] for name in each.names(line))
        others = [glob for glob, _ in wanted.with_line]  # such a file may belong to another session now
        known = [name for name in known if name not in shared and not any(fnmatchcase(name, glob) for glob in others)]
        for name in dict.fromkeys([*globs, *named, *known]):
            path = os.path.join(wanted.folder, name)
            folder = os.path.realpath(os.path.dirname(path))
            try:
                status = os.lstat(path)
            except (OSError, ValueError):
                continue
            if stat.S_ISREG(status.st_mode) and f"{folder}/".startswith(f"{top}/"):
                is_executable = bool(status.st_mode & stat.S_IXUSR)
                stamp = Stamp(status.st_size, status.st_mtime_ns, status.st_ino)
                yield SideFile(name, path, stamp, executable=is_executable)
        for name, found in shared.items():
            data = b"".join(raw for raw, _ in found)
            if data:
                lines = tuple(raw for raw, _ in found)
                yield SideFile(name, os.path.join(wanted.folder, name), _stamp(data), lines)

    def _matches(self, folder: str, glob: str) -> list[str]:
        above, _, last = glob.rpartition("/")
        if last == EVERYTHING:
            return _files_below(folder, above)
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
                lines = _rows(path, wanted) if wanted.table else _read(path, SHARED_BYTES_MAX).split(b"\n")[:-1]
            except (FileNotFoundError, NotADirectoryError):
                lines = []
            except (OSError, GitSessionError) as error:
                lines = []
                reason = error.strerror if isinstance(error, OSError) else error
                self._problems.append(f"cannot store the sessions' lines of '{path}': {reason}")
            for line in lines:
                value = jsonl.parse(line)
                if not isinstance(value, LineFailure):
                    by_id.setdefault(plain(value.get(wanted.field)), []).append((line + b"\n", value))
            self._lines[path, wanted.field] = by_id
        return self._lines[path, wanted.field].get(wanted.id, [])

    def _with_line(self, folder: str, glob: str, line: str) -> list[str]:
        """Return the paths of the small files that match ``glob`` and have the line ``line``."""
        if (folder, glob) not in self._files:
            by_line: dict[bytes, list[str]] = {}
            for name in self._matches(folder, glob):
                try:
                    lines = _read(os.path.join(folder, name), _SMALL_BYTES_MAX).splitlines()
                except (OSError, ValueError, Malformed):
                    continue
                for each in lines:
                    by_line.setdefault(each, []).append(name)
            self._files[folder, glob] = by_line
        return self._files[folder, glob].get(os.fsencode(line), [])


def _files_below(folder: str, above: str) -> list[str]:
    """Return the paths of the files in the folder ``above`` and below it, except session files of sub-agents."""
    found = [
        os.path.relpath(os.path.join(place, name), folder)
        for place, _, names in islice(os.walk(os.path.join(folder, above)), _FOLDERS_MAX)
        for name in names
        if not name.endswith(_SESSION_FILE)
    ]
    return sorted(found)[:_FILES_MAX]


def _rows(path: str, wanted: SharedLines) -> list[bytes]:
    """Return the rows of a table as lines with JSON objects, the oldest first. Raises ``OSError``, and others."""
    from gitsession.discovery.prompt_histories import rows_of  # most agents have no such database

    found: list[bytes] = []
    size = 0
    for row in rows_of(Path(path), wanted.table, wanted.columns, "rowid"):
        values = {
            name: plain(value) if isinstance(value, bytes) else value
            for name, value in zip(wanted.columns, row, strict=True)
        }
        found.append(json.dumps(values, ensure_ascii=False).encode("utf-8", "replace"))
        size += len(found[-1])
        if size > SHARED_BYTES_MAX:
            break
    return found


def _read(path: str, most: int) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes. Raises ``OSError``, and ``Malformed``."""
    with opened(path) as (file, size):
        if size > most:
            raise Malformed(f"the file is too large: {size:,} bytes (limit: {most:,})")
        return file.read(size)
