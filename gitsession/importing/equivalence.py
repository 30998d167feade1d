"""Entries that are the same but for what rules hide: rules differ between releases, machines and users.

A record that was stored by other rules, or by none, is the same entry, and stays as it is stored: new rules open no
branches. ``gitsession redact`` finds what older ones have left.
"""

from __future__ import annotations

from collections.abc import Iterable

from gitsession.codec import holes
from gitsession.codec.message import SourceRef
from gitsession.formats import Format, Record
from gitsession.git.types import Oid
from gitsession.redaction.original import matches
from gitsession.sessions import commit_writer
from gitsession.sessions.content import kept, whole
from gitsession.sessions.node import Node
from gitsession.store.interface import ObjectStore


class EquivalentEntries:
    """What ``nodes``, imported entries of one session, say."""

    def __init__(self, store: ObjectStore, nodes: Iterable[Node]) -> None:
        self._store = store
        self._at: dict[tuple[Oid | None, int], list[Node]] = {}
        for node in nodes:
            if node.source is not None:
                self._at.setdefault((node.parent, node.source.line), []).append(node)

    def as_it_is(self, format: Format, parent: Node, record: Record) -> Node | None:
        """The one entry below ``parent`` from the record's line, where it is ``record`` to the byte: nothing is hidden.

        It needs no look for secrets. Where there are several, that look tells which of them it is.
        """
        nodes = self._at.get((parent.oid, record.line), ())
        if len(nodes) != 1:
            return None
        tree = commit_writer.tree_of(format.FORM, commit_writer.safe(format, record.payload, None).stored)
        return nodes[0] if nodes[0].tree == tree else None

    def find(self, parent: Node, record: Record) -> Node | None:
        """The entry below ``parent`` that ``record`` is, whatever of it was hidden."""
        nodes = self._at.get((parent.oid, record.line), ())
        return next((node for node in nodes if says(self._store, node, record.payload)), None)

    def tombstone(self, format: Format, parent: Node, record: Record) -> Node | None:
        """What stands where an entry of this record's place and id was purged, of which nothing is left to compare."""
        source = SourceRef.of(format.AGENT, record.source_id, record.line)
        nodes = self._at.get((parent.oid, record.line), ())
        return next((node for node in nodes if node.is_tombstone and node.source == source), None)


def fill_vault(store: ObjectStore, sink: commit_writer.Entries, node: Node, payload: bytes) -> None:
    """``payload``, which ``node`` says, has what is hidden in it: this machine may not have had it before."""
    parts = kept(store, node)
    if holes.hidden(parts.holes) and not holes.holds_purged(parts.holes):
        sink.keep_original(commit_writer.original_of(node, parts.stored, parts.holes, payload))


def says(store: ObjectStore, node: Node, payload: bytes) -> bool:
    """Whether an entry is ``payload``, but for what of it was hidden. Raises ``Malformed``, ``Corrupt`` ..."""
    parts = kept(store, node)
    return matches(whole(store, node, parts), holes.hidden(parts.holes), payload)
