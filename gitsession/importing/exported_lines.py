"""Lines of an agent's file that we wrote into it: known again, they are the entries they were made of, not new ones.

A line of ours is known by its id, which follows from its entry, and by saying what we would write there today. What an
earlier import has found is on ``meta``, so it stays known whatever a later release would write.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from gitsession.codec.digest import to_base64url
from gitsession.errors import Corrupt
from gitsession.exporting.gather import gather
from gitsession.formats import Format, Record, Resumable
from gitsession.formats.base import jsonl
from gitsession.formats.base.jsonl import spoken
from gitsession.importing.equivalence import says
from gitsession.model.entries import SessionHeader
from gitsession.sessions import graph, session_ids
from gitsession.sessions.content import begins_fork, entry_of, payload_of
from gitsession.sessions.graph import Tree
from gitsession.sessions.meta import BELOW, Meta
from gitsession.sessions.node import Node
from gitsession.sessions.revealed_store import RevealedStore
from gitsession.store.interface import ObjectStore


def tree_of_ours(store: ObjectStore, sid: str) -> Tree | None:
    """The session begun here that a file was written from: its header has our name for it.

    Not a fork: the lines it shares have their numbers from another file. Raises ``Corrupt`` where it is damaged.
    """
    if not session_ids.is_one(sid) or not graph.branches(store, sid):
        return None
    tree = graph.tree(store, sid)
    if tree.damage:
        raise Corrupt(f"session {sid} is damaged here", hint="`gitsession repair` mends it")
    began = entry_of(store, tree.nodes[tree.children[None][0]])
    if not isinstance(began, SessionHeader) or began.source_id is not None:
        return None
    return None if any(begins_fork(store, node, sid) for node in tree.nodes.values()) else tree


@dataclass(frozen=True, slots=True)
class ExportedLine:
    """A line of ours in the agent's file. ``node``: the entry that what hangs below the line hangs below.

    ``place``: how ``SourceFile.ours`` says it.
    """

    record: Record
    node: Node
    place: str


class ExportedLineFinder:
    """The lines of ours in a file of ``format``, of the session ``sid``, which has ``tree`` and ``meta``."""

    def __init__(self, store: ObjectStore, sid: str, format: Format, tree: Tree, meta: Meta) -> None:
        self._store, self._sid, self._format = store, sid, format
        self._meta = meta
        self._nodes = {to_base64url(node.chain): node for node in tree.nodes.values()}
        self._recorded = meta.lines_of_ours()
        # Where all that is ours is in the file already, nothing need be written to be compared.
        known = {key for _, key in self._recorded.values()}
        roots = tree.children[None]
        pending = (key for key, node in self._nodes.items() if node.source is None and node.oid not in roots)
        self._may_be_new = any(mark.line is None for mark in meta.marks) or any(key not in known for key in pending)

    def find(self, record: Record, parent: Node) -> ExportedLine | None:
        """What ``record``, which hangs below ``parent`` in the file, is of ours; ``None`` where it is the agent's."""
        if record.source_id is None:
            return None
        recorded = self._recorded.get(record.line)
        if recorded is not None and says(self._store, recorded[0], record.payload):
            key = recorded[1]
        else:
            written = self._written.get(record.source_id) if self._may_be_new else None
            if written is None or not self._is_one(record, written):
                return None
            key = written[1] if written[1] is not None else BELOW
        node = parent if key.startswith(BELOW) else self._nodes.get(key)
        if node is None:
            return None
        place = BELOW + to_base64url(parent.chain) if key.startswith(BELOW) else key
        return ExportedLine(record, node, f"{record.line}:{place}")

    def find_header(self, record: Record, parent: Node) -> ExportedLine | None:
        """Return the entry that ``record``, the header of a later file, is in another folder; ``None`` if it is none.

        Also where it is in its own folder again, and an earlier import found it in another one.
        """
        if record.source_id not in self._meta.segments:
            return None
        headers = (node for node in self._nodes.values() if node.parent == parent.oid and _is_header(node, record))
        node = next(headers, None)
        if node is None:
            return None
        key = to_base64url(node.chain)
        if says(self._store, node, record.payload):
            is_one = record.line in self._recorded
        else:
            is_one = self._is_one(record, (self._moved(node, record), key))
        return ExportedLine(record, node, f"{record.line}:{key}") if is_one else None

    def _moved(self, header: Node, record: Record) -> bytes:
        """Return the line of ``header`` as ``resume`` writes it for the folder that ``record`` states."""
        payload, stated = payload_of(RevealedStore(self._store), header), self._format.read(record.payload)
        if not isinstance(self._format, Resumable) or not isinstance(stated, SessionHeader):
            return payload
        return self._format.moved(payload, stated.source_id or "", stated.cwd or "")

    def _is_one(self, record: Record, written: tuple[bytes, str | None]) -> bool:
        """Whether a record is a line of ours, in which secrets may be hidden here and not there."""
        theirs, guard = record.payload, self._store.guard
        safe = theirs if guard is None else guard.redact(self._format.FORM, theirs).payload
        return any(_says_the_same(each, written[0], is_name=written[1] is None) for each in {theirs, safe})

    @functools.cached_property
    def _written(self) -> dict[str, tuple[bytes, str | None]]:
        """What we would write into the file today, by id: the line, and the key of its entry (none for a name)."""
        out = gather(RevealedStore(self._store), self._sid, self._format).out
        theirs = {entry.id for entry in out.entries if entry.line is not None}
        lines = self._format.write(out).lines
        return {line.id: (line.data, line.key) for line in lines if line.id is not None and line.id not in theirs}


def _is_header(node: Node, record: Record) -> bool:
    is_it = node.source is not None and (node.source.line, node.source.id) == (record.line, record.source_id)
    return is_it and node.kind == SessionHeader.kind


def _says_the_same(theirs: bytes, ours: bytes, *, is_name: bool) -> bool:
    """However it is spaced and ordered. A name may stand below another entry by now: the leaf has moved."""
    found, expected = jsonl.parse(spoken(theirs)), jsonl.parse(spoken(ours))
    if not isinstance(found, dict) or not isinstance(expected, dict):
        return False
    if is_name:
        found.pop("parentId", None)
        expected.pop("parentId", None)
    return found == expected
