"""The interface of a store, in terms of bytes and object ids.

Two classes implement the interface: ``store.git_store.GitStore`` on disk, and ``store.memory.MemoryStore``.
One suite (tests/store/test_store_contract.py) tests both classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from gitsession.git.types import Kind, Oid, Reader, RefValue

if TYPE_CHECKING:
    from gitsession.git.pack_writer import Deflated
    from gitsession.redaction.guard import Guard
    from gitsession.redaction.original import Original
    from gitsession.redaction.vault import Vault
    from gitsession.store.spill import PackSpill


class Transaction(Protocol):
    """Objects and ref moves that become durable together or not at all.

    A transaction exists while the store's lock is held.
    """

    def put(self, kind: Kind, data: bytes) -> Oid:
        """Add an object and return its id. The object can be read at once. To add an existing object has no effect."""

    def put_all(self, objects: Mapping[Oid, tuple[Kind, bytes]], deflated: Deflated | None = None) -> None:
        """Add objects whose ids the caller has computed with ``objects.oid_of``.

        ``deflated``: a function that returns the compressed forms of some of them, for a pack.
        """

    def keep_original(self, original: Original) -> None:
        """Put the original of a redacted entry into the vault before the objects of the transaction are stored."""

    def move(self, name: str, new: RefValue | None, *, expected: RefValue | None) -> None:
        """Set the ref ``name`` to ``new`` if its value is ``expected``.

        If ``new`` is ``None``, the ref is deleted. If ``expected`` is ``None``, the ref must not exist.

        The value is checked immediately, under the lock.

        Raises:
            RefMoved: The ref has another value.
            InvalidName: Git cannot store the name, or it conflicts with another ref (``a`` and ``a/b`` cannot both
                exist).
        """


class ObjectStore(Reader, Protocol):
    """A bare git repository: objects by id, refs by name, atomic durable writes. Each read verifies the object's id."""

    def read_all(self, oids: Iterable[Oid]) -> Iterator[tuple[Oid, Kind, bytes]]:
        """Yield the objects in ``oids`` that can be read in bulk, in the fastest order. Use ``read`` for the others."""

    def commits(self) -> Iterator[tuple[Oid, Kind, bytes]]:
        """Yield the commits that can be read in bulk, whether or not a ref leads to them."""

    def oids(self) -> Iterator[Oid]:
        """Yield the id of every object, even if it is damaged or unreachable. May yield an id twice."""

    def ref(self, name: str) -> RefValue | None:
        """Return the value of ``name`` without following a symbolic ref; ``None`` if the ref does not exist."""

    def refs(self, prefix: str) -> Mapping[str, RefValue]:
        """Return the values of all refs whose names start with ``prefix``, sorted by name."""

    def pending_refs(self) -> Mapping[str, RefValue | None]:
        """Return the values of all refs that acknowledged transactions moved and that may not be moved in git yet."""

    def published_to(self, name: str, new: RefValue | None) -> str | None:
        """Return a remote that may have commits of the ref ``name`` that are not in ``new``.

        ``new``: the new value of the ref; ``None`` for a deletion. Returns ``None`` if there is no such remote. The ref
        may then be moved to ``new``.
        """

    def spill(self) -> PackSpill | None:
        """Return temporary storage for the objects of a large transaction; ``None`` if the store has none."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Return a context manager that holds the store's lock and commits the transaction if no error occurs."""

    def flush(self) -> None:
        """Transfer all acknowledged data to git: write a pack and move refs. Idempotent."""

    @property
    def guard(self) -> Guard | None:
        """The guard that redacts secrets in new payloads; ``None`` if redaction is off in the store.

        Raises ``NotFound`` and ``Refused`` if the user's rules cannot be used.
        """

    @property
    def vault(self) -> Vault:
        """The originals of the payloads that were redacted in this store."""

    def close(self) -> None:
        """Flush, and close files and locks. Idempotent."""


class StoreProxy:
    """A wrapper that delegates every call to another ``ObjectStore``. Subclasses override some methods.

    A subclass whose ``read`` returns other content must override ``read_all`` and ``commits``, too.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        return self._store.read(oid)

    def contains(self, oid: Oid) -> bool:
        return self._store.contains(oid)

    def read_all(self, oids: Iterable[Oid]) -> Iterator[tuple[Oid, Kind, bytes]]:
        return self._store.read_all(oids)

    def commits(self) -> Iterator[tuple[Oid, Kind, bytes]]:
        return self._store.commits()

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

    def spill(self) -> PackSpill | None:
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
        """Do nothing: the wrapped store belongs to the caller."""
