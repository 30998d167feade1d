"""A store in memory: the counterpart of ``GitStore`` for tests, tested by the same suite.

Nothing is durable, and two ``MemoryStore`` objects share no data. Otherwise it works like the store on disk: one writer
at a time, atomic transactions, and the same invalid names.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from gitsession.errors import Corrupt, MissingObject, Unavailable
from gitsession.git.objects import oid_of
from gitsession.git.types import Kind, Oid, RefValue
from gitsession.redaction.guard import Guard
from gitsession.redaction.vault import Vault
from gitsession.store.state import Staging

_WAIT_SECONDS = 10.0


class MemoryStore:
    """An ``ObjectStore`` in dictionaries. ``redacts``: True to redact secrets that match the built-in rules."""

    def __init__(self, *, redacts: bool = True) -> None:
        self.vault = Vault(None)
        self.guard = Guard.load() if redacts else None
        self._objects: dict[Oid, tuple[Kind, bytes]] = {}
        self._refs: dict[str, RefValue] = {}
        self._lock = threading.Lock()
        self._staging: Staging | None = None

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
            ref=self._refs.get,
            names_below=lambda prefix: [name for name in self._refs if name.startswith(prefix)],
            contains=self._objects.__contains__,
        )
        try:
            yield staging
            if staging.originals:
                self.vault.keep(staging.originals)
            self._objects.update(staging.objects)
            for name, value in staging.ends.items():
                if value is None:
                    self._refs.pop(name, None)
                else:
                    self._refs[name] = value
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
