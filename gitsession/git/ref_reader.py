"""What refs hold, read from git's files: one file per loose ref, and ``packed-refs`` for those that have none.

Loose first, packed second, always: ``git pack-refs`` writes the second before it removes the first, so a ref that moves
between our two looks is found at its new place. Read here and not by a library, which would load the user's
configuration to do it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from gitsession.durable import read_regular
from gitsession.errors import Corrupt
from gitsession.git import packed_refs
from gitsession.git.permissions import denied
from gitsession.git.types import RefValue

_VALUE = re.compile(rb"([0-9a-f]{40}|ref: [^\x00-\x20\x7f]+)\s*")
_VALUE_BYTES_MAX = 4096
_FRESH_NS = 1_000_000_000


class RefReader:
    """The refs of the repository at ``git_dir``."""

    def __init__(self, git_dir: Path) -> None:
        self._root = str(git_dir)
        self._packed_path = f"{git_dir}/{packed_refs.FILE}"
        self._seen: tuple[int, int, int] | None = None
        self._packed = b""
        self._bad: list[bytes] = []

    def read(self, name: str) -> RefValue | None:
        """What ``name`` holds, not followed. Raises ``Corrupt`` for a file that git could not have written."""
        if not name.startswith("refs/") or ".." in name:
            return None
        raw = _content(f"{self._root}/{name}")
        if raw is None:
            first, value = next(_packed_from(self._packed_refs(), name), ("", None))
            return value if first == name else None
        found = _VALUE.fullmatch(raw)
        if not found:
            raise Corrupt(f"{name} {_problem(raw)}", hint="`gitsession repair` puts back what was last recorded")
        return found[1].decode()

    def list(self, prefix: str) -> dict[str, RefValue]:
        """Every ref whose name starts with ``prefix``. Files that hold no ref are passed over, as git does."""
        loose = self.list_loose(prefix)
        return {**dict(_packed_from(self._packed_refs(), prefix)), **loose}

    def list_loose(self, prefix: str) -> dict[str, RefValue]:
        """Those of them that are files of their own."""
        loose = {}
        for name in self._loose(prefix.rpartition("/")[0], prefix):
            found = _VALUE.fullmatch(_content(f"{self._root}/{name}") or b"")
            if found:
                loose[name] = found[1].decode()
        return loose

    def _loose(self, directory: str, prefix: str) -> Iterator[str]:
        try:
            with os.scandir(f"{self._root}/{directory}") as found:
                entries = list(found)
        except (FileNotFoundError, NotADirectoryError):
            return
        except PermissionError:
            # Not passed over: a session whose refs we may not read must not look like one that is gone.
            raise denied(Path(self._root, directory)) from None
        for entry in entries:
            name = f"{directory}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):  # nor does git make links among refs, and they may lead in circles
                if name.startswith(prefix) or prefix.startswith(name + "/"):
                    yield from self._loose(name, prefix)
            elif name.startswith(prefix) and not name.endswith(".lock"):
                yield name

    def damage(self) -> dict[str, str]:
        """What in the files of refs is none, by file: refs that cannot be read, and are passed over by ``list``."""
        found = {}
        for name in self._loose("refs", "refs/"):
            raw = _content(f"{self._root}/{name}")
            if raw is not None and not _VALUE.fullmatch(raw):
                found[name] = _problem(raw)
        self._packed_refs()
        if self._bad:
            number = f"{len(self._bad):,} lines that name" if len(self._bad) > 1 else "a line that names"
            found[packed_refs.FILE] = f"has {number} no ref: {_shown(self._bad[0])}"
        return found

    def _packed_refs(self) -> bytes:
        """The sorted lines of packed-refs; read again when the file is another one.

        One that was new when it was read may be replaced within the same tick of the clock, and get the same inode.
        """
        try:
            stat = os.stat(self._packed_path)
        except FileNotFoundError:
            return b""
        seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if seen != self._seen:
            fresh = time.time_ns() - _FRESH_NS
            self._packed, self._bad = _whole_lines(read_regular(self._packed_path) or b"")
            self._seen = seen if stat.st_mtime_ns < fresh else None
        return self._packed


def _problem(raw: bytes) -> str:
    """What is wrong with the file of a ref that holds ``raw``, in words."""
    if not raw.strip():
        return "is empty"
    if not raw.strip(b"\0"):
        return "is all zeros"
    return f"holds no value of a ref: {_shown(raw)}"


def _shown(raw: bytes) -> str:
    return raw[:60].decode("ascii", "replace").strip().replace("\0", "\ufffd")


def _whole_lines(data: bytes) -> tuple[bytes, list[bytes]]:
    """The lines that are refs, sorted by name, and those that are nothing: no damaged line hides another.

    git writes them sorted, and says so in the first line, which is a comment.
    """
    if data.startswith(b"#"):
        data = data.partition(b"\n")[2]
    lines = data.splitlines(keepends=True)
    good = [line for line in lines if packed_refs.is_line(line)]
    bad = [line for line in lines if line[:1] != b"#" and not packed_refs.is_line(line)] if good != lines else []
    refs = [line for line in good if line[:1] != b"^"]
    refs.sort(key=_name_in)  # no work where they are in order
    return b"".join(refs), bad


def _name_in(line: bytes) -> bytes:
    return line[41:]


def _content(path: str) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not hold us up
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        raise denied(Path(path)) from None
    try:
        return os.read(fd, _VALUE_BYTES_MAX)
    except IsADirectoryError:
        return None
    finally:
        os.close(fd)


def _packed_from(data: bytes, prefix: str) -> Iterator[tuple[str, RefValue]]:
    """The packed refs that start with ``prefix``, found by halving: a line is ``<oid> <name>``."""
    wanted = prefix.encode("utf-8", "surrogateescape")
    low, high = 0, len(data)
    while low < high:
        middle = data.rfind(b"\n", low, (low + high) // 2) + 1 or low
        end = data.index(b"\n", middle)
        if data[middle + 41 : end] >= wanted:
            high = middle
        else:
            low = end + 1
    while low < len(data):
        end = data.index(b"\n", low)
        name = data[low + 41 : end]
        if not name.startswith(wanted):
            return
        yield name.decode("utf-8", "surrogateescape"), data[low : low + 40].decode()
        low = end + 1
