"""A store in memory (``Store.in_memory``): the counterpart of ``GitStore``, tested by the same suite.

Nothing is durable, and two ``MemoryStore`` objects share no data. Otherwise it works like the store on disk: one writer
at a time, atomic transactions, and the same invalid names. Operations that need git or local files use members of
``GitStore`` that raise ``Unavailable`` here (docs/decisions/0087).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Never, Self

from gitsession.errors import Corrupt, MissingObject, Unavailable
from gitsession.git.objects import oid_of
from gitsession.git.types import Kind, Oid, RefValue
from gitsession.redaction.guard import Guard
from gitsession.redaction.vault import Vault
from gitsession.store import change_stamp
from gitsession.store.git_store import GitStore
from gitsession.store.state import Staging

_WAIT_SECONDS = 10.0


class MemoryStore:
    """An ``ObjectStore`` in dictionaries. ``redacts``: True to redact secrets that match the built-in rules."""

    read_only = False
    local_dir = None

    def __init__(self, *, redacts: bool = True) -> None:
        self.vault = Vault(None)
        self.guard = Guard.load() if redacts else None
        self._objects: dict[Oid, tuple[Kind, bytes]] = {}
        self._refs: dict[str, RefValue] = {}
        self._lock = threading.Lock()
        self._staging: Staging | None = None
        self._transactions = 0

    def __getattr__(self, name: str) -> Never:
        """Raise ``Unavailable`` for the other members of ``GitStore``, such as ``git_dir``."""
        if not hasattr(GitStore, name):
            raise AttributeError(name)
        hint = "use a store on disk: Store.create(path)"
        raise Unavailable("cannot use git or local files: the store is in memory", hint=hint)

    def fingerprint(self) -> str:
        """See ``GitStore.fingerprint``."""
        return change_stamp.fingerprint_in_memory(self._transactions)

    def without_fetching(self) -> AbstractContextManager[None]:
        """See ``GitStore.without_fetching``. There is nothing to fetch."""
        return nullcontext()

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        staging = self._own_staging()
        found = self._objects.get(oid) or (staging.objects.get(oid) if staging else None)
        if found is None:
            raise MissingObject(f"missing object {oid}")
        if oid_of(*found) != oid:
            raise Corrupt(f"cannot read object {oid}: the content does not match the id")
        return found

    def contains(self, oid: Oid) -> bool:
        staging = self._own_staging()
        return oid in self._objects or (staging is not None and oid in staging.objects)

    def read_all(self, oids: Iterable[Oid]) -> Iterator[tuple[Oid, Kind, bytes]]:
        """Yield nothing: a bulk read in memory is not faster than ``read``."""
        return iter(())

    def commits(self) -> Iterator[tuple[Oid, Kind, bytes]]:
        return iter(())

    def oids(self) -> Iterator[Oid]:
        return iter(list(self._objects))

    def ref(self, name: str) -> RefValue | None:
        staging = self._own_staging()
        return staging.value(name) if staging else self._refs.get(name)

    def refs(self, prefix: str) -> Mapping[str, RefValue]:
        staging = self._own_staging()
        found: dict[str, RefValue | None] = {**self._refs, **(staging.ends if staging else {})}
        return {name: value for name, value in sorted(found.items()) if value is not None and name.startswith(prefix)}

    def pending_refs(self) -> Mapping[str, RefValue | None]:
        """Return an empty mapping: there is no git repository."""
        return {}

    def published_to(self, name: str, new: RefValue | None) -> str | None:
        """Return ``None``: there are no remotes."""

    def spill(self) -> None:
        """Return ``None``: all objects are in memory."""

    @contextmanager
    def transaction(self) -> Iterator[Staging]:
        if self._own_staging():
            raise RuntimeError("this thread already has an open transaction")
        if not self._lock.acquire(timeout=_WAIT_SECONDS):
            raise Unavailable("cannot lock the store: another thread has held the lock for too long")
        staging = self._staging = Staging(
            ref=lambda name: self._refs.get(name),
            names_below=lambda prefix: [name for name in self._refs if name.startswith(prefix)],
            contains=self._objects.__contains__,
        )
        try:
            yield staging
            if staging.originals:
                self.vault.keep(staging.originals)
            self._objects.update(staging.objects)
            moved: dict[str, RefValue | None] = {**self._refs, **staging.ends}
            # One assignment, so that no other thread reads a part. The count follows, because a catalog reads it first.
            self._refs = {name: value for name, value in moved.items() if value is not None}
            self._transactions += 1
        finally:
            staging.close()
            self._staging = None
            self._lock.release()

    def flush(self) -> None:
        """Do nothing: there is no git repository."""

    def close(self) -> None:
        """Do nothing: there are no files or locks."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _own_staging(self) -> Staging | None:
        staging = self._staging
        return staging if staging is not None and staging.thread == threading.get_ident() else None
