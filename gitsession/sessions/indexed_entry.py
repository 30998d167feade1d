"""An entry as a catalogue remembers it: enough to show it, and to go on from it, without its commit and its tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gitsession.codec.message import SourceRef
from gitsession.git.types import Oid
from gitsession.sessions.node import Node


@dataclass(frozen=True, slots=True)
class IndexedEntry:
    """``oid``, ``kind``, ``chain`` and ``source`` are those of its node.

    ``payload``: the blob that is its whole payload; "" where one blob is not, or where that was not looked at.
    ``above``: the nearest entry before it that can show something, "" if none can, ``None`` if that is not known.
    """

    oid: Oid
    kind: str
    chain: bytes
    source: SourceRef | None
    payload: Oid
    above: Oid | None


Spot: TypeAlias = Node | IndexedEntry
"""An entry of a line, by whichever way it was found."""
