"""A line of entries, from its leaf backwards, read only as far and as deep as somebody asks."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Protocol

from gitsession.codec.digest import to_base64url
from gitsession.errors import Malformed
from gitsession.model.entries import Entry, Opaque
from gitsession.session import anchors, content
from gitsession.session.anchors import Anchors
from gitsession.session.node import Node, load
from gitsession.store.base import ObjectStore, Oid


class Known(Protocol):
    """What can be told of entries without a walk: a catalogue, which may know less than all."""

    def anchors(self, oid: Oid) -> Anchors | None:
        """What the line that ends at this entry has said, if that is known."""

    def above(self, oid: Oid) -> Oid | None:
        """The nearest entry before this one that can show something; "" if none can, ``None`` if that is not known."""

    def is_there(self, name: str, asked_at: Oid) -> bool:
        """Whether an entry before ``asked_at`` can answer to ``name``, a chain or an agent's id. If in doubt, yes."""


class _Nothing:
    def anchors(self, oid: Oid) -> Anchors | None:
        return None

    def above(self, oid: Oid) -> Oid | None:
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
        self._nodes: dict[Oid, Node] = {}
        self._read: dict[Oid, tuple[Entry, bytes]] = {}
        self.leaf = leaf

    def back(self, before: Node | None = None) -> Iterator[Node]:
        """Every node, the leaf first; or those before ``before``."""
        oid = self.leaf if before is None else before.parent
        while oid is not None:
            node = self._node(oid)
            yield node
            oid = node.parent

    def showing(self) -> Iterator[Node]:
        """The nodes that can show something to a model, the newest first. Others may be among them."""
        oid = self.leaf
        while oid:
            node = self._node(oid)
            yield node
            above = self._known.above(oid)
            oid = node.parent if above is None else above

    def _node(self, oid: Oid) -> Node:
        node = self._nodes.get(oid)
        if node is None:
            node = self._nodes[oid] = load(self._store, oid)
        return node

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
        return found[0] if found else self.entry(self._node(oid))

    def may_hold(self, name: str, before: Node) -> bool:
        """Whether it is worth walking on from ``before`` to find the entry that answers to ``name``."""
        return self._known.is_there(name, before.oid)

    @functools.cached_property
    def anchors(self) -> Anchors:
        """What the line has said, from the nearest entry of which that is known."""
        return anchors.gather(self.back(), self.entry, self._known.anchors)


def answers_to(node: Node, name: str) -> bool:
    """Whether ``name`` in another entry of its line means this one: a chain, or the agent's own id."""
    return name in names_of(node)


def names_of(node: Node) -> tuple[str, ...]:
    """What an entry is called by others of its line: its chain, and the agent's own id where it has one."""
    chain = to_base64url(node.chain)
    return (chain,) if node.source is None or node.source.id is None else (chain, node.source.id)
