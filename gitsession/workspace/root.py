"""A workspace on the disk: its files by their paths in a tree, reached so that no link leads out of it.

Each folder on the way is opened from the one above it (``dir_fd``) and must be a folder, never a link to one: nothing
is resolved first and trusted after, so it does not matter who renames what meanwhile. Linux and macOS can do all of it.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import TracebackType

from gitsession.errors import Malformed, NotFound, Refused
from gitsession.workspace import inspect, names
from gitsession.workspace.inspect import Now, Status

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HANDLES_MAX = 64


class WorkspaceRoot:
    """An opened workspace. Handles of folders are kept while they are in use: not for two threads.

    Every method that takes a path raises ``Malformed`` where ``names.path_refusal`` says no, ``Refused`` for a path in
    the store, and ``OSError`` for what the system does not let us see.
    """

    def __init__(self, path: Path, fd: int, store: Path | None) -> None:
        self.path = path
        """Where it really is."""
        self._fd = fd
        self.store: str | None = None
        """The store's path, where it lies in the workspace."""
        self._store: tuple[int, int] | None = None
        if store is not None and store.exists():
            self._store = _identity(os.stat(store))
            with suppress(ValueError):
                self.store = names.escape_path(os.fsencode(Path(os.path.realpath(store)).relative_to(path)))
        self._handles: OrderedDict[str, int] = OrderedDict()

    @classmethod
    def open(cls, path: Path | str, *, home: Path | None, store: Path | None) -> WorkspaceRoot:
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

    def __enter__(self) -> WorkspaceRoot:
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
        return None if folder is None else inspect.status(folder, name)

    def contents(self, path: str) -> tuple[Status, bytes]:
        """A file's bytes or a link's target, and the status it had while they were read.

        Raises ``NotFound``, ``Refused`` for a folder or a special file, ``Unavailable`` for one that is being written.
        """
        folder, name = self._place(path)
        if folder is None:
            raise NotFound(f"{path}: no such file")
        return inspect.contents(folder, name)

    def read(self, path: str) -> bytes:
        """As ``contents``."""
        return self.contents(path)[1]

    def look(self, path: str) -> tuple[Now, Status | None]:
        """What is there, with its content's oid, however large. Raises ``Unavailable`` for what is being written."""
        folder, name = self._place(path)
        return (None, None) if folder is None else inspect.look(folder, name)

    def now(self, path: str) -> Now:
        """As ``look``."""
        return self.look(path)[0]

    @contextmanager
    def enter(self, folder: str, *, make: bool = False) -> Iterator[int]:
        """A handle of a folder to write in, reached anew from the top; ``make``: what is missing is made.

        Raises ``NotFound``; ``Refused`` where something that is no folder stands in the way, or a repository's own.
        """
        fd = os.dup(self._fd)
        try:
            at = ""
            for component in folder.split("/") if folder else ():
                name, at = on_disk(component), f"{at}/{component}" if at else component
                try:
                    below = self._open(fd, name, at)
                except NotFound:
                    if not make:
                        raise
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=fd)
                    below = self._open(fd, name, at)
                os.close(fd)
                fd = below
                if _is_repository(fd):
                    raise Refused(f"{at}: git's own folder of a repository")
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
        # A checkout may stand in a bare repository, beside its refs.
        if ".git" in self.path.parts or _is_repository(self._fd):
            return "it is git's own folder of a repository, or in one"
        return None

    def _place(self, path: str) -> tuple[int | None, bytes]:
        folder, slash, name = path.rpartition("/")
        if slash and not folder:
            raise Malformed("an absolute path", where=ascii(path[:80]))
        if path.count("/") >= names.DEPTH_MAX:
            raise Malformed(f"more than {names.DEPTH_MAX} folders deep", where=ascii(path[:80]))
        return self._handle(folder), on_disk(name)

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
            fd = self._handles[folder] = self._open(parent, on_disk(name), folder)
        except (NotFound, NoFolder):
            return None
        if len(self._handles) > _HANDLES_MAX:
            os.close(self._handles.popitem(last=False)[1])
        return fd

    def _open(self, parent: int, name: bytes, at: str) -> int:
        try:
            fd = os.open(name, _FOLDER, dir_fd=parent)
        except OSError as error:
            if error.errno in inspect.NOT_THERE:
                raise NotFound(f"{at}: no such folder") from error
            if error.errno in inspect.NO_FOLDER:
                raise NoFolder(f"{at}: not a folder, or a link to one") from error
            raise
        if _identity(os.fstat(fd)) == self._store:
            os.close(fd)
            raise Refused(f"{at}: the store itself")
        return fd


class NoFolder(Refused):
    """Something else stands where a folder belongs."""


@lru_cache(16_384)
def on_disk(component: str) -> bytes:
    """The name on the disk of one name of a tree. Raises ``Malformed`` where ``names.tree_refusal`` says no."""
    reason = names.tree_refusal(component)
    if reason:
        raise Malformed(reason, where=ascii(component[:80]))
    return names.unescape(component)


def _identity(found: os.stat_result) -> tuple[int, int]:
    """Which folder it is, by whatever name."""
    return found.st_dev, found.st_ino


def _is_repository(folder: int) -> bool:
    """Whether git would take the folder itself for a repository's own."""
    found = (inspect.status(folder, name) for name in (b"HEAD", b"objects", b"refs"))
    return all(status is not None for status in found)
