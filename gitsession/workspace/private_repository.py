"""The private git directory of a workspace. git needs it to find changes since the last snapshot; it has no objects.

Its index records, for each path, the content and the status of the last snapshot. It is a cache, and it must never
record content as seen that the caller did not store. So each snapshot with changes writes a new index beside the old
one. The file ``state``, replaced by a rename, names the index that counts and the tree with the same content. If
anything is inconsistent, it is discarded: the next snapshot is then a first one, which costs time and loses nothing.
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
"""``protect``: gitsession itself refuses names that another system treats as ``.git``, with a reason."""
_ATTRIBUTES = "* -text -filter -ident -working-tree-encoding -merge -diff\n"
"""Contents are used unconverted, whatever a ``.gitattributes`` requests: this file takes precedence."""
_FILES = {"HEAD": "ref: refs/heads/none\n", "config": _CONFIG, "info/attributes": _ATTRIBUTES}
_FOLDERS = ("objects", "refs", "info")
_READ_BY_GIT = frozenset({".gitignore", ".gitattributes"})
_TRAILER_BYTES = 20
_PAUSE_SECONDS = 0.005


class IndexedPath(NamedTuple):
    """The recorded state of a path. ``row`` has its mode and oid, and is empty if the path did not exist.

    ``status`` is the status at that time. It is set only if every later write changes it.
    """

    row: str
    status: Status | None = None


class SnapshotState(NamedTuple):
    """The result of the last snapshot. Paths are as on the disk (``os.fsdecode``), relative to the workspace."""

    look: str
    """The id of the snapshot; empty if there was none."""
    kept: bool
    """True if ``tree`` has the content of the snapshot. If so, ``None`` means an empty workspace."""
    tree: Oid | None
    at_ns: int
    """The start of the snapshot on the clock of files' ctimes, in ns."""
    files: int
    took_ms: int
    """The shortest time that git needed for a snapshot since the index was written, in ms; 0 before the first one."""
    since: dict[str, IndexedPath]
    """Paths recorded since the index was written. The index is not written again for a few files."""
    index_name: str
    index_mark: tuple[int, str]
    """The size and the last bytes of the index file, to detect a truncated one."""
    beside: UserRepository
    apart: bool
    """True if the repository above ignores the workspace. If so, its rules do not apply."""
    stamps: list[Stamp]
    excludes: str
    rules: list[Stamp]
    """Stamps of the files outside the workspace whose ignore rules apply in it."""
    users_index: Stamp
    tracked: list[str]
    submodules: dict[str, Oid]
    absent: list[str]
    """Paths of ``tracked`` and ``submodules`` that the private index does not have."""
    links: dict[str, Oid]
    """Symbolic links and the oids of their targets.

    git compares a link with an object. There is none here, so git lists every link in every snapshot.
    """


NOTHING_SEEN = SnapshotState(
    "", False, None, 0, 0, 0, {}, "", (0, ""), UserRepository(""), False, [], "", [], None, [], {}, [], {}
)


class PrivateRepository:
    """The private git directory, opened for one snapshot and locked."""

    def __init__(self, folder: Path, fd: int) -> None:
        """Use ``open``."""
        self._folder = folder
        self._fd = fd
        self._git_dir = folder / "git"
        self.state = NOTHING_SEEN

    @classmethod
    def open(cls, folder: Path, *, wait_seconds: float = 30.0) -> Self:
        """Open the directory, and create it if it is missing.

        Raises ``Unavailable`` if another snapshot takes too long or the disk fails.
        """
        folder = Path(os.path.abspath(folder))  # git runs in the workspace
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                _lock(fd, folder, wait_seconds)
                shadow = cls(folder, fd)
                shadow._make()
                shadow.state = shadow._load()
                shadow._sweep()
            except BaseException:
                os.close(fd)
                raise
        except OSError as error:
            raise Unavailable(f"cannot take a snapshot with '{folder}': {error.strerror}") from error
        return shadow

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def now_ns(self) -> int:
        """Return the ctime in ns that a file changed now would get. That clock is coarse and lags behind."""
        os.utime(self._fd)
        return os.fstat(self._fd).st_ctime_ns

    def git(
        self, top: str, at: str, *words: str, accept: tuple[int, ...] = (0,), stdin: bytes = b""
    ) -> process.ProcessResult:
        """Run git with the index of the last snapshot. Raises ``Unavailable``."""
        return self._run(self.state.index_name, process.Worktree(top, at), words, accept, stdin)

    def exclude(self, text: bytes) -> None:
        """Set the ignore rules that apply in addition to the ``.gitignore`` files."""
        (self._git_dir / "info/exclude").write_bytes(text)

    def written(self, top: str, rows: bytes) -> tuple[str, tuple[int, str]]:
        """Write a new index, the last one with ``rows``, and return its name and its mark, as in ``SnapshotState``.

        ``rows`` has the format of `git update-index --index-info`. The index counts once it is in ``state``. git reads
        and compares each file without a recorded status: a file that differs from what was stored is in the next
        snapshot.
        """
        name = new_name()
        if self.state.look:
            shutil.copyfile(self._index(self.state.index_name), self._index(name))
        worktree = process.Worktree(top, top)
        if not self.state.look:
            self._run(name, worktree, ("read-tree", "--empty"), (0,), b"")
        if rows:
            self._run(name, worktree, ("update-index", "-z", "--index-info"), (0,), rows)
        self._run(name, worktree, ("update-index", "-q", "--refresh"), (0, 1), b"")
        return name, self._mark(name)

    def save(self, state: SnapshotState) -> None:
        """Make ``state`` the last snapshot. All its contents must be stored already."""
        if self._fd < 0:
            raise RuntimeError("cannot save the snapshot: its repository is closed")
        _replace(self._folder / "state", {"version": VERSION, **state._asdict()})
        if state.index_name != self.state.index_name and self.state.look:
            self._index(self.state.index_name).unlink(missing_ok=True)
        self.state = state

    def keep_tree(self, look: str, tree: Oid | None) -> None:
        """Record that ``tree`` has all content of the snapshot ``look``, which was accepted without a tree.

        Call it in the order of the snapshots.
        """
        _replace(self._folder / "drained", {"version": VERSION, "look": look, "tree": tree})

    def tree_of(self, look: str) -> Oid | None:
        """Return the tree of the snapshot ``look``, which must be the last one or the last one with a tree.

        Raises ``MissingObject`` if it is unknown.
        """
        if look == self.state.look and self.state.kept:
            return self.state.tree
        found = _json(self._folder / "drained")
        if found.get("version") == VERSION and found.get("look") == look:
            tree = found.get("tree")
            return tree if isinstance(tree, str) else None
        raise MissingObject(f"the tree of the snapshot {look} is unknown")

    def forget(self) -> None:
        """Discard the state of the last snapshot."""
        (self._folder / "state").unlink(missing_ok=True)
        self.state = NOTHING_SEEN
        shutil.rmtree(self._git_dir, ignore_errors=True)
        self._make()
        self._sweep()

    def _run(
        self, name: str, worktree: process.Worktree, words: tuple[str, ...], accept: tuple[int, ...], stdin: bytes
    ) -> process.ProcessResult:
        worktree = worktree._replace(index_file=str(self._index(name)))
        return process.run(
            self._git_dir, *words, worktree=worktree, accept=accept, stdin=stdin,
            obstacle=lambda: _obstacle(worktree.top),
        )  # fmt: skip

    def _make(self) -> None:
        for name in _FOLDERS:
            (self._git_dir / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in _FILES.items():
            file = self._git_dir / name
            try:
                whole = file.read_bytes() == text.encode()
            except OSError:
                whole = False
            if not whole:
                file.unlink(missing_ok=True)
                file.write_text(text)

    def _load(self) -> SnapshotState:
        found = _json(self._folder / "state")
        try:
            if found.pop("version", None) != VERSION:
                return NOTHING_SEEN
            size, end = found.pop("index_mark")
            rows = found.pop("since").items()
            since = {path: IndexedPath(row, Status(*status) if status else None) for path, (row, status) in rows}
            state = SnapshotState(
                index_mark=(size, end), beside=UserRepository(*found.pop("beside")), since=since, **found
            )
            return state if state.index_mark == self._mark(state.index_name) else NOTHING_SEEN
        except (KeyError, AttributeError, TypeError, ValueError, OSError):
            return NOTHING_SEEN

    def _sweep(self) -> None:
        """Remove indexes that do not count: of snapshots that were killed or not accepted."""
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
    """Return an unused name for a snapshot or an index."""
    return os.urandom(8).hex()


def _obstacle(top: str) -> str:
    """Return a file below ``top`` that would block git forever; ``""`` if there is none."""
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
                told = f"cannot lock '{folder}' within {wait_seconds:g} s: another process is taking a snapshot"
                raise Unavailable(told, hint="try again when that process has finished") from None
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
