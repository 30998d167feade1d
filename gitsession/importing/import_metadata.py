"""What an import appends to ``meta``: lines that an agent rewrites in place, how its file stands, what it needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gitsession.codec.cbor import sayable
from gitsession.codec.digest import digest as digest_of
from gitsession.codec.digest import hash_of
from gitsession.codec.payload import NONCE_BYTES
from gitsession.errors import Malformed
from gitsession.formats import Format, Record, Source, SourceProblem
from gitsession.formats.base.record import TAIL, WHOLE
from gitsession.git.types import Oid
from gitsession.importing.known_entries import ExportedLine, fill_vault, says
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
    """The records of ``source`` in the store. ``tree``: what the session had of the file, ``None`` where it is new.

    ``at_line``: the entry of each line; ``taken``: the lines of ours among them; ``new``: how many were not there.
    """

    source: Source
    tree: graph.Tree | None
    root: Node
    at_line: Mapping[int, Node]
    taken: Mapping[int, ExportedLine]
    new: int


class MetadataImport:
    """What is news goes there. ``before`` and ``tip``: where ``meta`` of the session was, and is after it.

    ``lost``: the places of entries that the file had when it was imported last, and does not have now.
    ``rewritten``: the first line that the agent wrote anew since. ``problems``: what there is to tell.
    """

    def __init__(
        self, store: ObjectStore, sink: commit_writer.Entries, format: Format, sid: str, seen: Meta,
        placed: ImportedSource
    ) -> None:
        self._store, self._sink, self._format = store, sink, format
        self._seen = seen.of_file(placed.source.segment)
        self._guard = store.guard
        self._source, self._tree, self._root = placed.source, placed.tree, placed.root
        self._at_line, self._taken, self._new = placed.at_line, placed.taken, placed.new
        self.before = self.tip = store.ref(refs.meta(sid)) if placed.tree else None
        self._purged = tombstone_set.read(store)
        self.rewritten: int | None = None
        self.lost: tuple[str, ...] = ()
        self.problems: list[SourceProblem] = []
        self._node = seen.nodes[0] if seen.nodes else placed.root

    def keep_file(self, project: str | None, continuation: kinds.Continuation | None) -> None:
        """How the file stands and what its header says, but for an older copy of what is here."""
        if not self._is_older_copy():
            self._header(project)
            if continuation is not None and self._seen.continuation is None:
                self._say(continuation)
            self._file_as_it_stands()

    def attach(self, attachments: Mapping[str, bytes]) -> None:
        """Keep what lies beside the file, by name, each once: its tree follows from name and bytes alone."""
        have = {node.tree for node in self._seen.nodes}
        for name, data in attachments.items():
            self._attach(name, data, have)

    def _attach(self, name: str, data: bytes, have: set[Oid]) -> None:
        entry = kinds.Attachment(name=name, data=data, at_ms=self._source.started_ms)
        try:
            nonce = hash_of(name.encode())[:NONCE_BYTES]
            draft = commit_writer.own(entry, nonce, self._guard)
        except Malformed as error:
            self.problems.append(SourceProblem(0, f"{name} is not kept: {error}"))
            return
        drafts = [draft]
        if draft.original is not None:
            drafts.append(commit_writer.own(entry, nonce, None))  # an older release has kept it as it is
        digests = [digest_of(each.stored.payload, each.stored.holes).hex() for each in drafts]
        is_purged = any(map(self._purged.has_entry, digests))
        if not is_purged and not any(commit_writer.tree_of(each.form, each.stored) in have for each in drafts):
            self._append(draft)

    def _is_older_copy(self) -> bool:
        """Whether all of the file is in the store as it stands, and the file ends before the store does."""
        if self._tree is None or self._new:
            return False
        superseded = set(self._seen.source_file.superseded)
        if any(position(node) in superseded for node in self._at_line.values()):
            return False
        here = {node.oid for node in self._at_line.values()}
        lines = (record.line for record in (*self._source.meta, *self._source.records) if record.line < WHOLE)
        end = max(lines, default=0)
        missing = [node for node in session_facts.imported_now(self._tree, superseded) if node.oid not in here]
        missing += [node for number, (node, _) in self._seen.lines_of_ours().items() if number not in self._taken]
        older = bool(missing) and all(node.source is not None and node.source.line > end for node in missing)
        if older:
            self.problems.append(SourceProblem(end, f"an older copy: {len(missing)} later lines are kept, and stay"))
        return older

    def _file_as_it_stands(self) -> None:
        newest = self._seen.newest_lines()
        headers: list[Node] = []
        replaced: set[str] = set()
        for record in (*self._source.meta, *[taken.record for taken in self._taken.values()]):
            node = newest.pop(record.line, None)
            if node is None or not self._says(node, record):
                replaced |= {position(node)} if node is not None else set()
                self._append(commit_writer.imported(self._format, record, self._guard))
                node = self._node
            elif not node.is_tombstone:
                fill_vault(self._store, self._sink, node, record.payload)
            headers.append(node)
        self._tail(newest.pop(TAIL, None))
        before = self._seen.source_file
        # Headers that earlier rewrites replaced stay listed: they say which one was in force (``send_out``).
        older = {position(node) for node in self._seen.older_lines()} & set(before.superseded)
        entries = self._superseded(newest.values(), headers)
        superseded = (*entries, *sorted(older - set(entries)))
        self.lost = tuple(place for place in entries if place not in before.superseded)
        leaf = None if (line := self._leaf()) is None else position(self._at_line[line])
        ours = tuple(taken.place for _, taken in sorted(self._taken.items()))
        if set(superseded) != set(before.superseded):
            changed = set(superseded) ^ set(before.superseded)
            superseded = (*superseded, *sorted(replaced - set(superseded)))
            self.rewritten = min((line for place in changed if (line := line_of(place)) is not None), default=None)
        elif (self._source.ends_with_newline, leaf, ours) == (before.ends_with_newline, before.leaf, before.ours):
            return
        state = kinds.SourceFile(
            superseded=superseded,
            ends_with_newline=self._source.ends_with_newline,
            leaf=leaf,
            ours=ours,
            segment=self._source.segment,
        )
        self._say(state)

    def _leaf(self) -> int | None:
        """The line that the agent goes on from, where that is not the last of the only file."""
        if self._source.segment is not None and self._source.leaf is None:
            return max(self._at_line)
        return self._source.leaf

    def _tail(self, kept: Node | None) -> None:
        """The lines that wait for the next that speaks. A beginning of what is kept is an older copy of it."""
        tail = self._source.tail
        before = payload_of(self._store, kept) if kept is not None and not kept.is_tombstone else b""
        if tail is None or (kept is not None and not kept.is_tombstone and says(self._store, kept, tail)):
            if kept is not None and tail is not None:
                fill_vault(self._store, self._sink, kept, tail)
            return
        safe = commit_writer.safe(self._format, tail, self._guard)
        if safe.payload != before and not (tail and not self._new and before.startswith(safe.payload)):
            self._append(
                commit_writer.imported(self._format, Record(TAIL, tail, source_id=self._source.segment), self._guard)
            )

    def _header(self, project: str | None) -> None:
        """What the session is, where no line of the file says it."""
        header = _sayable(self._source.header) if self._source.header is not None else None
        seen = self._seen
        if header is not None and (seen.header is None or replace(seen.header, at_ms=0) not in self._as_kept(header)):
            self._say(header)
        if project is not None and project != seen.project:
            self._say(kinds.Project(identity=project))

    def _as_kept(self, header: Entry) -> list[Entry]:
        """What can be read back of a header, by the rules of today and by none."""
        return [commit_writer.read_back(header, guard) for guard in (self._guard, None)]

    def _say(self, entry: Entry) -> None:
        """The same in every store that saw the same: time and nonce follow from the entry before."""
        entry = replace(entry, at_ms=self._node.author_seconds * 1000)
        self._append(commit_writer.own(entry, hash_of(self._node.chain)[:NONCE_BYTES], self._guard))

    def _superseded(self, lost: Iterable[Node], headers: Iterable[Node]) -> tuple[str, ...]:
        """The entries that are no longer in the file and whose parent is, or is the root; and the headers ``lost``."""
        here = {node.oid for node in self._at_line.values()} | {self._root.oid}
        # A header that began meta and a second header in its place are one commit: in the file if either is.
        here |= {node.oid for node in headers}
        nodes = self._tree.nodes if self._tree else {}
        gone = [node for node in nodes.values() if node.source is not None and node.oid not in here]
        if gone:  # below a line that stands there twice, one that is in the file may have a twin of the same place
            places = {position(node) for node in self._at_line.values()}
            here |= {node.oid for node in gone if position(node) in places}
            gone = [node for node in gone if node.oid not in here]
        above = here | {None}  # nothing of a segment stands above its header
        gone = [node for node in gone if self._imported_above(node) in above]
        gone += [node for node in lost if node.oid not in here]
        return tuple(position(node) for node in sorted(gone, key=graph.place))

    def _imported_above(self, node: Node) -> Oid | None:
        """The nearest entry above that is not one of ours: a line of ours that has left the file takes none along."""
        nodes = self._tree.nodes if self._tree else {}
        at = nodes.get(node.parent or "")
        while at is not None and at.source is None and at.oid != self._root.oid:
            at = nodes.get(at.parent or "")
        return at.oid if at is not None else None

    def _says(self, node: Node, record: Record) -> bool:
        """Whether ``node`` holds ``record``, or stands for it."""
        if not node.is_tombstone:
            return says(self._store, node, record.payload)
        made = [commit_writer.safe(self._format, record.payload, guard).stored for guard in (self._guard, None)]
        digests = {digest_of(stored.payload, stored.holes).hex() for stored in made}
        return tombstone.of_node(self._store, node).of in digests

    def _append(self, draft: commit_writer.Draft) -> None:
        self._node = tombstone.put_unless_purged(self._sink, self._node, draft, self._purged)
        self.tip = self._node.oid


def _sayable(header: kinds.SessionHeader) -> kinds.SessionHeader:
    """What a file's lines or its place say, as an entry of ours can hold it."""
    said = {name: sayable(getattr(header, name)) for name in ("cwd", "parent", "source_id", "extra")}
    return replace(header, **said)
