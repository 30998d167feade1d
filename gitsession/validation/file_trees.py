"""What is proposed under ``files/``: names that any system can keep, known modes, bounded depth and number.

Only what differs from the entry before is read: a folder that is the same at the same place was judged with that one.
A tree that holds itself many times over, in effect, is counted, never walked: each tree is read once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from gitsession.errors import Malformed
from gitsession.git.cat_file import ObjectHeader
from gitsession.git.objects import SUBMODULE_MODE, TREE_MODE, parse_tree
from gitsession.git.types import Oid
from gitsession.sessions.tombstone_set import NONE, Tombstones
from gitsession.validation.entry_rules import HeaderReader
from gitsession.validation.verdicts import MEBIBYTE, TAKE_OUT, Fault, Limits
from gitsession.workspace import names

LINK_MODE = "120000"
LINK_BYTES_MAX = 4096
FOLDER_BYTES_MAX = 64 * MEBIBYTE

_FILES = ("100644", "100755", LINK_MODE)
_REMEMBERED_MAX = 50_000

_Rows = Sequence[tuple[str, str, Oid]]


class BulkHeaderReader(HeaderReader, Protocol):
    def heads(self, oids: Sequence[Oid]) -> list[ObjectHeader | None]: ...


class _Below(NamedTuple):
    """What a tree holds: folders below each other, and names, each as often as it is met on the way."""

    depth: int
    names: int


class _Wrong(Exception):
    def __init__(self, rule: str, what: str) -> None:
        super().__init__(what)
        self.fault = Fault(rule, what)


class FileTrees:
    """Judges trees of files, and remembers those that it found good."""

    def __init__(
        self, reader: BulkHeaderReader, limits: Limits, tombstones: Tombstones = NONE, *, partial: bool = False
    ) -> None:
        self._reader = reader
        self._limits = limits
        self._tombstones = tombstones
        self._partial = partial
        self._good: dict[tuple[Oid, Oid | None], _Below] = {}

    def fault(self, tree: Oid, before: Oid | None) -> Fault | None:
        """What is wrong below ``tree``; ``before``: the files of the entry before it, which are good."""
        if tree == before:
            return None
        try:
            found = self._judge(tree, before, "", 0)
        except _Wrong as wrong:
            return wrong.fault
        except Malformed as error:
            return Fault("files", str(error))
        if found.names > self._limits.names:
            return Fault("files", f"{found.names:,} new names below files/, and the limit is {self._limits.names:,}")
        return None

    def _judge(self, tree: Oid, before: Oid | None, path: str, depth: int) -> _Below:
        """Never deeper than ``names.DEPTH_MAX``."""
        known = self._good.get((tree, before))
        if known is None:
            known = self._walk(tree, before, path, depth)
            if len(self._good) >= _REMEMBERED_MAX:
                self._good.clear()
            self._good[tree, before] = known
        if depth + known.depth > names.DEPTH_MAX:
            raise _Wrong("files", f"more than {names.DEPTH_MAX} folders deep, below {_shown(path)}")
        return known

    def _walk(self, tree: Oid, before: Oid | None, path: str, depth: int) -> _Below:
        if depth >= names.DEPTH_MAX:
            raise _Wrong("files", f"more than {names.DEPTH_MAX} folders deep, below {_shown(path)}")
        rows = self._rows(tree, path)
        olds = {} if before is None else {name: (mode, oid) for mode, name, oid in self._rows(before, path)}
        self._check(rows, olds, path)
        below, count = 0, len(rows)
        for mode, name, oid in rows:
            old = olds.get(name)
            if mode != TREE_MODE or old == (mode, oid):
                continue
            there = old[1] if old is not None and old[0] == TREE_MODE else None
            found = self._judge(oid, there, f"{path}{name}/", depth + 1)
            below, count = max(below, found.depth), count + found.names
        return _Below(below + 1, count)

    def _rows(self, tree: Oid, path: str) -> _Rows:
        head = self._reader.head(tree)
        if head is None or head.kind != "tree":
            raise _Wrong("missing" if head is None else "files", f"{_shown(path)} is no folder that is here: {tree}")
        if head.size > FOLDER_BYTES_MAX:
            raise _Wrong("size", f"{_shown(path)} has {head.size:,} bytes, and the limit is {FOLDER_BYTES_MAX:,}")
        try:
            return parse_tree(self._reader.read(tree)[1])
        except Malformed as error:
            raise _Wrong("files", f"{_shown(path)}: {error}") from None

    def _check(self, rows: _Rows, olds: Mapping[str, tuple[str, Oid]], path: str) -> None:
        """Names and modes, and of what is new the sizes. An empty folder is none: git keeps no such thing."""
        new = [row for row in rows if olds.get(row[1]) != (row[0], row[2])]
        if not rows and path:
            raise _Wrong("files", f"{_shown(path)} is empty")
        for mode, name, oid in new:
            reason = names.tree_refusal(name)
            if reason:
                raise _Wrong("files", f"{_shown(path + name)}: {reason}")
            if mode not in (*_FILES, TREE_MODE, SUBMODULE_MODE):
                raise _Wrong("files", f"{_shown(path + name)} has mode {mode}, which no file has")
            if self._tombstones.has_file(oid):
                raise _Wrong("purged", f"{_shown(path + name)} was purged: {TAKE_OUT}")
        blobs = [(mode, name, oid) for mode, name, oid in new if mode in _FILES]
        for (mode, name, oid), head in zip(blobs, self._reader.heads([oid for *_, oid in blobs]), strict=True):
            if head is None and self._partial:
                continue
            if head is None or head.kind != "blob":
                there = "was not sent and is not here" if head is None else f"is a {head.kind}"
                raise _Wrong("missing" if head is None else "files", f"{_shown(path + name)}, {oid}, {there}")
            most = LINK_BYTES_MAX if mode == LINK_MODE else self._limits.file_bytes
            if head.size > most:
                raise _Wrong("size", f"{_shown(path + name)} has {head.size:,} bytes, and the limit is {most:,}")


def _shown(path: str) -> str:
    """A path, of any bytes, as a line of ours may say it."""
    return ascii(f"files/{path[:120]}")
