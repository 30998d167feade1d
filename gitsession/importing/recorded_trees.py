"""Comparison of git trees that an agent recorded, and lookup of paths in such trees.

File names are bytes, as on the disk. The trees are not trusted, so every walk is bounded, and the content of each
object is checked against the object id (``git.cat_file``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from gitsession.errors import Malformed
from gitsession.git.cat_file import BorrowedObjects
from gitsession.git.objects import SUBMODULE_MODE, TREE_MODE, parse_tree
from gitsession.workspace.names import DEPTH_MAX

NAMES_MAX = 4_000_000
"""The maximum number of file names that are read and compared for one session."""

TREE_BYTES_MAX = 64 << 20
RULES_BYTES_MAX = 1 << 20

_ATTRIBUTES, _IGNORES = b".gitattributes", b".gitignore"
_CONVERTS = re.compile(rb"(?:filter|working-tree-encoding)=|ident(?:\Z|=)|eol=crlf\Z")
_GLOB = re.compile(rb"[*?\[\\]")


class RecordedFile(NamedTuple):
    """A file in a tree that an agent recorded: git's file mode, and the object id of the content."""

    mode: str
    oid: str


_Level: TypeAlias = Mapping[bytes, RecordedFile]


class Trees:
    """A reader of trees that reads each folder only once."""

    def __init__(self, borrowed: BorrowedObjects) -> None:
        self._borrowed = borrowed
        self._levels: dict[str, _Level | None] = {}
        self._rules: dict[str, list[bytes]] = {}
        self._names = 0

    def diff(self, old: str, new: str) -> dict[bytes, tuple[RecordedFile | None, RecordedFile | None]] | None:
        """Return the files that differ between the trees ``old`` and ``new``, or ``None`` if either tree is incomplete.

        Raises ``Malformed`` if the number of file names exceeds ``NAMES_MAX``.
        """
        found: dict[bytes, tuple[RecordedFile | None, RecordedFile | None]] = {}
        stack: list[tuple[bytes, str | None, str | None]] = [(b"", old, new)]
        while stack:
            base, before, after = stack.pop()
            old_entries, new_entries = self._level(before), self._level(after)
            if old_entries is None or new_entries is None:
                return None
            self._count(len(old_entries) + len(new_entries))
            for name in old_entries.keys() | new_entries.keys():
                old_entry, new_entry = old_entries.get(name), new_entries.get(name)
                if old_entry == new_entry:
                    continue
                path = base + name
                folders = _folder(old_entry), _folder(new_entry)
                if folders != (None, None) and base.count(b"/") < DEPTH_MAX:
                    stack.append((path + b"/", *folders))
                states = _file(old_entry), _file(new_entry)
                if states != (None, None):
                    found[path] = states
        return found

    def look_up(self, tree: str, path: bytes) -> RecordedFile | str | None:
        """Return the file at ``path``, ``None`` if there is no such file, or the reason why it cannot be determined."""
        *folders, name = path.split(b"/")
        at: str | None = tree
        for folder in folders:
            level = self._level(at)
            if level is None:
                return _NOT_ALL
            at = _folder(level.get(folder))
        level = self._level(at)
        return _NOT_ALL if level is None else _file(level.get(name))

    def may_have_existed(self, old: str, new: str, path: bytes) -> bool:
        """Return whether a file that is only in ``new`` may have existed when ``old`` was recorded.

        Files that git ignored when ``old`` was recorded, and files of nested repositories, are not in ``old``.
        """
        folders = path.split(b"/")
        is_ignore_file = folders[-1] == _IGNORES
        for depth in range(len(folders) - is_ignore_file):
            is_same_or_more = self._keeps_ignore_rules(old, new, b"/".join((*folders[:depth], _IGNORES)))
            if not is_same_or_more or self._is_submodule(old, folders[: depth + 1]):
                return True
        return False

    def _keeps_ignore_rules(self, old: str, new: str, path: bytes) -> bool:
        ends = self.look_up(old, path), self.look_up(new, path)
        if ends[0] == ends[1]:
            return True
        before, after = (self._lines(each) for each in ends)
        negates = any(line.startswith(b"!") for line in after or ())
        return before is not None and after is not None and not negates and before <= after

    def _lines(self, file: RecordedFile | str | None) -> set[bytes] | None:
        if not isinstance(file, RecordedFile):
            return set() if file is None else None
        text = self._borrowed.read("blob", file.oid, RULES_BYTES_MAX)
        return None if isinstance(text, str) else {line.rstrip() for line in text.splitlines()} - {b""}

    def _is_submodule(self, tree: str, folders: list[bytes]) -> bool:
        at: str | None = tree
        for folder in folders[:-1]:
            at = _folder((self._level(at) or {}).get(folder))
        entry = (self._level(at) or {}).get(folders[-1])
        return entry is not None and entry.mode == SUBMODULE_MODE

    def is_converted(self, tree: str, path: bytes) -> bool:
        """Return whether git attributes may have changed the content of a file when it was added to ``tree``."""
        folders = path.split(b"/")
        for depth in range(len(folders)):
            file = self.look_up(tree, b"/".join((*folders[:depth], _ATTRIBUTES)))
            if isinstance(file, RecordedFile):
                rest = b"/".join(folders[depth:])
                if any(_may_match(pattern, rest) for pattern in self._patterns(file.oid)):
                    return True
        return False

    def _patterns(self, oid: str) -> Iterable[bytes]:
        """Return the path patterns of attributes that convert content.

        A macro that converts content applies to all files.
        """
        if oid not in self._rules:
            text = self._borrowed.read("blob", oid, RULES_BYTES_MAX)
            self._rules[oid] = [b"*"] if isinstance(text, str) else list(_rules(text))
        return self._rules[oid]

    def _level(self, tree: str | None) -> _Level | None:
        """Return the entries of the folder ``tree``, or ``None`` if it cannot be read."""
        if tree is None:
            return {}
        if tree not in self._levels:
            data = self._borrowed.read("tree", tree, TREE_BYTES_MAX)
            try:
                rows = None if isinstance(data, str) else parse_tree(data)
            except Malformed:
                rows = None
            if rows is not None:
                self._count(len(rows))
            self._levels[tree] = None if rows is None else {
                name.encode("utf-8", "surrogateescape"): RecordedFile(_plain(mode), oid) for mode, name, oid in rows
            }  # fmt: skip
        return self._levels[tree]

    def _count(self, names: int) -> None:
        self._names += names
        if self._names > NAMES_MAX:
            raise Malformed(f"more than {NAMES_MAX:,} names in the trees of the session")


_NOT_ALL = "the agent's tree is not all there"


def _rules(text: bytes) -> Iterator[bytes]:
    for line in text.splitlines():
        pattern, *attributes = line.split() or [b""]
        if any(_CONVERTS.match(attribute) for attribute in attributes):
            yield b"*" if pattern.startswith((b"[attr]", b'"')) else pattern


def _may_match(pattern: bytes, path: bytes) -> bool:
    """Return whether ``pattern`` may match ``path``. The result is true if this cannot be determined."""
    if pattern.startswith(b"*") and not _GLOB.search(pattern, 1) and b"/" not in pattern:
        return path.endswith(pattern[1:])
    found = _GLOB.search(pattern)
    literal = pattern[: found.start()] if found else pattern
    if b"/" in pattern.rstrip(b"/"):
        return path.startswith(literal.lstrip(b"/"))
    return path.rpartition(b"/")[2].startswith(literal) if found else path.rpartition(b"/")[2] == literal


def _plain(mode: str) -> str:
    """Return the file mode that current git versions use for ``mode``. Old repositories contain other modes."""
    return mode if not mode.startswith("100") else "100755" if int(mode, 8) & 0o100 else "100644"


def _folder(entry: RecordedFile | None) -> str | None:
    return entry.oid if entry is not None and entry.mode == TREE_MODE else None


def _file(entry: RecordedFile | None) -> RecordedFile | None:
    return entry if entry is not None and entry.mode not in (TREE_MODE, SUBMODULE_MODE) else None
