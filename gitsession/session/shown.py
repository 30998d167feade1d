"""A store whose entries are read with what was hidden in them, as far as the vault of this machine has it.

For what stays on this machine: a context, a session that an agent goes on with. Everything else reads the store itself
and sees placeholders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from gitsession.errors import Ambiguous, Corrupt
from gitsession.store.base import Kind, ObjectStore, Oid, RefValue, Transaction

if TYPE_CHECKING:
    from gitsession.redaction.guard import Guard
    from gitsession.redaction.vault import Vault
    from gitsession.session.node import Node


class Shown:
    """``store``, read so. ``reveals``: whether what is hidden is shown at all, or only counted.

    ``revealed`` and ``hidden``: how many placeholders of each entry that was read were replaced, and how many not.
    ``problems``: why the vault could not tell, by entry.
    """

    def __init__(self, store: ObjectStore, *, reveals: bool = True) -> None:
        self._store = store
        self._reveals = reveals
        self.revealed: dict[Oid, int] = {}
        self.hidden: dict[Oid, int] = {}
        self.problems: dict[Oid, str] = {}

    def payload(self, node: Node, digest: bytes, redacted: bytes, placeholders: int) -> bytes:
        """The payload of ``node``, of which ``redacted`` is stored under ``digest``, with so many placeholders."""
        original = self._original(node, digest) if self._reveals else None
        (self.hidden if original is None else self.revealed)[node.oid] = placeholders
        return redacted if original is None else original

    def _original(self, node: Node, digest: bytes) -> bytes | None:
        try:
            return self._store.vault.original(digest, node.chain)
        except (Ambiguous, Corrupt) as error:
            self.problems[node.oid] = str(error)
            return None

    # ---- as the store has it

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        return self._store.read(oid)

    def contains(self, oid: Oid) -> bool:
        return self._store.contains(oid)

    def oids(self) -> Iterator[Oid]:
        return self._store.oids()

    def ref(self, name: str) -> RefValue | None:
        return self._store.ref(name)

    def refs(self, prefix: str) -> Mapping[str, RefValue]:
        return self._store.refs(prefix)

    def published_to(self, name: str, new: RefValue | None) -> str | None:
        return self._store.published_to(name, new)

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
        self._store.close()
