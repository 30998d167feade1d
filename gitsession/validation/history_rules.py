"""Validation of histories of valid entries: how refs move, where sessions begin, and which entries a ref may have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import NamedTuple

from gitsession.dataclass import dataclass
from gitsession.errors import GitSessionError
from gitsession.git.types import Oid, Reader
from gitsession.model.entries import Fork, SessionHeader
from gitsession.sessions import content
from gitsession.sessions.node import Node, load
from gitsession.store import refs
from gitsession.validation.quarantine_reader import Deadline, Fault, GitReader, Refusal
from gitsession.verify.entry_check import is_allowed_on

_BRANCH, _META, _FILES = range(3)


class Forked(NamedTuple):
    """A session that begins with a ``fork`` entry, and the previous such session in the same history."""

    sid: str
    before: Forked | None


class HistoryBase(NamedTuple):
    """The base of the new part of a history. It is the same for all new entries of the history.

    Attributes:
        old: Newest entry that existed before the push; ``None`` if all entries are new.
        root: Root of the history, if the root is new; ``None`` otherwise.
        forks: Sessions that begin in the new part with a ``fork`` entry.
        possible_ids: Possible ids of a session that begins with ``root``, or the date in its id; ``None`` if any id is
            possible.
    """

    old: Oid | None
    root: Oid | None
    forks: Forked | None = None
    possible_ids: frozenset[str] | None = None


class EntryFacts(NamedTuple):
    """The data that is kept about the content of a valid entry.

    Attributes:
        kind: Kind of the entry.
        parent: First parent of the entry.
        starts: Whether a session begins with the entry.
        allowed: Whether the entry may be on a branch, on ``meta`` and on ``files``, in this order.
        fork: Session that begins with this ``fork`` entry; ``None`` for other entries.
        possible_ids: Possible ids of a session that begins with this root (see ``HistoryBase``).
    """

    kind: str
    parent: Oid | None
    starts: bool
    allowed: tuple[bool, ...]
    fork: str | None
    possible_ids: frozenset[str] | None

    def fault(self, ref_type: int) -> Fault | None:
        """Return the fault of the entry on a ref of this type. The caller appends the name of the ref to the text."""
        return None if self.allowed[ref_type] else Fault("place", f"{self.kind[:40]!r} is not allowed on")


class AcceptedEntry(NamedTuple):
    """The data that is kept about a valid entry. ``base``: the base of the entry's history."""

    base: HistoryBase
    facts: EntryFacts


@dataclass(frozen=True, slots=True)
class ProposedBranch:
    """A proposed ref. ``accepted``: the data about the tip of the ref; ``None`` if the tip existed before the push."""

    ref: str
    old: Oid | None
    new: Oid
    accepted: AcceptedEntry | None

    @property
    def sid(self) -> str:
        return refs.session_of(self.ref)

    @property
    def branch(self) -> str:
        return self.ref.rpartition("/")[2]

    @property
    def new_forks(self) -> list[str]:
        """The sessions that begin with a ``fork`` entry in the new part of the history, newest first."""
        found = []
        at = self.accepted.base.forks if self.accepted is not None else None
        while at is not None:
            found.append(at.sid)
            at = at.before
        return found

    @property
    def existing_tip(self) -> Oid | None:
        """The newest entry of the branch that existed before the push; ``None`` if all entries are new."""
        return self.new if self.accepted is None else self.accepted.base.old


def facts_of(reader: Reader, node: Node) -> EntryFacts:
    """Return the data to keep about the content of a valid entry."""
    fork = None
    if node.kind == Fork.kind and node.source is None:
        entry = content.entry_of(reader, node)
        fork = entry.session if isinstance(entry, Fork) else None
    allowed = tuple([is_allowed_on(node, ref_type) for ref_type in ("branch", refs.META, refs.FILES)])
    ids = possible_ids(reader, node) if node.parent is None else None
    return EntryFacts(node.kind, node.parent, node.starts_session, allowed, fork, ids)


def accept(oid: Oid, facts: EntryFacts, parent: AcceptedEntry | None) -> AcceptedEntry:
    """Return the data to keep about a valid entry. ``parent``: the data about its parent, if the parent is also new."""
    if parent is not None:
        base = parent.base
    elif facts.parent is not None:
        base = HistoryBase(facts.parent, None)
    else:
        base = HistoryBase(None, oid, possible_ids=facts.possible_ids)
    if facts.fork is not None:
        base = base._replace(forks=Forked(facts.fork, base.forks))
    return AcceptedEntry(base, facts)


def refusals(
    reader: GitReader,
    branches: Sequence[ProposedBranch],
    parents: Mapping[Oid, tuple[Oid, ...]],
    accepted: Mapping[Oid, AcceptedEntry],
    deadline: Deadline,
) -> Iterator[Refusal]:
    """Yield a refusal for each invalid branch whose entries are valid. Raises ``LimitExceeded``."""
    known_valid: set[Oid] = set()
    for proposed in branches:
        fault = rewind_fault(reader, proposed) or _misplaced_entry_fault(
            reader, proposed, parents, accepted, known_valid, deadline
        )
        if fault is not None:
            yield Refusal(proposed.ref, proposed.new, fault.what, fault.rule)
    by_session: dict[str, list[ProposedBranch]] = {}
    moved: dict[str, list[ProposedBranch]] = {}
    for proposed in branches:
        moved.setdefault(proposed.sid, []).append(proposed)
        if proposed.old is None:
            by_session.setdefault(proposed.sid, []).append(proposed)
    for sid, moved_branches in moved.items():
        deadline.check()
        yield from _check_foreign_forks(reader, sid, moved_branches)
        yield from _check_meta_entries(reader, sid, moved_branches, parents, accepted)
    roots: dict[Oid, str] = {}
    # If a session has two ids, the id with more refs is accepted. A copy under another id usually has only one branch.
    for sid, new_branches in sorted(by_session.items(), key=lambda row: (-len(row[1]), row[0])):
        deadline.check()
        yield from _check_roots(reader, sid, new_branches, roots)


def rewind_fault(reader: GitReader, proposed: ProposedBranch) -> Fault | None:
    """Return a fault if the new value of a ref does not continue the old value along first parents.

    A second parent is only a reference.
    """
    existing = proposed.existing_tip
    if proposed.old is None or existing == proposed.old:
        return None
    if existing is not None and reader.is_first_parent_ancestor(proposed.old, existing):
        return None
    return Fault("rewind", "not a fast-forward along first parents: run `gitsession sync` and push again")


def _misplaced_entry_fault(
    reader: GitReader,
    proposed: ProposedBranch,
    parents: Mapping[Oid, tuple[Oid, ...]],
    accepted: Mapping[Oid, AcceptedEntry],
    known_valid: set[Oid],
    deadline: Deadline,
) -> Fault | None:
    """Return the fault of the first entry that must not be on the proposed ref; ``None`` if there is none.

    ``known_valid``: entries that are known to be allowed on a branch. They are skipped.
    """
    ref_type = _BRANCH if refs.is_branch(proposed.branch) else _META if refs.is_meta(proposed.branch) else _FILES
    at: Oid | None = proposed.new
    while at is not None and at in accepted and (ref_type != _BRANCH or at not in known_valid):
        deadline.check()
        facts = accepted[at].facts
        if ref_type != _BRANCH and facts.starts:
            return None
        fault = facts.fault(ref_type)
        if fault is not None:
            return fault._replace(what=f"{fault.what} {proposed.branch!r}")
        if ref_type == _BRANCH:
            known_valid.add(at)
        at = next(iter(parents[at]), None)
    if ref_type == _BRANCH or at == proposed.old:
        return None
    while at is not None:  # `meta` or `files` begins in existing history: check it back to the session's start
        deadline.check()
        facts = facts_of(reader, load(reader, at))
        if facts.starts:
            return None
        fault = facts.fault(ref_type)
        if fault is not None:
            return fault._replace(what=f"it continues {at[:10]}: {fault.what} {proposed.branch!r}")
        at = facts.parent
    return None


def _check_foreign_forks(reader: GitReader, sid: str, branches: Sequence[ProposedBranch]) -> Iterator[Refusal]:
    """Yield a refusal for each branch that contains the ``fork`` entry of another session.

    A branch of a fork may begin before the ``fork`` entry of its session, like a branch of the session that the fork
    continues.
    """

    @cache
    def shared() -> frozenset[str]:
        pushed = (_forks_on(reader, proposed) for proposed in branches)
        existing = (
            _forks_before(reader, tip) for tips_of in (reader.known_of, reader.archived_of) for tip in tips_of(sid)
        )
        found = next((found for found in chain(pushed, existing) if sid in found), [sid])
        return frozenset(found[found.index(sid) + 1 :])

    for proposed in branches:
        if refs.is_branch(proposed.branch) or refs.is_meta(proposed.branch):
            found = _forks_on(reader, proposed)
            foreign = found[: found.index(sid)] if sid in found else [name for name in found if name not in shared()]
            if foreign:
                what = f"it contains the `fork` entry that begins session {foreign[0]}: push it as a branch of that one"
                yield Refusal(proposed.ref, proposed.new, what, "root")


def _forks_on(reader: GitReader, proposed: ProposedBranch) -> list[str]:
    """Return the sessions that begin with a ``fork`` entry in the part of a history after the ref's old value.

    The newest session comes first.
    """
    found = proposed.new_forks
    existing = proposed.existing_tip
    if existing is None or existing == proposed.old or existing in reader.known_of(proposed.sid):
        return found
    before = _forks_before(reader, proposed.old) if proposed.old is not None else []
    older = _forks_before(reader, existing)
    return found + older[: len(older) - len(before)]


def _forks_before(reader: GitReader, tip: Oid) -> list[str]:
    """Return the sessions that begin with a ``fork`` entry in the history of ``tip``, newest first."""
    nodes = (load(reader, oid) for oid in reader.starts(tip))
    entries = (content.entry_of(reader, node) for node in nodes if node.kind == Fork.kind and node.source is None)
    return [entry.session for entry in entries if isinstance(entry, Fork)]


def _check_meta_entries(
    reader: GitReader,
    sid: str,
    branches: Sequence[ProposedBranch],
    parents: Mapping[Oid, tuple[Oid, ...]],
    accepted: Mapping[Oid, AcceptedEntry],
) -> Iterator[Refusal]:
    """Yield a refusal for each new branch that contains entries of ``meta``."""
    new_branches = [proposed for proposed in branches if proposed.old is None and refs.is_branch(proposed.branch)]
    meta_tips = {proposed.new for proposed in branches if refs.is_meta(proposed.branch)} | set(
        reader.known_meta_of(sid)
    )
    if not new_branches or not meta_tips:
        return
    what = f"it contains entries of {refs.META!r}: push them to {refs.META!r} only"
    first = {oid for tip in meta_tips for oid in _first_of_meta(reader, tip, parents, accepted)}
    for proposed in new_branches:
        at: Oid | None = proposed.new
        while at is not None and at in parents and at not in first:
            at = next(iter(parents[at]), None)
        if at is not None and at not in parents:
            at = next((oid for oid in first - parents.keys() if reader.is_first_parent_ancestor(oid, at)), None)
        if at in first:
            yield Refusal(proposed.ref, proposed.new, what, "place")


def _first_of_meta(
    reader: GitReader, tip: Oid, parents: Mapping[Oid, tuple[Oid, ...]], accepted: Mapping[Oid, AcceptedEntry]
) -> list[Oid]:
    """Return the oldest entry of the ``meta`` branch with the tip ``tip``; an empty list if the branch has none."""
    oldest: list[Oid] = []
    at: Oid | None = tip
    while at is not None:
        if at in accepted:
            is_start, parent = accepted[at].facts.starts, next(iter(parents[at]), None)
        else:
            node = load(reader, at)
            is_start, parent = node.starts_session, node.parent
        if is_start:
            break
        oldest, at = [at], parent
    return oldest


def _check_roots(
    reader: GitReader, sid: str, new_branches: Sequence[ProposedBranch], roots: dict[Oid, str]
) -> Iterator[Refusal]:
    """Yield a refusal for each new ref of a session that does not begin with the root of the session.

    ``roots``: the roots of the sessions that are new in this push. The root of this session is added to ``roots``.
    """

    @cache
    def root(proposed: ProposedBranch) -> Oid:
        base = proposed.accepted.base if proposed.accepted is not None else None
        return base.root if base is not None and base.root else reader.root(proposed.existing_tip or proposed.new)

    existing = reader.known_of(sid)
    if not existing and any(proposed.existing_tip is not None for proposed in new_branches):
        existing = reader.archived_of(sid)
    if existing:
        unrelated = [proposed for proposed in new_branches if proposed.existing_tip not in existing]
        expected = reader.root(next(iter(existing))) if unrelated else ""
    else:
        unrelated = list(new_branches)
        expected = _first_root(reader, sid, new_branches, root)
        if (
            expected
            and not _is_fork(reader, sid, new_branches)
            and not _is_first(reader, sid, new_branches, expected, roots)
        ):
            what = "another session begins with the same entry, and this one has no `fork` entry"
            yield from (Refusal(proposed.ref, expected, what, "root") for proposed in new_branches)
            return
        if not expected:
            what = "its first entry belongs to a session with another id, and it has no `fork` entry"
            yield from (Refusal(proposed.ref, root(proposed), what, "root") for proposed in new_branches)
            return
    for proposed in unrelated:
        if root(proposed) != expected:
            what = f"two roots: it begins with {root(proposed)[:10]}, but its session begins with {expected[:10]}"
            yield Refusal(proposed.ref, root(proposed), what, "root")


def _is_fork(reader: GitReader, sid: str, new_branches: Sequence[ProposedBranch]) -> bool:
    """Return whether the session begins with a ``fork`` entry in the history of one of ``new_branches``.

    If the session is archived, the ``fork`` entry existed before the push.
    """
    if any(sid in proposed.new_forks for proposed in new_branches):
        return True
    existing = {proposed.existing_tip for proposed in new_branches if proposed.existing_tip is not None}
    return _is_known_fork(reader, sid, existing)


def _is_first(
    reader: GitReader, sid: str, new_branches: Iterable[ProposedBranch], first: Oid, roots: dict[Oid, str]
) -> bool:
    """Return whether only the session ``sid`` and its forks begin with ``first``."""
    if roots.setdefault(first, sid) != sid:
        return False
    if any(proposed.accepted is not None and proposed.accepted.base.root == first for proposed in new_branches):
        return True
    return all(
        other == sid or _is_known_fork(reader, other, tips) for other, tips in reader.sessions_from(first).items()
    )


def _is_known_fork(reader: GitReader, sid: str, tips: Iterable[Oid]) -> bool:
    starts = {oid: load(reader, oid) for tip in tips for oid in reader.starts(tip)}
    return any(content.is_fork_start(reader, node, sid) for node in starts.values())


def _first_root(
    reader: GitReader, sid: str, new_branches: Sequence[ProposedBranch], root: Callable[[ProposedBranch], Oid]
) -> Oid:
    """Return the root of a session that is new in this repository; "" if it is the root of another session."""
    ordered = sorted(
        new_branches,
        key=lambda proposed: (not refs.is_branch(proposed.branch), proposed.branch != refs.MAIN, proposed.branch),
    )
    for proposed in ordered:
        if _is_fork(reader, sid, [proposed]):
            return root(proposed)
    proposed, first = ordered[0], root(ordered[0])
    if proposed.accepted is not None and proposed.accepted.base.root == first:
        ids = proposed.accepted.base.possible_ids
    else:
        try:
            ids = possible_ids(reader, load(reader, first))
        except GitSessionError:
            return ""
    return first if ids is None or not ids.isdisjoint({sid, sid.partition("-")[0]}) else ""


def possible_ids(reader: Reader, root: Node) -> frozenset[str] | None:
    """Return the possible ids of a session that begins with ``root`` (see ``HistoryBase``).

    If ``root`` cannot be read, the set is empty.
    """
    try:
        entry = content.entry_of(reader, root)
    except GitSessionError:
        return frozenset()
    if not isinstance(entry, SessionHeader):
        return None
    if entry.source_id is None:
        return frozenset({refs.sid_date(entry.at_ms)})
    return frozenset(refs.imported_sids(entry.agent, entry.source_id, entry.at_ms))
