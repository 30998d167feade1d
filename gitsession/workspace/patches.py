"""Patches of files in git's format, with line counts and rename detection.

``CachedTrees.diff`` finds the files that differ, and limits the work for malicious trees. libgit2 then compares two
trees that contain only these files, so its time does not depend on the size of the workspace. A git child process with
a deadline compares the files for which libgit2 might need too long (``engine.is_comparable``).
"""

from __future__ import annotations

import itertools
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gitsession.errors import Unavailable
from gitsession.git import process
from gitsession.git.objects import SUBMODULE_MODE, oid_of
from gitsession.git.types import Kind, ObjectSink, Oid
from gitsession.store.interface import ObjectStore
from gitsession.workspace.trees import CachedTrees, State, TreeEntry

if TYPE_CHECKING:
    from gitsession.git.engine import Comparison, Side

CHILD_SECONDS = 20.0
"""Time limit in seconds for all files together that git child processes compare in one call of ``compare``."""

CHILD_BYTES_MAX = 64 << 20
"""Maximum size in bytes of the content of one file. For a larger file, ``text`` is ``None``."""

TOTAL_BYTES_MAX = 256 << 20
"""Maximum total size in bytes of the contents in one call of ``compare``.

Files are read in path order. For files beyond the limit, ``text`` is ``None``.
"""

SIMILAR_BYTES_MAX = 32 << 20
SIMILAR_PAIRS_MAX = 100_000
"""Limits of rename detection by similar content: the size of the files in bytes, and the number of pairs of files.

A pair is an added file and a deleted file. Above these limits, a pair is a rename only if both contents are equal.
libgit2 compares all pairs while it holds the interpreter lock; 1,000,000 pairs take 2 to 5 s.
"""

_CACHED_BYTES_MAX = 32 << 20
_DIFF_OPTIONS = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames=1%")


class FilePatch(NamedTuple):
    """The difference of one file.

    Attributes:
        path: The current path of the file, or the old one if it was deleted.
        renamed_from: The old path, if the file was renamed.
        text: The patch in git's format. It is ``None`` for a file over 64 MiB, for files beyond the total limit of 256
            MiB, and for a file that could not be compared in time.
        added: The number of added lines; ``None`` if the content is binary or ``text`` is ``None``.
        deleted: The number of deleted lines; ``None`` in the same cases.
    """

    path: str
    renamed_from: str | None
    text: bytes | None
    added: int | None
    deleted: int | None


def compare(store: ObjectStore, changes: Mapping[str, tuple[State, State]]) -> list[FilePatch]:
    """Compare the contents of ``changes`` (see ``CachedTrees.diff``) in path order.

    Raises ``MissingObject``, ``Corrupt`` or ``Unavailable`` if a content cannot be read. Raises ``Unavailable`` if a
    git child process is necessary and git is not installed.
    """
    from gitsession.git import engine

    if not changes:
        return []
    contents = _Contents(store, changes)
    old, new = (_tree(store, contents, {path: pair[end] for path, pair in changes.items()}) for end in (0, 1))
    added, deleted = ([pair[1 - end] for pair in changes.values() if pair[end] is None] for end in (0, 1))
    size = sum(contents.sizes.get(state.oid, 0) for state in (*added, *deleted) if state is not None)
    exact = size > SIMILAR_BYTES_MAX or len(added) * len(deleted) > SIMILAR_PAIRS_MAX
    deadline = time.monotonic() + CHILD_SECONDS
    found = engine.compare(contents, old, new, contents.is_comparable, exact_renames=exact)
    return sorted((_patch(each, contents, deadline) for each in found), key=lambda each: each.path)


def _patch(found: Comparison, contents: _Contents, deadline: float) -> FilePatch:
    old, new, text, added, deleted = found
    if text is None:
        text = _patch_by_git(old, new, contents, deadline)
        added, deleted = _count_lines(text)
    path, before = (new or old).path, (old or new).path  # type: ignore[union-attr]  # one of the two is there
    return FilePatch(path, before if before != path else None, text, added, deleted)


def _patch_by_git(old: Side | None, new: Side | None, contents: _Contents, deadline: float) -> bytes | None:
    """Compare one file in a git child process. Its temporary repository contains no other file."""
    sides = [side for side in (old, new) if side is not None]
    seconds_left = deadline - time.monotonic()
    if seconds_left <= 0 or any(side.oid in contents.without_text for side in sides):
        return None
    with tempfile.TemporaryDirectory(prefix="gitsession-patch-") as folder:
        repository = _LooseObjects(Path(folder))
        files = ({side.path: TreeEntry(side.mode, side.oid)} if side else {} for side in (old, new))
        ends = [_tree(contents.store, repository, each) for each in files]
        for side in sides:
            if side.mode != SUBMODULE_MODE:
                repository.put(*contents.read(side.oid))
        try:
            return process.run(repository.path, *_DIFF_OPTIONS, *ends, timeout_seconds=seconds_left).out
        except Unavailable:
            if time.monotonic() < deadline:
                raise
            return None


def _count_lines(text: bytes | None) -> tuple[int | None, int | None]:
    head, _, hunks = (text or b"").partition(b"\n@@")
    if text is None or b"\nBinary files " in head:
        return None, None
    lines = hunks.split(b"\n")
    return sum(line.startswith(b"+") for line in lines), sum(line.startswith(b"-") for line in lines)


def _tree(store: ObjectStore, sink: ObjectSink, states: Mapping[str, State]) -> Oid:
    """Write the tree with the files of ``states``; return its oid."""
    return CachedTrees(store).patch(sink, None, states) or sink.put("tree", b"")


class _Contents:
    """The contents of changed files and their trees, in memory. Each content is read once and cached up to a limit."""

    def __init__(self, store: ObjectStore, changes: Mapping[str, tuple[State, State]]) -> None:
        self.sizes: dict[Oid, int] = {}
        self.store = store
        self._cache: dict[Oid, tuple[Kind, bytes]] = {}
        self._room = _CACHED_BYTES_MAX
        self._comparable: set[Oid] = set()
        states = [state for pair in changes.values() for state in pair if state is not None]
        wanted = dict.fromkeys(state.oid for state in states if state.mode != SUBMODULE_MODE)
        for oid, kind, data in store.read_all(wanted):
            self._add(oid, kind, data)
        for oid in wanted:
            if oid not in self.sizes:
                self._add(oid, *store.read(oid))
        self._comparable.update(state.oid for state in states if state.mode == SUBMODULE_MODE)
        sums = itertools.accumulate(self.sizes.get(state.oid, 0) for state in states)
        self.without_text = {state.oid for state, size in zip(states, sums, strict=True) if size > TOTAL_BYTES_MAX}
        self.without_text.update(oid for oid, size in self.sizes.items() if size > CHILD_BYTES_MAX)

    def _add(self, oid: Oid, kind: Kind, data: bytes) -> None:
        from gitsession.git import engine

        self.sizes[oid] = len(data)
        if engine.is_comparable(data):
            self._comparable.add(oid)
        if len(data) <= self._room:
            self._room -= len(data)
            self._cache[oid] = kind, data

    def is_comparable(self, oid: Oid) -> bool:
        return oid in self._comparable and oid not in self.without_text

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        return self._cache.get(oid) or self.store.read(oid)

    def contains(self, oid: Oid) -> bool:
        return oid in self._cache or self.store.contains(oid)

    def oids(self) -> Iterator[Oid]:
        return iter([*self._cache, *self.sizes])

    def put(self, kind: Kind, data: bytes) -> Oid:
        oid = oid_of(kind, data)
        self._cache[oid] = kind, data
        return oid


class _LooseObjects:
    """A bare repository of loose objects."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for folder in ("objects", "refs"):
            (path / folder).mkdir()
        (path / "HEAD").write_bytes(b"ref: refs/heads/none\n")

    def put(self, kind: Kind, data: bytes) -> Oid:
        oid = oid_of(kind, data)
        folder = self.path / "objects" / oid[:2]
        folder.mkdir(exist_ok=True)
        (folder / oid[2:]).write_bytes(zlib.compress(f"{kind} {len(data)}\0".encode() + data, 1))
        return oid
