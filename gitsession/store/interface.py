"""What the floors above may ask of a store. Bytes and ids cross this door.

Two stores keep this contract: ``store.git_store.GitStore`` on disk, and ``store.memory.MemoryStore`` for tests.
One suite (tests/store/test_store_contract.py) judges both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from gitsession.git.types import Kind, Oid, Reader, RefValue

if TYPE_CHECKING:
    from gitsession.redaction.guard import Guard
    from gitsession.redaction.original import Original
    from gitsession.redaction.vault import Vault


class Transaction(Protocol):
    """Objects and ref moves that become durable together or not at all. Lives under the store's lock."""

    def put(self, kind: Kind, data: bytes) -> Oid:
        """Add an object; it can be read through the store before the end. Adding it twice is free."""

    def put_all(self, objects: Mapping[Oid, tuple[Kind, bytes]]) -> None:
        """Add objects whose ids the caller has from ``objects.oid_of``."""

    def keep_original(self, original: Original) -> None:
        """What an entry among the objects was before it was redacted: in the vault before the objects are anywhere."""

    def move(self, name: str, new: RefValue | None, *, expected: RefValue | None) -> None:
        """Point ``name`` at ``new`` (``None``: delete it) if it holds ``expected`` (``None``: is absent).

        Checked here, under the lock. Raises ``RefMoved`` where the ref holds something else, ``InvalidName`` where
        git could not keep the name or another ref stands in its way (``a`` and ``a/b`` cannot both be).
        """


class Spill(Protocol):
    """Objects that wait outside of memory for one transaction (``store/spill.py``)."""

    def put(self, objects: Mapping[Oid, tuple[Kind, bytes]], originals: Sequence[Original]) -> None: ...
    def move_in(self, vault: Vault) -> None: ...
    def close(self) -> None: ...


class ObjectStore(Reader, Protocol):
    """A bare git repository: objects by id, refs by name, atomic durable writes. What is read has the name it says."""

    def read_all(self, oids: Iterable[Oid]) -> Iterator[tuple[Oid, Kind, bytes]]:
        """Those of ``oids`` that are at hand together, in the order that is quickest. Of the others, ``read`` tells."""

    def commits(self) -> Iterator[tuple[Oid, Kind, bytes]]:
        """The commits that are at hand so, reachable or not."""

    def oids(self) -> Iterator[Oid]:
        """The name of every object there is, whole or not, reachable or not; one may come twice."""

    def ref(self, name: str) -> RefValue | None:
        """What ``name`` holds, not followed where symbolic; ``None`` if there is no such ref."""

    def refs(self, prefix: str) -> Mapping[str, RefValue]:
        """Every ref whose name starts with ``prefix``, sorted by name, with what it holds."""

    def pending_refs(self) -> Mapping[str, RefValue | None]:
        """Every ref that acknowledged transactions moved and that git may not have yet, with what it holds."""

    def published_to(self, name: str, new: RefValue | None) -> str | None:
        """The remote that may have more of the ref ``name`` than it would hold at ``new`` (``None``: if it were gone);
        ``None`` where nobody has, so that it may go back.
        """

    def spill(self) -> Spill | None:
        """A place for more objects of one transaction than memory should hold; ``None`` where there is no other."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Enter: wait for the lock, see what others wrote. Leave: durable, then acknowledged. An exception: nothing."""

    def flush(self) -> None:
        """Hand everything acknowledged over to git: a pack and moved refs. Idempotent."""

    @property
    def guard(self) -> Guard | None:
        """What takes secrets out of what is to be kept; ``None`` where the store is set not to.

        Raises ``NotFound`` and ``Refused`` for rules of the user that cannot be used.
        """

    @property
    def vault(self) -> Vault:
        """The originals of what was redacted here."""

    def close(self) -> None:
        """Flush and let go of files and locks. Idempotent."""


class StoreProxy:
    """An ``ObjectStore`` with another one behind it, to be changed in one thing or another by who inherits it."""

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
