"""A workspace on the disk: its files by their paths in a tree, reached so that no link leads out of it.

Each folder on the way is opened from the one above it (``dir_fd``) and must be a folder, never a link to one: nothing
is resolved first and trusted after, so it does not matter who renames what meanwhile. Linux and macOS can do all of it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import sha1
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple, TypeAlias

from gitsession.errors import Malformed, NotFound, Refused, Unavailable
from gitsession.store.base import Oid
from gitsession.workspace import names
from gitsession.workspace.trees import File

LINK_MODE = "120000"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_FOLDER = (errno.ENOTDIR, errno.ELOOP, errno.EMLINK)
_NOT_THERE = (errno.ENOENT, errno.ENAMETOOLONG, errno.EILSEQ)
_HANDLES_MAX = 64
_CHUNK_BYTES = 1 << 20
_TRIES = 5
_KINDS: dict[int, Literal["file", "link", "folder", "special"]] = {
    stat.S_IFREG: "file",
    stat.S_IFLNK: "link",
    stat.S_IFDIR: "folder",
}


class Status(NamedTuple):
    """What the system says of a path without looking into it. As long as it is equal, nobody wrote there."""

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
        whose = (found.st_dev, found.st_ino, found.st_nlink, found.st_uid, found.st_gid)
        return cls(kind, stat.S_IMODE(found.st_mode), *whose, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    @property
    def mode(self) -> str:
        """As a tree says it of a file or a link."""
        if self.kind == "link":
            return LINK_MODE
        return "100755" if self.permissions & stat.S_IXUSR else "100644"


class Odd(NamedTuple):
    """What stands at a path and is no file that a tree can hold."""

    kind: Literal["folder", "special"]


Now: TypeAlias = "File | Odd | None"
"""What is at a path now; ``None``: nothing, or the way there leads through something that is no folder."""


class Root:
    """An opened workspace. Handles of folders are kept while they are in use: not for two threads.

    Every method that takes a path raises ``Malformed`` where ``names.path_refusal`` says no, ``Refused`` for a path in
    the store, and ``OSError`` for what the system does not let us see.
    """

    def __init__(self, path: Path, fd: int, store: Path | None) -> None:
        self.path = path
        """Where it really is."""
        self._fd = fd
        self._store = _identity(os.stat(store)) if store and store.exists() else None
        self._handles: OrderedDict[str, int] = OrderedDict()

    @classmethod
    def open(cls, path: Path | str, *, home: Path | None, store: Path | None) -> Root:
        """The workspace at ``path``. Raises ``NotFound``; ``Refused`` for what nobody would call one:

        ``/``, the home folder and what is above it, what is in the store or in git's own folder, or is one.
        """
        real = Path(os.path.realpath(path))
        try:
            fd = os.open(real, _FOLDER)
        except OSError as error:
            raise NotFound(f"no folder to work in at {path}: {error.strerror}") from error
        try:
            root = cls(real, fd, store)
            reason = root._refusal(home)
            if reason:
                raise Refused(f"{real} cannot be a workspace: {reason}", hint="name the folder of one project")
        except BaseException:
            os.close(fd)
            raise
        return root

    def close(self) -> None:
        self.forget()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Root:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def forget(self) -> None:
        """Reach every folder anew. Before a look round: what was kept may have been moved away since."""
        while self._handles:
            os.close(self._handles.popitem()[1])

    def state(self, path: str) -> Status | None:
        """``None`` where nothing is, or the way there leads through something that is no folder."""
        folder, name = self._place(path)
        return None if folder is None else _status(folder, name)

    def contents(self, path: str) -> tuple[Status, bytes]:
        """A file's bytes or a link's target, and the status it had while they were read.

        Raises ``NotFound``, ``Refused`` for a folder or a special file, ``Unavailable`` for one that is being written.
        """
        chunks: list[bytes] = []
        status = self._take(path, lambda _: chunks.clear(), chunks.append)
        return status, b"".join(chunks)

    def read(self, path: str) -> bytes:
        """As ``contents``."""
        return self.contents(path)[1]

    def look(self, path: str) -> tuple[Now, Status | None]:
        """What is there, with its content's oid, however large. Raises ``Unavailable`` for what is being written."""
        status = self.state(path)
        if status is None:
            return None, None
        if status.kind in ("folder", "special"):
            return Odd("folder" if status.kind == "folder" else "special"), status
        hasher = _Hasher()
        try:
            status = self._take(path, hasher.begin, hasher.take)
        except NotFound:
            return None, None
        return File(status.mode, hasher.oid()), status

    def now(self, path: str) -> Now:
        """As ``look``."""
        return self.look(path)[0]

    @contextmanager
    def enter(self, folder: str, *, made: list[str] | None = None) -> Iterator[int]:
        """A handle of a folder, reached anew from the top; what is missing is made if there is ``made`` to name it in.

        Raises ``NotFound``; ``Refused`` where something that is no folder stands in the way.
        """
        fd = os.dup(self._fd)
        try:
            at = ""
            for component in folder.split("/") if folder else ():
                name, at = _name(component), f"{at}/{component}" if at else component
                if made is not None:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=fd)
                        made.append(at)
                below = self._open(fd, name, at)
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)

    def _refusal(self, home: Path | None) -> str | None:
        mine = _identity(os.fstat(self._fd))
        if self.path == self.path.parent:
            return "it is the whole disk"
        if home is not None:
            real = Path(os.path.realpath(home))
            for above in (real, *real.parents):
                with suppress(OSError):
                    if _identity(os.stat(above)) == mine:
                        return "it is the home folder" if above == real else "the home folder is in it"
        for above in (self.path, *self.path.parents):
            with suppress(OSError):
                if self._store is not None and _identity(os.stat(above)) == self._store:
                    return "it is in the store"
            if above == self.path or above.name == ".git":  # a checkout may stand in a bare repository, beside its refs
                with suppress(OSError):
                    if _is_repository(above):
                        return "it is a repository's own folder, or in one"
        return None

    def _place(self, path: str) -> tuple[int | None, bytes]:
        folder, _, name = path.rpartition("/")
        if path.count("/") >= names.DEPTH_MAX:
            raise Malformed(f"more than {names.DEPTH_MAX} folders deep", where=ascii(path[:80]))
        return self._handle(folder), _name(name)

    def _handle(self, folder: str) -> int | None:
        if not folder:
            return self._fd
        if folder in self._handles:
            self._handles.move_to_end(folder)
            return self._handles[folder]
        above, _, name = folder.rpartition("/")
        parent = self._handle(above)
        if parent is None:
            return None
        try:
            fd = self._handles[folder] = self._open(parent, _name(name), folder)
        except (NotFound, _NoFolder):
            return None
        if len(self._handles) > _HANDLES_MAX:
            os.close(self._handles.popitem(last=False)[1])
        return fd

    def _open(self, parent: int, name: bytes, at: str) -> int:
        try:
            fd = os.open(name, _FOLDER, dir_fd=parent)
        except OSError as error:
            if error.errno in _NOT_THERE:
                raise NotFound(f"{at}: no such folder") from error
            if error.errno in _NO_FOLDER:
                raise _NoFolder(f"{at}: not a folder, or a link to one") from error
            raise
        if _identity(os.fstat(fd)) == self._store:
            os.close(fd)
            raise Refused(f"{at}: the store itself")
        return fd

    def _take(self, path: str, begin: Callable[[int], None], take: Callable[[bytes], object]) -> Status:
        """Read it once with nobody writing: ``begin`` is told how many bytes will come, anew for every try."""
        folder, name = self._place(path)
        for _ in range(_TRIES):
            status = None if folder is None else _status(folder, name)
            if folder is None or status is None:
                raise NotFound(f"{path}: no such file")
            if status.kind in ("folder", "special"):
                raise Refused(f"{path}: a folder" if status.kind == "folder" else f"{path}: a pipe, socket or device")
            with suppress(FileNotFoundError, _Changed):
                if status.kind == "link":
                    target = os.readlink(name, dir_fd=folder)
                    begin(len(target))
                    take(target)
                else:
                    begin(status.size)
                    _pour(folder, name, status, take)
                if _status(folder, name) == status:
                    return status
        raise Unavailable(f"{path}: somebody is writing it")


class _NoFolder(Refused):
    """Something else stands where a folder belongs."""


class _Changed(Exception):
    """Not the file that was there a moment ago."""


class _Hasher:
    """The oid of a blob that comes in pieces."""

    def begin(self, size: int) -> None:
        self._sha1 = sha1(f"blob {size}\0".encode(), usedforsecurity=False)

    def take(self, data: bytes) -> None:
        self._sha1.update(data)

    def oid(self) -> Oid:
        return self._sha1.hexdigest()


@lru_cache(16_384)
def _name(component: str) -> bytes:
    reason = names.tree_refusal(component)
    if reason:
        raise Malformed(reason, where=ascii(component[:80]))
    return names.unescape(component)


def _status(folder: int, name: bytes) -> Status | None:
    try:
        return Status.of(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise


def _pour(folder: int, name: bytes, status: Status, take: Callable[[bytes], object]) -> None:
    try:
        fd = os.open(name, _FILE, dir_fd=folder)
    except OSError as error:
        if error.errno in (*_NO_FOLDER, errno.ENXIO):  # a link or a socket by now
            raise _Changed from error
        raise
    try:
        if Status.of(os.fstat(fd)) != status:
            raise _Changed
        left = status.size
        while left and (data := os.read(fd, min(left, _CHUNK_BYTES))):
            take(data)
            left -= len(data)
        if left:
            raise _Changed
    finally:
        os.close(fd)


def _identity(found: os.stat_result) -> tuple[int, int]:
    """Which folder it is, by whatever name."""
    return found.st_dev, found.st_ino


def _is_repository(folder: Path) -> bool:
    """Whether git would take the folder itself for a repository's own."""
    return (folder / "HEAD").exists() and (folder / "objects").is_dir() and (folder / "refs").is_dir()
