"""Entries as a catalog keeps them: enough to display an entry and to continue from it, without its commit and tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gitsession.codec.message import SourceRef
from gitsession.git.types import Oid
from gitsession.sessions.node import Node


@dataclass(frozen=True, slots=True)
class IndexedEntry:
    """An entry in a catalog. ``oid``, ``kind``, ``chain`` and ``source``: those of its node.

    ``payload``: the blob with its whole payload; "" if there is no single blob, or if that is unknown. ``above``: the
    nearest entry before it that can add content to the context, "" if there is none, ``None`` if that is unknown.
    """

    oid: Oid
    kind: str
    chain: bytes
    source: SourceRef | None
    payload: Oid
    above: Oid | None


Spot: TypeAlias = Node | IndexedEntry
"""An entry of a history, from its commit or from a catalog."""
