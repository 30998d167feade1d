"""The private git directory of a workspace: what git needs to tell what differs from the last look, and no object.

Its index says of each path which content was seen last, and with which status. It is a cache, and it must never say
*seen* of what the one who looked did not keep. So each look that finds something writes a new index beside the old
one, and ``state``, replaced by a rename, says which one counts, together with the tree that holds what it says.
Whatever does not fit together is thrown away: the next look is then a first one, which costs time and loses nothing.
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
"""``protect``: a name that some other system takes for ``.git`` is refused by us, with its reason."""
_ATTRIBUTES = "* -text -filter -ident -working-tree-encoding -merge -diff\n"
"""What a file holds is what it holds, whatever a ``.gitattributes`` makes of it: this file comes before those."""
_FILES = {"HEAD": "ref: refs/heads/none\n", "config": _CONFIG, "info/attributes": _ATTRIBUTES}
_FOLDERS = ("objects", "refs", "info")
_READ_BY_GIT = frozenset({".gitignore", ".gitattributes"})
_TRAILER_BYTES = 20
_PAUSE_SECONDS = 0.005


class IndexedPath(NamedTuple):
    """A path as it was seen: ``row`` is its mode and oid, empty where nothing was.

    ``status`` is what it had then, where whoever writes it now will make it another one.
    """

    row: str
    status: Status | None = None


class ScanState(NamedTuple):
    """What the last look left. Paths are as on the disk, relative to the workspace, with ``os.fsdecode``."""

    look: str
    """Which one it was; empty: there was none."""
    kept: bool
    """Whether ``tree`` says what it saw: ``None`` is then an empty workspace."""
    tree: Oid | None
    at_ns: int
    """When it began, by the clock that files' ctimes go by."""
    files: int
    took_ms: int
    """git's quickest look since the index was written; 0 before the first."""
    since: dict[str, IndexedPath]
    """What was seen since the index was written: it is not written again for a few files."""
    index_name: str
    index_mark: tuple[int, str]
    """Size and end of the index file: one that was cut short is not believed."""
    beside: UserRepository
    apart: bool
    """The repository above ignores the workspace, so its rules do not count."""
    stamps: list[Stamp]
    excludes: str
    rules: list[Stamp]
    """Of what ignores files here and stands outside of the workspace."""
    users_index: Stamp
    tracked: list[str]
    submodules: dict[str, Oid]
    absent: list[str]
    """Of ``tracked`` and ``submodules``, those that the index here does not hold."""
    links: dict[str, Oid]
    """Of a link git compares the content with an object, and there is none: it names each of them in every look."""


NOTHING_SEEN = ScanState(
    "", False, None, 0, 0, 0, {}, "", (0, ""), UserRepository(""), False, [], "", [], None, [], {}, [], {}
)


class PrivateRepository:
    """Opened for one look, under its lock."""

    def __init__(self, folder: Path, fd: int) -> None:
        """Use ``open``."""
        self._folder = folder
        self._fd = fd
        self._git_dir = folder / "git"
        self.state = NOTHING_SEEN

    @classmethod
    def open(cls, folder: Path, *, wait_seconds: float = 30.0) -> Self:
        """Made where it is missing. Raises ``Unavailable`` where another look takes too long, or the disk says no."""
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
            raise Unavailable(f"cannot look at a workspace by {folder}: {error.strerror}") from error
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
        """The time, as a file that changed now would have it: that clock goes in steps, and lags behind."""
        os.utime(self._fd)
        return os.fstat(self._fd).st_ctime_ns

    def git(
        self, top: str, at: str, *words: str, accept: tuple[int, ...] = (0,), stdin: bytes = b""
    ) -> process.ProcessResult:
        """Run git on the index of the last look. Raises ``Unavailable``."""
        return self._run(self.state.index_name, process.Worktree(top, at), words, accept, stdin)

    def exclude(self, text: bytes) -> None:
        """What to ignore beyond the ``.gitignore`` files."""
        (self._git_dir / "info/exclude").write_bytes(text)

    def written(self, top: str, rows: bytes) -> tuple[str, tuple[int, str]]:
        """A new index: the last one with ``rows``, as `git update-index --index-info` takes them. Its name and
        mark, as ``ScanState`` has them. It counts once it is in ``state``.

        git reads what it has no status of, and compares: a file that is not what was kept shows in the next look.
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

    def save(self, state: ScanState) -> None:
        """From here on this is what was seen. What is in it must be kept already."""
        if self._fd < 0:
            raise RuntimeError("this look is over: its lock is gone")
        _replace(self._folder / "state", {"version": VERSION, **state._asdict()})
        if state.index_name != self.state.index_name and self.state.look:
            self._index(self.state.index_name).unlink(missing_ok=True)
        self.state = state

    def keep_tree(self, look: str, tree: Oid | None) -> None:
        """``tree`` holds all that ``look`` saw, which was accepted without one. For looks in their order."""
        _replace(self._folder / "drained", {"version": VERSION, "look": look, "tree": tree})

    def tree_of(self, look: str) -> Oid | None:
        """The tree of the last look, or the last one with a tree. Raises ``MissingObject`` where it is not known."""
        if look == self.state.look and self.state.kept:
            return self.state.tree
        found = _json(self._folder / "drained")
        if found.get("version") == VERSION and found.get("look") == look:
            tree = found.get("tree")
            return tree if isinstance(tree, str) else None
        raise MissingObject(f"no tree is known of the look {look}")

    def forget(self) -> None:
        """Throw away what was seen."""
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

    def _load(self) -> ScanState:
        found = _json(self._folder / "state")
        try:
            if found.pop("version", None) != VERSION:
                return NOTHING_SEEN
            size, end = found.pop("index_mark")
            rows = found.pop("since").items()
            since = {path: IndexedPath(row, Status(*status) if status else None) for path, (row, status) in rows}
            state = ScanState(index_mark=(size, end), beside=UserRepository(*found.pop("beside")), since=since, **found)
            return state if state.index_mark == self._mark(state.index_name) else NOTHING_SEEN
        except (KeyError, AttributeError, TypeError, ValueError, OSError):
            return NOTHING_SEEN

    def _sweep(self) -> None:
        """Indexes that do not count: of a look that was not accepted, or was killed."""
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
    """A name that no look and no index has had."""
    return os.urandom(8).hex()


def _obstacle(top: str) -> str:
    """Return the file below ``top`` that git would read for ever; "" if there is none."""
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
                told = f"another look at the workspace of {folder.name} has gone on for {wait_seconds:g} s"
                raise Unavailable(told, hint="try again when it is done") from None
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
