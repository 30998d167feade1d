"""Import of session files into the store.

An import is idempotent and incremental, and never overwrites entries (docs/reference/format.md). An import is planned
from the content of the store, without the lock. Then one transaction writes the objects and updates each ref only if it
still has the value that was read. If another writer has moved a ref, the import is planned again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeAlias

from gitsession.codec.digest import hash_of, to_base32, to_base64url
from gitsession.codec.payload import NONCE_BYTES
from gitsession.dataclass import dataclass
from gitsession.discovery.sources import ReadState
from gitsession.errors import GitSessionError, Malformed, RefMoved, Refused, Unavailable
from gitsession.formats import Format, Record, Source, SourceProblem
from gitsession.formats.base.record import StoredRecord
from gitsession.git.objects import oid_of
from gitsession.git.pack_writer import Deflated
from gitsession.git.types import Kind, Oid, RefValue
from gitsession.importing.import_metadata import ImportedSource, MetadataImport
from gitsession.importing.import_state import ImportState, refs_of
from gitsession.importing.known_entries import (
    EquivalentEntries,
    ExportedLine,
    ExportedLineFinder,
    Find,
    damaged,
    fill_vault,
    native_session_tree,
    no_base,
    shared,
)
from gitsession.importing.payloads import Payloads
from gitsession.model import entries as kinds
from gitsession.model.entries import Entry
from gitsession.model.headline import VIEW
from gitsession.sessions import (
    commit_writer,
    graph,
    local_records,
    operation_log,
    session_facts,
    tombstone_set,
)
from gitsession.sessions.active_branch import active
from gitsession.sessions.content import entry_of, payload_of
from gitsession.sessions.meta import Meta, meta_of
from gitsession.sessions.node import Node, position
from gitsession.sessions.operation_log import Move
from gitsession.sessions.tombstone import put_unless_purged
from gitsession.sessions.tombstone_set import Tombstones
from gitsession.store import refs
from gitsession.store.interface import ObjectStore, Transaction
from gitsession.store.spill import PackSpill

if TYPE_CHECKING:
    from gitsession.redaction.guard import Guard
    from gitsession.redaction.original import Original

TRIES = 5
SPILL_BYTES = 32 << 20
"""The size, in bytes, above which an import writes its objects to a file before the transaction."""

Begin: TypeAlias = Callable[[], AbstractContextManager[Transaction | operation_log.RecordingTransaction]]
"""A function that begins the transaction of an import."""

UPGRADE = "upgrade gitsession to write to the session (this release can only read it)"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportResult:
    """The result of an import.

    ``entries``: the number of records in the file; ``new``: the number of entries that the store did not have.
    ``rewritten``: the number of the first line that the agent has changed since the last import; ``None`` if the agent
    only appended lines. ``branch``: the branch whose tip is the entry at which the agent continues; "" if that entry is
    not a tip. ``moves``: the ref updates. ``is_purged``: whether nothing was imported because the session was purged.
    ``state``: the state from which the import of a longer version of the file can continue; ``None`` if that version
    must be imported whole. ``side_files``: the names of the side files of which new content was stored.
    """

    session: str
    entries: int
    new: int
    rewritten: int | None
    branch: str
    moves: tuple[Move, ...]
    problems: tuple[SourceProblem, ...]
    is_purged: bool = False
    side_files: tuple[str, ...] = ()
    state: ImportState | None = field(default=None, compare=False, repr=False)

    def with_problems(self, *descriptions: str) -> ImportResult:
        """Return a copy of the result with additional problems."""
        return replace(self, problems=(*self.problems, *(SourceProblem(0, what) for what in descriptions)))


class PurgedCopies(GitSessionError):
    """The error that is raised if new entries are copies that an agent made of purged entries.

    ``digests``: the digests of the new entries, in the encoding of the tombstone set.
    """

    def __init__(self, digests: Collection[str]) -> None:
        are = "entry is a copy of a purged one" if len(digests) == 1 else "entries are copies of purged ones"
        super().__init__(f"{len(digests)} new {are}")
        self.digests = frozenset(digests)


def import_source(
    store: ObjectStore,
    format: Format,
    source: Source,
    attachments: Mapping[str, bytes] | None = None,
    *,
    begin: Begin | None = None,
    project: str | None = None,
    dry_run: bool = False,
    find: Find | None = None,
    continuation: kinds.Continuation | None = None,
    is_elsewhere: Callable[[str, Collection[bytes]], bool] | None = None,
    purged_keys: Collection[str] = frozenset(),
    read: ReadState | None = None,
    earlier: ImportState | None = None,
) -> ImportResult:
    """Import ``source`` into the store.

    Args:
        attachments: the contents of files to which entries refer and that are not in the session file, by name.
        begin: a function that begins the transaction; ``None`` to record no operation in the operation log.
        project: the identity of the session's project, if it is known on this machine; ``None`` to keep the recorded
            identity.
        dry_run: whether to plan the import without writing anything.
        find: a function that maps an agent's session id to the id of the session in this store, or to ``None``.
        continuation: the session that this session continues, if gitsession wrote the file from another session.
        is_elsewhere: a function that returns whether another file with this session's id still contains one of the
            given lines. If the function returns true, ``source`` is a second file with the same id and is imported as a
            separate session (decision 0033).
        purged_keys: the keys of purged entries (``sessions.local_records``), by which copies of these entries are
            recognized.
        read: the state of the file, for ``ImportResult.state``.
        earlier: the state after the import of the records that ``source`` leaves out; ``None`` if it has all records.

    Raises:
        NoBase: if the store does not have the session that the file continues.
        PurgedCopies: if new entries are copies of purged entries. Purge the copies first.
        RefMoved: if the session has changed since ``earlier``. Import the whole file.
        Unavailable: if other writers moved the session's refs at every attempt.
    """
    with closing(Payloads(store.guard, source.records)) as payloads:
        request = _Request(
            store=store,
            format=format,
            source=source,
            attachments=attachments or {},
            find=find,
            project=project,
            continuation=continuation,
            purged_keys=purged_keys,
            payloads=payloads,
            read=read,
            earlier=earlier,
        )
        return _import(request, begin or store.transaction, is_elsewhere, dry_run=dry_run)


def _import(
    request: _Request, begin: Begin, is_elsewhere: Callable[[str, Collection[bytes]], bool] | None, *, dry_run: bool
) -> ImportResult:
    """Do the same as ``import_source``."""
    store, source = request.store, request.source
    for _ in range(TRIES):
        purged_result = _purged(store, source)
        if purged_result is not None:
            return purged_result
        with ExitStack() as stack:
            draft = _draft(request, stack, dry_run=dry_run)
            second = draft.second_file(is_elsewhere)
            if second is not None:
                purged_result = _purged(store, second.source)
                if purged_result is not None:
                    return purged_result
                draft = _draft(second, stack, dry_run=dry_run)
            if draft.entries.copied:
                raise PurgedCopies(draft.entries.copied)
            if dry_run:
                return draft.outcome()
            try:
                return draft.carry_out(begin)
            except RefMoved:
                continue
    raise Unavailable("another process keeps writing to the session", hint="try again when that process has finished")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Request:
    """The arguments of ``import_source``.

    ``payloads``: the payloads of the records. ``drafts``: the drafts of records, by index. They are kept if the import
    may be planned again, for a second file with the same id.
    """

    store: ObjectStore
    format: Format
    source: Source
    attachments: Mapping[str, bytes]
    find: Find | None
    project: str | None
    continuation: kinds.Continuation | None
    purged_keys: Collection[str]
    payloads: Payloads
    read: ReadState | None = None
    earlier: ImportState | None = None
    drafts: dict[int, commit_writer.Draft] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Target:
    """The position of a file in the store.

    ``sid``: the id of the file's session; ``tree``: the tree of that session, ``None`` if the session is new; ``root``:
    the entry below which the file begins; ``base``: the entry of another file after which the file continues.
    ``at_line``: the entries of earlier lines to which the records refer, by line number, if ``tree`` has only these.
    """

    sid: str
    tree: graph.Tree | None
    root: Node
    base: Node | None
    at_line: Mapping[int, Node] = field(default_factory=dict)


def _draft(request: _Request, stack: ExitStack, *, dry_run: bool) -> _Draft:
    """Plan an import: find the session, match the records with existing entries, and draft the new entries."""
    store, source = request.store, request.source
    objects = stack.enter_context(closing(_Objects(None if dry_run else store.spill, request.payloads.deflated)))
    base = shared(store, source.base, request.find) if source.base is not None else None
    if request.earlier is not None:
        target = _earlier_target(request, request.earlier)
    elif source.segment is None:
        target = _session_target(request, objects, base)
    else:
        target = _thread_target(request, base)
    old_refs = refs_of(store, target.sid)
    purged = tombstone_set.read(store)
    old_meta = meta_of(store, target.sid) if target.tree else Meta()
    if old_meta.gaps:
        raise damaged(target.sid)
    entries = _Entries(request, objects, target, old_meta, purged)
    entries.align()
    placed = ImportedSource(
        source=source,
        tree=_file_part(source, target, old_meta),
        root=target.root,
        at_line=entries.at_line,
        exported=entries.exported,
        new=entries.new,
    )
    meta = MetadataImport(store, objects, request.format, target.sid, old_meta, placed)
    continuation = request.continuation
    is_other = continuation is not None and continuation.session != target.sid
    meta.keep_file(request.project, continuation if is_other else None)
    meta.attach(request.attachments)
    return _Draft(request, objects, target, old_refs, old_meta, entries, meta)


@dataclass(frozen=True, slots=True)
class _Draft:
    """A planned import, with the objects and ref updates of one transaction."""

    request: _Request
    objects: _Objects
    target: _Target
    old_refs: Mapping[str, RefValue]
    old_meta: Meta
    entries: _Entries
    meta: MetadataImport

    def second_file(self, is_elsewhere: Callable[[str, Collection[bytes]], bool] | None) -> _Request | None:
        """Return the request to import a second file with the same session id.

        If the file is not a second file, return ``None``. A file is a second file if it lacks entries that another file
        with the same session id still has, or if it was imported as a second file before. A second file is imported as
        a separate session. The id of that session is derived from the agent's id and the first entry that the two files
        do not share.
        """
        request, target, at_line = self.request, self.target, self.entries.at_line
        if target.tree is None or not self.meta.lost or request.source.segment is not None:
            return None
        known = {node.oid for node in session_facts.entries_in_file(target.tree, self.old_meta.source_file.superseded)}
        known |= {node.oid for node in at_line.values() if node.source is None}
        new_record = next((record for record in request.source.records if at_line[record.line].oid not in known), None)
        if new_record is None:
            return None
        last_shared = target.root if new_record.parent is None else at_line[new_record.parent]
        suffix = to_base32(at_line[new_record.line].chain, refs.SID_LENGTHS[0])
        source = replace(request.source, source_id=f"{request.source.source_id}~{suffix}")
        sid = refs.imported_sids(source.agent, source.source_id, source.started_ms)[0]
        if not graph.branches(request.store, sid):
            lost = set(self.meta.lost)
            nodes = [node for node in target.tree.nodes.values() if node.source is not None and position(node) in lost]
            payloads = {payload_of(request.store, node) for node in nodes if not node.is_tombstone}
            if is_elsewhere is None or not is_elsewhere(target.sid, payloads):
                return None
        line = new_record.line - 1 if target.base is None else 0
        continuation = kinds.Continuation(session=target.sid, entry=to_base64url(last_shared.chain), line=max(line, 0))
        return replace(request, source=source, continuation=continuation, read=None)

    def carry_out(self, begin: Begin) -> ImportResult:
        outcome = self.outcome()
        if outcome.moves or self.objects.originals:
            with begin() as tx:
                self._move_in(outcome.moves)
                tx.put_all(self.objects.objects, self.request.payloads.deflated)
                for original in self.objects.originals:
                    tx.keep_original(original)
                for move in outcome.moves:
                    tx.move(move.ref, move.new, expected=move.old)
        return outcome

    def _move_in(self, moves: Iterable[Move]) -> None:
        """Check the plan and add the spilled objects to the store, as the first step of the transaction.

        Raises ``RefMoved`` if the plan is outdated.
        """
        store, spill = self.request.store, self.objects.spill
        if any(store.ref(move.ref) != move.old for move in moves):
            raise RefMoved("another process changed the session during the import")
        if not all(store.contains(oid) for oid in self.entries.continued):
            raise RefMoved("the entries that the file continues were purged during the import")
        if spill is not None:
            spill.move_in(store.vault)

    def outcome(self) -> ImportResult:
        sid, before, tips, meta = self.target.sid, self.entries.before, self.entries.tips, self.meta
        moves = [
            Move(refs.leaf(sid, name), before.get(name), oid) for name, oid in tips.items() if before.get(name) != oid
        ]
        if meta.tip is not None and meta.tip != meta.before:
            moves.append(Move(refs.meta(sid), meta.before, meta.tip))
        last = self.entries.last_node()
        return ImportResult(
            session=sid,
            entries=self.request.source.earlier + len(self.request.source.records),
            new=self.entries.new,
            rewritten=meta.rewritten,
            branch=next((name for name, oid in tips.items() if last is not None and oid == last.oid), ""),
            moves=tuple(moves),
            problems=(*self.request.source.problems, *meta.problems),
            state=self._state(moves),
        )

    def _state(self, moves: Iterable[Move]) -> ImportState | None:
        """Return the state after the import; ``None`` if the next version of the file must be imported whole."""
        request, target, meta = self.request, self.target, self.meta
        is_rewritten = meta.lost or self.old_meta.source_file.superseded or self.old_meta.segments
        if request.read is None or is_rewritten or meta.problems or not self.entries.is_plain:
            return None
        before = {refs.leaf(target.sid, name): oid for name, oid in self.entries.before.items()}
        before |= {} if meta.before is None else {refs.meta(target.sid): meta.before}
        prefix = refs.session(target.sid)
        if before != {name: value for name, value in self.old_refs.items() if name.startswith(prefix)}:
            return None  # another process changes the session
        entries = request.earlier.entries if request.earlier is not None else {}
        return ImportState(
            read=request.read,
            sid=target.sid,
            refs={**self.old_refs, **{move.ref: move.new for move in moves if move.new is not None}},
            root=target.root.oid,
            entries={**entries, **{line: node.oid for line, node in self.entries.at_line.items()}},
        )


class _Objects:
    """The objects and originals of one import.

    If they become too large, they are moved from ``objects`` and ``originals`` to ``spill``.
    """

    def __init__(self, begin_spill: Callable[[], PackSpill | None] | None, deflated: Deflated) -> None:
        self.spill: PackSpill | None = None
        self._begin_spill = begin_spill
        self._deflated = deflated
        self.objects: dict[Oid, tuple[Kind, bytes]] = {}
        self.originals: list[Original] = []
        self._size = 0

    def put(self, kind: Kind, data: bytes) -> Oid:
        oid = oid_of(kind, data)
        if oid not in self.objects:
            self.objects[oid] = (kind, data)
            self._size += len(data)
            if self._size > SPILL_BYTES:
                self._spill_over()
        return oid

    def keep_original(self, original: Original) -> None:
        self.originals.append(original)
        self._size += len(original.payload)

    def close(self) -> None:
        if self.spill is not None:
            self.spill.close()

    def _spill_over(self) -> None:
        if self.spill is None and self._begin_spill is not None:
            self.spill = self._begin_spill()
        if self.spill is not None:
            self.spill.put(self.objects, self.originals, self._deflated)
            self.objects, self.originals, self._size = {}, [], 0


# The session of the file


def _earlier_target(request: _Request, earlier: ImportState) -> _Target:
    """Return the session with only the entries to which the new records refer. Raises ``RefMoved``."""
    source_id = request.source.source_id
    if source_id != earlier.sid and refs.is_sid(source_id) and graph.branches(request.store, source_id):
        raise RefMoved("the session from which the file was written was added to the store")
    records, last = request.source.records, max(earlier.entries, default=None)
    lines = {last, request.source.leaf, *(record.parent for record in records)} - {record.line for record in records}
    tree, at_line = earlier.tree(request.store, [line for line in lines if line is not None])
    return _Target(earlier.sid, tree, tree.nodes[earlier.root], None, at_line)


def _session_target(request: _Request, sink: _Objects, base: Node | None) -> _Target:
    """Return the session of the file. The session's id is longer if another session already has the short id."""
    store, source = request.store, request.source
    native_tree = native_session_tree(store, source.source_id)
    if native_tree is not None:
        root = native_tree.nodes[native_tree.children[None][0]]
        _refuse_later_view(request, source.source_id, native_tree, root)
        return _Target(source.source_id, native_tree, root, base)
    for sid in refs.imported_sids(source.agent, source.source_id, source.started_ms):
        fork = "" if base is None else sid
        root = commit_writer.put(sink, base, _root_draft(source, fork, store.guard))
        if not graph.branches(store, sid):
            return _Target(sid, None, root, base)
        tree = graph.tree(store, sid)
        if tree.damage:
            raise damaged(sid)
        # the root may have been stored before the redaction rules existed
        unredacted_root = commit_writer.put(sink, base, _root_draft(source, fork, None))
        for candidate in (root, unredacted_root):
            if candidate.oid in tree.nodes:
                return _Target(sid, graph.subtree(tree, candidate.oid), candidate, base)
        _refuse_later_view(request, sid, tree, root)
    raise Malformed(
        "cannot choose a session id: both ids derived from this file already belong to other sessions",
        where=source.source_id,
    )


def _thread_target(request: _Request, base: Node | None) -> _Target:
    """Return the session of a file that is not the first file of its session. Raises ``NoBase``."""
    store, thread = request.store, request.source.source_id
    sid = request.find(thread) if request.find is not None else None
    if sid is None:
        raise no_base(thread)
    tree = graph.tree(store, sid)
    if tree.damage:
        raise damaged(sid)
    root = base or tree.nodes[session_facts.file_start(store, tree, sid)[0]]
    _refuse_later_view(request, sid, tree, root)
    if root.oid not in tree.nodes:
        raise Malformed("the file continues another session's file", where=thread)
    return _Target(sid, tree, root, base)


def _file_part(source: Source, target: _Target, old_meta: Meta) -> graph.Tree | None:
    """Return the part of the session's tree that comes from this file and not from the agent's other files."""
    if target.tree is None:
        return None
    starts = session_facts.segment_starts(target.tree, old_meta.segments)
    start = target.root.oid if source.segment is None else ""
    return session_facts.file_part(target.tree, starts, start, source.segment)


def _refuse_later_view(request: _Request, sid: str, tree: graph.Tree, root: Node) -> None:
    """Raise ``Refused`` if a later release of gitsession created the session.

    This release cannot write the entries of such a session.
    """
    for oid in tree.children.get(None, []):
        begun = entry_of(request.store, tree.nodes[oid])
        same = oid == root.oid or getattr(begun, "source_id", None) == request.source.source_id
        if same and isinstance(begun, kinds.SessionHeader) and (begun.view or 0) > VIEW:
            views = f"view {begun.view}, supported: {VIEW}"
            raise Refused(f"a later release of gitsession created session {sid} ({views})", hint=UPGRADE)


# Entries


class _Entries:
    """The existing or drafted entry for each record of the file, and the branches of these entries.

    ``at_line``: the entries by line number; ``exported``: the exported lines by line number; ``before``, ``tips``: the
    tips of the branches before and after the import. ``continued``: the existing entries that new entries follow.
    ``copied``: the digests of new entries that are copies of purged entries. ``is_plain``: whether the file can be
    continued from an ``ImportState``: its records have no redactions, and the session has no entry and no branch that
    does not come from the file.
    """

    def __init__(self, request: _Request, sink: _Objects, target: _Target, old_meta: Meta, purged: Tombstones) -> None:
        self._store, self._format, self._source = request.store, request.format, request.source
        self._payloads, self._purged_keys, self._drafts = request.payloads, request.purged_keys, request.drafts
        self._sink, self._purged = sink, purged
        self._sid, self._tree, self._root = target.sid, target.tree, target.root
        self._old_meta = old_meta
        self._is_continued = request.earlier is not None
        self.before: dict[str, Oid] = dict(target.tree.branches) if target.tree else {}
        self.tips: dict[str, Oid] = dict(self.before) or {refs.MAIN: target.root.oid}
        self._names = graph.BranchNamer(self.tips.__contains__)
        self._branch_after = self._agent_branches()
        self.at_line: dict[int, Node] = dict(target.at_line)
        self.is_plain = len(self._branch_after) == len(self.before.keys() or {refs.MAIN})
        self.exported: dict[int, ExportedLine] = {}
        self.continued: set[Oid] = {target.base.oid} if target.base is not None else set()
        self.copied: set[str] = set()
        self.new = 0

    def _agent_branches(self) -> dict[Oid, str]:
        """Return the names of the branches that are extended when the file grows, by their tips.

        These are ``main`` and the branches that are named after an imported entry. Branches that the user created are
        not moved. If an entry that gitsession created follows the agent's last entry, the agent's next line starts a
        new branch.
        """
        if self._tree is None:
            return {self._root.oid: refs.MAIN}
        if self._is_continued:
            return {oid: name for name, oid in self.before.items()}
        others = self.before.keys() - {refs.MAIN}
        imported = [node.chain for node in self._tree.nodes.values() if node.source is not None] if others else []
        names = {refs.MAIN, *graph.generated_names(others, imported)}
        return {oid: name for name, oid in self.before.items() if name in names}

    def align(self) -> None:
        """Match each record with its existing entry, or draft a new entry for it."""
        known = self._known()
        equivalents = EquivalentEntries(self._store, known.values())
        old_meta = self._old_meta.of_file(self._source.segment)
        finder = ExportedLineFinder(self._store, self._sid, self._format, self._tree, old_meta) if self._tree else None
        at_line = self.at_line
        for number, record in enumerate(self._source.records):
            parent = self._root if record.parent is None else at_line[record.parent]
            exported = finder.find_header(record, parent) if finder is not None else None
            if exported is not None:
                self._map_exported(exported)
                continue
            if (node := equivalents.find_unchanged(self._format, parent, record)) is not None:
                at_line[record.line] = node
                continue
            draft = self._draft(number, record)
            tree = commit_writer.tree_of(draft.form, draft.stored, draft.summary) if known else ""
            node = known.get((parent.oid, record.line, tree)) or equivalents.find(parent, record)
            self.is_plain &= draft.original is None and (node is None or node.tree == tree)
            if node is not None and draft.original is not None:
                fill_vault(self._store, self._sink, node, record.payload)
            exported = finder.find(record, parent) if finder is not None and node is None else None
            if exported is not None:
                self._map_exported(exported)
                continue
            if node is None:
                node = self._tombstone_for(equivalents, parent, record, draft) or self._append(parent, draft)
            self.is_plain &= not node.is_tombstone
            at_line[record.line] = node
        self._add_branch_at_last()
        self.is_plain &= not self.exported and (finder is None or not finder.may_be_new)
        self.is_plain &= self._is_continued or self._has_only_records()

    def _has_only_records(self) -> bool:
        """Return whether the session consists of its root and of entries in the file."""
        nodes = self._tree.nodes if self._tree is not None else {}
        return {*nodes, *self.before.values()} <= {self._root.oid, *(node.oid for node in self.at_line.values())}

    def _draft(self, number: int, record: Record) -> commit_writer.Draft:
        """Return the draft of ``record``, which has the index ``number``."""
        draft = self._drafts.get(number)
        if draft is None:
            guard = self._store.guard if self._payloads.may_hold_secret(number) else None
            draft = commit_writer.draft_record(self._format, record, guard)
            if self._tree is not None and not isinstance(record, StoredRecord):
                self._drafts[number] = draft
        return draft

    def _map_exported(self, line: ExportedLine) -> None:
        """Map an exported line to the entry from which it was written."""
        self.exported[line.record.line] = line
        self.at_line[line.record.line] = line.node
        self._extend_active(line.node)

    def _tombstone_for(
        self, equivalents: EquivalentEntries, parent: Node, record: Record, draft: commit_writer.Draft
    ) -> Node | None:
        """Return the tombstone for ``record`` if the record was purged and contained a secret, otherwise ``None``.

        The record may have been stored with redaction rules other than the current ones.
        """
        if not self._purged:
            return None
        if draft.original is None and self._store.guard is None:
            from gitsession.redaction.guard import Guard  # opening a store must not load the rules

            draft = commit_writer.draft_record(self._format, record, Guard.load())
        if draft.original is None:
            return None
        if any(self._purged.has_entry(digest) for digest in commit_writer.digests(draft)):
            return self._append(parent, draft)
        return equivalents.tombstone(self._format, parent, record)

    def _append(self, parent: Node, draft: commit_writer.Draft) -> Node:
        """Add the entry ``draft`` below ``parent`` or, if the entry was purged, its tombstone.

        Count the entry if the session does not have it yet.
        """
        if self._purged:
            node = put_unless_purged(self._sink, parent, draft, self._purged)
        else:
            node = commit_writer.put(self._sink, parent, draft)
        if self._tree is None or node.oid not in self._tree.nodes:
            self.new += 1
            if self._purged_keys and local_records.purged_key(node) in self._purged_keys and not node.is_tombstone:
                self.copied.add(commit_writer.digests(draft)[0])
            if self._tree is not None and parent.oid in self._tree.nodes:
                self.continued.add(parent.oid)
            self._extend_branch(parent, node)
        return node

    def _known(self) -> dict[tuple[Oid, int, Oid], Node]:
        """Return the imported entries of the session by the values that identify them: parent, line and tree."""
        if self._tree is None:
            return {}
        return {
            (node.parent, node.source.line, node.tree): node
            for node in self._tree.nodes.values()
            if node.source is not None and node.parent is not None
        }

    def _extend_branch(self, parent: Node, node: Node) -> None:
        """Extend the branch of ``parent`` with its first child. Each later child starts a new branch.

        If a session consists of several files, the first entry of each later file also starts a new branch.
        """
        is_segment = self._source.segment is not None and parent is self._root
        name = None if is_segment else self._branch_after.pop(parent.oid, None)
        name = name or self._names.free(node.chain)
        self._branch_after[node.oid] = name
        self.tips[name] = node.oid

    def _extend_active(self, node: Node) -> None:
        """Let new entries extend the active branch if ``node`` is the tip of this branch.

        The branch is extended even if the user created it.
        """
        if node.oid == self.before.get(self._active) and node.oid not in self._branch_after:
            self._branch_after[node.oid] = self._active

    @functools.cached_property
    def _active(self) -> str:
        return active(self._store, self._sid)

    def _add_branch_at_last(self) -> None:
        """Create a branch at the entry at which the agent continues, if that entry is not a tip.

        The entry may not be a tip if a rewrite shortened the file, or if the user ran ``undo``.
        """
        last = self.last_node()
        has_changes = self.new or self._source.leaf is not None
        if has_changes and last is not None and last.oid not in self.tips.values():
            self.tips[self._names.free(last.chain)] = last.oid

    def last_node(self) -> Node | None:
        """Return the entry at which the agent continues: the leaf of the file, or the entry of the last line."""
        if self._source.leaf is not None:
            return self.at_line[self._source.leaf]
        return self.at_line[max(self.at_line)] if self.at_line else None


def _purged(store: ObjectStore, source: Source) -> ImportResult | None:
    """Return the result for a purged session, or ``None`` if the session was not purged."""
    sessions = tombstone_set.read(store).sessions
    if not sessions:
        return None
    sids = (source.source_id, *refs.imported_sids(source.agent, source.source_id, source.started_ms))
    sid = next((sid for sid in sids if sid in sessions), None)
    if sid is None:
        return None
    problems = (*source.problems, SourceProblem(0, "nothing was imported, because the session was purged"))
    return ImportResult(
        session=sid, entries=len(source.records), new=0, rewritten=None, branch="", moves=(),
        problems=problems, is_purged=True,
    )  # fmt: skip


def root_digest(source: Source) -> str:
    """Return the digest of the first entry of the session in ``source``. The session must not be a fork."""
    return commit_writer.digests(_root_draft(source, "", None))[0]


def _root_draft(source: Source, fork: str, guard: Guard | None) -> commit_writer.Draft:
    """Return the draft of the first entry of the session in ``source``.

    ``fork``: the id of the session if its file continues another file, otherwise "".
    """
    agent, source_id, at_ms = source.agent, source.source_id, source.started_ms
    entry: Entry = kinds.SessionHeader(agent=agent, source_id=source_id, view=VIEW, at_ms=at_ms)
    if fork:
        entry = kinds.Fork(session=fork, agent=agent, source_id=source_id, view=VIEW, at_ms=at_ms)
    nonce = hash_of(refs.sid_seed(source.agent, source.source_id, source.started_ms))[:NONCE_BYTES]
    return commit_writer.draft_own(entry, nonce, guard)
