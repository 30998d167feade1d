"""A view of a store that returns the originals of redacted payloads, if they are in the vault of this machine.

The view is used for data that stays on this machine, such as a context or a session that an agent continues. All other
code reads the store itself, which contains placeholders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gitsession.errors import Ambiguous, Corrupt
from gitsession.git.types import Oid
from gitsession.store.interface import ObjectStore, StoreProxy

if TYPE_CHECKING:
    from gitsession.sessions.node import Node


class RevealedStore(StoreProxy):
    """A view of ``store`` with originals. ``reveals``: whether to return originals, or only count placeholders.

    ``revealed``: the number of placeholders that were replaced with the original, by entry. ``hidden``: the number of
    remaining placeholders, by entry. ``problems``: the reasons why the vault could not be read, by entry.
    """

    def __init__(self, store: ObjectStore, *, reveals: bool = True) -> None:
        super().__init__(store)
        self._reveals = reveals
        self.revealed: dict[Oid, int] = {}
        self.hidden: dict[Oid, int] = {}
        self.problems: dict[Oid, str] = {}

    def payload(self, node: Node, digest: bytes, redacted: bytes, placeholders: int) -> bytes:
        """Return the payload of ``node``, with secrets if they can be revealed.

        ``redacted``, ``digest``, ``placeholders``: the stored payload, its digest and its number of placeholders.
        """
        original = self._original(node, digest) if self._reveals else None
        (self.hidden if original is None else self.revealed)[node.oid] = placeholders
        return redacted if original is None else original

    def _original(self, node: Node, digest: bytes) -> bytes | None:
        try:
            return self._store.vault.original(digest, node.chain)
        except (Ambiguous, Corrupt) as error:
            self.problems[node.oid] = str(error)
            return None
