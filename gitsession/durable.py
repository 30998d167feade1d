"""Writes that survive a power failure: write, fsync, rename, fsync the directory.

``sync=False`` is for stores whose owner chose ``durability="none"``.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path | str) -> bytes | None:
    """Return the content of a file, up to its size when it was opened; ``None`` if it does not exist.

    Raises ``OSError``, also for a file that is not regular: reading a pipe or a device could block or never end.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        return file.read(status.st_size)


def write_all(fd: int, data: bytes, at: int) -> None:
    """Write all of ``data`` at offset ``at``, with further calls after a partial write."""
    written = os.pwrite(fd, data, at)
    if written < len(data):
        view = memoryview(data)
        while written < len(data):
            written += os.pwrite(fd, view[written:], at + written)


def write_new(path: Path | str, data: bytes, *, mode: int = 0o600, sync: bool = True) -> None:
    """Create a file with ``data``. Its name is durable only after ``sync_directory``. Raises ``FileExistsError``.

    If it cannot be written completely, it is removed.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        write_all(fd, data, 0)
        if sync:
            os.fsync(fd)
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(fd)


def replace(path: Path, data: bytes, *, by: Path, mode: int = 0o600) -> None:
    """Replace ``path`` by a file with ``data``, atomically. ``by``: its temporary name, on the same file system.

    Raises ``OSError``. A process that is killed leaves ``by``; the next call with that name removes it.
    """
    by.unlink(missing_ok=True)
    write_new(by, data, mode=mode)
    os.rename(by, path)
    sync_directory(path.parent)


def sync_file(path: Path | str) -> None:
    """Make the content of a file durable that another function has written."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_directory(path: Path | str) -> None:
    """Make the names in ``path`` durable: files created, renamed and removed there so far."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directories(path: Path, *, sync: bool = True) -> None:
    """Create ``path`` and its missing parents with mode 0700. Each name is made durable."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            pass
        if sync:
            sync_directory(directory.parent)
