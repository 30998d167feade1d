"""Are the files that an entry holds what docs/format.md says: names, modes, contents that are there?

What lies in a tree was captured on some machine, and will be written to a disk: so a tree is looked into before that,
and one that was looked into before is not looked into again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from gitsession.errors import GitSessionError
from gitsession.git.objects import SUBMODULE_MODE, TREE_MODE
from gitsession.git.types import Oid, Reader
from gitsession.model.entries import Checkpoint
from gitsession.redaction.original import OPENS
from gitsession.sessions.content import Rows, tree_of

DEPTH_MAX = 64
NAMES_MAX = 1_000_000
"""Of one tree: a few hundred bytes can hold themselves, in effect, more often than there is time to say so."""

_FILE_MODES = ("100644", "100755", "120000")

Refuse: TypeAlias = Callable[[str], "str | None"]
"""Why one name of a tree is never written (``workspace/names.py``, a floor that this one does not know)."""


class Manifests:
    """Looks into trees of files, into each once."""

    def __init__(self, store: Reader, refuse: Refuse | None = None, *, is_partial: bool = False) -> None:
        """``is_partial``: of a clone that left contents out, of which git tells what it lacks."""
        self._store = store
        self._is_partial = is_partial
        self._refuse = refuse
        self._good: dict[Oid, int] = {}

    def problems(self, tree: Oid) -> Iterator[str]:
        """What is wrong with the files in ``tree``."""
        stack: list[tuple[str, Oid, int]] = [("", tree, 1)]
        names = 0
        while stack:
            base, oid, depth = stack.pop()
            if self._good.get(oid, 0) >= depth:
                continue
            if depth > DEPTH_MAX:
                yield f"files/{_shown(base)} is more than {DEPTH_MAX} folders deep"
                return
            try:
                rows = tree_of(self._store, oid)
            except GitSessionError as error:
                yield f"files/{_shown(base)} cannot be read: {error}"
                continue
            names += len(rows)
            if names > NAMES_MAX:
                yield f"files/ holds more than {NAMES_MAX:,} names"
                return
            wrong = list(self._in_folder(base, rows))
            yield from wrong
            if not wrong:
                self._good[oid] = depth
            stack += [(f"{base}{name}/", child, depth + 1) for mode, name, child in rows if mode == TREE_MODE]

    def named(self, entry: Checkpoint) -> Iterator[str]:
        """What is wrong with the paths that a checkpoint lists. A name may be hidden there: nothing is written so."""
        if self._refuse is None:
            return
        for path in {*entry.paths, *entry.appeared, *(path for path, _ in entry.skipped)}:
            components = path.split("/")
            why = next((why for name in components if OPENS not in name and (why := self._refuse(name))), None)
            if len(components) > DEPTH_MAX:
                why = f"more than {DEPTH_MAX} folders deep"
            if why:
                yield f"it lists {_shown(path)}: {why}"

    def between(self, before: Oid | None, after: Oid | None) -> Iterator[str]:
        """The paths of the files that differ; equal folders are not read. Raises where one cannot be read."""
        stack = [("", before, after)]
        names = 0
        while stack:
            base, *ends = stack.pop()
            old, new = ({name: (mode, oid) for mode, name, oid in self._rows(tree)} for tree in ends)
            names += len(old) + len(new)
            if base.count("/") > DEPTH_MAX or names > NAMES_MAX:
                return  # ``problems`` says so
            for name in sorted(old.keys() | new.keys()):
                was, now = old.get(name), new.get(name)
                if was == now:
                    continue
                if any(row and row[0] != TREE_MODE for row in (was, now)):
                    yield base + name
                if any(row and row[0] == TREE_MODE for row in (was, now)):
                    stack.append((f"{base}{name}/", _folder(was), _folder(now)))

    def _rows(self, tree: Oid | None) -> Rows:
        return [] if tree is None else tree_of(self._store, tree)

    def _in_folder(self, base: str, rows: Rows) -> Iterator[str]:
        for mode, name, oid in rows:
            why = self._refuse(name) if self._refuse is not None else None
            if why:
                yield f"files/{_shown(base + name)}: {why}"
            if mode in (TREE_MODE, SUBMODULE_MODE):
                continue
            if mode not in _FILE_MODES:
                yield f"files/{_shown(base + name)} has mode {mode}"
            elif not self._is_partial and not self._store.contains(oid):
                yield f"files/{_shown(base + name)}: its content, {oid}, is not there"


def _folder(row: tuple[str, Oid] | None) -> Oid | None:
    return row[1] if row and row[0] == TREE_MODE else None


def _shown(path: str) -> str:
    return ascii(path[:80])[1:-1]
