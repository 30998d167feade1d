"""A reader that loads the objects of several entries together, in the order of their offsets in the packs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from gitsession.errors import Malformed
from gitsession.git.objects import parse_tree
from gitsession.git.types import Kind, Oid
from gitsession.sessions import layout
from gitsession.sessions.node import Node, parse
from gitsession.store.interface import ObjectStore


class ReadAheadReader:
    """A ``Reader`` of ``store`` with a cache. Objects that are not in the cache are read from the store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._cache: dict[Oid, tuple[Kind, bytes]] = {}

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        return self._cache.get(oid) or self._store.read(oid)

    def contains(self, oid: Oid) -> bool:
        return oid in self._cache or self._store.contains(oid)

    def load(self, entries: Iterable[Node]) -> None:
        """Load the trees and payloads of ``entries`` into the cache, and remove all other objects from it."""
        self.load_objects({node.tree for node in entries})
        found, blobs = self._cache, set[Oid]()
        for _, data in found.values():
            with contextlib.suppress(Malformed):
                blobs.update(oid for mode, _, oid in parse_tree(data) if mode == layout.FILE_MODE)
        found.update(self._read(blobs))

    def load_objects(self, oids: Iterable[Oid]) -> None:
        """Load objects into the cache, and remove all other objects from it."""
        self._cache = self._read(oids)

    def _read(self, oids: Iterable[Oid]) -> dict[Oid, tuple[Kind, bytes]]:
        return {oid: (kind, data) for oid, kind, data in self._store.read_all(oids)}


def nodes(objects: Iterable[tuple[Oid, Kind, bytes]]) -> dict[Oid, Node]:
    """Return the entries among ``objects``. Others are skipped."""
    found = {}
    for oid, kind, data in objects:
        if kind == "commit":
            with contextlib.suppress(Malformed):
                found[oid] = parse(oid, data)
    return found
