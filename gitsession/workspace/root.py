"""An opened workspace, with access to its files by their paths in a tree.

No link is followed, so no path leads outside the workspace.

Each folder of a path is opened relative to its parent (``dir_fd``) and must not be a link. No path is resolved before
its use, so concurrent renames are harmless. Linux and macOS support ``dir_fd`` for all calls.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from gitsession.errors import Malformed, NotFound, Refused
from gitsession.workspace import inspect, names
from gitsession.workspace.inspect import Now, Status

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HANDLES_MAX = 64


class WorkspaceRoot:
    """An opened workspace. It caches handles of folders and is not safe for use in two threads.

    Every method with a path as an argument raises ``Malformed`` if ``names.path_refusal`` rejects the path, ``Refused``
    for a path in the store, and ``OSError`` if the system denies access.
    """

    def __init__(self, path: Path, fd: int, store: Path | None) -> None:
        self.path = path
        """The real path of the workspace."""
        self._fd = fd
        self.store: str | None = None
        """The path of the store in the workspace; ``None`` if the store is elsewhere."""
        self._store: tuple[int, int] | None = None
        if store is not None and store.exists():
            self._store = _identity(os.stat(store))
            with suppress(ValueError):
                self.store = names.escape_path(os.fsencode(Path(os.path.realpath(store)).relative_to(path)))
        self._handles: OrderedDict[str, int] = OrderedDict()

    @classmethod
    def open(cls, path: Path | str, *, home: Path | None, store: Path | None) -> WorkspaceRoot:
        """Open the workspace at ``path``.

        Raises ``NotFound`` if the folder does not exist. Raises ``Refused`` for ``/``, the home folder and its parents,
        a folder in the store, a git directory, and a folder in a git directory.
        """
        real = Path(os.path.realpath(path))
        try:
            fd = os.open(real, _FOLDER)
        except OSError as error:
            raise NotFound(f"cannot open the workspace '{path}': {error.strerror}") from error
        try:
            root = cls(real, fd, store)
            reason = root._refusal(home)
            if reason:
                raise Refused(f"cannot use '{real}' as a workspace: {reason}", hint="choose the folder of one project")
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

    def __exit__(self, *_: object) -> None:
        self.close()

    def forget(self) -> None:
        """Close the cached handles. Call this method before a snapshot, because their folders may have been moved."""
        while self._handles:
            os.close(self._handles.popitem()[1])

    def state(self, path: str) -> Status | None:
        """Return the status of a path; ``None`` if the path does not exist or a part of it is not a folder."""
        folder, name = self._resolve(path)
        return None if folder is None else inspect.status(folder, name)

    def contents(self, path: str) -> tuple[Status, bytes]:
        """Return a file's bytes or a link's target, and the status of the path during the read.

        Raises ``NotFound``, ``Refused`` for a folder or a special file, and ``Unavailable`` for a file that is being
        written.
        """
        folder, name = self._resolve(path)
        if folder is None:
            raise NotFound(f"cannot read '{path}': no such file")
        return inspect.contents(folder, name)

    def read(self, path: str) -> bytes:
        """Return a file's bytes or a link's target. Raises the errors of ``contents``."""
        return self.contents(path)[1]

    def now(self, path: str) -> Now:
        """Return the current state of a path, with the oid of its content. The size of a file is not limited.

        Raises ``Unavailable`` for a file that is being written.
        """
        folder, name = self._resolve(path)
        return None if folder is None else inspect.examine(folder, name)[0]

    @contextmanager
    def enter(self, folder: str, *, make: bool = False) -> Iterator[int]:
        """Yield a new handle of a folder whose files are to be changed. No cached handle is used.

        Raises ``NotFound``, and ``Refused`` if a part of the path is a git directory or is not a folder.

        ``make``: True to create missing folders.
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
                    raise Refused(f"cannot change files in '{at}': it is the git directory of a repository")
            yield fd
        finally:
            os.close(fd)

    def _refusal(self, home: Path | None) -> str | None:
        own = _identity(os.fstat(self._fd))
        if self.path == self.path.parent:
            return "it is the root of the file system"
        if home is not None:
            real = Path(os.path.realpath(home))
            for above in (real, *real.parents):
                with suppress(OSError):
                    if _identity(os.stat(above)) == own:
                        return "it is the home folder" if above == real else "it contains the home folder"
        for above in (self.path, *self.path.parents):
            with suppress(OSError):
                if self._store is not None and _identity(os.stat(above)) == self._store:
                    return "it is in the store"
        # A worktree can be in a bare repository, beside its refs.
        if ".git" in self.path.parts or _is_repository(self._fd):
            return "it is a git directory, or in one"
        return None

    def _resolve(self, path: str) -> tuple[int | None, bytes]:
        folder, slash, name = path.rpartition("/")
        if slash and not folder:
            raise Malformed("expected a relative path, found an absolute path", where=ascii(path[:80]))
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
            if error.errno in inspect.NOT_FOUND:
                raise NotFound(f"cannot open '{at}': no such folder") from error
            if error.errno in inspect.NO_FOLDER:
                raise NoFolder(f"cannot open '{at}': it is a link, or not a folder") from error
            raise
        if _identity(os.fstat(fd)) == self._store:
            os.close(fd)
            raise Refused(f"cannot open '{at}': it is the store, whose files are not part of the workspace")
        return fd


class NoFolder(Refused):
    """An error: a part of a path is a file or link, not a folder."""


@lru_cache(16_384)
def on_disk(component: str) -> bytes:
    """Return the on-disk name of a name in a tree. Raises ``Malformed`` if ``names.tree_refusal`` rejects it."""
    reason = names.tree_refusal(component)
    if reason:
        raise Malformed(reason, where=ascii(component[:80]))
    return names.unescape(component)


def _identity(found: os.stat_result) -> tuple[int, int]:
    """Return the device and inode of a folder, which identify it regardless of its name."""
    return found.st_dev, found.st_ino


def _is_repository(folder: int) -> bool:
    """Return whether the folder has the files by which git recognizes a git directory."""
    # Most folders have no such file, and `os.access` reports that in half of the time of a failing `os.stat`.
    return all(
        os.access(name, os.F_OK, dir_fd=folder, follow_symlinks=False) for name in (b"HEAD", b"objects", b"refs")
    )
