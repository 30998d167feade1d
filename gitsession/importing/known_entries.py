"""Lookups of existing entries for an import.

*Equivalent entries* differ only in their redactions, because redaction rules differ between releases, machines and
users. If a record was stored with other rules, or without rules, its entry is not changed and no new entry is created.
So new rules do not create branches. ``gitsession redact`` finds secrets that older rules missed.

*Exported lines* are lines that gitsession wrote into an agent's file. An import maps these lines to the entries from
which they were written, and creates no new entries for them. An exported line is recognized by its id, which is derived
from the entry, and by its content, which must be the content that the current release would write. Recognized lines are
recorded on ``meta``, so that they are also recognized by a later release that would write different content.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TypeAlias

from gitsession.codec import holes
from gitsession.codec.digest import to_base64url
from gitsession.codec.message import SourceRef
from gitsession.dataclass import dataclass
from gitsession.errors import Corrupt, NoBase
from gitsession.exporting.gather import gather
from gitsession.formats import Format, Record, Resumable
from gitsession.formats.base import jsonl
from gitsession.formats.base.jsonl import record_line
from gitsession.formats.base.record import TAIL, Base
from gitsession.git.types import Oid
from gitsession.model.entries import SessionHeader
from gitsession.redaction.original import matches
from gitsession.sessions import commit_writer, graph, session_facts
from gitsession.sessions.content import entry_of, entry_tree, full_payload, is_fork_start, payload_of
from gitsession.sessions.graph import Tree
from gitsession.sessions.meta import BELOW, Meta, meta_of
from gitsession.sessions.node import Node
from gitsession.sessions.revealed_store import RevealedStore
from gitsession.store import refs
from gitsession.store.interface import ObjectStore

Find: TypeAlias = Callable[[str], str | None]
"""A function that maps an agent's session id to the id of the session in this store, or to ``None``."""


def no_base(source_id: str, why: str = "is not in this store") -> NoBase:
    """Return the error for a file that continues the session ``source_id``, whose entries are not in the store."""
    hint = "import that session's file first, then import this file again"
    return NoBase(f"the file continues session '{source_id}', which {why}", source_id, hint=hint)


def damaged(sid: str) -> Corrupt:
    """Return the error for an import into a damaged session."""
    hint = "run `gitsession repair`, which also reads agents' files"
    return Corrupt(f"session {sid} is damaged in this store", hint=hint)


def shared(store: ObjectStore, base: Base, find: Find | None) -> Node:
    """Return the last entry that a fork shares with the session of ``base``, or the root of that session.

    The root is returned if the fork shares no entry. Raises ``NoBase`` if the shared part is not in the store yet. If
    the fork were imported anyway, its id would differ from its id in other stores.
    """
    sid = find(base.source_id) if find is not None else None
    if sid is None:
        raise no_base(base.source_id)
    tree = graph.tree(store, sid)
    if tree.damage:
        raise damaged(sid)
    start, _ = session_facts.file_start(store, tree, sid)
    session_meta = meta_of(store, sid)
    segment = base.source_id if base.source_id in session_meta.segments else None
    meta = session_meta.of_file(segment)
    part = session_facts.file_part(tree, session_facts.segment_starts(tree, session_meta.segments), start, segment)
    entries = session_facts.entries_in_file(part, meta.source_file.superseded)
    entries.sort(key=lambda node: node.source.line if node.source else 0, reverse=True)
    tail = meta.newest_lines().get(TAIL)
    _check_reaches(store, base, [*([tail] if tail is not None else []), *entries[:1]])
    first = entries[-1] if segment is not None and entries else tree.nodes[start]
    earlier = list(graph.history(store, first.parent)) if first.parent is not None else []
    for node in (*entries, *earlier):
        if node.source is not None:
            number = base.number(payload_of(store, node))
            if number is not None and number < base.end:
                return node
    return earlier[-1] if earlier else first


def _check_reaches(store: ObjectStore, base: Base, last: list[Node]) -> None:
    numbers = [number for node in last if (number := base.number(payload_of(store, node))) is not None]
    if max(numbers, default=-1) < base.end - 1:
        raise no_base(base.source_id, "is incomplete in this store")


class EquivalentEntries:
    """The imported entries of one session, for comparison with records."""

    def __init__(self, store: ObjectStore, nodes: Iterable[Node]) -> None:
        self._store = store
        self._at: dict[tuple[Oid | None, int], list[Node]] = {}
        for node in nodes:
            if node.source is not None:
                self._at.setdefault((node.parent, node.source.line), []).append(node)

    def find_unchanged(self, format: Format, parent: Node, record: Record) -> Node | None:
        """Return the only entry below ``parent`` at the line of ``record`` if it has the same bytes as ``record``.

        Such an entry has no redactions, so ``record`` is not scanned for secrets. If there are several entries at that
        line, the result is ``None``, and the caller selects one of them after a secret scan.
        """
        nodes = self._at.get((parent.oid, record.line), ())
        if len(nodes) != 1:
            return None
        summary = b""
        if commit_writer.has_summary(nodes[0].kind):
            summary = commit_writer.summary_of(format.FORM, format.headline(record.payload, record.parsed))
        stored = commit_writer.redact_record(format, record.payload, None).stored
        tree = commit_writer.tree_of(format.FORM, stored, summary)
        return nodes[0] if nodes[0].tree == tree else None

    def find(self, parent: Node, record: Record) -> Node | None:
        """Return the entry below ``parent`` that equals ``record`` except for redactions, or ``None``."""
        nodes = self._at.get((parent.oid, record.line), ())
        return next((node for node in nodes if has_payload(self._store, node, record.payload)), None)

    def tombstone(self, format: Format, parent: Node, record: Record) -> Node | None:
        """Return the tombstone with the position and the id of ``record``, or ``None``.

        The content of a purged entry no longer exists, so it cannot be compared with ``record``.
        """
        source = SourceRef.of(format.AGENT, record.source_id, record.line)
        nodes = self._at.get((parent.oid, record.line), ())
        return next((node for node in nodes if node.is_tombstone and node.source == source), None)


def fill_vault(store: ObjectStore, sink: commit_writer.Entries, node: Node, payload: bytes) -> None:
    """Store ``payload``, the original of ``node``, in the vault if ``node`` has redactions."""
    parts = entry_tree(store, node)
    if holes.hidden(parts.holes) and not holes.holds_purged(parts.holes):
        sink.keep_original(commit_writer.original_of(node, parts.stored, parts.holes, payload))


def has_payload(store: ObjectStore, node: Node, payload: bytes) -> bool:
    """Return whether the payload of the entry ``node`` equals ``payload`` except for redactions.

    Raises ``Malformed``, ``Corrupt`` or another error if the entry cannot be read.
    """
    parts = entry_tree(store, node)
    return matches(full_payload(store, node, parts), holes.hidden(parts.holes), payload)


def native_session_tree(store: ObjectStore, sid: str) -> Tree | None:
    """Return the tree of the session ``sid`` if gitsession created the session, otherwise ``None``.

    If such a session was written to an agent's file, the header of the file contains ``sid``. For a fork, return
    ``None``, because the line numbers of shared entries are those of another file. Raises ``Corrupt`` if the session is
    damaged.
    """
    if not refs.is_sid(sid) or not graph.branches(store, sid):
        return None
    tree = graph.tree(store, sid)
    if tree.damage:
        raise damaged(sid)
    began = entry_of(store, tree.nodes[tree.children[None][0]])
    if not isinstance(began, SessionHeader) or began.source_id is not None:
        return None
    return None if any(is_fork_start(store, node, sid) for node in tree.nodes.values()) else tree


@dataclass(frozen=True, slots=True)
class ExportedLine:
    """A line in the agent's file that gitsession wrote.

    ``node``: the entry below which the children of the line are placed. ``position``: the item for the line in
    ``SourceFile.ours``.
    """

    record: Record
    node: Node
    position: str


class ExportedLineFinder:
    """A finder of exported lines in a file of the session ``sid``.

    ``tree``, ``meta``: the tree and the ``meta`` of the session.
    """

    def __init__(self, store: ObjectStore, sid: str, format: Format, tree: Tree, meta: Meta) -> None:
        self._store, self._sid, self._format = store, sid, format
        self._meta = meta
        self._nodes = {to_base64url(node.chain): node for node in tree.nodes.values()}
        self._recorded = meta.exported_lines()
        # If the file already contains all entries that gitsession created, no lines need to be generated for
        # comparison.
        known = {key for _, key in self._recorded.values()}
        roots = tree.children[None]
        pending = (key for key, node in self._nodes.items() if node.source is None and node.oid not in roots)
        # The header of a file without a header line is one of gitsession's own marks, but no line is written for it.
        named = any(mark.line is None and (mark.what != "header" or mark.value) for mark in meta.marks)
        self.may_be_new = named or any(key not in known for key in pending)

    def find(self, record: Record, parent: Node) -> ExportedLine | None:
        """Return ``record`` as an exported line below ``parent``, or ``None`` if the agent wrote the record."""
        if record.source_id is None:
            return None
        recorded = self._recorded.get(record.line)
        if recorded is not None and has_payload(self._store, recorded[0], record.payload):
            key = recorded[1]
        else:
            written = self._written.get(record.source_id) if self.may_be_new else None
            if written is None or not self._is_one(record, written):
                return None
            key = written[1] if written[1] is not None else BELOW
        node = parent if key.startswith(BELOW) else self._nodes.get(key)
        if node is None:
            return None
        position = BELOW + to_base64url(parent.chain) if key.startswith(BELOW) else key
        return ExportedLine(record, node, f"{record.line}:{position}")

    def find_header(self, record: Record, parent: Node) -> ExportedLine | None:
        """Return ``record`` as an exported line if it is the header of a file that was moved to another folder.

        The file must not be the first file of its session. If the header has its original folder again, after an
        earlier import found the header with another folder, the record is also returned. For any other record, the
        result is ``None``.
        """
        if record.source_id not in self._meta.segments:
            return None
        headers = (node for node in self._nodes.values() if node.parent == parent.oid and _is_header(node, record))
        node = next(headers, None)
        if node is None:
            return None
        key = to_base64url(node.chain)
        if has_payload(self._store, node, record.payload):
            is_one = record.line in self._recorded
        else:
            is_one = self._is_one(record, (self._moved(node, record), key))
        return ExportedLine(record, node, f"{record.line}:{key}") if is_one else None

    def _moved(self, header: Node, record: Record) -> bytes:
        """Return the line of ``header`` as ``resume`` would write it for the folder in ``record``."""
        payload, stated = payload_of(RevealedStore(self._store), header), self._format.read(record.payload)
        if not isinstance(self._format, Resumable) or not isinstance(stated, SessionHeader):
            return payload
        return self._format.relocate(payload, stated.source_id or "", stated.cwd or "")

    def _is_one(self, record: Record, written: tuple[bytes, str | None]) -> bool:
        """Return whether ``record`` is the exported line ``written``. Secrets may be redacted in only one of them."""
        payload, guard = record.payload, self._store.guard
        safe = payload if guard is None else guard.redact(self._format.FORM, payload).payload
        return any(_is_same_line(candidate, written[0], is_name=written[1] is None) for candidate in {payload, safe})

    @functools.cached_property
    def _written(self) -> dict[str, tuple[bytes, str | None]]:
        """The lines that the current release would write into the file, each with the key of its entry, by line id."""
        out = gather(RevealedStore(self._store), self._sid, self._format).out
        agent_ids = {entry.id for entry in out.entries if entry.line is not None}
        lines = self._format.write(out).lines
        return {line.id: (line.data, line.key) for line in lines if line.id is not None and line.id not in agent_ids}


def _is_header(node: Node, record: Record) -> bool:
    is_it = node.source is not None and (node.source.line, node.source.id) == (record.line, record.source_id)
    return is_it and node.kind == SessionHeader.kind


def _is_same_line(line: bytes, written: bytes, *, is_name: bool) -> bool:
    """Return whether ``line`` and ``written`` are equal except for whitespace and the order of members.

    ``is_name``: whether the line sets a name. The parents of lines that set a name may differ, because the leaf may
    have moved.
    """
    found, expected = jsonl.parse(record_line(line)), jsonl.parse(record_line(written))
    if not isinstance(found, dict) or not isinstance(expected, dict):
        return False
    if is_name:
        found.pop("parentId", None)
        expected.pop("parentId", None)
    return found == expected
