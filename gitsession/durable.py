"""Durable file operations: write, fsync, rename, fsync the directory.

Callers pass ``sync=False`` if the store was opened with ``durability="none"``.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path | str) -> bytes | None:
    """Return the content of a file, up to its size at the time of opening; ``None`` if the file does not exist.

    Raises ``OSError``, also for a file that is not regular, because reading a pipe or a device could block or never
    end.
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
    """Write ``data`` at offset ``at``, in bytes. After a partial write, write the remaining bytes."""
    written = os.pwrite(fd, data, at)
    if written < len(data):
        view = memoryview(data)
        while written < len(data):
            written += os.pwrite(fd, view[written:], at + written)


def write_new(path: Path | str, data: bytes, *, mode: int = 0o600, sync: bool = True) -> None:
    """Create a file with ``data``. The new name is durable only after ``sync_directory``. Raises ``FileExistsError``.

    If the data cannot be written completely, the file is removed.
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
    """Replace ``path`` with a file that contains ``data``, atomically.

    ``by``: the temporary name of the new file, on the same file system. If the process is killed, this file remains.
    The next call with the same name removes it. Raises ``OSError``.
    """
    by.unlink(missing_ok=True)
    write_new(by, data, mode=mode)
    os.rename(by, path)
    sync_directory(path.parent)


def sync_file(path: Path | str) -> None:
    """Make the content of an existing file durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_directory(path: Path | str) -> None:
    """Make the creation, renaming and removal of files in the directory ``path`` durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directories(path: Path, *, sync: bool = True) -> None:
    """Create ``path`` and its missing parents with mode 0700. ``sync``: whether to make each new name durable."""
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
