"""Import of the values that are stored on ``meta``.

These are the lines that an agent rewrites, the state of the file, and attachments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gitsession.codec.cbor import to_profile
from gitsession.codec.digest import digest as digest_of
from gitsession.codec.digest import hash_of
from gitsession.codec.payload import NONCE_BYTES
from gitsession.dataclass import dataclass
from gitsession.errors import Malformed
from gitsession.formats import Format, Record, Source, SourceProblem
from gitsession.formats.base.record import TAIL, WHOLE
from gitsession.git.types import Oid
from gitsession.importing.known_entries import ExportedLine, fill_vault, has_payload
from gitsession.model import entries as kinds
from gitsession.model.entries import Entry
from gitsession.sessions import commit_writer, graph, session_facts, tombstone, tombstone_set
from gitsession.sessions.content import payload_of
from gitsession.sessions.meta import Meta
from gitsession.sessions.node import Node, line_of, position
from gitsession.store import refs
from gitsession.store.interface import ObjectStore


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedSource:
    """The imported records of ``source``.

    ``tree``: the part of the session's tree that comes from the file of ``source``; ``None`` if the session is new.
    ``root``: the entry below which the file begins. ``at_line``: the entries by line number; ``exported``: the exported
    lines by line number; ``new``: the number of new entries.
    """

    source: Source
    tree: graph.Tree | None
    root: Node
    at_line: Mapping[int, Node]
    exported: Mapping[int, ExportedLine]
    new: int


class MetadataImport:
    """The changes that one import makes to ``meta``.

    ``before`` and ``tip``: the tip of ``meta`` before and after the import. ``lost``: the positions of entries that
    were in the file at the last import and are no longer in it. ``rewritten``: the number of the first line that the
    agent has changed since the last import; ``None`` if it changed no line. ``problems``: problems for the report.
    """

    def __init__(
        self,
        store: ObjectStore,
        sink: commit_writer.Entries,
        format: Format,
        sid: str,
        old_meta: Meta,
        placed: ImportedSource,
    ) -> None:
        self._store, self._sink, self._format = store, sink, format
        self._old_meta = old_meta.of_file(placed.source.segment)
        self._guard = store.guard
        self._source, self._tree, self._root = placed.source, placed.tree, placed.root
        self._at_line, self._exported, self._new = placed.at_line, placed.exported, placed.new
        self.before = self.tip = store.ref(refs.meta(sid)) if placed.tree else None
        self._purged = tombstone_set.read(store)
        self.rewritten: int | None = None
        self.lost: tuple[str, ...] = ()
        self.problems: list[SourceProblem] = []
        self._node = old_meta.nodes[0] if old_meta.nodes else placed.root

    def keep_file(self, project: str | None, continuation: kinds.Continuation | None) -> None:
        """Append the session's header and the state of the file to ``meta``, unless the file is an older copy."""
        if not self._is_older_copy():
            self._header(project)
            if continuation is not None and self._old_meta.continuation is None:
                self._append_entry(continuation)
            self._append_file_state()

    def attach(self, attachments: Mapping[str, bytes]) -> None:
        """Append an entry for each attachment that ``meta`` does not have.

        The tree of such an entry depends only on the name and the content of the attachment.
        """
        have = {node.tree for node in self._old_meta.nodes}
        for name, data in attachments.items():
            self._attach(name, data, have)

    def _attach(self, name: str, data: bytes, have: set[Oid]) -> None:
        entry = kinds.Attachment(name=name, data=data, at_ms=self._source.started_ms)
        try:
            nonce = hash_of(name.encode())[:NONCE_BYTES]
            draft = commit_writer.draft_own(entry, nonce, self._guard)
        except Malformed as error:
            self.problems.append(SourceProblem(0, f"cannot store '{name}': {error}"))
            return
        drafts = [draft]
        if draft.original is not None:
            # An older release may have stored the attachment without redactions.
            drafts.append(commit_writer.draft_own(entry, nonce, None))
        digests = [digest_of(each.stored.payload, each.stored.holes).hex() for each in drafts]
        is_purged = any(map(self._purged.has_entry, digests))
        if not is_purged and not any(commit_writer.tree_of(each.form, each.stored) in have for each in drafts):
            self._append(draft)

    def _is_older_copy(self) -> bool:
        """Return whether the file is an older copy: the store contains all lines of the file, and later lines."""
        if self._tree is None or self._new:
            return False
        superseded = set(self._old_meta.source_file.superseded)
        if any(position(node) in superseded for node in self._at_line.values()):
            return False
        present = {node.oid for node in self._at_line.values()}
        lines = (record.line for record in (*self._source.meta, *self._source.records) if record.line < WHOLE)
        end = max(lines, default=0)
        missing = [node for node in session_facts.entries_in_file(self._tree, superseded) if node.oid not in present]
        missing += [
            node for number, (node, _) in self._old_meta.exported_lines().items() if number not in self._exported
        ]
        older = bool(missing) and all(node.source is not None and node.source.line > end for node in missing)
        if older:
            what = f"an older copy of the file: {len(missing):,} later lines stay in the store"
            self.problems.append(SourceProblem(end, what))
        return older

    def _append_file_state(self) -> None:
        newest = self._old_meta.newest_lines()
        headers: list[Node] = []
        replaced: set[str] = set()
        for record in (*self._source.meta, *[exported.record for exported in self._exported.values()]):
            node = newest.pop(record.line, None)
            if node is None or not self._is_stored(node, record):
                replaced |= {position(node)} if node is not None else set()
                self._append(commit_writer.draft_record(self._format, record, self._guard))
                node = self._node
            elif not node.is_tombstone:
                fill_vault(self._store, self._sink, node, record.payload)
            headers.append(node)
        self._tail(newest.pop(TAIL, None))
        before = self._old_meta.source_file
        # Headers that earlier rewrites replaced stay in the list, because they determine the header at the time of an
        # entry.
        older = {position(node) for node in self._old_meta.older_lines()} & set(before.superseded)
        entries = self._superseded(newest.values(), headers)
        superseded = (*entries, *sorted(older - set(entries)))
        self.lost = tuple(at for at in entries if at not in before.superseded)
        leaf = None if (line := self._leaf()) is None else position(self._at_line[line])
        positions = tuple(exported.position for _, exported in sorted(self._exported.items()))
        if set(superseded) != set(before.superseded):
            changed = set(superseded) ^ set(before.superseded)
            superseded = (*superseded, *sorted(replaced - set(superseded)))
            self.rewritten = min((line for at in changed if (line := line_of(at)) is not None), default=None)
        elif (self._source.ends_with_newline, leaf, positions) == (before.ends_with_newline, before.leaf, before.ours):
            return
        state = kinds.SourceFile(
            superseded=superseded,
            ends_with_newline=self._source.ends_with_newline,
            leaf=leaf,
            ours=positions,
            segment=self._source.segment,
        )
        self._append_entry(state)

    def _leaf(self) -> int | None:
        """Return the number of the line at which the agent continues.

        If that is the last line of the session's only file, return ``None``.
        """
        if self._source.segment is not None and self._source.leaf is None:
            return max(self._at_line)
        return self._source.leaf

    def _tail(self, kept: Node | None) -> None:
        """Append the tail of the file to ``meta`` if it has changed since the last import.

        A tail that is a prefix of the stored tail is not appended, because it comes from an older copy of the file.
        """
        tail = self._source.tail
        before = payload_of(self._store, kept) if kept is not None and not kept.is_tombstone else b""
        if tail is None or (kept is not None and not kept.is_tombstone and has_payload(self._store, kept, tail)):
            if kept is not None and tail is not None:
                fill_vault(self._store, self._sink, kept, tail)
            return
        safe = commit_writer.redact_record(self._format, tail, self._guard)
        if safe.payload != before and not (tail and not self._new and before.startswith(safe.payload)):
            self._append(
                commit_writer.draft_record(
                    self._format, Record(TAIL, tail, source_id=self._source.segment), self._guard
                )
            )

    def _header(self, project: str | None) -> None:
        """Append the session's project and, if the file has no header line, the session's header to ``meta``."""
        header = _storable(self._source.header) if self._source.header is not None else None
        old = self._old_meta
        if header is not None and (
            old.header is None
            # The header may have been stored with the current redaction rules, or without rules.
            or replace(old.header, at_ms=0) not in [commit_writer.read_back(header, by) for by in (self._guard, None)]
        ):
            self._append_entry(header)
        if project is not None and project != old.project:
            self._append_entry(kinds.Project(identity=project))

    def _append_entry(self, entry: Entry) -> None:
        """Append an entry that gitsession creates to ``meta``.

        The time and the nonce of the entry are derived from the previous entry, so every store with the same entries
        writes the same commit.
        """
        entry = replace(entry, at_ms=self._node.author_seconds * 1000)
        self._append(commit_writer.draft_own(entry, hash_of(self._node.chain)[:NONCE_BYTES], self._guard))

    def _superseded(self, lost: Iterable[Node], headers: Iterable[Node]) -> tuple[str, ...]:
        """Return the positions of superseded entries and of ``lost``, the header lines that are no longer in the file.

        An entry is superseded if it is no longer in the file, and if the nearest imported entry above it is in the file
        or is the root.
        """
        present = {node.oid for node in self._at_line.values()} | {self._root.oid}
        # The first header on ``meta`` and the header that replaced it can be the same commit. This commit counts as
        # present if either header is in the file.
        present |= {node.oid for node in headers}
        nodes = self._tree.nodes if self._tree else {}
        missing = [node for node in nodes.values() if node.source is not None and node.oid not in present]
        if missing:  # below a duplicated line, two entries can have the same position
            positions = {position(node) for node in self._at_line.values()}
            present |= {node.oid for node in missing if position(node) in positions}
            missing = [node for node in missing if node.oid not in present]
        possible_parents = present | {None}  # None: above the header of a later file of the session
        missing = [node for node in missing if self._imported_above(node) in possible_parents]
        missing += [node for node in lost if node.oid not in present]
        return tuple(position(node) for node in sorted(missing, key=graph.sibling_order))

    def _imported_above(self, node: Node) -> Oid | None:
        """Return the object id of the nearest imported entry above ``node``, or of the root.

        Entries that gitsession created are skipped. So if an exported line is removed from the file, the entries below
        that line are not superseded.
        """
        nodes = self._tree.nodes if self._tree else {}
        at = nodes.get(node.parent or "")
        while at is not None and at.source is None and at.oid != self._root.oid:
            at = nodes.get(at.parent or "")
        return at.oid if at is not None else None

    def _is_stored(self, node: Node, record: Record) -> bool:
        """Return whether ``node`` contains ``record`` or is the tombstone of that record."""
        if not node.is_tombstone:
            return has_payload(self._store, node, record.payload)
        made = [
            commit_writer.redact_record(self._format, record.payload, guard).stored for guard in (self._guard, None)
        ]
        digests = {digest_of(stored.payload, stored.holes).hex() for stored in made}
        return tombstone.of_node(self._store, node).of in digests

    def _append(self, draft: commit_writer.Draft) -> None:
        if self._purged:
            self._node = tombstone.put_unless_purged(self._sink, self._node, draft, self._purged)
        else:
            self._node = commit_writer.put(self._sink, self._node, draft)
        self.tip = self._node.oid


def _storable(header: kinds.SessionHeader) -> kinds.SessionHeader:
    """Return ``header`` with every string in a form that CBOR can represent."""
    values = {name: to_profile(getattr(header, name)) for name in ("cwd", "parent", "source_id", "extra")}
    return replace(header, **values)
