"""A view of a store that reads the entries of many sessions together, in the order in which they are stored.

A new catalog reads every entry of every session. Single reads take twice as long.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from gitsession.errors import Malformed
from gitsession.git.objects import parse_commit, parse_tree
from gitsession.git.types import Kind, Oid
from gitsession.sessions import layout
from gitsession.store.interface import ObjectStore, StoreProxy

SESSIONS = 64
"""Number of sessions that are read together."""

_FEW = 8
_ENTRIES_MAX = 3_000
_BYTES_MAX = 64 << 20


class SessionsAhead(StoreProxy):
    """A view of ``store`` with a cache, which ``load`` fills. All other objects are read from the store."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._cache: dict[Oid, tuple[Kind, bytes]] = {}

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        return self._cache.get(oid) or self._store.read(oid)

    def load(self, tips: Iterable[Oid]) -> None:
        """Load the entries of the histories with these tips, and remove all other objects from the cache.

        All histories are read in step, and their ends are left out when few histories go on. So are entries after a
        limit on their number or bytes. Those are read one by one.
        """
        self._cache = {}
        trees: list[Oid] = []
        frontier = list(dict.fromkeys(tips))
        while len(frontier) >= _FEW and len(trees) < _ENTRIES_MAX:
            parents: dict[Oid, None] = {}
            for data in self._load(frontier, "commit"):
                with contextlib.suppress(Malformed):
                    commit = parse_commit(data)
                    trees.append(commit.tree)
                    parents |= dict.fromkeys(commit.parents[:1])
            frontier = [oid for oid in parents if oid not in self._cache]
        blobs: list[Oid] = []
        for data in self._load(trees, "tree"):
            with contextlib.suppress(Malformed):
                blobs += [oid for mode, _, oid in parse_tree(data) if mode == layout.FILE_MODE]
        for _ in self._load(blobs, "blob"):
            pass

    def _load(self, oids: list[Oid], expected: Kind) -> Iterator[bytes]:
        size = 0
        for oid, kind, data in self._store.read_all(dict.fromkeys(oids)):
            self._cache[oid] = kind, data
            if kind == expected:
                yield data
            size += len(data)
            if size > _BYTES_MAX:
                return
