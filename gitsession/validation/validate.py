"""Validation of proposed ref moves, in one pass over the new objects, before any of them is accepted.

The `pre-receive` hook of a server and the fetch of a store use the same code. It reads from a quarantine. Only objects
that are reachable from existing refs count as validated. docs/reference/server.md lists the rules and their names. The
format of an entry is in docs/reference/format.md, and ``verify/entry_check.py`` checks it.

    1. refs: the name is valid, the ref is not deleted, and its value is a commit
    2. entries, each after its parents: the form and the sizes; then the commit is computed again and compared
    3. histories: refs only move forward, a session has one root, ``meta`` and ``files`` have only entries that belong
       there, and no entry was purged
    4. refs that do not belong to a session: ``main``, the archive and the tombstone set

Fetched objects are validated before a ref of the store moves to them (see ``validate_fetched``).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from math import inf
from pathlib import Path

from gitsession import progress
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
from gitsession.validation import entry_rules, history_rules, set_rules
from gitsession.validation.entry_rules import FileTrees, LaterViews
from gitsession.validation.history_rules import AcceptedEntry, ProposedBranch
from gitsession.validation.quarantine_reader import (
    MEBIBYTE,
    NOT_SENT,
    TAKE_OUT,
    Deadline,
    Fault,
    GitReader,
    Limits,
    Proposed,
    Refusal,
    ValidationTimeout,
)

_WINDOW = 256
"""Number of entries that are read together."""

_OID = re.compile(r"[0-9a-f]{40}")


def judge(
    read: GitReader,
    moves: Iterable[Proposed],
    tombstones: Tombstones = NONE,
    limits: Limits = Limits(),  # noqa: B008 - a value
    *,
    allowed: Collection[str] = (),
    partial: bool = False,
    keeps_archived: bool = False,
) -> list[Refusal]:
    """Return the refusals of moves, at most one per ref; an empty list if all moves are valid.

    A refused ref does not affect other refs, unless their histories contain the faulty entry.

    Args:
        read: Reader of the proposed objects. It also has the known refs.
        moves: Moves to validate.
        tombstones: The tombstone set. The moves may extend it.
        limits: Limits of the push.
        allowed: Patterns (``fnmatch``) of refs that do not belong to gitsession and are not validated.
        partial: Whether blobs may be missing, as in a partial clone.
        keeps_archived: Whether to reject a new ref of an archived session if the archive already contains its value.
    """
    until = Deadline(limits.seconds)
    found: dict[str, Refusal] = {}
    rest: list[Proposed] = []
    archive = read.known.get(refs.ARCHIVE) if keeps_archived else None
    ends: list[Proposed] = []
    moves = sorted(moves, key=lambda move: move.ref)
    read.look_at([move.new for move in moves if move.new is not None and _OID.fullmatch(move.new)])
    for move in moves:
        if is_allowed(move.ref, allowed):
            continue
        fault = _of_the_ref(read, move)
        if fault is not None:
            pass
        elif move.ref == refs.TOMBSTONES:
            fault, tombstones = set_rules.validate_tombstones(read, move, tombstones, limits, until)
        elif move.ref == refs.ARCHIVE:
            fault, ends = set_rules.validate_archive(read, move, limits)
            archive = move.new if fault is None and keeps_archived else archive
        elif move.ref == create.MAIN:
            fault = _main_fault(read, move)
        else:
            fault = None if archive is None else set_rules.is_held(read, move, archive)
            rest += [move] if fault is None else []
        if fault is not None:
            found[move.ref] = Refusal(move.ref, move.new or "", fault.what, fault.rule)
    try:
        for refusal in _Judge(read, tombstones, limits, partial, until).refusals(ends):
            what = f"{refusal.ref.removeprefix(refs.SESSIONS)}: {refusal.what}"
            found.setdefault(refs.ARCHIVE, Refusal(refs.ARCHIVE, refusal.oid, what, refusal.rule))
        for refusal in _Judge(read, tombstones, limits, partial, until).refusals(rest):
            found.setdefault(refusal.ref, refusal)
    except ValidationTimeout as error:
        for ref in [*([refs.ARCHIVE] if ends else []), *(move.ref for move in rest)]:
            found.setdefault(ref, Refusal(ref, "", str(error), "limit"))
    except GitSessionError as error:  # git failed, or reports that the sent objects are incomplete
        for ref, oid in [*([(refs.ARCHIVE, "")] if ends else []), *((move.ref, move.new or "") for move in rest)]:
            found.setdefault(ref, Refusal(ref, oid, str(error), "unreadable"))
    return list(found.values())


def is_allowed(ref: str, allowed: Collection[str]) -> bool:
    """Return whether a ref does not belong to gitsession and may be pushed without validation.

    Refs of gitsession are always validated. So are refs that would block them: git allows no branch below a branch.
    """
    is_ours = any(ref.startswith(ours) or ours.startswith(f"{ref}/") for ours in (refs.SESSIONS, refs.OURS))
    return not is_ours and any(fnmatchcase(ref, pattern) for pattern in allowed)


def _of_the_ref(read: GitReader, move: Proposed) -> Fault | None:
    """Return the fault of the ref itself, or of the object that is its new value."""
    ref, old, new = move
    if ref.startswith(refs.SESSIONS) and not refs.is_session_ref(ref):
        return Fault("ref", "not the name of a session's branch")
    if any(ours.startswith(f"{ref}/") for ours in (refs.SESSIONS, refs.OURS)):
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
        return Fault("tip", NOT_SENT if head is None else f"a {head.kind}, expected a commit")
    return None


class _Judge:
    """The state of a validation of new entries, parents first. The children of a faulty entry are faulty, too."""

    def __init__(self, read: GitReader, tombstones: Tombstones, limits: Limits, partial: bool, until: Deadline) -> None:
        self._read = read
        self._tombstones = tombstones
        self._limits = limits
        self._partial = partial
        self._until = until
        self._trees = FileTrees(read, limits, tombstones, partial=partial)
        self._views = LaterViews(read)
        self._graph: dict[Oid, tuple[Oid, ...]] = {}
        self._children: Counter[Oid] = Counter()
        self._bad: dict[Oid, tuple[Oid, Fault]] = {}
        self._good: dict[Oid, AcceptedEntry] = {}
        self._waiting: dict[Oid, Node] = {}
        """Valid entries with children that are not validated yet. Of other entries, only ``AcceptedEntry`` is kept."""

    def refusals(self, moves: Sequence[Proposed]) -> Iterator[Refusal]:
        """Yield the refusals of session refs. Raises ``ValidationTimeout``."""
        if not moves:
            return
        there = [self._read.known_of(sid) for sid in {refs.session_of(move.ref) for move in moves}]
        known = [oid for ends in there for oid in ends] if all(there) else None
        graph = self._read.new([move.new for move in moves if move.new], known, self._limits.entries)
        if graph is None:
            what = f"more than {self._limits.entries:,} new entries in one push: push fewer refs at a time"
            yield from (Refusal(move.ref, "", what, "limit") for move in moves)
            return
        self._graph = graph
        self._children = Counter(parents[0] for parents in graph.values() if parents)
        order = list(graph)
        for at in progress.each("Validating entries", range(0, len(order), _WINDOW)):
            self._until.check()
            self._read.ahead(order[at : at + _WINDOW])
            for oid in order[at : at + _WINDOW]:
                self._judge(oid)
        whole = []
        for move in moves:
            if move.new in self._bad:
                oid, fault = self._bad[move.new]
                yield Refusal(move.ref, oid, fault.what, fault.rule)
            elif move.new is not None:
                whole.append(ProposedBranch(move.ref, move.old, move.new, self._good.get(move.new)))
        ended = [line for line in whole if SESSION + line.sid in self._tombstones]
        yield from self._of_purged_sessions(ended)
        rest = [line for line in whole if SESSION + line.sid not in self._tombstones]
        yield from history_rules.refusals(self._read, rest, self._graph, self._good, self._until)
        if self._tombstones:
            yield from self._purged_before(rest)

    def _judge(self, oid: Oid) -> None:
        parents = self._graph[oid]
        spoilt = next((self._bad[parent] for parent in parents if parent in self._bad), None)
        if spoilt is not None:
            self._bad[oid] = spoilt
            return
        node = entry_rules.read(self._read, oid)
        before = self._before(node.parent) if isinstance(node, Node) and node.parent else None
        fault = node if isinstance(node, Fault) else before if isinstance(before, Fault) else None
        if fault is None:
            assert isinstance(node, Node) and not isinstance(before, Fault)
            fault = self._fault(node, before)
        if fault is not None:
            self._bad[oid] = (oid, fault)
            return
        assert isinstance(node, Node) and not isinstance(before, Fault)
        self._good[oid] = history_rules.see(self._read, node, self._good.get(node.parent or ""))
        if self._children[oid]:
            self._waiting[oid] = node
        if node.parent in self._waiting:
            self._children[node.parent] -= 1
            if not self._children[node.parent]:
                del self._waiting[node.parent]

    def _before(self, parent: Oid) -> Node | Fault:
        """Return the parent of an entry: a new, valid entry, or an entry that is stored already."""
        found = self._waiting.get(parent) or entry_rules.read(self._read, parent)
        if isinstance(found, Fault):
            return Fault("parents", f"the parent {parent[:10]}: {found.what}")
        return found

    def _fault(self, node: Node, before: Node | None) -> Fault | None:
        try:
            fault = self._words_fault(node, before)
            if fault is None:
                files = self._files(node)
                base = self._files(before) if before is not None and files else None
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

    def _words_fault(self, node: Node, before: Node | None) -> Fault | None:
        """Return the fault of an entry. Its message is checked only if this release supports the view of its session.

        Nearly all sessions have a supported view. So the view is read only if the message does not match.
        """

        def first(*, check_message: bool) -> Fault | None:
            found = entry_rules.faults(self._read, node, before, self._limits, check_message=check_message)
            fault = next(found, None)
            return None if fault is not None and fault.rule == "missing" and self._partial else fault

        known = self._views.is_known_later(node)
        fault = first(check_message=not known)
        if fault is not None and fault.rule == "entry" and not known and self._views.is_later(node, self._graph):
            fault = first(check_message=False)
        return fault

    def _of_purged_sessions(self, lines: Iterable[ProposedBranch]) -> Iterator[Refusal]:
        """Refuse refs of purged sessions, unless the ref has only the tombstone of the session's first entry."""
        for line in lines:
            fault = history_rules.rewinds(self._read, line)
            if fault is not None:
                yield Refusal(line.ref, line.new, fault.what, fault.rule)
            elif not self._is_all_that_is_left(line):
                what = f"session {line.sid} was purged: {TAKE_OUT}"
                yield Refusal(line.ref, line.new, what, "purged")

    def _is_all_that_is_left(self, line: ProposedBranch) -> bool:
        node = entry_rules.read(self._read, line.new)
        if isinstance(node, Fault) or not node.is_tombstone or node.parent is not None:
            return False
        try:
            return tombstone.of_node(self._read, node).of in self._tombstones.began(line.sid)
        except GitSessionError:
            return False

    def _purged_before(self, lines: Iterable[ProposedBranch]) -> Iterator[Refusal]:
        """Refuse new refs to existing history that contains purged entries. The whole history is read."""
        seen: set[Oid] = set()
        for line in lines:
            below = line.old_below
            if line.old is not None or below is None or below in seen:
                continue
            for oid in self._read.ancestors(below):
                if oid in seen:
                    continue
                self._until.check()
                seen.add(oid)
                node = entry_rules.read(self._read, oid)
                fault = node if isinstance(node, Fault) else entry_rules.purged(self._read, node, self._tombstones)
                if fault is not None and fault.rule == "purged":
                    yield Refusal(line.ref, oid, fault.what, fault.rule)
                    break


_TREE_NAMES_MAX = 1000


def _main_fault(read: GitReader, move: Proposed) -> Fault | None:
    """Return the fault of a new value of ``main``."""
    if move.new is None or move.new == create.first_commit()[0]:
        return None if move.old is None else Fault("rewind", "not a fast-forward")
    if move.old is not None and not read.is_on_line(move.old, move.new):
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
            found = read.head(blob)
            if found is None or found.size > MEBIBYTE:
                raise Malformed("it is missing or too large")
            return json.loads(read.read(blob)[1])
    return None


SESSIONS_AT_ONCE, ENTRIES_AT_ONCE = 200, 50_000
"""Minimum number of sessions that are validated together, and number of entries up to which more are added."""

FETCH_LIMITS = Limits(entries=10_000_000, seconds=inf)
"""Limits of a fetch. The amount of data is not limited, because the user requested it."""


class FetchedReader:
    """A reader of fetched objects and of the objects of the store."""

    def __init__(self, git_dir: Path, store: ObjectStore) -> None:
        self.git_dir, self.store = git_dir, store
        self._door = VerifiedRepository(git_dir)

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        return self._door.read(oid) if self._door.contains(oid) else self.store.read(oid)

    def contains(self, oid: Oid) -> bool:
        return self._door.contains(oid) or self.store.contains(oid)


def validate_fetched(read: FetchedReader, moves: list[Proposed], known: Mapping[str, Oid]) -> list[Refusal]:
    """Return the refusals of fetched refs; an empty list if all are valid. ``known``: refs that were validated before.

    In a partial clone, missing blobs are not validated.
    """
    gone = tombstone_set.read(read.store)
    good = dict(known)
    found: list[Refusal] = []
    for some in _portions(moves, _at_once(read, moves, known)):
        with GitReader(read.git_dir, good) as apart:
            refused = judge(apart, some, gone, FETCH_LIMITS, partial=_is_partial(read.git_dir))
        bad = {refusal.ref for refusal in refused}
        good |= {move.ref: move.new for move in some if move.new is not None and move.ref not in bad}
        if refs.TOMBSTONES in {move.ref for move in some} - bad:
            gone |= tombstone_set.at(read, good[refs.TOMBSTONES])
        found += refused
    return found


def why_unmergeable(read: FetchedReader, theirs: Oid) -> str:
    """Return the reason why the tombstone set of a remote cannot be merged; "" if it can be merged."""
    ours = read.store.ref(refs.TOMBSTONES)
    with GitReader(read.git_dir, {} if ours is None else {refs.TOMBSTONES: ours}) as apart:
        move = Proposed(refs.TOMBSTONES, None, theirs)
        fault, _ = set_rules.validate_tombstones(apart, move, tombstone_set.NONE, FETCH_LIMITS, Deadline(inf))
    return "" if fault is None else fault.what


def _at_once(read: FetchedReader, moves: Sequence[Proposed], known: Mapping[str, Oid]) -> int:
    """Return the number of sessions that are validated together."""
    sessions = len({refs.session_of(move.ref) for move in moves})
    if sessions <= SESSIONS_AT_ONCE:
        return SESSIONS_AT_ONCE
    try:
        with GitReader(read.git_dir, known) as apart:
            entries = apart.count_new([move.new for move in moves if move.new is not None])
    except GitSessionError:
        return SESSIONS_AT_ONCE  # fetched objects are missing: the validation reports which ones
    return max(SESSIONS_AT_ONCE, sessions * ENTRIES_AT_ONCE // max(entries, 1))


def _portions(moves: Iterable[Proposed], at_once: int) -> Iterator[list[Proposed]]:
    """Yield the moves in groups of whole sessions, to limit the memory for entries. Moves of no session come first."""
    by_session: dict[str, list[Proposed]] = {}
    for move in moves:
        by_session.setdefault(refs.session_of(move.ref), []).append(move)
    sids = iter(sorted(by_session))
    while group := list(islice(sids, at_once)):
        yield [move for sid in group for move in by_session[sid]]


def _is_partial(git_dir: Path) -> bool:
    return any((git_dir / "objects" / "pack").glob("*.promisor"))
