"""The state of an import, from which a later import of the same file can continue (decision 0065).

The catalog stores the state beside the status of the file. The state is derived data: without it, or if anything has
changed, the whole file is imported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from gitsession.codec.digest import HASH_BYTES, hash_of
from gitsession.dataclass import dataclass
from gitsession.discovery.sources import ReadState
from gitsession.errors import RefMoved
from gitsession.formats import SplitState
from gitsession.git.types import Oid, RefValue
from gitsession.model.headline import VIEW
from gitsession.sessions import graph
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.node import Node, load
from gitsession.store import refs
from gitsession.store.interface import ObjectStore

VERSION = 1
"""The version of the state. Increment it if a splitter changes the values of its state."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportState:
    """The state after an import.

    ``read``: the state of the file. ``sid``: the id of the session. ``refs``: the values of the refs that the import
    read, by name. ``root``: the entry below which the file begins. ``entries``: the oids of the entries by line number.
    ``has_replayed``: whether the recorded file changes were imported too. ``refs`` then contains the refs of
    checkpoints.
    """

    read: ReadState
    sid: str
    refs: Mapping[str, RefValue]
    root: Oid
    entries: Mapping[int, Oid]
    has_replayed: bool = False

    def encode(self) -> bytes:
        agent, digest, (size, records, values) = self.read
        lines, oids = list(self.entries), "".join(self.entries.values())
        session = self.sid, dict(self.refs), self.root, self.has_replayed
        fields = VERSION, VIEW, agent, digest, size, records, values, *session, lines, oids
        text = json.dumps(fields, separators=(",", ":")).encode()
        return hash_of(text) + text

    @classmethod
    def decode(cls, data: bytes) -> ImportState | None:
        """Return the state that ``encode`` returned as ``data``; ``None`` if it is damaged or of another release."""
        text = data[HASH_BYTES:]
        if hash_of(text) != data[:HASH_BYTES]:
            return None
        version, view, *fields = json.loads(text)
        if (version, view) != (VERSION, VIEW):
            return None
        agent, digest, size, records, values, sid, ref_values, root, has_replayed, lines, oids = fields
        return cls(
            read=ReadState(agent, digest, SplitState(size, records, values)),
            sid=sid,
            refs=ref_values,
            root=root,
            has_replayed=has_replayed,
            entries=dict(zip(lines, map("".join, zip(*[iter(oids)] * 40, strict=True)), strict=True)),
        )

    def is_current(self, store: ObjectStore) -> bool:
        """Return whether the session and the tombstone set have not changed since the import."""
        return self.refs == refs_of(store, self.sid, with_files=self.has_replayed)

    def after_replay(self, store: ObjectStore) -> ImportState:
        """Return the state after the recorded file changes were imported."""
        found = refs_of(store, self.sid, with_files=True)
        files = {name: value for name, value in found.items() if name not in refs_of(store, self.sid)}
        return replace(self, has_replayed=True, refs={**files, **self.refs})

    def tree(self, store: ObjectStore, lines: Iterable[int]) -> tuple[graph.Tree, dict[int, Node]]:
        """Return the tree of the session with only the root and the entries of ``lines``, and these entries by line.

        Raises ``RefMoved`` if the state is not current, or if an entry cannot be read.
        """
        branches = graph.branches(store, self.sid)
        if not self.is_current(store):  # checked after the branches were read, so that they are those of the state
            raise RefMoved("another process changed the session during the import")
        try:
            root = load(store, self.root)
            at_line = {line: load(store, self.entries[line]) for line in lines}
        except DAMAGE as error:
            raise RefMoved(f"the session is damaged: {error}") from error
        nodes = {node.oid: node for node in (root, *at_line.values())}
        return graph.Tree(branches, nodes, {None: [root.oid]}), at_line


def refs_of(store: ObjectStore, sid: str, *, with_files: bool = False) -> dict[str, RefValue]:
    """Return the values of the refs that the import of session ``sid`` reads, except those of other sessions.

    ``with_files``: whether to include the refs of checkpoints, which only the import of file changes reads.
    """
    prefix = refs.session(sid)
    found = {name: store.ref(name) for name in (refs.TOMBSTONES, refs.active(sid), refs.active_files(sid))}
    found |= store.refs(prefix)
    return {
        name: value
        for name, value in found.items()
        if value is not None and (with_files or not refs.is_files(name.removeprefix(prefix)))
    }
