"""One name in an opened folder becomes what it is to be, in one step, durable once the folder is synced.

A crash leaves what was there or what is to be there, and perhaps a temporary: ``names.temporary``, of the caller's tag.
"""

from __future__ import annotations

import errno
import os
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from gitsession.store.durable import write_all
from gitsession.workspace import looking, names
from gitsession.workspace.looking import Status

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
_TRIES = 1000

Make = Callable[[bytes], None]


class Moved(Exception):
    """Somebody wrote there since the caller looked. Nothing was changed."""


def put_file(folder: int, name: bytes, data: bytes, *, executable: bool, seen: Status | None, tag: str) -> None:
    """A file with ``data``, which takes the place of what was ``seen`` there.

    Its permissions are those of the file it replaces, or what the umask leaves; its owner too, if we may. A hard link's
    other names keep the old content. Raises ``Moved``, ``OSError``.
    """
    replaced = seen if seen is not None and seen.kind == "file" else None

    def make(temporary: bytes) -> None:
        mode = 0o600 if replaced else (0o777 if executable else 0o666)
        fd = os.open(temporary, _NEW, mode, dir_fd=folder)
        try:
            write_all(fd, data, 0)
            if replaced:
                _keep_owner(fd, replaced)
                os.fchmod(fd, _permissions(replaced, executable))
            os.fsync(fd)
        finally:
            os.close(fd)

    with _temporary(folder, tag, make) as temporary:
        _put(folder, name, temporary, seen)


def put_link(folder: int, name: bytes, target: bytes, *, seen: Status | None, tag: str) -> None:
    """A link, which takes the place of what was ``seen`` there. Raises ``Moved``, ``OSError``."""
    if seen is None:
        with _none_there():
            os.symlink(target, name, dir_fd=folder)
        return
    with _temporary(folder, tag, lambda temporary: os.symlink(target, temporary, dir_fd=folder)) as temporary:
        _put(folder, name, temporary, seen)


def remove(folder: int, name: bytes, *, seen: Status) -> None:
    """Take away the file or link that was ``seen`` there. Raises ``Moved``, ``OSError``."""
    if looking.status(folder, name) != seen:
        raise Moved
    os.unlink(name, dir_fd=folder)


def remove_folder(folder: int, name: bytes) -> bool:
    """Take away a folder with nothing in it; tell whether it is gone."""
    try:
        os.rmdir(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY, errno.EINVAL, *looking.NO_FOLDER):
            return False
        raise
    return True


def sweep(folder: int, tag: str) -> int:
    """Take away the temporaries of a run that has ended; tell how many."""
    begins = names.temporary(tag, "").removesuffix(b".tmp")
    found = [name for name in map(os.fsencode, os.listdir(folder)) if name.startswith(begins) and names.refusal(name)]
    for name in found:
        with suppress(FileNotFoundError, IsADirectoryError, PermissionError):
            os.unlink(name, dir_fd=folder)
    return len(found)


def spelled_otherwise(folder: int, name: bytes, seen: Status) -> bool:
    """Whether what was ``seen`` has another name, that the file system takes for this one."""
    text = os.fsdecode(name)
    if text.swapcase() == text or looking.status(folder, os.fsencode(text.swapcase())) != seen:
        return False
    same = unicodedata.normalize("NFC", text)
    return all(unicodedata.normalize("NFC", other) != same for other in os.listdir(folder))


def probe(folder: int, tag: str) -> tuple[bool, bool]:
    """Whether names there are the same in capitals, and with their accents taken apart."""

    def make(temporary: bytes) -> None:
        os.close(os.open(temporary, _NEW, 0o600, dir_fd=folder))

    with _temporary(folder, tag, make, which=lambda number: f"é{number}") as temporary:
        text = temporary.decode()
        other = (text.upper(), unicodedata.normalize("NFD", text))
        case, form = (looking.status(folder, name.encode()) is not None for name in other)
        return case, form


def _put(folder: int, name: bytes, temporary: bytes, seen: Status | None) -> None:
    if seen is None:
        # rename would replace what somebody made there this very moment; a second name cannot.
        try:
            with _none_there():
                os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            return
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
    if looking.status(folder, name) != seen:
        raise Moved
    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


@contextmanager
def _temporary(
    folder: int, tag: str, make: Make, *, which: Callable[[int], int | str] = lambda number: number
) -> Iterator[bytes]:
    """A name that ``make`` has made, and that is gone at the end if it still is there."""
    for number in range(_TRIES):
        name = names.temporary(tag, which(number))
        try:
            make(name)
        except FileExistsError:
            continue
        except BaseException:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
            raise
        try:
            yield name
        finally:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
        return
    raise FileExistsError(errno.EEXIST, "a thousand temporaries of one run", os.fsdecode(names.temporary(tag, 0)))


@contextmanager
def _none_there() -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise Moved from error


def _keep_owner(fd: int, old: Status) -> None:
    made = os.fstat(fd)
    if (made.st_uid, made.st_gid) != (old.uid, old.gid):
        with suppress(PermissionError):
            os.fchown(fd, old.uid, old.gid)


def _permissions(old: Status, executable: bool) -> int:
    """The old file's, without what would let others act as its owner."""
    bits = old.permissions & 0o777
    if not executable:
        return bits & ~0o111
    return bits if bits & 0o100 else bits | (bits & 0o444) >> 2
