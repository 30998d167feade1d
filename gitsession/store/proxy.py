"""A store with another one behind it, that answers as that one does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from gitsession.git.types import Kind, Oid, RefValue
from gitsession.store.interface import ObjectStore, Spill, Transaction

if TYPE_CHECKING:
    from gitsession.redaction.guard import Guard
    from gitsession.redaction.vault import Vault


class StoreProxy:
    """An ``ObjectStore`` to be changed in one thing or another by who inherits it."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        return self._store.read(oid)

    def contains(self, oid: Oid) -> bool:
        return self._store.contains(oid)

    def read_all(self, oids: Iterable[Oid]) -> Iterator[tuple[Oid, Kind, bytes]]:
        """Nothing: each is read by itself, as whoever inherits reads."""
        return iter(())

    def commits(self) -> Iterator[tuple[Oid, Kind, bytes]]:
        return iter(())

    def oids(self) -> Iterator[Oid]:
        return self._store.oids()

    def ref(self, name: str) -> RefValue | None:
        return self._store.ref(name)

    def refs(self, prefix: str) -> Mapping[str, RefValue]:
        return self._store.refs(prefix)

    def pending_refs(self) -> Mapping[str, RefValue | None]:
        return self._store.pending_refs()

    def published_to(self, name: str, new: RefValue | None) -> str | None:
        return self._store.published_to(name, new)

    def spill(self) -> Spill | None:
        return self._store.spill()

    def transaction(self) -> AbstractContextManager[Transaction]:
        return self._store.transaction()

    @property
    def guard(self) -> Guard | None:
        return self._store.guard

    @property
    def vault(self) -> Vault:
        return self._store.vault

    def flush(self) -> None:
        self._store.flush()

    def close(self) -> None:
        """It is not ours to close."""
