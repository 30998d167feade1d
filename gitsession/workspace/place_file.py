"""Atomic replacement of one file in an opened folder. The caller makes it durable with an fsync of the folder.

After a crash, the file has its old or its new content. A temporary file may remain; its name is that of
``names.temporary`` with the caller's tag.
"""

from __future__ import annotations

import errno
import itertools
import os
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

from gitsession.durable import write_all
from gitsession.workspace import inspect, names
from gitsession.workspace.inspect import Status

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
_TRIES = 1000

Make = Callable[[bytes], None]


class ConcurrentWrite(Exception):
    """An error: another process has changed the file since the caller inspected it. Nothing was written."""


class StagedFile:
    """New content in a temporary file, in the folder of the file to replace. ``sync`` makes the content durable.

    The object owns two handles, so always call ``drop`` at the end.
    """

    def __init__(self, folder: int, fd: int, temporary: bytes, seen: Status | None) -> None:
        """Use ``stage`` instead. The object owns both handles."""
        self._folder, self._fd, self._seen = folder, fd, seen
        self._temporary: bytes | None = temporary
        self._error: OSError | None = None

    def sync(self) -> None:
        """Write the content to the disk with fsync. Any thread may call this method. ``put`` raises its error."""
        try:
            os.fsync(self._fd)
        except OSError as error:
            self._error = error

    def put(self, folder: int, name: bytes) -> None:
        """Replace the file ``name`` if its status is still the one that was passed to ``stage``.

        Other hard links of the old file keep the old content. Raises ``ConcurrentWrite`` and ``OSError``.

        ``folder``: a newly opened handle of the folder.
        """
        assert self._temporary is not None
        if self._error is not None:
            raise self._error
        if _put(folder, name, self._temporary, self._seen, source=self._folder):
            self._temporary = None

    def drop(self) -> None:
        """Close the handles and remove the temporary file. Further calls have no effect.

        If this method raises ``OSError``, both handles are closed all the same.
        """
        temporary, self._temporary = self._temporary, None
        folder, self._folder = self._folder, -1
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        if folder >= 0:
            try:
                if temporary is not None:
                    with suppress(FileNotFoundError):
                        os.unlink(temporary, dir_fd=folder)
            finally:
                os.close(folder)


def stage(
    folder: int, name: bytes, data: bytes, *, executable: bool, seen: Status | None, tag: str, numbers: Iterator[int]
) -> StagedFile:
    """Write ``data`` to a temporary file that can replace the file ``name``.

    If there is an old file, the new file gets its permissions and, where the system permits, its owner and its extended
    attributes. Otherwise, the umask determines the permissions. Raises ``OSError``.

    ``seen``: the status of the old file; ``None`` if there is none. ``numbers``: an iterator of numbers for the names
    of temporary files. Pass the same iterator for all files of a run, so that no used name is tried again.
    """
    replaced = seen if seen is not None and seen.kind == "file" else None
    mode = 0o600 if replaced else (0o777 if executable else 0o666)
    with ExitStack() as handles:
        own = os.dup(folder)
        handles.callback(os.close, own)
        fds: list[int] = []

        def make(temporary: bytes) -> None:
            fd = os.open(temporary, _NEW, mode, dir_fd=folder)
            fds.append(fd)
            handles.callback(os.close, fd)
            write_all(fd, data, 0)
            if replaced:
                _keep_owner(fd, replaced)
                _keep_attributes(fd, folder, name)
                os.fchmod(fd, _permissions(replaced, executable))

        temporary = _create_temporary(folder, tag, make, numbers)
        handles.pop_all()
        return StagedFile(own, fds[0], temporary, seen)


def put_link(folder: int, name: bytes, target: bytes, *, seen: Status | None, tag: str) -> None:
    """Replace the file ``name`` with a link if it has the status ``seen``. Raises ``ConcurrentWrite``, ``OSError``."""
    if seen is None:
        with _fail_if_present():
            os.symlink(target, name, dir_fd=folder)
        return
    make = partial(os.symlink, target, dir_fd=folder)
    with _temporary(folder, tag, make, itertools.count()) as temporary:
        _put(folder, name, temporary, seen, source=folder)


def remove(folder: int, name: bytes, *, seen: Status) -> None:
    """Remove the file or link ``name`` if it has the status ``seen``. Raises ``ConcurrentWrite``, ``OSError``."""
    if inspect.status(folder, name) != seen:
        raise ConcurrentWrite
    os.unlink(name, dir_fd=folder)


def remove_folder(folder: int, name: bytes) -> bool:
    """Remove a folder if it is empty; return whether it no longer exists."""
    try:
        os.rmdir(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY, errno.EINVAL, *inspect.NO_FOLDER):
            return False
        raise
    return True


def sweep(folder: int, tag: str) -> None:
    """Remove the temporary files that a run with ``tag`` left in a folder. The run must have ended."""
    begins = names.temporary(tag, "").removesuffix(b".tmp")
    for name in map(os.fsencode, os.listdir(folder)):
        if name.startswith(begins) and names.refusal(name):
            with suppress(FileNotFoundError, IsADirectoryError, PermissionError):
                os.unlink(name, dir_fd=folder)


def spelled_otherwise(folder: int, name: bytes, seen: Status) -> bool:
    """Return whether the name on the disk differs from ``name``, although the file system treats both as equal."""
    text = os.fsdecode(name)
    if text.swapcase() == text or inspect.status(folder, os.fsencode(text.swapcase())) != seen:
        return False
    same = unicodedata.normalize("NFC", text)
    return all(unicodedata.normalize("NFC", other) != same for other in os.listdir(folder))


def probe(folder: int, tag: str) -> tuple[bool, bool]:
    """Return whether the file system ignores case in names, and whether it ignores Unicode normalization."""

    def make(temporary: bytes) -> None:
        os.close(os.open(temporary, _NEW, 0o600, dir_fd=folder))

    with _temporary(folder, tag, make, (f"é{number}" for number in itertools.count())) as temporary:
        text = temporary.decode()
        other = (text.upper(), unicodedata.normalize("NFD", text))
        case, form = (inspect.status(folder, name.encode()) is not None for name in other)
        return case, form


def _put(folder: int, name: bytes, temporary: bytes, seen: Status | None, *, source: int) -> bool:
    """Move ``temporary`` from folder ``source`` to ``name``. Return False if ``temporary`` must still be removed."""
    if seen is None:
        # A rename would replace a file that another process has just created; a hard link fails instead.
        try:
            with _fail_if_present():
                os.link(temporary, name, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
            return False
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
    if inspect.status(folder, name) != seen:
        raise ConcurrentWrite
    os.rename(temporary, name, src_dir_fd=source, dst_dir_fd=folder)
    return True


def _create_temporary(folder: int, tag: str, make: Make, numbers: Iterator[int | str]) -> bytes:
    """Create a temporary file by calling ``make``; return its name."""
    for number in itertools.islice(numbers, _TRIES):
        name = names.temporary(tag, number)
        try:
            make(name)
        except FileExistsError:
            continue
        except BaseException:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
            raise
        return name
    raise FileExistsError(errno.EEXIST, "too many temporary files of one run", os.fsdecode(names.temporary(tag, 0)))


@contextmanager
def _temporary(folder: int, tag: str, make: Make, numbers: Iterator[int | str]) -> Iterator[bytes]:
    """Yield the name of a temporary file created by ``make``; remove the file at the end if it still exists."""
    name = _create_temporary(folder, tag, make, numbers)
    try:
        yield name
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


@contextmanager
def _fail_if_present() -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise ConcurrentWrite from error


def _keep_owner(fd: int, old: Status) -> None:
    new = os.fstat(fd)
    if (new.st_uid, new.st_gid) != (old.uid, old.gid):
        with suppress(PermissionError):
            os.fchown(fd, old.uid, old.gid)


def _keep_attributes(fd: int, folder: int, name: bytes) -> None:
    """Copy the extended attributes of the file ``name``.

    Capabilities are not copied, because they were granted to the old content. Attributes of the system, such as
    security labels and access control lists, are skipped if the system rejects them. Raises ``OSError`` if a user
    attribute cannot be copied.
    """
    if sys.platform != "linux":
        return
    try:
        old = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return  # the file is missing or unreadable; ``put`` checks again before it replaces the file
    try:
        attributes: list[str] = []
        with suppress(OSError):  # this file system has no extended attributes
            attributes = os.listxattr(old)
        for attribute in attributes:
            if attribute == "security.capability":
                continue
            try:
                os.setxattr(fd, attribute, os.getxattr(old, attribute))
            except OSError:
                if attribute.startswith("user."):
                    raise
    finally:
        os.close(old)


def _permissions(old: Status, executable: bool) -> int:
    """Return the old file's permissions, with the executable bits adapted to ``executable``.

    The set-user-ID, set-group-ID and sticky bits are cleared.
    """
    bits = old.permissions & 0o777
    if not executable:
        return bits & ~0o111
    return bits if bits & 0o100 else bits | (bits & 0o444) >> 2
