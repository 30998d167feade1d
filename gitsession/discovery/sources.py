"""Access to the sessions at a path. A file contains one session, and a database contains many.

The path of a session in a database consists of the path of the database, ``#``, and the session's id. The catalog
stores this path, so that a repair can find the session again.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gitsession.codec.digest import PrefixHasher
from gitsession.dataclass import dataclass
from gitsession.discovery import databases, side_files
from gitsession.discovery.side_files import SideFile
from gitsession.durable import write_all
from gitsession.errors import Malformed, NotFound, Unavailable
from gitsession.formats import (
    FORMATS,
    ROOTS,
    Accompanied,
    Format,
    Growing,
    Scattered,
    Source,
    SplitState,
    Streamed,
    claimed,
)
from gitsession.formats.base.format import Stamp
from gitsession.formats.base.jsonl import Data, StoredFile

if TYPE_CHECKING:
    from gitsession.index.catalogue import Stat

WITHIN = "#"

HEAD_BYTES = 64 * 1024
FILE_BYTES_MAX = 1 << 30
LARGE_BYTES = 64 << 20
"""The size in bytes at which a file is copied and then read in parts, if the format of its agent supports this."""

_DATABASE = b"SQLite format 3\0"

_ON_DISK, _IN_MEMORY = "/var/tmp", "/tmp"
"""Two folders for temporary files. ``/tmp`` is often a file system in memory."""

_CHUNK = 1 << 20


class ReadState(NamedTuple):
    """The state of a file that was read, from which a longer version of the file can be read (decision 0065).

    ``agent``: the name of the agent. ``digest``: the hash, in hexadecimal, of the bytes that ``split`` describes.
    """

    agent: str
    digest: str
    split: SplitState


@dataclass(frozen=True, slots=True)
class LoadedSession:
    """A session and the other files that belong to it.

    ``attachments``: the contents of these files by name; ``missing``: the names of the files that are missing.
    ``state``: the state of the file; ``None`` if the next version of the file must be read whole. ``side_files``: the
    side files that a database contains.
    """

    source: Source
    attachments: Mapping[str, bytes]
    missing: list[str]
    state: ReadState | None = None
    side_files: Sequence[SideFile] = ()


@dataclass(frozen=True, slots=True)
class FoundSession:
    """A session that can be loaded.

    ``path``: its path; ``stamp``: its state before it was read; ``load``: a function that loads it. ``load_rest``: a
    function that loads only the records after the given state; its result is ``None`` if the session must be loaded
    whole.
    """

    path: Path
    format: Format
    stamp: Stat
    load: Callable[[], LoadedSession]
    load_rest: Callable[[ReadState], LoadedSession | None] = lambda state: None


def stamp_of(path: Path) -> Stat:
    """Return the state of the sessions at ``path``. The state changes if any session changes. Raises ``OSError``."""
    parts = _folders_of(path)
    return _stamp_of_folders(path, parts) if parts is not None else _stamp_of_file(path)


def _stamp_of_file(path: Path) -> Stamp:
    """Return the state of a file and, for a database, of its write-ahead log."""
    found = path.stat()
    log = stat_of(Path(f"{path}-wal"))
    size, changed_ns = (log.st_size, log.st_mtime_ns) if log is not None else (0, 0)
    return Stamp(found.st_size + size, max(found.st_mtime_ns, changed_ns), found.st_ino)


def at(path: Path, format: Format | None = None, *, final: bool = False) -> Iterator[FoundSession]:
    """Yield the sessions at ``path``, or nothing if no supported agent wrote the file.

    Each session must be loaded before the next one is requested. ``format``: the format of the file; ``None`` to detect
    it. Raises ``Malformed``, ``Unavailable`` and ``OSError``.
    """
    stamp = stamp_of(path)
    if is_database(head(path)):
        yield from _in_database(path, format, final)
        return
    if stamp.st_size >= LARGE_BYTES:
        detected = format or format_of(path, head(path))
        if isinstance(detected, Streamed):
            yield _in_large_file(path, detected, final=final)
            return
    found, data = read(path)
    chosen = format or format_of(path, data)
    if chosen is None:
        return
    parts = _folders_of(path)
    if isinstance(chosen, Scattered) and parts is not None and chosen.is_info(data):
        yield FoundSession(
            path, chosen, stamp, lambda: LoadedSession(_load_folders(chosen, data, parts, final=final), {}, [])
        )
        return

    def load() -> LoadedSession:
        contents, missing = attachments(path, data, chosen)
        source = chosen.split(data, name=name_of(path), final=final)
        state = None if missing else _state(chosen, source, PrefixHasher(data))
        return LoadedSession(source, contents, missing, state)

    yield FoundSession(path, chosen, found, load, functools.partial(_load_rest, path, chosen, data, final))


def _load_rest(path: Path, format: Format, data: bytes, final: bool, state: ReadState) -> LoadedSession | None:
    hasher, size = PrefixHasher(data), state.split.size
    if final or not isinstance(format, Growing) or state.agent != format.AGENT or len(data) < size:
        return None
    if hasher.hash_of(size).hex() != state.digest:
        return None
    contents, missing = attachments(path, data[size:], format)
    source = None if missing else format.split_rest(data, state.split, name=name_of(path))
    return None if source is None else LoadedSession(source, contents, [], _state(format, source, hasher))


def _state(format: Format, source: Source, hasher: PrefixHasher) -> ReadState | None:
    split = source.state
    return None if split is None else ReadState(format.AGENT, hasher.hash_of(split.size).hex(), split)


def _in_large_file(path: Path, format: Streamed, *, final: bool) -> FoundSession:
    """Return the session of a large file, which is read in parts."""
    stamp, data = stored(path)

    def load() -> LoadedSession:
        contents, missing = attachments(path, data, format)
        return LoadedSession(format.split(data, name=name_of(path), final=final), contents, missing)

    return FoundSession(path, format, stamp, load)


def reopen(path: Path) -> Iterator[FoundSession]:
    """Yield the sessions at ``path``, the path of a session that was loaded before.

    If ``path`` refers to a session in a database, only this session is yielded.
    """
    file_path, separator, _ = os.fspath(path).rpartition(WITHIN)
    if not separator or path.exists():
        yield from at(path)
        return
    yield from (found for found in at(Path(file_path)) if found.path == path)


def _in_database(path: Path, format: Format | None, final: bool) -> Iterator[FoundSession]:
    with databases.opened(path) as database:
        database_format = database.format
        if database_format is None:
            if format is not None:
                raise Malformed(f"the database lacks the {format.AGENT} tables")
            return
        for id, stamp in database_format.session_stamps(database.query, database.columns):

            def load(id: str = id) -> LoadedSession:
                source = database_format.session(database.query, database.columns, id, final=final)
                documents = database_format.documents(database.query, database.columns, id)
                beside = [side_files.document(name, os.fspath(path), data) for name, data in documents]
                return LoadedSession(source, {}, [], side_files=beside)

            yield FoundSession(path.with_name(f"{path.name}{WITHIN}{_escape_id(id)}"), database_format, stamp, load)


def _escape_id(id: str) -> str:
    """Return ``id``, which can be any string, in a form that can be part of a file name."""
    return id.replace("/", "%2F").replace("\0", "%00").encode("utf-8", "replace").decode()


class _Folders(NamedTuple):
    """The folder with the ``messages`` of a session, and the folder with the ``parts`` of all messages."""

    messages: Path
    parts: Path


def _folders_of(path: Path) -> _Folders | None:
    """Return the folders that belong to the session description ``path``, or ``None`` if ``path`` is another file."""
    parents = path.absolute().parents
    if len(parents) < 3 or parents[1].name != "session":
        return None
    messages = parents[2] / "message" / path.stem
    return _Folders(messages, parents[2] / "part") if messages.is_dir() else None


def _load_folders(format: Scattered, info: bytes, folders: _Folders, *, final: bool) -> Source:
    """Return the session that ``info`` describes. Raises ``Malformed`` and ``OSError``."""
    files = _contents(folders.messages)
    return format.from_folders(info, files, {name: _contents(folders.parts / name) for name in files}, final=final)


def _stamp_of_folders(path: Path, folders: _Folders) -> Stamp:
    """Return the state of all files of a session. Raises ``OSError``."""
    messages = _json_files(folders.messages)
    files = [each for message in messages for each in (message, *_json_files(folders.parts / message.stem))]
    found = [path.stat(), *(stat for each in files if (stat := stat_of(each)) is not None)]
    newest = max(each.st_mtime_ns for each in found)
    return Stamp(sum(each.st_size for each in found), newest, len(found))


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.stem: _content(path) for path in _json_files(folder)}


def _content(path: Path) -> bytes:
    """Return the content of a file, or b"" if it is not a regular file. The import reports and omits such a file.

    Raises ``OSError`` if the file cannot be read now but may be readable later.
    """
    try:
        return read(path)[1]
    except Malformed:
        return b""
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EIO):
            raise
        return b""


def _json_files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError:
        return []


# ---- one file


def stat_of(path: Path) -> os.stat_result | None:
    """Return the status of a file, or ``None`` if the file does not exist or cannot be accessed."""
    try:
        return path.stat()
    except OSError:
        return None


def name_of(path: Path | str) -> str:
    """Return the ``name`` of a session file for ``Format.split``, which is the absolute path without the suffix."""
    text = os.fspath(path) if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    folder, slash, name = text.rpartition("/")
    stem, _, suffix = name.rpartition(".")
    return f"{folder}{slash}{stem}" if stem and suffix else text


def head(path: Path) -> bytes:
    """Return the beginning of a regular file, or b"" for any other file. Raises ``OSError``."""
    with _opened(path) as (fd, found):
        return os.read(fd, HEAD_BYTES) if stat.S_ISREG(found.st_mode) else b""


def is_database(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` is an SQLite database."""
    return head.startswith(_DATABASE)


def read(path: Path) -> tuple[os.stat_result, bytes]:
    """Return the status and the content of a session file, without bytes that are appended while the file is read.

    Raises ``OSError``, and ``Malformed`` if the file is not a regular file or is larger than 1 GiB.
    """
    with _session_file(path) as (fd, found), os.fdopen(fd, "rb", closefd=False) as file:
        return found, file.read(found.st_size)


def stored(path: Path) -> tuple[os.stat_result, StoredFile]:
    """Copy a session file to a temporary file on the disk. Return the status of the session file, and the copy.

    The copy is an unlinked file of mode 0600, which does not change and is deleted when the process ends. Raises the
    same errors as ``read``, and ``Unavailable`` if the copy cannot be written.
    """
    with _session_file(path) as (fd, found):
        size = 0
        folder = _folder_of_copies()
        try:
            copy = _Copy(folder)
            while chunk := os.read(fd, min(_CHUNK, found.st_size - size)):
                copy.append(chunk, size)
                size += len(chunk)
        except OSError as error:
            message = f"cannot copy '{path}' to '{folder}': {error.strerror}"
            raise Unavailable(message, hint="free some space, or set TMPDIR to another folder") from error
        return found, StoredFile(copy.read, size)


def _folder_of_copies() -> str:
    """Return the user's folder for temporary files.

    If that folder is ``/tmp`` and ``/var/tmp`` is writable, return ``/var/tmp``.
    """
    folder = tempfile.gettempdir()
    return _ON_DISK if folder == _IN_MEMORY and os.access(_ON_DISK, os.W_OK) else folder


class _Copy:
    """An unlinked file that is closed when the object is garbage-collected."""

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
            raise Malformed(f"the session file is too large: {found.st_size:,} bytes (limit: {FILE_BYTES_MAX:,})")
        yield fd, found


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[int, os.stat_result]]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # do not block on a pipe
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
    """Return the format of the agent whose folder contains ``path``, otherwise the format that claims the file.

    The folder takes precedence, so that a file results in the same session whether it is found by a search or passed by
    the user. Without this rule, files from early omp versions would be read as pi files.
    """
    location = path.absolute().as_posix()
    for agent, roots in ROOTS.items():
        if any(root.fixed in location for root in roots):
            format = FORMATS[agent]
            return format if format.claims(data[:HEAD_BYTES]) or claimed(data[:HEAD_BYTES]) else None
    return claimed(data[:HEAD_BYTES])


def unrecognized(path: Path) -> NotFound:
    """Return the error for a file that the user passed and that no supported agent wrote. Raises ``OSError``."""
    known = f"supported agents: {', '.join(sorted(FORMATS))}"
    from gitsession.formats.claude import split_file  # most commands do not need this module

    other = split_file.agent_of(head(path))
    if other:
        return NotFound(f"the {other} session format is not supported ({known})")
    is_database = head(path).startswith(b"SQLite format 3\0")
    hint = "pass --from llm for a log database of llm" if is_database else "pass --from FORMAT to choose the format"
    return NotFound(f"unrecognized session format ({known})", hint=hint)


def attachments(path: Path, data: Data, format: Format) -> tuple[dict[str, bytes], list[str]]:
    """Return the files that the agent stores beside a session file, by name, and the names of missing files.

    If the agent's format requires a hash, a file with another hash is treated as missing.
    """
    contents: dict[str, bytes] = {}
    missing: list[str] = []
    for sidecar in format.sidecars(data, name_of(path)) if isinstance(format, Accompanied) else ():
        folder = path.resolve().parent
        content = next((found for candidate in sidecar.paths if (found := _read(folder / candidate)) is not None), None)
        if content is not None and sidecar.sha256 in ("", hashlib.sha256(content).hexdigest()):
            contents[sidecar.name] = content
        elif sidecar.needed:
            missing.append(sidecar.name)
    return contents, missing


def _read(path: Path) -> bytes | None:
    try:
        return read(path)[1]
    except (OSError, Malformed):
        return None
