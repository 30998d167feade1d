"""Validation of proposed ref moves, in one pass over the new objects, before any of them is accepted.

A server's `pre-receive` hook and a store's fetch use this module. Both read from a quarantine. Only objects that are
reachable from existing refs count as validated. docs/reference/server.md lists the rules and their names.
``verify/entry_check.py`` checks the format of an entry, which docs/reference/format.md defines.

    1. refs: the name is valid, the ref is not deleted, and its value is a commit
    2. entries, each after its parents: the form and the sizes are valid, and a commit computed from the entry's content
       equals the received commit
    3. histories: refs only move forward, a session has one root, each ref has only entries of the kinds that it may
       have (``files``: checkpoints and tombstones; ``meta``: properties of the session such as labels and titles, and
       parts of the agent's file), and no entry was purged
    4. refs that do not belong to a session: ``main``, the archive and the tombstone set

Fetched objects are validated before any ref of the store moves to them (see ``validate_fetched``).
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from math import inf
from pathlib import Path

from gitsession import parallel, progress
from gitsession.errors import GitSessionError, InvalidName, Malformed, MissingObject
from gitsession.git.objects import parse_commit, parse_tree
from gitsession.git.ref_files import check_ref_name
from gitsession.git.repository import VerifiedRepository
from gitsession.git.types import Kind, Oid
from gitsession.sessions import content, layout, tombstone, tombstone_set
from gitsession.sessions.node import Node
from gitsession.sessions.tombstone_set import NONE, SESSION, Tombstones
from gitsession.store import create, refs
from gitsession.store.interface import ObjectStore
from gitsession.validation import copies, entry_rules, history_rules, set_rules
from gitsession.validation.entry_rules import FileTrees, LaterViews
from gitsession.validation.history_rules import AcceptedEntry, EntryFacts, ProposedBranch
from gitsession.validation.quarantine_reader import (
    MEBIBYTE,
    NOT_SENT,
    REMOVE_HINT,
    Deadline,
    Fault,
    GitReader,
    LimitExceeded,
    Limits,
    Proposed,
    Refusal,
    is_validated,
)

_WINDOW = 256
"""Number of entries that are read together."""

_OID = re.compile(r"[0-9a-f]{40}")


def validate_moves(
    read: GitReader,
    moves: Iterable[Proposed],
    tombstones: Tombstones = NONE,
    limits: Limits = Limits(),  # noqa: B008 - a value
    *,
    allowed: Collection[str] = (),
    partial: bool = False,
    keeps_archived: bool = False,
    divide: Callable[[Sequence[Proposed]], Iterable[Sequence[Proposed]]] = lambda moves: [moves],
) -> list[Refusal]:
    """Return a refusal for each ref whose move is not valid; an empty list if all moves are valid.

    A refused ref does not affect other refs, unless their histories contain the faulty entry.

    Args:
        read: Reader of the proposed objects and of the known refs.
        moves: Moves to validate.
        tombstones: The tombstone set. The moves may extend it.
        limits: Limits of the push.
        allowed: Patterns (see ``fnmatch``) of refs that do not belong to gitsession and are not validated.
        partial: Whether blobs may be missing, as in a partial clone.
        keeps_archived: Whether to reject a new ref of an archived session if the archive already contains its value.
        divide: Divides the tips of a new archive into portions, which are validated one after another. By default, all
            are one portion.
    """
    deadline = Deadline(limits.seconds)
    refusals: dict[str, Refusal] = {}
    session_moves: list[Proposed] = []
    archive = read.known.get(refs.ARCHIVE) if keeps_archived else None
    archived_tips: list[Proposed] = []
    moves = sorted(moves, key=lambda move: move.ref)
    read.load_commits([move.new for move in moves if move.new is not None and _OID.fullmatch(move.new)])
    for move in moves:
        if is_allowed(move.ref, allowed):
            continue
        fault = _ref_fault(read, move)
        if fault is not None:
            pass
        elif move.ref == refs.TOMBSTONES:
            fault, tombstones = set_rules.validate_tombstones(read, move, tombstones, limits, deadline)
        elif move.ref == refs.ARCHIVE:
            fault, archived_tips = set_rules.validate_archive(read, move, limits, deadline)
            archive = move.new if fault is None and keeps_archived else archive
        elif move.ref == create.MAIN:
            fault = _main_fault(read, move)
        else:
            fault = None if archive is None else set_rules.archived_fault(read, move, archive)
            session_moves += [move] if fault is None else []
        if fault is not None:
            refusals[move.ref] = Refusal(move.ref, move.new or "", fault.what, fault.rule)
    portions = list(divide(archived_tips))
    archived = _archived_refusals(read, portions, tombstones, limits, partial, deadline)
    refusals |= {refusal.ref: refusal for refusal in islice(_with_errors(archived, [refs.ARCHIVE]), 1)}
    found = _EntryValidation(read, tombstones, limits, partial, deadline).refusals(session_moves)
    for refusal in _with_errors(found, [move.ref for move in session_moves]):
        refusals.setdefault(refusal.ref, refusal)
    return list(refusals.values())


def _with_errors(found: Iterator[Refusal], names: Iterable[str]) -> Iterator[Refusal]:
    """Yield the refusals in ``found``. If the validation fails, also yield a refusal of each ref in ``names``."""
    try:
        yield from found
    except LimitExceeded as error:
        yield from (Refusal(name, "", str(error), "limit") for name in names)
    except GitSessionError as error:  # git failed, or reports that the sent objects are incomplete
        yield from (Refusal(name, "", str(error), "unreadable") for name in names)


def _archived_refusals(
    read: GitReader,
    portions: Sequence[Sequence[Proposed]],
    tombstones: Tombstones,
    limits: Limits,
    partial: bool,
    deadline: Deadline,
) -> Iterator[Refusal]:
    """Yield the refusals of the archive for faults of its new tips, portion by portion. Raises ``LimitExceeded``.

    The tips of earlier portions count as known. They are not added to the known refs of ``read``, because the archive
    may still be refused.
    """

    def refusals(reader: GitReader, portion: Sequence[Proposed]) -> Iterator[Refusal]:
        for refusal in _EntryValidation(reader, tombstones, limits, partial, deadline).refusals(portion):
            what = f"{refusal.ref.removeprefix(refs.SESSIONS)}: {refusal.what}"
            yield Refusal(refs.ARCHIVE, refusal.oid, what, refusal.rule)

    if len(portions) == 1:
        yield from refusals(read, portions[0])
    elif portions:
        with read.copy() as reader:
            for portion in progress.each("Validating archived entries", portions):
                # An archived branch can have several tips, so the name of its ref is not unique. No ref has "..".
                tips = {f"{move.ref}..{move.new}": move.new for move in portion if move.new is not None}
                reader.load_commits(tips.values())
                yield from refusals(reader, portion)
                reader.accept(tips)


def is_allowed(ref: str, allowed: Collection[str]) -> bool:
    """Return whether a ref does not belong to gitsession and may be pushed without validation.

    gitsession refs are always validated. A ref whose name would prevent the creation of such refs is validated, too:
    git does not allow both ``a`` and ``a/b``.
    """
    prefixes = (refs.SESSIONS, refs.STORE_BRANCHES)
    is_own = any(ref.startswith(prefix) or prefix.startswith(f"{ref}/") for prefix in prefixes)
    return not is_own and any(fnmatchcase(ref, pattern) for pattern in allowed)


def _ref_fault(read: GitReader, move: Proposed) -> Fault | None:
    """Return the fault of the ref itself, or of the object that is its new value."""
    ref, old, new = move
    if ref.startswith(refs.SESSIONS) and not refs.is_session_ref(ref):
        return Fault("ref", "not the name of a session's branch")
    if any(prefix.startswith(f"{ref}/") for prefix in (refs.SESSIONS, refs.STORE_BRANCHES)):
        return Fault("ref", "it would block the refs of sessions: choose another name")
    try:
        check_ref_name(ref)
    except InvalidName as error:
        return Fault("ref", str(error))
    if not (refs.is_session_ref(ref) or ref in (create.MAIN, refs.TOMBSTONES, refs.ARCHIVE)):
        return Fault("ref", "not a ref of a store (allow other refs with `git config gitsession.allowRefs`)")
    if read.known.get(ref) != old:
        return Fault("moved", "another push moved it: fetch and push again")
    if new is None:
        return Fault("delete", "refs of a store cannot be deleted")
    head = read.head(new) if _OID.fullmatch(new) else None
    if head is None or head.kind != "commit":
        return Fault("tip", NOT_SENT if head is None else f"expected a commit, found a {head.kind}")
    return None


class _EntryValidation:
    """A validation of new entries, parents first. The children of a faulty entry are also faulty.

    The content of each entry is validated as if its parents were valid, so several processes can share the entries.
    Faults of parents are considered afterwards.
    """

    def __init__(
        self, read: GitReader, tombstones: Tombstones, limits: Limits, partial: bool, deadline: Deadline
    ) -> None:
        self._read = read
        self._tombstones = tombstones
        self._limits = limits
        self._partial = partial
        self._deadline = deadline
        self._trees = FileTrees(read, limits, tombstones, partial=partial)
        self._views = LaterViews(read)
        self._graph: dict[Oid, tuple[Oid, ...]] = {}
        self._children: Counter[Oid] = Counter()
        self._faulty: dict[Oid, tuple[Oid, Fault]] = {}
        self._accepted: dict[Oid, AcceptedEntry] = {}
        self._refused: dict[Oid, Fault] = {}
        """Faulty entries that this process found. Their descendants need no further validation."""
        self._waiting: dict[Oid, Node] = {}
        """Valid entries with children that this process has not validated yet.

        For other entries, only their ``EntryFacts`` are kept.
        """

    def refusals(self, moves: Sequence[Proposed]) -> Iterator[Refusal]:
        """Yield the refusals of session refs. Raises ``LimitExceeded``."""
        if not moves:
            return
        known_tips = [self._read.known_of(sid) for sid in {refs.session_of(move.ref) for move in moves}]
        known = [oid for tips in known_tips for oid in tips] if all(known_tips) else None
        graph = self._read.new([move.new for move in moves if move.new], known, self._limits.entries)
        if graph is None:
            what = f"more than {self._limits.entries:,} new entries in one push: push fewer refs at a time"
            yield from (Refusal(move.ref, "", what, "limit") for move in moves)
            return
        self._graph = graph
        self._children = Counter(parents[0] for parents in graph.values() if parents)
        found = {oid: facts for part in parallel.share(list(graph), self._check_all) for oid, facts in part.items()}
        for oid, fault in copies.faults(self._read, moves, graph, self._deadline):
            found[oid] = fault if not isinstance(found[oid], Fault) else found[oid]
        for oid in graph:
            self._accept(oid, found.pop(oid))
        valid = []
        for move in moves:
            if move.new in self._faulty:
                oid, fault = self._faulty[move.new]
                yield Refusal(move.ref, oid, fault.what, fault.rule)
            elif move.new is not None:
                valid.append(ProposedBranch(move.ref, move.old, move.new, self._accepted.get(move.new)))
        purged = [proposed for proposed in valid if SESSION + proposed.sid in self._tombstones]
        yield from self._refuse_purged_sessions(purged)
        others = [proposed for proposed in valid if SESSION + proposed.sid not in self._tombstones]
        yield from history_rules.refusals(self._read, others, self._graph, self._accepted, self._deadline)
        if self._tombstones:
            yield from self._refuse_purged_history(others)

    def _check_all(self, oids: Sequence[Oid]) -> dict[Oid, EntryFacts | Fault]:
        """Return the facts or the fault of each entry. Raises ``LimitExceeded``."""
        found: dict[Oid, EntryFacts | Fault] = {}
        windows = range(0, len(oids), _WINDOW)
        for at in windows if self._read.is_portion else progress.each("Validating entries", windows):
            self._deadline.check()
            self._read.load_entries(oids[at : at + _WINDOW])
            found |= {oid: self._check(oid) for oid in oids[at : at + _WINDOW]}
        return found

    def _check(self, oid: Oid) -> EntryFacts | Fault:
        refused = next((self._refused[parent] for parent in self._graph[oid] if parent in self._refused), None)
        node = refused or entry_rules.read(self._read, oid)
        parent = self._parent_of(node.parent) if isinstance(node, Node) and node.parent else None
        fault = node if isinstance(node, Fault) else parent if isinstance(parent, Fault) else None
        if fault is None:
            assert isinstance(node, Node) and not isinstance(parent, Fault)
            fault = self._fault(node, parent)
        if fault is not None:
            self._refused[oid] = fault
            return fault
        assert isinstance(node, Node)
        if self._children[oid]:
            self._waiting[oid] = node
        if node.parent in self._waiting:
            self._children[node.parent] -= 1
            if not self._children[node.parent]:
                del self._waiting[node.parent]
        return history_rules.facts_of(self._read, node)

    def _accept(self, oid: Oid, found: EntryFacts | Fault) -> None:
        inherited = next((self._faulty[parent] for parent in self._graph[oid] if parent in self._faulty), None)
        if inherited is not None:
            self._faulty[oid] = inherited
        elif isinstance(found, Fault):
            self._faulty[oid] = (oid, found)
        else:
            self._accepted[oid] = history_rules.accept(oid, found, self._accepted.get(found.parent or ""))

    def _parent_of(self, parent: Oid) -> Node | Fault:
        """Return the node of ``parent``, a new valid entry or a stored entry; a fault if ``parent`` is faulty."""
        node = self._waiting.get(parent) or entry_rules.read(self._read, parent)
        if isinstance(node, Fault):
            return Fault("parents", f"the parent {parent[:10]}: {node.what}")
        return node

    def _fault(self, node: Node, parent: Node | None) -> Fault | None:
        try:
            fault = self._entry_fault(node, parent)
            if fault is None:
                files = self._files(node)
                base = self._files(parent) if parent is not None and files else None
                fault = self._trees.fault(files, base) if files else None
            if fault is None and (self._tombstones or node.is_tombstone or node.replaces):
                fault = entry_rules.purged(self._read, node, self._tombstones)
        except MissingObject as error:
            return None if self._partial else Fault("missing", str(error))
        except GitSessionError as error:
            return Fault("unreadable", str(error))
        return fault

    def _files(self, node: Node) -> Oid | None:
        """Return the tree of the files of a valid entry; ``None`` if it has none."""
        rows = content.tree_of(self._read, node.tree)
        return next((oid for _, name, oid in rows if name == layout.FILES), None)

    def _entry_fault(self, node: Node, parent: Node | None) -> Fault | None:
        """Return the fault of an entry.

        The commit message is compared with the expected one only if this release supports the view of the session.
        Because nearly all sessions have a supported view, the message is compared first. The view is determined only if
        this check finds a fault.
        """

        def first_fault(*, check_message: bool) -> Fault | None:
            found = entry_rules.faults(self._read, node, parent, self._limits, check_message=check_message)
            fault = next(found, None)
            return None if fault is not None and fault.rule == "missing" and self._partial else fault

        is_known_later = self._views.is_known_later(node)
        fault = first_fault(check_message=not is_known_later)
        if (
            fault is not None
            and fault.rule == "entry"
            and not is_known_later
            and self._views.is_later(node, self._graph)
        ):
            fault = first_fault(check_message=False)
        return fault

    def _refuse_purged_sessions(self, branches: Iterable[ProposedBranch]) -> Iterator[Refusal]:
        """Yield the refusals of refs of purged sessions. Only a ref to the tombstone of the first entry is allowed."""
        for proposed in branches:
            fault = history_rules.rewind_fault(self._read, proposed)
            if fault is not None:
                yield Refusal(proposed.ref, proposed.new, fault.what, fault.rule)
            elif not self._is_session_tombstone(proposed):
                what = f"session {proposed.sid} was purged: {REMOVE_HINT}"
                yield Refusal(proposed.ref, proposed.new, what, "purged")

    def _is_session_tombstone(self, proposed: ProposedBranch) -> bool:
        node = entry_rules.read(self._read, proposed.new)
        if isinstance(node, Fault) or not node.is_tombstone or node.parent is not None:
            return False
        try:
            return tombstone.of_node(self._read, node).of in self._tombstones.roots_of(proposed.sid)
        except GitSessionError:
            return False

    def _refuse_purged_history(self, branches: Iterable[ProposedBranch]) -> Iterator[Refusal]:
        """Yield the refusals of new refs to existing histories that contain purged entries.

        The whole history is read.
        """
        seen: set[Oid] = set()
        for proposed in branches:
            existing = proposed.existing_tip
            if proposed.old is not None or existing is None or existing in seen:
                continue
            for oid in self._read.ancestors(existing):
                if oid in seen:
                    continue
                self._deadline.check()
                seen.add(oid)
                node = entry_rules.read(self._read, oid)
                fault = node if isinstance(node, Fault) else entry_rules.purged(self._read, node, self._tombstones)
                if fault is not None and fault.rule == "purged":
                    yield Refusal(proposed.ref, oid, fault.what, fault.rule)
                    break


_TREE_NAMES_MAX = 1000


def _main_fault(read: GitReader, move: Proposed) -> Fault | None:
    """Return the fault of a new value of the branch ``main``."""
    if move.new is None or move.new == create.first_commit()[0]:
        return None if move.old is None else Fault("rewind", "not a fast-forward")
    if move.old is not None and not read.is_first_parent_ancestor(move.old, move.new):
        return Fault("rewind", "not a fast-forward")
    try:
        value = _marker(read, move.new)
    except (GitSessionError, ValueError, RecursionError) as error:
        return Fault("main", f"cannot read {create.MARKER}: {error}")
    version = value.get("format") if isinstance(value, dict) else None
    if type(version) is not int:
        return Fault("main", f"no {create.MARKER} with a format: the repository would no longer be a store")
    if version > create.FORMAT:
        return Fault(
            "main", f"format {version} is newer than the supported format {create.FORMAT}: upgrade gitsession first"
        )
    return None


def _marker(read: GitReader, oid: Oid) -> object:
    tree = parse_commit(read.read(oid)[1]).tree
    head = read.head(tree)
    if head is None or head.size > MEBIBYTE:
        raise Malformed("its tree is missing or too large")
    rows = parse_tree(read.read(tree)[1])
    if len(rows) > _TREE_NAMES_MAX:
        raise Malformed(f"its tree has {len(rows):,} entries (limit: {_TREE_NAMES_MAX:,})")
    for _, name, blob in rows:
        if name == create.MARKER:
            head_of_blob = read.head(blob)
            if head_of_blob is None or head_of_blob.size > MEBIBYTE:
                raise Malformed("it is missing or too large")
            return json.loads(read.read(blob)[1])
    return None


SESSIONS_AT_ONCE, ENTRIES_AT_ONCE = 20, 8_000
"""Minimum number of sessions that are validated together, and number of entries up to which more sessions are added."""

FETCH_LIMITS = Limits(entries=10_000_000, seconds=inf)
"""Limits of a fetch. The amount of data is not limited, because the user requested it."""


class FetchedReader:
    """A reader of fetched objects and of the objects of the store."""

    def __init__(self, git_dir: Path, store: ObjectStore) -> None:
        self.git_dir, self.store = git_dir, store
        self._fetched = VerifiedRepository(git_dir)

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        return self._fetched.read(oid) if self._fetched.contains(oid) else self.store.read(oid)

    def contains(self, oid: Oid) -> bool:
        return self._fetched.contains(oid) or self.store.contains(oid)

    @property
    def fetched_objects(self) -> int:
        """The number of objects in the fetched packs."""
        return self._fetched.packed_objects


def validate_fetched(read: FetchedReader, moves: list[Proposed], known: Mapping[str, Oid]) -> list[Refusal]:
    """Return a refusal for each invalid fetched ref; an empty list if all are valid.

    ``known``: refs that were validated before. In a partial clone, missing blobs are not validated.
    """
    tombstones = tombstone_set.read(read.store)
    is_partial = any((read.git_dir / "objects" / "pack").glob("*.promisor"))
    found: list[Refusal] = []
    roots: set[Oid] | None = None if any(map(is_validated, known)) else set()
    divide = functools.partial(_portions, objects=read.fetched_objects)
    portions = list(divide(moves))
    with GitReader(read.git_dir, known, is_portion=len(portions) > 1, known_roots=roots) as reader:
        for portion in progress.each("Validating entries", portions) if reader.is_portion else portions:
            refused = validate_moves(reader, portion, tombstones, FETCH_LIMITS, partial=is_partial, divide=divide)
            refused_refs = {refusal.ref for refusal in refused}
            valid = {move.ref: move.new for move in portion if move.new is not None and move.ref not in refused_refs}
            reader.accept(valid)
            if refs.TOMBSTONES in valid:
                tombstones |= tombstone_set.at(read, valid[refs.TOMBSTONES])
            found += refused
    return found


def unmergeable_reason(read: FetchedReader, remote_tip: Oid) -> str:
    """Return the reason why the tombstone set of a remote cannot be merged; "" if it can be merged."""
    local_tip = read.store.ref(refs.TOMBSTONES)
    with GitReader(read.git_dir, {} if local_tip is None else {refs.TOMBSTONES: local_tip}) as reader:
        move = Proposed(refs.TOMBSTONES, None, remote_tip)
        fault, _ = set_rules.validate_tombstones(reader, move, tombstone_set.NONE, FETCH_LIMITS, Deadline(inf))
    return "" if fault is None else fault.what


def _portions(moves: Iterable[Proposed], objects: int) -> Iterator[list[Proposed]]:
    """Yield the moves in portions of whole sessions, which limits memory use.

    Moves of refs without a session are in the first portion. ``objects``: the number of received objects. An entry has
    at least two, and usually three.
    """
    by_session: dict[str, list[Proposed]] = {}
    for move in moves:
        by_session.setdefault(refs.session_of(move.ref), []).append(move)
    at_once = max(SESSIONS_AT_ONCE, len(by_session) * ENTRIES_AT_ONCE * 3 // max(objects, 1))
    sids = iter(sorted(by_session))
    while portion := list(islice(sids, at_once)):
        yield [move for sid in portion for move in by_session[sid]]
