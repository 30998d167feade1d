"""Where session files lie: the agents' own folders, and folders that the user names."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

from gitsession.durable import write_all
from gitsession.errors import Malformed, NotFound, Unavailable
from gitsession.formats import FORMATS, Accompanied, Format, InProject, SearchRoot, all_with_capability, claimed
from gitsession.formats.base.jsonl import Data, StoredFile

HEAD_BYTES = 64 * 1024
FILE_BYTES_MAX = 1 << 30
LARGE_BYTES = 64 << 20
"""From there on a file is copied, and read in parts, where its agent's module can."""

_ON_DISK, _IN_MEMORY = "/var/tmp", "/tmp"
"""``/tmp`` is often a file system in memory."""

_CHUNK = 1 << 20


def everywhere(
    home: Path, environment: Mapping[str, str], *, unreadable: bool = False
) -> Iterator[tuple[Path, Format]]:
    """Every session file in the agents' own folders, which variables of the ``environment`` may have moved.

    ``unreadable``: also what has the name of one and is no file (a folder, a pipe, a link that leads nowhere), and
    folders that may not be read, for the import to name them.
    """
    for format in FORMATS.values():
        bases = [(root, base_of(root, home, environment)) for root in format.ROOTS]
        if unreadable:
            closed = dict.fromkeys(folder for root, base in bases for folder in _closed(base, root.pattern))
            yield from ((folder, format) for folder in closed)
        for root, base in bases:
            found = {*base.glob(root.pattern)}
            if unreadable and os.path.lexists(base / root.pattern):
                found.add(base / root.pattern)  # a glob of a plain name does not find a link that leads nowhere
            yield from ((path, format) for path in sorted(found) if unreadable or path.is_file())


def _closed(base: Path, pattern: str) -> Iterator[Path]:
    """Yield the folders on the way to ``pattern`` that may not be listed: a glob passes over them."""
    above = [parent.as_posix() for parent in reversed(Path(pattern).parents)]
    for folders in ([base], *(sorted(base.glob(parent)) for parent in above if parent != ".")):
        yield from (folder for folder in folders if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK))


def base_of(root: SearchRoot, home: Path, environment: Mapping[str, str]) -> Path:
    """The folder that the agent's sessions lie below."""
    moved = environment.get(root.variable) if root.variable else None
    return Path(moved).expanduser() if moved else home / root.home


def in_projects(folders: Iterable[Path], *, unreadable: bool = False) -> Iterator[tuple[Path, Format]]:
    """The session files that an agent keeps in the projects themselves: at the top of what each folder belongs to.

    ``unreadable``: also what is called so and is no file.
    """
    tops = dict.fromkeys(found for folder in folders if (found := _top(folder)) is not None)
    for format in all_with_capability(InProject).values():
        files = (folder / format.IN_PROJECT for folder in tops)
        yield from ((path, format) for path in files if path.is_file() or (unreadable and os.path.lexists(path)))


def _top(folder: Path) -> Path | None:
    """A folder is whatever a session says: it need not be one that can be."""
    try:
        return top(folder)
    except (OSError, ValueError):
        return None


def top(folder: Path) -> Path:
    """The top of the repository that ``folder`` is in, without asking git; of none, the folder itself.

    Raises ``OSError`` and ``ValueError`` for what is no name of a folder.
    """
    folder = folder.absolute()
    # One after the other: a session may say a folder of fifty thousand parents.
    return next((place for place in chain([folder], folder.parents) if (place / ".git").exists()), folder)


def under(paths: Iterable[Path]) -> Iterator[Path]:
    """The files that ``paths`` name; of folders, every file below them that is called like a session file."""
    patterns = {pattern for format in FORMATS.values() for pattern in format.FILES}
    for path in paths:
        if path.is_dir():
            found = (file for file in path.rglob("*") if any(fnmatchcase(file.name, pattern) for pattern in patterns))
            yield from sorted(file for file in found if file.is_file())
        else:
            yield path


def called(path: Path, id: str) -> list[Path]:
    """The session files beside ``path`` whose names end in ``id``, also in folders of other days (``2026/11/22``)."""
    top = path.absolute().parent
    while top.name.isdecimal() and len(top.name) in (2, 4):
        top = top.parent
    days = "*/*/*/" if path.absolute().parent != top else ""
    return sorted(file for file in top.glob(f"{days}*{glob.escape(id)}.jsonl") if file.is_file())


def name_of(path: Path) -> str:
    """What a session file without an id of its own is known by: its place without its ending."""
    return path.absolute().with_suffix("").as_posix()


def head(path: Path) -> bytes:
    """The beginning of a regular file; nothing of what is none. Raises ``OSError``."""
    with _opened(path) as (fd, found):
        return os.read(fd, HEAD_BYTES) if stat.S_ISREG(found.st_mode) else b""


def read(path: Path) -> tuple[os.stat_result, bytes]:
    """A session file as it is: what it grows by meanwhile is not read.

    Raises ``Malformed`` for what is no regular file, or over 1 GiB; ``OSError``.
    """
    with _session_file(path) as (fd, found), os.fdopen(fd, "rb", closefd=False) as file:
        return found, file.read(found.st_size)


def stored(path: Path) -> tuple[os.stat_result, StoredFile]:
    """The same, in a copy on disk that nobody changes and that goes with the process.

    The copy is a file of mode 0600 that no folder lists. Raises as ``read`` does, and ``Unavailable`` where the copy
    cannot be written.
    """
    with _session_file(path) as (fd, found):
        size = 0
        folder = _folder_of_copies()
        try:
            held = _Copy(folder)
            while chunk := os.read(fd, min(_CHUNK, found.st_size - size)):
                held.append(chunk, size)
                size += len(chunk)
        except OSError as error:
            what = f"cannot copy {path} to {folder}: {error.strerror}"
            raise Unavailable(what, hint="free some space there, or set TMPDIR to another folder") from error
        return found, StoredFile(held.read, size)


def _folder_of_copies() -> str:
    """Return the folder that the user chose for temporary files, else one that is no file system in memory."""
    folder = tempfile.gettempdir()
    return _ON_DISK if folder == _IN_MEMORY and os.access(_ON_DISK, os.W_OK) else folder


class _Copy:
    """A file without a name, closed when nobody reads it any more."""

    _fd = -1

    def __init__(self, folder: str) -> None:
        with tempfile.TemporaryFile(prefix="gitsession-", dir=folder) as file:
            self._fd = os.dup(file.fileno())

    def append(self, data: bytes, at: int) -> None:
        write_all(self._fd, data, at)

    def read(self, size: int, offset: int) -> bytes:
        return os.pread(self._fd, size, offset)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


@contextlib.contextmanager
def _session_file(path: Path) -> Iterator[tuple[int, os.stat_result]]:
    with _opened(path) as (fd, found):
        if not stat.S_ISREG(found.st_mode):
            raise Malformed("not a regular file")
        if found.st_size > FILE_BYTES_MAX:
            raise Malformed(f"{found.st_size:,} bytes; a session file has at most {FILE_BYTES_MAX:,}")
        yield fd, found


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[int, os.stat_result]]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not hold us up
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise Malformed("not a regular file") from None  # a socket
    try:
        found = os.fstat(fd)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        yield fd, found
    finally:
        os.close(fd)


def format_of(path: Path, data: bytes) -> Format | None:
    """Which agent wrote a file: the one in whose folder it lies, else the one that claims its beginning.

    The folder comes first so that a file is one session, whether it was found or named: early omp files look like pi's.
    """
    place = path.absolute().as_posix()
    for format in FORMATS.values():
        if any(root.fixed in place for root in format.ROOTS):
            return format if format.claims(data[:HEAD_BYTES]) or claimed(data[:HEAD_BYTES]) else None
    return claimed(data[:HEAD_BYTES])


def unrecognized(path: Path) -> NotFound:
    """Return the error for a file that the user named and no supported agent wrote. Raises ``OSError``."""
    known = f"supported agents: {', '.join(sorted(FORMATS))}"
    from gitsession.formats.claude import split_file  # most commands need none of it

    other = split_file.agent_of(head(path))
    if other:
        return NotFound(f"{other} wrote this session, and its format is not supported ({known})", hint=known)
    return NotFound(f"no agent wrote this that gitsession knows ({known}); --from FORMAT takes it as one's", hint=known)


def attachments(path: Path, data: Data, format: Format) -> tuple[dict[str, bytes], list[str]]:
    """What the agent keeps beside a session file: contents by name, and the names of those that are needed and absent.

    Of a file that must hash to its name, only content that does is taken.
    """
    contents: dict[str, bytes] = {}
    missing: list[str] = []
    for wanted in format.beside(data, name_of(path)) if isinstance(format, Accompanied) else ():
        folder = path.resolve().parent
        content = next((found for place in wanted.places if (found := _read(folder / place)) is not None), None)
        if content is not None and wanted.sha256 in ("", hashlib.sha256(content).hexdigest()):
            contents[wanted.name] = content
        elif wanted.needed:
            missing.append(wanted.name)
    return contents, missing


def _read(path: Path) -> bytes | None:
    try:
        return read(path)[1]
    except (OSError, Malformed):
        return None
