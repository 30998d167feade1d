"""A session file into the store: idempotent, incremental, never overwriting (docs/format.md, "Imported sessions").

Everything is worked out against what the store holds, without the lock; then one transaction writes the objects and
moves each ref from the value that was seen. Where another writer was faster, it is worked out again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gitsession.codec.digest import hash_of, to_base32, to_base64url
from gitsession.codec.payload import NONCE_BYTES
from gitsession.errors import Corrupt, GitSessionError, Malformed, NoBase, NotFound, RefMoved, Refused, Unavailable
from gitsession.formats import Format, Record, Source, SourceProblem
from gitsession.git.objects import oid_of
from gitsession.git.types import Kind, Oid
from gitsession.importing.import_metadata import ImportedSource, MetadataImport
from gitsession.importing.known_entries import (
    WAIT,
    EquivalentEntries,
    ExportedLine,
    ExportedLineFinder,
    Find,
    fill_vault,
    shared,
    tree_of_ours,
)
from gitsession.model import entries as kinds
from gitsession.model.entries import Entry
from gitsession.model.headline import VIEW
from gitsession.redaction.lookahead import SecretLookahead
from gitsession.sessions import (
    branch_names,
    commit_writer,
    graph,
    operation_log,
    purged_ids,
    session_facts,
    tombstone_set,
)
from gitsession.sessions import (
    session_ids as names,
)
from gitsession.sessions.active_branch import active
from gitsession.sessions.content import entry_of, payload_of
from gitsession.sessions.meta import Meta, meta_of
from gitsession.sessions.node import Node, position
from gitsession.sessions.operation_log import Move
from gitsession.sessions.tombstone import put_unless_purged
from gitsession.store import refs
from gitsession.store.interface import ObjectStore, Spill

if TYPE_CHECKING:
    from gitsession.redaction.guard import Guard
    from gitsession.redaction.original import Original

TRIES = 5
SPILL_BYTES = 32 << 20
"""From there on objects of an import leave memory before it is carried out."""

UPGRADE = "upgrade gitsession to write to it; it can be read as it is"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportResult:
    """What an import did. ``entries``: of the file; ``new``: not there before.

    ``rewritten``: the first line that the agent wrote anew since, ``None`` where it only went on. ``branch``: the one
    that the file's last line is the leaf of, "" where what was kept goes further. ``is_purged``: the session was, so
    nothing of it was taken in.
    """

    session: str
    entries: int
    new: int
    rewritten: int | None
    branch: str
    moves: tuple[Move, ...]
    problems: tuple[SourceProblem, ...]
    is_purged: bool = False

    def with_problem(self, what: str) -> ImportResult:
        return replace(self, problems=(*self.problems, SourceProblem(0, what)))

    def with_missing(self, names: list[str]) -> ImportResult:
        """The same, with a problem for what its entries name and is not where the agent keeps it."""
        missing = tuple(
            SourceProblem(0, f"{name} is named, and not beside the session: kept as the name") for name in names
        )
        return replace(self, problems=(*self.problems, *missing))


class PurgedCopies(GitSessionError):
    """A file has new entries that its agent copied from purged ones. ``digests``: as the tombstone set names them."""

    def __init__(self, digests: Collection[str]) -> None:
        are = "entry is a copy of a purged one" if len(digests) == 1 else "entries are copies of purged ones"
        super().__init__(f"{len(digests)} new {are}")
        self.digests = frozenset(digests)


@dataclass(frozen=True, slots=True)
class ImportOperation:
    """How an import stands in the operation log. ``group``: one for all files of one command."""

    name: str
    at_ms: int
    group: str | None = None

    def recording(self, store: ObjectStore) -> AbstractContextManager[operation_log.RecordingTransaction]:
        return operation_log.recording(store, self.name, self.at_ms, self.group)


def import_source(
    store: ObjectStore,
    format: Format,
    source: Source,
    attachments: Mapping[str, bytes] | None = None,
    *,
    command: ImportOperation | None = None,
    project: str | None = None,
    dry_run: bool = False,
    find: Find | None = None,
    continuation: kinds.Continuation | None = None,
    is_elsewhere: Callable[[str, Collection[bytes]], bool] | None = None,
    purged_keys: Container[str] = frozenset(),
) -> ImportResult:
    """Import ``source``. ``attachments``: what its entries name and the agent keeps elsewhere, by name.

    ``find``: for a file that goes on from another one's; raises ``NoBase`` where that is not in the store.
    ``project``: which one it belongs to, as far as this machine knows; what another one knew stays otherwise.

    ``continuation``: the session that this one continues, if the file was written from another one.
    ``is_elsewhere``: whether another file that was imported as this session still has one of these lines. Then the file
    is a second one with the same id, and is imported as a session of its own (decision 0033).
    ``command``: what the operation log calls it, in the same transaction; without one it is not logged.
    ``purged_keys``: of purged entries (``sessions.purged_ids``), by which copies of these are known. Raises
    ``PurgedCopies`` if new entries are copies: purge these first.
    ``dry_run``: work it all out and write nothing. Raises ``Unavailable`` where other writers moved the session's refs
    at every try.
    """
    for _ in range(TRIES):
        gone = _purged(store, source)
        if gone is not None:
            return gone
        with ExitStack() as held:
            spill = None if dry_run else store.spill()
            plan = held.enter_context(
                closing(_Plan(store, format, source, find, project, continuation, spill, purged_keys))
            )
            plan.run(attachments or {})
            second = plan.second_file(is_elsewhere)
            if second is not None:
                gone = _purged(store, second.source)
                if gone is not None:
                    return gone
                plan = held.enter_context(closing(second))
                plan.run(attachments or {})
            if plan.copied:
                raise PurgedCopies(plan.copied)
            if dry_run:
                return plan.outcome()
            try:
                return plan.carry_out(command)
            except RefMoved:
                continue
    raise Unavailable("another process keeps writing to this session", hint="try again when it is done")


@dataclass
class _Plan:
    """Objects and ref moves of one import, and how they come about.

    ``objects``, ``originals``: those that are not in ``spill``. ``continued``: the entries of the store that new ones
    follow. ``copied``: digests of new entries that are copies of purged ones, by ``purged_keys``.
    """

    store: ObjectStore
    format: Format
    source: Source
    find: Find | None = None
    project: str | None = None
    continuation: kinds.Continuation | None = None
    spill: Spill | None = None
    purged_keys: Container[str] = frozenset()
    copied: set[str] = field(default_factory=set)
    continued: set[Oid] = field(default_factory=set)
    size: int = 0
    objects: dict[Oid, tuple[Kind, bytes]] = field(default_factory=dict)
    originals: list[Original] = field(default_factory=list)
    new: int = 0

    def put(self, kind: Kind, data: bytes) -> Oid:
        oid = oid_of(kind, data)
        if oid not in self.objects:
            self.objects[oid] = (kind, data)
            self.size += len(data)
            if self.spill is not None and self.size > SPILL_BYTES:
                self.spill.put(self.objects, self.originals)
                self.objects, self.originals, self.size = {}, [], 0
        return oid

    def close(self) -> None:
        if self.spill is not None:
            self.spill.close()

    def keep_original(self, original: Original) -> None:
        self.originals.append(original)
        self.size += len(original.payload)

    def run(self, attachments: Mapping[str, bytes]) -> None:
        self.purged = tombstone_set.read(self.store)
        base = self.source.base
        self.base = shared(self.store, base, self.find) if base is not None else None
        if self.base is not None:
            self.continued.add(self.base.oid)
        self.sid, self.tree = self._session() if self.source.segment is None else self._thread()
        self.before = dict(self.tree.branches) if self.tree else {}
        self.tips: dict[str, Oid] = dict(self.before) or {refs.MAIN: self.root.oid}
        self.names = branch_names.BranchNamer(self.tips.__contains__)
        self.seen = meta_of(self.store, self.sid) if self.tree else Meta()
        if self.seen.gaps:
            raise _damaged(self.sid)
        self.goes_on = self._agents_leaves()
        self.taken: dict[int, ExportedLine] = {}
        self.at_line = self._entries()
        self._make_last_a_leaf()
        placed = ImportedSource(
            source=self.source, tree=self._part(), root=self.root, at_line=self.at_line, taken=self.taken, new=self.new
        )
        self.meta = MetadataImport(self.store, self, self.format, self.sid, self.seen, placed)
        continuation = self.continuation
        is_other = continuation is not None and continuation.session != self.sid
        self.meta.keep_file(self.project, continuation if is_other else None)
        self.meta.attach(attachments)

    def second_file(self, is_elsewhere: Callable[[str, Collection[bytes]], bool] | None) -> _Plan | None:
        """The plan of importing the file as a session of its own, if it is a second one with the id of this session.

        It is if it lacks entries that another file still has, or if it was imported so before. The id of the session
        follows from the agent's id and the first entry that the file does not share.
        """
        if self.tree is None or not self.meta.lost or self.source.segment is not None:
            return None
        known = {node.oid for node in session_facts.imported_now(self.tree, self.seen.source_file.superseded)}
        known |= {node.oid for node in self.at_line.values() if node.source is None}
        own = next((record for record in self.source.records if self.at_line[record.line].oid not in known), None)
        if own is None:
            return None
        shared = self.root if own.parent is None else self.at_line[own.parent]
        suffix = to_base32(self.at_line[own.line].chain, names.LENGTH)
        source = replace(self.source, source_id=f"{self.source.source_id}~{suffix}")
        sid = names.derived(source.agent, source.source_id, source.started_ms)
        if not graph.branches(self.store, sid):
            lost = set(self.meta.lost)
            nodes = [node for node in self.tree.nodes.values() if node.source is not None and position(node) in lost]
            payloads = {payload_of(self.store, node) for node in nodes if not node.is_tombstone}
            if is_elsewhere is None or not is_elsewhere(self.sid, payloads):
                return None
        line = own.line - 1 if self.base is None else 0
        continuation = kinds.Continuation(session=self.sid, entry=to_base64url(shared.chain), line=max(line, 0))
        spill = None if self.spill is None else self.store.spill()
        plan = _Plan(self.store, self.format, source, self.find, self.project, continuation, spill, self.purged_keys)
        plan.may_hold = self.may_hold  # the records are the same
        return plan

    def carry_out(self, command: ImportOperation | None) -> ImportResult:
        outcome = self.outcome()
        if outcome.moves or self.originals:
            with self.store.transaction() if command is None else command.recording(self.store) as tx:
                self._move_in(outcome.moves)
                tx.put_all(self.objects)
                for original in self.originals:
                    tx.keep_original(original)
                for move in outcome.moves:
                    tx.move(move.ref, move.new, expected=move.old)
        return outcome

    def _move_in(self, moves: Iterable[Move]) -> None:
        """Within the transaction, before all else. Raises ``RefMoved`` where what was worked out does not hold."""
        if self.spill is None:
            return
        if any(self.store.ref(move.ref) != move.old for move in moves):
            raise RefMoved("another writer was faster")
        if not all(self.store.contains(oid) for oid in self.continued):
            raise RefMoved("what it goes on from was purged meanwhile")
        self.spill.move_in(self.store.vault)

    def outcome(self) -> ImportResult:
        moves = [
            Move(refs.leaf(self.sid, name), self.before.get(name), oid)
            for name, oid in self.tips.items()
            if self.before.get(name) != oid
        ]
        if self.meta.tip is not None and self.meta.tip != self.meta.before:
            moves.append(Move(refs.meta(self.sid), self.meta.before, self.meta.tip))
        last = self._last_node()
        return ImportResult(
            session=self.sid,
            entries=len(self.source.records),
            new=self.new,
            rewritten=self.meta.rewritten,
            branch=next((name for name, oid in self.tips.items() if last is not None and oid == last.oid), ""),
            moves=tuple(moves),
            problems=(*self.source.problems, *self.meta.problems),
        )

    # ---- where the session is

    def _root(self, sid: str, guard: Guard | None) -> Node:
        """Where the session begins: a root, or the fork of one that goes on from another file."""
        return commit_writer.put(self, self.base, _root_draft(self.source, "" if self.base is None else sid, guard))

    def _session(self) -> tuple[str, graph.Tree | None]:
        """The session's name, and its tree if it is there; a longer name if another session has the short one."""
        source = self.source
        begun_here = tree_of_ours(self.store, source.source_id)
        if begun_here is not None:
            self.root = begun_here.nodes[begun_here.children[None][0]]
            self._refuse_later_view(source.source_id, begun_here)
            return source.source_id, begun_here
        for length in (names.LENGTH, names.LENGTH_TAKEN):
            sid = names.derived(source.agent, source.source_id, source.started_ms, length=length)
            self.root = self._root(sid, self.store.guard)
            try:
                tree = graph.tree(self.store, sid)
            except NotFound:
                return sid, None
            if tree.damage:
                raise _damaged(sid)
            for root in (self.root, self._root(sid, None)):  # it may be older than the rules
                if root.oid in tree.nodes:
                    self.root = root
                    return sid, graph.below(tree, root.oid)
            self._refuse_later_view(sid, tree)
        raise Malformed("two other sessions have the names this one could have", where=source.source_id)

    def _thread(self) -> tuple[str, graph.Tree]:
        """The session of which the file is a segment, and its tree. Raises ``NoBase``."""
        thread = self.source.source_id
        sid = self.find(thread) if self.find is not None else None
        if sid is None:
            raise NoBase(f"it goes on from session {thread}, which is not here", thread, hint=WAIT)
        tree = graph.tree(self.store, sid)
        if tree.damage:
            raise _damaged(sid)
        self.root = self.base or tree.nodes[session_facts.file_start(self.store, tree, sid)[0]]
        self._refuse_later_view(sid, tree)
        if self.root.oid not in tree.nodes:
            raise Malformed("it goes on from a file of another session", where=thread)
        return sid, tree

    def _part(self) -> graph.Tree | None:
        """Return the part of the session's tree that comes from this file, and from no other file of its agent."""
        if self.tree is None:
            return None
        starts = session_facts.segment_starts(self.tree, self.seen.segments)
        start = self.root.oid if self.source.segment is None else ""
        return session_facts.file_part(self.tree, starts, start, self.source.segment)

    def _refuse_later_view(self, sid: str, tree: graph.Tree) -> None:
        """The same session, begun by a later release: its entries are written in a way that we do not know."""
        for oid in tree.children.get(None, []):
            root = entry_of(self.store, tree.nodes[oid])
            same = oid == self.root.oid or getattr(root, "source_id", None) == self.source.source_id
            if same and isinstance(root, kinds.SessionHeader) and (root.view or 0) > VIEW:
                raise Refused(f"session {sid} was begun by a later release (view {root.view})", hint=UPGRADE)

    def _agents_leaves(self) -> dict[Oid, str]:
        """The branches that go on where the file does, by their leaf: ``main``, and those named after an entry of it.

        What we opened stays where it is; where we went on from the agent's leaf, the agent's next line branches off.
        """
        if self.tree is None:
            return {self.root.oid: refs.MAIN}
        others = self.before.keys() - {refs.MAIN}
        imported = [node for node in self.tree.nodes.values() if node.source is not None] if others else []
        derived = {stem for node in imported for stem in branch_names.stems(node.chain)}
        return {
            oid: name for name, oid in self.before.items() if name == refs.MAIN or branch_names.stem(name) in derived
        }

    # ---- entries

    def _entries(self) -> dict[int, Node]:
        """The entry of every line of the file: the one that is there, or a new one."""
        known = self._known()
        alike = EquivalentEntries(self.store, known.values())
        seen = self.seen.of_file(self.source.segment)
        ours = ExportedLineFinder(self.store, self.sid, self.format, self.tree, seen) if self.tree else None
        at_line: dict[int, Node] = {}
        guard = self.store.guard
        for number, record in enumerate(self.source.records):
            parent = self.root if record.parent is None else at_line[record.parent]
            taken = ours.find_header(record, parent) if ours is not None else None
            if taken is not None:
                self._take(taken, at_line)
                continue
            if (node := alike.as_it_is(self.format, parent, record)) is not None:
                at_line[record.line] = node
                continue
            safe = commit_writer.safe(self.format, record.payload, guard if self.may_hold(number) else None)
            tree = commit_writer.tree_of(self.format.FORM, safe.stored) if known else ""
            node = known.get((parent.oid, record.line, tree)) or alike.find(parent, record)
            if node is not None and safe.is_redacted:
                fill_vault(self.store, self, node, record.payload)
            taken = ours.find(record, parent) if ours is not None and node is None else None
            if taken is not None:
                self._take(taken, at_line)
                continue
            if node is None:
                draft = commit_writer.imported(self.format, record, guard, safe)
                node = self._purged(alike, parent, record, draft) or self._put(parent, draft)
            at_line[record.line] = node
        return at_line

    def _take(self, line: ExportedLine, at_line: dict[int, Node]) -> None:
        """Let a line of ours stand for its entry."""
        self.taken[line.record.line] = line
        at_line[line.record.line] = line.node
        self._follow(line.node)

    @functools.cached_property
    def may_hold(self) -> Callable[[int], bool]:
        """Return whether the record of a number may hold a secret that the store's guard takes out."""
        guard, records = self.store.guard, self.source.records
        if guard is None:
            return lambda number: False
        return functools.cache(SecretLookahead(guard.scanner, len(records), lambda at: records[at].payload).may_hold)

    def _purged(
        self, alike: EquivalentEntries, parent: Node, record: Record, draft: commit_writer.Draft
    ) -> Node | None:
        """What stands for a record with a secret that was purged: the rules may be others than when it was stored."""
        if not self.purged:
            return None
        if draft.original is None and self.store.guard is None:
            from gitsession.redaction.guard import Guard  # who opens a store does not wait for the rules

            draft = commit_writer.imported(self.format, record, Guard.by(self.store.vault))
        if draft.original is None:
            return None
        if any(self.purged.has_entry(digest) for digest in commit_writer.digests(draft)):
            return self._put(parent, draft)
        return alike.tombstone(self.format, parent, record)

    def _put(self, parent: Node, draft: commit_writer.Draft) -> Node:
        """A new entry; where it was purged, what stands in its place, which may be there already."""
        node = put_unless_purged(self, parent, draft, self.purged)
        if self.tree is None or node.oid not in self.tree.nodes:
            self.new += 1
            if not node.is_tombstone and purged_ids.key(node) in self.purged_keys:
                self.copied.add(commit_writer.digests(draft)[0])
            if self.tree is not None and parent.oid in self.tree.nodes:
                self.continued.add(parent.oid)
            self._grow(parent, node)
        return node

    def _known(self) -> dict[tuple[Oid, int, Oid], Node]:
        """The session's imported entries by what makes them the same: parent, line and tree."""
        if self.tree is None:
            return {}
        return {
            (node.parent, node.source.line, node.tree): node
            for node in self.tree.nodes.values()
            if node.source is not None and node.parent is not None
        }

    def _grow(self, parent: Node, node: Node) -> None:
        """A first child goes on with its parent's branch; each later one, and a segment, opens one named after it."""
        is_segment = self.source.segment is not None and parent is self.root
        name = None if is_segment else self.goes_on.pop(parent.oid, None)
        name = name or self._free(node)
        self.goes_on[node.oid] = name
        self.tips[name] = node.oid

    def _follow(self, node: Node) -> None:
        """Where the agent has the leaf of the active branch in its file, it goes on there, whoever named the branch."""
        if node.oid == self.before.get(self.active) and node.oid not in self.goes_on:
            self.goes_on[node.oid] = self.active

    @functools.cached_property
    def active(self) -> str:
        return active(self.store, self.sid)

    def _free(self, node: Node) -> str:
        return self.names.free(node.chain)

    def _make_last_a_leaf(self) -> None:
        """Where the agent goes on, a ref must say so: in a file cut short by a rewrite, and behind the user's undo."""
        last = self._last_node()
        news = self.new or self.source.leaf is not None
        if news and last is not None and last.oid not in self.tips.values():
            self.tips[self._free(last)] = last.oid

    def _last_node(self) -> Node | None:
        """The entry that the agent goes on from: that of the file's last line, if the file names no other."""
        if self.source.leaf is not None:
            return self.at_line[self.source.leaf]
        return self.at_line[max(self.at_line)] if self.at_line else None


def _purged(store: ObjectStore, source: Source) -> ImportResult | None:
    """The outcome of importing a session that was purged; ``None`` if it was not."""
    sid = _purged_session(store, source)
    if not sid:
        return None
    problems = (*source.problems, SourceProblem(0, "it was purged: nothing of it is taken in"))
    return ImportResult(
        session=sid, entries=len(source.records), new=0, rewritten=None, branch="", moves=(),
        problems=problems, is_purged=True,
    )  # fmt: skip


def root_digest(source: Source) -> str:
    """Return the digest of the entry at which a session made of ``source`` begins, if it is no fork."""
    return commit_writer.digests(_root_draft(source, "", None))[0]


def _root_draft(source: Source, fork: str, guard: Guard | None) -> commit_writer.Draft:
    """Return the entry at which a session begins. ``fork``: its name if it goes on from another file, else ""."""
    agent, source_id, at_ms = source.agent, source.source_id, source.started_ms
    entry: Entry = kinds.SessionHeader(agent=agent, source_id=source_id, view=VIEW, at_ms=at_ms)
    if fork:
        entry = kinds.Fork(session=fork, agent=agent, source_id=source_id, view=VIEW, at_ms=at_ms)
    nonce = hash_of(names.seed(source.agent, source.source_id, source.started_ms))[:NONCE_BYTES]
    return commit_writer.own(entry, nonce, guard)


def _purged_session(store: ObjectStore, source: Source) -> str:
    """The session that ``source`` is, if it was purged; else ""."""
    tombstones = tombstone_set.read(store)
    if not tombstones.sessions:
        return ""
    lengths = (names.LENGTH, names.LENGTH_TAKEN)
    called = [names.derived(source.agent, source.source_id, source.started_ms, length=length) for length in lengths]
    return next((sid for sid in (source.source_id, *called) if tombstone_set.SESSION + sid in tombstones), "")


def _damaged(sid: str) -> Corrupt:
    return Corrupt(f"session {sid} is damaged here", hint="`gitsession repair` mends it, from this file among others")
