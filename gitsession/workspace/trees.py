"""Functions that read, compare and change trees of files. Equal subtrees are not compared."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from gitsession.errors import Malformed
from gitsession.git.objects import TREE_MODE, encode_tree, parse_tree
from gitsession.git.types import ObjectSink, Oid, Reader
from gitsession.workspace import names

NAMES_MAX = 1_000_000
"""Maximum number of names in one walk.

A few small trees can refer to each other so often that a walk without a limit would never end.
"""


class TreeEntry(NamedTuple):
    """A file in a tree. Modes: ``100644``, ``100755``, ``120000`` (a link) and ``160000`` (a submodule's commit)."""

    mode: str
    oid: Oid


State: TypeAlias = "TreeEntry | None"
"""The state of a path; ``None`` if it does not exist."""

_REMEMBERED_MAX = 100_000
"""Maximum number of names in the cached folders and differences."""

Diff: TypeAlias = Mapping[str, tuple[State, State]]
"""The paths that differ between two trees, each with its old and new state."""

_Level: TypeAlias = Mapping[str, tuple[str, Oid]]
_Changes: TypeAlias = "dict[str, State | _Changes]"


def walk(store: Reader, tree: Oid | None) -> Iterator[tuple[str, TreeEntry]]:
    """Yield every file below ``tree`` in git's order. Raises ``Malformed``, ``MissingObject`` or ``Corrupt``."""
    stack = [("", tree)]
    count = 0
    while stack:
        base, oid = stack.pop()
        folders = []
        level = _level(store, oid)
        count += _check_limits(base, len(level), count)
        for name, (mode, child) in level.items():
            if mode == TREE_MODE:
                folders.append((f"{base}{name}/", child))
            else:
                yield base + name, TreeEntry(mode, child)
        stack += reversed(folders)


class CachedTrees:
    """The trees of files in a store.

    Folders are cached, because most trees share most of their folders. Differences are cached, because every plan of a
    rewind needs those of all later checkpoints.
    """

    def __init__(self, store: Reader) -> None:
        self._store = store
        self._known: dict[Oid, _Level] = {}
        self._diffs: dict[tuple[Oid | None, Oid | None], Diff] = {}
        self._names = 0

    def look_up(self, tree: Oid | None, paths: Collection[str]) -> dict[str, State]:
        """Return the state of each of ``paths`` in ``tree``. A folder counts as missing."""
        known: dict[str, _Level] = {"": self._read(tree)}

        def level(folder: str) -> _Level:
            if folder not in known:
                parent, _, name = folder.rpartition("/")
                known[folder] = self._read(_folder(level(parent).get(name)))
            return known[folder]

        found: dict[str, State] = {}
        for path in paths:
            folder, _, name = path.rpartition("/")
            found[path] = _file(level(folder).get(name))
        return found

    def folders(self, tree: Oid | None, paths: Collection[str]) -> set[str]:
        """Return the paths in ``paths`` that are folders in ``tree``."""
        known: dict[str, Oid | None] = {"": tree}

        def folder(path: str) -> Oid | None:
            if path not in known:
                parent, _, name = path.rpartition("/")
                known[path] = _folder(self._read(folder(parent)).get(name))
            return known[path]

        return {path for path in paths if folder(path) is not None}

    def diff(self, old: Oid | None, new: Oid | None) -> Diff:
        """Return the paths that differ between two trees, in order. Raises the errors of ``walk``."""
        found = self._diffs.get((old, new))
        if found is None:
            inverse = self._diffs.get((new, old))  # an undo is the inverse of its rewind
            found = self._differences(old, new) if inverse is None else {path: inverse[path][::-1] for path in inverse}
            self._make_room(len(found))
            self._diffs[old, new] = found
        return found

    def _differences(self, old: Oid | None, new: Oid | None) -> Diff:
        found: dict[str, tuple[State, State]] = {}
        stack: list[tuple[str, Oid | None, Oid | None]] = [("", old, new)]
        count = 0
        while stack:
            base, before, after = stack.pop()
            if before == after:
                continue
            olds, news = self._read(before), self._read(after)
            count += _check_limits(base, len(olds) + len(news), count)
            for name in {name for name, _ in olds.items() ^ news.items()}:
                was, now = olds.get(name), news.get(name)
                path = base + name
                if _folder(was) or _folder(now):
                    stack.append((path + "/", _folder(was), _folder(now)))
                states = (_file(was), _file(now))
                if states != (None, None):
                    found[path] = states
        return dict(sorted(found.items()))

    def patch(
        self, sink: ObjectSink, tree: Oid | None, changes: Mapping[str, State], like: Oid | None = None
    ) -> Oid | None:
        """Write ``tree`` with ``changes`` applied; return the new tree, or ``None`` if it is empty.

        ``like``: a tree in the store that the result resembles. Folders that are equal in it are not written again.

        A file in ``changes`` replaces a folder of the same name with all its content, and a folder replaces a file. If
        one path in ``changes`` is a folder of another one, a path with content takes precedence over a removed path.
        """
        wanted: _Changes = {}
        for path, state in sorted(changes.items(), key=lambda item: item[1] is not None):
            *folders, name = path.split("/")
            at = wanted
            for folder in folders:
                below = at.get(folder)
                if not isinstance(below, dict):
                    if state is None and below is not None:
                        break
                    below = at[folder] = {}
                at = below
            else:
                if state is not None or not isinstance(at.get(name), dict):
                    at[name] = state
        return self._patched(sink, tree, wanted, like)

    def _patched(self, sink: ObjectSink, tree: Oid | None, changes: _Changes, like: Oid | None) -> Oid | None:
        before, similar = self._read(tree), self._read(like)
        level = dict(before)
        for name, change in changes.items():
            existing = level.pop(name, None)
            if isinstance(change, dict):
                below = self._patched(sink, _folder(existing), change, _folder(similar.get(name)))
                row = (TREE_MODE, below) if below else (existing if _file(existing) else None)
            else:
                row = change and (change.mode, change.oid)
                if row is None and _folder(existing):
                    row = existing
            if row:
                level[name] = row
        if not level:
            return None
        if level == before:
            return tree
        if level == similar:
            return like
        oid = sink.put("tree", encode_tree(level))
        self._remember(oid, level)
        return oid

    def _read(self, tree: Oid | None) -> _Level:
        if tree is None:
            return {}
        found = self._known.get(tree)
        if found is None:
            found = _level(self._store, tree)
            self._remember(tree, found)
        return found

    def _remember(self, tree: Oid, level: _Level) -> None:
        self._make_room(len(level))
        self._known[tree] = level

    def _make_room(self, names: int) -> None:
        """Count ``names`` names that are about to be cached. If they are too many, clear the caches first."""
        if self._names + names > _REMEMBERED_MAX:
            self._known.clear()
            self._diffs.clear()
            self._names = 0
        self._names += names


def _check_limits(base: str, found: int, before: int) -> int:
    """Return ``found``: the number of names in the folder ``base``. ``before``: the number of names in earlier folders.

    Raises ``Malformed`` if the tree exceeds the limit of names or depth. No real workspace reaches these limits.
    """
    if base.count("/") >= names.DEPTH_MAX:
        raise Malformed(f"more than {names.DEPTH_MAX} folders deep", where=ascii(base[:80]))
    if before + found > NAMES_MAX:
        raise Malformed(f"more than {NAMES_MAX:,} names", where=ascii(base[:80]))
    return found


def _level(store: Reader, tree: Oid | None) -> _Level:
    if tree is None:
        return {}
    return {name: (mode, oid) for mode, name, oid in parse_tree(store.read(tree)[1])}


def _folder(row: tuple[str, Oid] | None) -> Oid | None:
    return row[1] if row and row[0] == TREE_MODE else None


def _file(row: tuple[str, Oid] | None) -> State:
    return TreeEntry(*row) if row and row[0] != TREE_MODE else None
