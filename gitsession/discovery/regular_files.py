"""Read-only access to regular files in agents' folders. Links are not followed, and pipes do not block."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def opened(path: str | Path) -> Iterator[tuple[BinaryIO, int]]:
    """Open a regular file for reading, with its size in bytes. Raises ``OSError``."""
    require_regular(path, os.lstat(path))
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
        status = os.fstat(file.fileno())
        require_regular(path, status)  # another program may have replaced the file
        yield file, status.st_size


def require_regular(path: str | Path, status: os.stat_result) -> None:
    """Raise ``OSError`` unless ``status`` is that of a regular file."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
