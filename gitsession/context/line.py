"""A line of entries, from its leaf backwards, read only as far and as deep as somebody asks."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Protocol

from gitsession.codec.digest import to_base64url
from gitsession.errors import Malformed
from gitsession.model.entries import Entry, Opaque
from gitsession.session import anchors, content, graph
from gitsession.session.anchors import Anchors
from gitsession.session.node import Node
from gitsession.store.base import ObjectStore, Oid


class Known(Protocol):
    """What can be told of entries without a walk: a catalogue, which may know less than all."""

    def anchors(self, oid: Oid) -> Anchors | None:
        """What the line that ends at this entry has said, if that is known."""

    def is_there(self, name: str, asked_at: Oid) -> bool:
        """Whether an entry before ``asked_at`` can answer to ``name``, a chain or an agent's id. If in doubt, yes."""


class _Nothing:
    def anchors(self, oid: Oid) -> Anchors | None:
        return None

    def is_there(self, name: str, asked_at: Oid) -> bool:
        return True


class Line:
    """The entries from ``leaf`` to the root. Nodes and entries are read when asked for, once.

    Raises ``MissingObject``, ``Corrupt`` and ``Malformed`` on what is damaged: a context that leaves something out
    must not pass for one that is whole.
    """

    def __init__(self, store: ObjectStore, leaf: Oid | None, known: Known | None = None) -> None:
        self._store = store
        self._known = known or _Nothing()
        self._nodes: list[Node] = []
        self._rest = graph.line(store, leaf) if leaf is not None else iter(())
        self._read: dict[Oid, tuple[Entry, bytes]] = {}
        self.leaf = leaf

    def back(self) -> Iterator[Node]:
        """The nodes, the leaf first. What another walk has read is not read again."""
        at = 0
        while True:
            if at == len(self._nodes):
                node = next(self._rest, None)
                if node is None:
                    return
                self._nodes.append(node)
            yield self._nodes[at]
            at += 1

    def entry(self, node: Node) -> Entry:
        """What a node means."""
        return self._entry_and_payload(node)[0]

    def payload(self, node: Node) -> bytes:
        """Its bytes as its writer wrote them."""
        return self._entry_and_payload(node)[1]

    def _entry_and_payload(self, node: Node) -> tuple[Entry, bytes]:
        found = self._read.get(node.oid)
        if found is None:
            parts = content.kept(self._store, node)
            payload = content.whole(self._store, node, parts)
            entry = content.view(node, parts.form, payload)
            if isinstance(entry, Opaque) and entry.problem and node.kind != Opaque.kind:
                raise Malformed(f"an entry of the context cannot be read: {entry.problem}", where=node.oid)
            found = self._read[node.oid] = entry, payload
        return found

    def entry_at(self, oid: Oid) -> Entry:
        """What the entry ``oid`` of this line means, which need not have been walked to."""
        found = self._read.get(oid)
        return found[0] if found else self.entry(next(graph.line(self._store, oid)))

    def may_hold(self, name: str, before: Node) -> bool:
        """Whether it is worth walking on from ``before`` to find the entry that answers to ``name``."""
        return self._known.is_there(name, before.oid)

    @functools.cached_property
    def anchors(self) -> Anchors:
        """What the line has said, from the nearest entry of which that is known."""
        return anchors.gather(self.back(), self.entry, self._known.anchors)


def answers_to(node: Node, name: str) -> bool:
    """Whether ``name`` in another entry of its line means this one: a chain, or the agent's own id."""
    return to_base64url(node.chain) == name or (node.source is not None and node.source.id == name)
