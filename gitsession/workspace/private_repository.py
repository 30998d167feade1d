"""The private git directory of a workspace, with which git finds the changes since the last snapshot.

The directory contains no objects. Its git index contains the mode, oid and status of each path in the last snapshot.
The index is a cache, but it must never contain an oid whose content the caller has not stored. So a snapshot never
changes the current index; if necessary, it writes a new index file. The file ``state`` names the current index and the
tree of the last snapshot, and is replaced by a rename. If the state and the index do not match, the state is discarded.
The next snapshot then reads all files, which costs time but loses no data.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

from gitsession.errors import MissingObject, Unavailable
from gitsession.git import process
from gitsession.git.types import Oid
from gitsession.workspace.inspect import Status
from gitsession.workspace.user_repository import Stamp, UserRepository

VERSION = 1

_CONFIG = """\
[core]
	repositoryformatversion = 0
	bare = false
	fileMode = true
	symlinks = true
	ignoreCase = false
	precomposeUnicode = false
	protectHFS = false
	protectNTFS = false
	autocrlf = false
	untrackedCache = false
[index]
	version = 4
"""
"""``protectHFS`` and ``protectNTFS`` are off: gitsession itself rejects names that a system treats as ``.git``."""
_ATTRIBUTES = "* -text -filter -ident -working-tree-encoding -merge -diff\n"
"""The attributes disable every conversion of contents. They take precedence over every ``.gitattributes`` file."""
_FILES = {"HEAD": "ref: refs/heads/none\n", "config": _CONFIG, "info/attributes": _ATTRIBUTES}
_FOLDERS = ("objects", "refs", "info")
_READ_BY_GIT = frozenset({".gitignore", ".gitattributes"})
_TRAILER_BYTES = 20
_PAUSE_SECONDS = 0.005


class IndexedPath(NamedTuple):
    """The state of a path in the last snapshot.

    ``row``: the mode and the oid; empty if the path did not exist. ``status``: the status; ``None`` if a later write
    might not have changed it.
    """

    row: str
    status: Status | None = None


class SnapshotState(NamedTuple):
    """The result of the last snapshot. Paths are in on-disk form (``os.fsdecode``), relative to the workspace."""

    look: str
    """The id of the snapshot; empty if there is none."""
    kept: bool
    """True if ``tree`` is the tree of the snapshot (``None`` for an empty workspace). False if it is not known."""
    tree: Oid | None
    at_ns: int
    """The start of the snapshot in ns, by the clock from which the file system takes ctimes."""
    files: int
    took_ms: int
    """The shortest time in ms that git needed for a snapshot since the index was written; 0 before the first one."""
    since: dict[str, IndexedPath]
    """The paths that have changed since the index was written. A few changed files do not justify a new index."""
    index_name: str
    index_mark: tuple[int, str]
    """The size and the last bytes of the index file, to detect a truncated file."""
    beside: UserRepository
    apart: bool
    """True if the enclosing repository ignores the workspace. If so, that repository's rules do not apply."""
    stamps: list[Stamp]
    excludes: str
    rules: list[Stamp]
    """Stamps of the files outside the workspace whose ignore rules apply to it."""
    users_index: Stamp
    tracked: list[str]
    submodules: dict[str, Oid]
    absent: list[str]
    """The paths in ``tracked`` and ``submodules`` that are not in the private index."""
    links: dict[str, Oid]
    """Symbolic links and the oids of their targets.

    git would compare a link with an object. The private repository contains no objects, so git lists every link as
    changed in every snapshot.
    """


NO_SNAPSHOT = SnapshotState(
    "", False, None, 0, 0, 0, {}, "", (0, ""), UserRepository(""), False, [], "", [], None, [], {}, [], {}
)


class PrivateRepository:
    """The private git directory, locked and open for one snapshot."""

    def __init__(self, folder: Path, fd: int) -> None:
        """Use ``open`` instead."""
        self._folder = folder
        self._fd = fd
        self._git_dir = folder / "git"
        self.state = NO_SNAPSHOT

    @classmethod
    def open(cls, folder: Path, *, wait_seconds: float = 30.0) -> Self:
        """Open the directory; create it if it is missing.

        Raises ``Unavailable`` if the disk fails, or if another snapshot holds the lock longer than ``wait_seconds``.
        """
        folder = Path(os.path.abspath(folder))  # absolute, because git runs in the workspace
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                _lock(fd, folder, wait_seconds)
                private = cls(folder, fd)
                private._make()
                private.state = private._load()
                private._sweep()
            except BaseException:
                os.close(fd)
                raise
        except OSError as error:
            raise Unavailable(f"cannot take a snapshot in '{folder}': {error.strerror}") from error
        return private

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def now_ns(self) -> int:
        """Return the ctime in ns that a file would get now.

        The clock of ctimes is coarse and lags behind the system clock.
        """
        os.utime(self._fd)
        return os.fstat(self._fd).st_ctime_ns

    def git(
        self, top: str, at: str, *arguments: str, accept: tuple[int, ...] = (0,), stdin: bytes = b"", index: str = ""
    ) -> process.ProcessResult:
        """Run git with the index ``index``, by default the current one. Raises ``Unavailable``."""
        worktree = process.Worktree(top, at, str(self._index(index or self.state.index_name)))
        return process.run(
            self._git_dir, *arguments, worktree=worktree, accept=accept, stdin=stdin, obstacle=lambda: _obstacle(top)
        )

    def exclude(self, text: bytes) -> None:
        """Set the ignore rules that apply in addition to the ``.gitignore`` files."""
        (self._git_dir / "info/exclude").write_bytes(text)

    def write_index(self, top: str, rows: bytes) -> tuple[str, tuple[int, str]]:
        """Write a new index: the current one with the changes in ``rows``. Return the name and mark of the new index.

        The new index becomes current when ``save`` is called. git compares each file whose status is not in the index
        with the oid in the index. If the content differs, the file is in the next snapshot.

        ``rows``: text in the format of `git update-index --index-info`.
        """
        name = new_name()
        if self.state.look:
            shutil.copyfile(self._index(self.state.index_name), self._index(name))
        else:
            self.git(top, top, "read-tree", "--empty", index=name)
        if rows:
            self.git(top, top, "update-index", "-z", "--index-info", stdin=rows, index=name)
        self.git(top, top, "update-index", "-q", "--refresh", accept=(0, 1), index=name)
        return name, self._mark(name)

    def save(self, state: SnapshotState) -> None:
        """Save ``state`` as the state of the last snapshot. The caller must have stored all contents."""
        if self._fd < 0:
            raise RuntimeError("cannot save the snapshot: its repository is closed")
        _replace(self._folder / "state", {"version": VERSION, **state._asdict()})
        if state.index_name != self.state.index_name and self.state.look:
            self._index(self.state.index_name).unlink(missing_ok=True)
        self.state = state

    def keep_tree(self, snapshot: str, tree: Oid | None) -> None:
        """Record the tree of ``snapshot``, which was accepted without a tree.

        Call this method for several snapshots in chronological order.
        """
        _replace(self._folder / "drained", {"version": VERSION, "look": snapshot, "tree": tree})

    def tree_of(self, snapshot: str) -> Oid | None:
        """Return the tree of a snapshot: the last one, or the last one that was passed to ``keep_tree``.

        Raises ``MissingObject`` if the tree is unknown.
        """
        if snapshot == self.state.look and self.state.kept:
            return self.state.tree
        found = _json(self._folder / "drained")
        if found.get("version") == VERSION and found.get("look") == snapshot:
            tree = found.get("tree")
            return tree if isinstance(tree, str) else None
        what = "only the last snapshot and the last ingested one are kept"
        raise MissingObject(f"cannot find the tree of snapshot {snapshot}: {what}")

    def forget(self) -> None:
        """Discard the state of the last snapshot."""
        (self._folder / "state").unlink(missing_ok=True)
        self.state = NO_SNAPSHOT
        shutil.rmtree(self._git_dir, ignore_errors=True)
        self._make()
        self._sweep()

    def _make(self) -> None:
        for name in _FOLDERS:
            (self._git_dir / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in _FILES.items():
            file = self._git_dir / name
            try:
                is_current = file.read_bytes() == text.encode()
            except OSError:
                is_current = False
            if not is_current:
                file.unlink(missing_ok=True)
                file.write_text(text)

    def _load(self) -> SnapshotState:
        found = _json(self._folder / "state")
        try:
            if found.pop("version", None) != VERSION:
                return NO_SNAPSHOT
            size, end = found.pop("index_mark")
            rows = found.pop("since").items()
            since = {path: IndexedPath(row, Status(*status) if status else None) for path, (row, status) in rows}
            state = SnapshotState(
                index_mark=(size, end), beside=UserRepository(*found.pop("beside")), since=since, **found
            )
            return state if state.index_mark == self._mark(state.index_name) else NO_SNAPSHOT
        except (KeyError, AttributeError, TypeError, ValueError, OSError):
            return NO_SNAPSHOT

    def _sweep(self) -> None:
        """Remove the git index files that the current state does not name."""
        for name in os.listdir(self._folder):
            if name.startswith("index.") and name != f"index.{self.state.index_name}":
                (self._folder / name).unlink(missing_ok=True)

    def _index(self, name: str) -> Path:
        return self._folder / f"index.{name or 'none'}"

    def _mark(self, name: str) -> tuple[int, str]:
        with open(self._index(name), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(-_TRAILER_BYTES, os.SEEK_END)
            return size, file.read().hex()


def new_name() -> str:
    """Return a new unique name for a snapshot or an index."""
    return os.urandom(8).hex()


def _obstacle(top: str) -> str:
    """Return the path of a file below ``top`` that would block git when git reads it; "" if there is none."""
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if name != ".git"]
        for name in _READ_BY_GIT.intersection(files):
            path = os.path.join(folder, name)
            if not os.path.islink(path) and process.blocks(path):
                return path
    return ""


def _lock(fd: int, folder: Path, wait_seconds: float) -> None:
    until = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                message = f"cannot lock '{folder}' within {wait_seconds:g} s: another process is taking a snapshot"
                raise Unavailable(message, hint="try again when that process has finished") from None
            time.sleep(_PAUSE_SECONDS)


def _replace(file: Path, value: dict[str, Any]) -> None:
    by = file.with_name(file.name + ".new")
    by.write_text(json.dumps(value))
    os.replace(by, file)


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
