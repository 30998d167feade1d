"""Entries in a catalog, which contains enough data to display an entry without reading its commit and tree."""

from __future__ import annotations

from typing import TypeAlias

from gitsession.codec.message import SourceRef
from gitsession.dataclass import dataclass
from gitsession.git.types import Oid
from gitsession.sessions.node import Node


@dataclass(frozen=True, slots=True)
class IndexedEntry:
    """An entry in a catalog. ``oid``, ``kind``, ``chain``, ``source``: the same values as in its node.

    ``payload``: the blob with the whole payload; "" if the payload is in several objects, or if the blob is unknown.
    ``above``: the nearest earlier entry that can add content to the context; "" if there is none, ``None`` if it is
    unknown.
    """

    oid: Oid
    kind: str
    chain: bytes
    source: SourceRef | None
    payload: Oid
    above: Oid | None


Spot: TypeAlias = Node | IndexedEntry
"""An entry of a history, read from its commit or from a catalog."""
