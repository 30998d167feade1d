"""Inspection of one name in an opened folder.

No link is followed, and no pipe or device is opened. If a file is written during a read, the read is repeated. All
functions raise ``OSError`` if the system denies access.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from gitsession.errors import NotFound, Refused, Unavailable
from gitsession.git.objects import LINK_MODE
from gitsession.workspace.trees import TreeEntry

T = TypeVar("T")

NOT_FOUND = (errno.ENOENT, errno.ENAMETOOLONG, errno.EILSEQ)
"""Error numbers for a name that does not exist or cannot exist."""
NO_FOLDER = (errno.ENOTDIR, errno.ELOOP, errno.EMLINK)
"""Error numbers for a link or a file where a folder is expected."""

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK_BYTES = 1 << 20
_TRIES = 5
_KINDS: dict[int, Literal["file", "link", "folder", "special"]] = {
    stat.S_IFREG: "file",
    stat.S_IFLNK: "link",
    stat.S_IFDIR: "folder",
}


class Status(NamedTuple):
    """The status of a name.

    A write changes the status, unless it follows another write within one tick of the file system's clock.
    """

    kind: Literal["file", "link", "folder", "special"]
    permissions: int
    device: int
    ino: int
    links: int
    uid: int
    gid: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> Status:
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "special")
        identity = (found.st_dev, found.st_ino, found.st_nlink, found.st_uid, found.st_gid)
        return cls(kind, stat.S_IMODE(found.st_mode), *identity, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    @property
    def mode(self) -> str:
        """The mode that a file or link has in a tree."""
        if self.kind == "link":
            return LINK_MODE
        return "100755" if self.permissions & stat.S_IXUSR else "100644"


class SpecialFile(NamedTuple):
    """The state of a name that is neither a regular file nor a link. ``special``: a pipe, a socket or a device."""

    kind: Literal["folder", "special"]

    @property
    def description(self) -> str:
        return "a folder" if self.kind == "folder" else "a pipe, a socket or a device"


Now: TypeAlias = "TreeEntry | SpecialFile | None"
"""The current state of a name; ``None`` if it does not exist."""


def status(folder: int, name: bytes) -> Status | None:
    """Return the status of a name; ``None`` if it does not exist."""
    try:
        return Status.of(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except OSError as error:
        if error.errno in NOT_FOUND:
            return None
        raise


def contents(folder: int, name: bytes) -> tuple[Status, bytes]:
    """Return a file's bytes or a link's target, and the status of the name during the read.

    Raises ``NotFound``, ``Refused`` for a folder or a special file, and ``Unavailable`` for a file that is being
    written.
    """
    found, chunks = _read_stable(folder, name, lambda _: list[bytes](), list.append)
    return found, b"".join(chunks)


def examine(folder: int, name: bytes) -> tuple[Now, Status | None]:
    """Return the state of a name, with the oid of its content, and its status. The size of a file is not limited.

    Raises ``Unavailable`` for a file that is being written.
    """
    found = status(folder, name)
    if found is None:
        return None, None
    if found.kind == "folder" or found.kind == "special":
        return SpecialFile(found.kind), found
    try:
        found, digest = _read_stable(folder, name, _begin_oid, lambda digest, data: digest.update(data), found)
    except NotFound:
        return None, None
    return TreeEntry(found.mode, digest.hexdigest()), found


class _Changed(Exception):
    """An internal error: the file was changed or replaced during the read."""


def _begin_oid(size: int) -> hashlib._Hash:
    """Return the hash of a blob of ``size`` bytes before its content is added."""
    return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)


def _read_stable(
    folder: int,
    name: bytes,
    begin: Callable[[int], T],
    take: Callable[[T, bytes], object],
    found: Status | None = None,
) -> tuple[Status, T]:
    """Read a file or a link, again after a concurrent write. Return its status, and the object with its content.

    ``begin``: a function that returns an empty object for a content of the given size in bytes. ``take``: a function
    that adds data to this object. ``found``: the current status, if the caller has just read it.
    """
    for _ in range(_TRIES):
        found = found or status(folder, name)
        if found is None:
            raise NotFound("no such file")
        if found.kind == "folder" or found.kind == "special":
            raise Refused(SpecialFile(found.kind).description)
        with suppress(FileNotFoundError, _Changed):
            if found.kind == "link":
                target = _target(folder, name)
                content = begin(len(target))
                take(content, target)
            else:
                content = begin(found.size)
                _read_chunks(folder, name, found, partial(take, content))
            if status(folder, name) == found:
                return found, content
        found = None
    raise Unavailable("another process is writing it")


def _target(folder: int, name: bytes) -> bytes:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.EINVAL:  # the name has ceased to be a link
            raise _Changed from error
        raise


def _read_chunks(folder: int, name: bytes, found: Status, take: Callable[[bytes], object]) -> None:
    try:
        fd = os.open(name, _FILE, dir_fd=folder)
    except OSError as error:
        if error.errno in (*NO_FOLDER, errno.ENXIO):  # the name has become a link or a socket
            raise _Changed from error
        raise
    try:
        if Status.of(os.fstat(fd)) != found:
            raise _Changed
        left = found.size
        while left and (data := os.read(fd, min(left, _CHUNK_BYTES))):
            take(data)
            left -= len(data)
        if left:
            raise _Changed
    finally:
        os.close(fd)
