"""A store whose entries are read with what was hidden in them, as far as the vault of this machine has it.

For what stays on this machine: a context, a session that an agent goes on with. Everything else reads the store itself
and sees placeholders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gitsession.errors import Ambiguous, Corrupt
from gitsession.git.types import Oid
from gitsession.store.interface import ObjectStore, StoreProxy

if TYPE_CHECKING:
    from gitsession.sessions.node import Node


class RevealedStore(StoreProxy):
    """``store``, read so. ``reveals``: whether what is hidden is shown at all, or only counted.

    ``revealed`` and ``hidden``: how many placeholders of each entry that was read were replaced, and how many not.
    ``problems``: why the vault could not tell, by entry.
    """

    def __init__(self, store: ObjectStore, *, reveals: bool = True) -> None:
        super().__init__(store)
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
