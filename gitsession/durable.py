"""Files that are there after a power cut: write, fsync, give the name, fsync the directory.

``sync=False`` is for stores whose owner chose ``durability="none"``.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path | str) -> bytes | None:
    """The file at ``path``, as long as it says it is; ``None`` where there is none. Raises ``OSError``.

    Neither a pipe nor a device holds us up or never ends: what is no regular file cannot be read.
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
    """Write the whole of ``data`` at offset ``at``, however often the system writes only a part."""
    written = os.pwrite(fd, data, at)
    if written < len(data):
        view = memoryview(data)
        while written < len(data):
            written += os.pwrite(fd, view[written:], at + written)


def write_new(path: Path | str, data: bytes, *, mode: int = 0o600, sync: bool = True) -> None:
    """A new file with ``data``; its name is durable only after ``sync_directory``. Raises ``FileExistsError``.

    A file that could not be written whole is not left behind.
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
    """Put a file with ``data`` in the place of ``path``, whole or not at all. ``by``: its name until then, on one disk.

    Raises ``OSError``. Who is killed leaves ``by``; the next one that uses that name removes it.
    """
    by.unlink(missing_ok=True)
    write_new(by, data, mode=mode)
    os.rename(by, path)
    sync_directory(path.parent)


def sync_file(path: Path | str) -> None:
    """Make the content of a file durable that others wrote."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_directory(path: Path | str) -> None:
    """Make the names in ``path`` durable: files made, renamed and removed there so far."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directories(path: Path, *, sync: bool = True) -> None:
    """``path`` and what is missing above it, mode 0700, each made durable in the directory that holds it."""
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
