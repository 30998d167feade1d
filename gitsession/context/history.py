"""A history that is read backwards from its leaf, only as far as necessary."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Protocol

from gitsession.codec import holes
from gitsession.codec.digest import to_base64url
from gitsession.errors import GitSessionError, Malformed
from gitsession.formats import FORMATS
from gitsession.git.types import Oid
from gitsession.model.entries import Entry, Instructions, Opaque
from gitsession.sessions import content
from gitsession.sessions import history_state as anchors
from gitsession.sessions.attached_files import SessionAttachments
from gitsession.sessions.history_state import HistoryState
from gitsession.sessions.indexed_entry import IndexedEntry, Spot
from gitsession.sessions.node import Node, load, short_id
from gitsession.sessions.read_ahead import ReadAheadReader
from gitsession.sessions.revealed_store import RevealedStore
from gitsession.store.interface import ObjectStore


class EntryIndex(Protocol):
    """An index of facts about entries, such as the catalog. Indexed entries need not be read from the history."""

    def anchors(self, oid: Oid) -> HistoryState | None:
        """Return the state of a history that ends at this entry; ``None`` if it is unknown."""
        return None

    def indexed_entry(self, oid: Oid, *, goes_on: bool = False) -> IndexedEntry | None:
        """Return an entry as the index describes it, without its commit; ``None`` if it is unknown.

        ``goes_on``: whether the caller will read earlier entries next.
        """
        return None

    def is_there(self, name: str, asked_at: Oid) -> bool:
        """Return whether an entry before ``asked_at`` can have the name ``name``. If this is unknown, return ``True``.

        A name is a chain digest, or the id that an agent gave the entry.
        """
        return True


class _EmptyIndex(EntryIndex):
    """An index without entries. The methods of ``EntryIndex`` return the results for an unknown entry."""


class HistoryCache:
    """A cache of entries that were read from histories. Entries never change, so a later read loads only new entries.

    The cache is emptied when its payloads exceed ``MEMORY_BYTES_MAX``. Threads can share the cache.

    Attributes:
        indexed_entries: Entries that an index returned, by object id.
        nodes: Nodes of entries, by object id.
        entries: Views and payloads of entries, by object id.
        redacted_entries: Object ids of entries with placeholders.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Empty the cache. Call this method after a purge."""
        self.indexed_entries: dict[Oid, IndexedEntry] = {}
        self.nodes: dict[Oid, Node] = {}
        self.entries: dict[Oid, tuple[Entry, bytes]] = {}
        self.redacted_entries: set[Oid] = set()
        self._bytes = 0

    def keep(self, oid: Oid, entry: Entry, payload: bytes, *, has_placeholders: bool) -> None:
        """Add an entry to the cache. ``has_placeholders``: whether a part of its payload is redacted."""
        self._reserve(len(payload) + _ENTRY_BYTES)
        self.entries[oid] = entry, payload
        if has_placeholders:
            self.redacted_entries.add(oid)

    def keep_node(self, node: Node) -> None:
        """Add a node to the cache."""
        self._reserve(_NODE_BYTES)
        self.nodes[node.oid] = node

    def _reserve(self, size: int) -> None:
        if self._bytes + size > MEMORY_BYTES_MAX:
            self.clear()
        self._bytes += size


MEMORY_BYTES_MAX = 16 << 20
_ENTRY_BYTES, _NODE_BYTES = 1_000, 800
"""Estimated sizes in memory of an entry, in addition to its payload, and of a node, in bytes."""

_AHEAD_FIRST, _AHEAD_MOST = 16, 512
"""Number of entries that are loaded together at first, and the maximum."""


class ContextHistory:
    """The entries from ``leaf`` to the root. Each node and entry is read once, when it is first requested.

    A damaged entry raises ``MissingObject``, ``Corrupt`` or ``Malformed``, so that an incomplete context is never
    returned.

    Attributes:
        leaf: Id of the newest entry; ``None`` for an empty history.
        redacted_entries: Entries with placeholders that were read so far.

    Args:
        store: The store.
        leaf: Id of the newest entry.
        index: Index of entries.
        cache: Cache of entries.
        attachments: Files of the session, whose content replaces their names in entries; ``None`` to keep the names.
        recorded: Time, in Unix time in ms, and id of each ``instructions`` entry on ``meta``, oldest first.
    """

    def __init__(
        self,
        store: ObjectStore,
        leaf: Oid | None,
        index: EntryIndex | None = None,
        cache: HistoryCache | None = None,
        attachments: SessionAttachments | None = None,
        recorded: Sequence[tuple[int, Oid]] = (),
    ) -> None:
        self._store = store
        self._ahead = ReadAheadReader(store)
        self._expected: list[Oid] = []
        """Payloads of entries that ``showable_entries`` listed and that are not read yet."""
        self._attachments = attachments
        self._recorded = recorded
        self._index = index or _EmptyIndex()
        self._cache = cache or HistoryCache()
        self._nodes: dict[Oid, Node] = {}
        self._read: dict[Oid, tuple[Entry, bytes]] = {}
        self.redacted_entries: set[Oid] = set()
        self.leaf = leaf

    def back(self, before: Spot | None = None) -> Iterator[Node]:
        """Yield all nodes, newest first. If ``before`` is set, yield only the nodes before it."""
        oid = self.leaf if before is None else self._node(before.oid).parent
        while oid is not None:
            node = self._node(oid)
            yield node
            oid = node.parent

    def showable_entries(self) -> Iterator[Spot]:
        """Yield the entries that a context can show, newest first. Other entries may be among them."""
        oid = self.leaf
        while oid:
            indexed = None if oid in self._cache.nodes else self._indexed_entry(oid, goes_on=True)
            if indexed is not None and indexed.payload and oid not in self._cache.entries:
                self._expected.append(indexed.payload)
            yield indexed or self._node(oid)
            oid = self._node(oid).parent if indexed is None or indexed.above is None else indexed.above

    def _indexed_entry(self, oid: Oid, *, goes_on: bool = False) -> IndexedEntry | None:
        found = self._cache.indexed_entries.get(oid)
        if found is None:
            found = self._index.indexed_entry(oid, goes_on=goes_on)
            if found is not None and found.above is not None:
                self._cache.indexed_entries[oid] = found
        return found

    def _node(self, oid: Oid) -> Node:
        node = self._nodes.get(oid) or self._cache.nodes.get(oid)
        if node is None:
            node = load(self._ahead, oid)
            self._cache.keep_node(node)
        self._nodes[oid] = node
        return node

    def _load_ahead(self, oid: Oid, count: int) -> set[Oid]:
        """Load objects of up to ``count`` indexed entries, back from ``oid``, and return the ids of the entries."""
        found: list[IndexedEntry] = []
        above: Oid | None = oid
        while above and len(found) < count:
            indexed = self._indexed_entry(above, goes_on=True)
            if indexed is None:
                break
            found.append(indexed)
            above = indexed.above
        nodes = [each.oid for each in found if each.oid not in self._cache.nodes]
        payloads = [each.payload for each in found if each.payload and each.oid not in self._cache.entries]
        self._ahead.load_objects([*nodes, *payloads])
        return {each.oid for each in found}

    def entry(self, spot: Spot) -> Entry:
        """Return the view of an entry."""
        return self._entry_and_payload(spot)[0]

    def payload(self, spot: Spot) -> bytes:
        """Return the payload of an entry."""
        return self._entry_and_payload(spot)[1]

    def _entry_and_payload(self, spot: Spot) -> tuple[Entry, bytes]:
        found = self._read.get(spot.oid)
        if found is not None:
            return found
        found = self._cache.entries.get(spot.oid)
        if found is None:
            found, has_placeholders = self._load_entry(spot)
            if isinstance(found[0], Opaque) and found[0].problem and spot.kind != Opaque.kind:
                raise Malformed(f"the entry cannot be read: {found[0].problem}", where=spot.oid)
            self._cache.keep(spot.oid, *found, has_placeholders=has_placeholders)
        if spot.oid in self._cache.redacted_entries:
            self.redacted_entries.add(spot.oid)
        found = self._resolved(spot, *found)
        self._read[spot.oid] = found
        return found

    def _resolved(self, spot: Spot, entry: Entry, payload: bytes) -> tuple[Entry, bytes]:
        """Return the entry and its payload, with the names of attachments replaced by their content.

        The result is not added to the cache, because attachments can be imported later.
        """
        if self._attachments is None or spot.source is None:
            return entry, payload
        resolved = self._attachments.resolve(spot.source.agent, payload)
        return (entry, payload) if resolved is payload else (FORMATS[spot.source.agent].read(resolved), resolved)

    def _load_entry(self, spot: Spot) -> tuple[tuple[Entry, bytes], bool]:
        """Return the entry, its payload, and whether it has placeholders."""
        indexed = spot if isinstance(spot, IndexedEntry) else self._indexed_entry(spot.oid)
        if indexed is not None and indexed.payload:
            if self._expected:
                self._ahead.load_objects(self._expected)
                self._expected = []
            agent = indexed.source.agent if indexed.source else None
            return content.read_alone(self._ahead, indexed.payload, agent), False
        node = self._node(spot.oid)
        parts = content.entry_tree(self._store, node)
        payload = content.full_payload(self._store, node, parts)
        return (content.decode_payload(node, parts.form, payload), payload), bool(holes.hidden(parts.holes))

    def entry_at(self, oid: Oid) -> Entry:
        """Return the view of the entry ``oid`` of this history. The entry need not have been read yet."""
        found = self._read.get(oid)
        return found[0] if found else self.entry(self._node(oid))

    def may_hold(self, name: str, before: Spot) -> bool:
        """Return whether an entry before ``before`` can have the name ``name``. If not, a search is unnecessary."""
        return self._index.is_there(name, before.oid)

    def revealed(self) -> tuple[ContextHistory, RevealedStore]:
        """Return this history with the originals of redacted parts, and the store that counts these originals."""
        store = RevealedStore(self._store)
        line = ContextHistory(store, self.leaf, self._index, attachments=self._attachments, recorded=self._recorded)
        return line, store

    def revealed_entries(self) -> Iterator[tuple[Node, Entry]]:
        """Yield all nodes with their entries, newest first. Redacted parts have their originals, if they are here."""
        expected: set[Oid] = set()
        oid, count = self.leaf, _AHEAD_FIRST
        while oid is not None:
            if not expected and oid not in self._cache.nodes:
                expected = self._load_ahead(oid, count)
                count = min(count * 4, _AHEAD_MOST)
            expected.discard(oid)
            node = self._node(oid)
            oid = node.parent
            yield node, self._revealed_entry(node)

    def revealed_contents(self) -> Iterator[Entry]:
        """Yield the entries with a kind in ``CONTEXT_KINDS``, newest first, as ``revealed_entries`` does."""
        for chunk in _chunks(spot for spot in self.showable_entries() if spot.kind in anchors.CONTEXT_KINDS):
            yield from map(self._revealed_entry, chunk)

    def _revealed_entry(self, spot: Spot) -> Entry:
        entry = self.entry(spot)
        return self._exact.entry(spot) if spot.oid in self.redacted_entries else entry

    @functools.cached_property
    def _exact(self) -> ContextHistory:
        return self.revealed()[0]

    @functools.cached_property
    def anchors(self) -> HistoryState:
        """State at the leaf, computed from the nearest entry whose state is known."""
        leaf = self.leaf
        if leaf is None:
            return anchors.EMPTY_STATE
        return self._index.anchors(leaf) or anchors.gather(
            self.back(),
            self.entry,
            lambda oid: self._index.anchors(oid) if oid != leaf else None,  # the state at the leaf is unknown
        )

    @functools.cached_property
    def instructions(self) -> Instructions | None:
        """Instructions at the leaf; ``None`` if there are none.

        Files that hooks recorded on ``meta`` are in force from their time on. They complete the instructions in the
        history, which may have a system prompt.
        """
        oid = self.anchors.instructions
        own = self.entry_at(oid) if oid else None
        found = own if isinstance(own, Instructions) else None
        if not self._recorded or self.leaf is None or (found is not None and found.files is not None):
            return found
        seconds = self._node(self.leaf).committer_seconds
        newest = next((oid for at_ms, oid in reversed(self._recorded) if at_ms // 1000 <= seconds), None)
        files = self.entry_at(newest) if newest else None
        if not isinstance(files, Instructions):
            return found
        return files if found is None else dataclasses.replace(found, files=files.files)


def _chunks(spots: Iterator[Spot]) -> Iterator[list[Spot]]:
    """Yield lists of increasing length. If ``spots`` raises an error, the entries before it are yielded first."""
    chunk: list[Spot] = []
    count = _AHEAD_FIRST
    try:
        for spot in spots:
            chunk.append(spot)
            if len(chunk) == count:
                yield chunk
                chunk, count = [], min(count * 4, _AHEAD_MOST)
    except GitSessionError:
        yield chunk
        raise
    yield chunk


def names_of(node: Spot) -> tuple[str, ...]:
    """Return the names by which other entries of the history can refer to an entry.

    These are its chain digest and, for an agent's entry, the id that the agent assigned. For an entry that gitsession
    created, the second name is its short id.
    """
    entry_id = short_id(node.chain) if node.source is None else node.source.id
    chain = to_base64url(node.chain)
    return (chain,) if entry_id is None else (chain, entry_id)
