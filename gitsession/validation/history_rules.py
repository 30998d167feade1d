"""Validation of histories of valid entries: moves of refs, the beginnings of sessions, and the refs of entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import NamedTuple

from gitsession.errors import GitSessionError
from gitsession.git.types import Oid, Reader
from gitsession.model.entries import Fork, SessionHeader
from gitsession.sessions import content, session_ids
from gitsession.sessions.node import Node, load
from gitsession.store import refs
from gitsession.validation import entry_rules
from gitsession.validation.quarantine_reader import Deadline, Fault, GitReader, Refusal

_BRANCH, _META, _FILES = range(3)


class Forked(NamedTuple):
    """A session that begins in a history with a ``fork`` entry, and the previous such session in this history."""

    sid: str
    before: Forked | None


class HistoryBase(NamedTuple):
    """The base of the new part of a history. All new entries of the history share it.

    Attributes:
        old: Newest entry that existed before the push; ``None`` if all entries are new.
        root: Root of the history, if it is new; ``None`` otherwise.
        forks: Sessions that begin in the new part with a ``fork`` entry.
        named: Possible ids, or the date in the id, of a session that begins with ``root``; ``None`` if any id is
            possible.
    """

    old: Oid | None
    root: Oid | None
    forks: Forked | None = None
    named: frozenset[str] | None = None


class AcceptedEntry(NamedTuple):
    """The data that is kept about a valid entry. ``misfits``: its faults on a branch, on ``meta`` and on ``files``."""

    below: HistoryBase
    starts: bool
    misfits: tuple[Fault | None, ...]


@dataclass(frozen=True, slots=True)
class ProposedBranch:
    """A proposed ref. ``seen``: the data about its tip; ``None`` if the tip existed before the push."""

    ref: str
    old: Oid | None
    new: Oid
    seen: AcceptedEntry | None

    @property
    def sid(self) -> str:
        return refs.session_of(self.ref)

    @property
    def branch(self) -> str:
        return self.ref.rpartition("/")[2]

    @property
    def old_below(self) -> Oid | None:
        """The newest entry of the branch that existed before the push; ``None`` if all entries are new."""
        return self.new if self.seen is None else self.seen.below.old


def see(read: Reader, node: Node, before: AcceptedEntry | None) -> AcceptedEntry:
    """Return the data to keep about a valid entry. ``before``: the data about its parent, if the parent is new, too."""
    if before is not None:
        below = before.below
    elif node.parent is not None:
        below = HistoryBase(node.parent, None)
    else:
        below = HistoryBase(None, node.oid, named=_names_of(read, node))
    if node.kind == Fork.kind and node.source is None:
        entry = content.entry_of(read, node)
        below = below._replace(forks=Forked(entry.session, below.forks)) if isinstance(entry, Fork) else below
    return AcceptedEntry(below, node.starts_session, _misfits(node))


def refusals(
    read: GitReader,
    lines: Sequence[ProposedBranch],
    parents: Mapping[Oid, tuple[Oid, ...]],
    seen: Mapping[Oid, AcceptedEntry],
    until: Deadline,
) -> Iterator[Refusal]:
    """Yield the refusals of branches whose entries are valid. Raises ``ValidationTimeout``."""
    passed: set[Oid] = set()
    for line in lines:
        fault = rewinds(read, line) or _holds_what_has_no_place(read, line, parents, seen, passed, until)
        if fault is not None:
            yield Refusal(line.ref, line.new, fault.what, fault.rule)
    by_session: dict[str, list[ProposedBranch]] = {}
    moved: dict[str, list[ProposedBranch]] = {}
    for line in lines:
        moved.setdefault(line.sid, []).append(line)
        if line.old is None:
            by_session.setdefault(line.sid, []).append(line)
    for sid, together in moved.items():
        until.check()
        yield from _of_other_sessions(read, sid, together)
        yield from _of_meta(read, sid, together, parents, seen)
    roots: dict[Oid, str] = {}
    # If a session has two ids, the id with more refs is accepted: a copy under another id usually has one branch only.
    for sid, begun in sorted(by_session.items(), key=lambda row: (-len(row[1]), row[0])):
        until.check()
        yield from _beginnings(read, sid, begun, roots)


def rewinds(read: GitReader, line: ProposedBranch) -> Fault | None:
    """Return a fault if the ref does not move forward along first parents. A second parent is only a reference."""
    below = line.old_below
    if line.old is None or below == line.old:
        return None
    if below is not None and read.is_on_line(line.old, below):
        return None
    return Fault("rewind", "not a fast-forward along first parents: run `gitsession sync` and push again")


def _holds_what_has_no_place(
    read: GitReader,
    line: ProposedBranch,
    parents: Mapping[Oid, tuple[Oid, ...]],
    seen: Mapping[Oid, AcceptedEntry],
    passed: set[Oid],
    until: Deadline,
) -> Fault | None:
    """Return the fault of the first entry that does not belong on the ref.

    ``passed``: entries that are known to belong on a branch. They are skipped.
    """
    where = _BRANCH if refs.is_branch(line.branch) else _META if refs.is_meta(line.branch) else _FILES
    at: Oid | None = line.new
    while at is not None and at in seen and (where != _BRANCH or at not in passed):
        until.check()
        found = seen[at]
        if where != _BRANCH and found.starts:
            return None
        misfit = found.misfits[where]
        if misfit is not None:
            return misfit._replace(what=f"{misfit.what} {line.branch!r}")
        if where == _BRANCH:
            passed.add(at)
        at = next(iter(parents[at]), None)
    if where == _BRANCH or at == line.old:
        return None
    while at is not None:  # `meta` or `files` begins in existing history: check it back to the start of the session
        until.check()
        node = load(read, at)
        if node.starts_session:
            return None
        misfit = _misfits(node)[where]
        if misfit is not None:
            return misfit._replace(what=f"it continues {at[:10]}: {misfit.what} {line.branch!r}")
        at = node.parent
    return None


def _of_other_sessions(read: GitReader, sid: str, lines: Sequence[ProposedBranch]) -> Iterator[Refusal]:
    """Refuse branches that contain the ``fork`` entry of another session.

    A branch of a fork may begin before the ``fork`` entry of its session, like a branch of the sessions that it
    continues.
    """

    @cache
    def shared() -> frozenset[str]:
        pushed = (_forks_on(read, line) for line in lines)
        there = (_forks_before(read, end) for ends in (read.known_of, read.archived_of) for end in ends(sid))
        found = next((found for found in chain(pushed, there) if sid in found), [sid])
        return frozenset(found[found.index(sid) + 1 :])

    for line in lines:
        if refs.is_branch(line.branch) or refs.is_meta(line.branch):
            found = _forks_on(read, line)
            foreign = found[: found.index(sid)] if sid in found else [name for name in found if name not in shared()]
            if foreign:
                what = f"it contains the `fork` entry that begins session {foreign[0]}: push it as a branch of that one"
                yield Refusal(line.ref, line.new, what, "root")


def _forks_on(read: GitReader, line: ProposedBranch) -> list[str]:
    """Return the sessions that begin with a ``fork`` entry in the new part of a history, newest first."""
    found = []
    at = line.seen.below.forks if line.seen is not None else None
    while at is not None:
        found.append(at.sid)
        at = at.before
    below = line.old_below
    if below is None or below == line.old or below in read.known_of(line.sid):
        return found
    before = _forks_before(read, line.old) if line.old is not None else []
    older = _forks_before(read, below)
    return found + older[: len(older) - len(before)]


def _forks_before(read: GitReader, end: Oid) -> list[str]:
    """Return the sessions that begin with a ``fork`` entry in the history of ``end``, newest first."""
    nodes = (load(read, oid) for oid in read.starts(end))
    entries = (content.entry_of(read, node) for node in nodes if node.kind == Fork.kind and node.source is None)
    return [entry.session for entry in entries if isinstance(entry, Fork)]


def _of_meta(
    read: GitReader,
    sid: str,
    lines: Sequence[ProposedBranch],
    parents: Mapping[Oid, tuple[Oid, ...]],
    seen: Mapping[Oid, AcceptedEntry],
) -> Iterator[Refusal]:
    """Refuse new branches that contain entries of ``meta``."""
    begun = [line for line in lines if line.old is None and refs.is_branch(line.branch)]
    metas = {line.new for line in lines if refs.is_meta(line.branch)} | set(read.known_meta_of(sid))
    if not begun or not metas:
        return
    what = f"it contains entries of {refs.META!r}: push them to {refs.META!r} only"
    first = {oid for end in metas for oid in _first_of_meta(read, end, parents, seen)}
    for line in begun:
        at: Oid | None = line.new
        while at is not None and at in parents and at not in first:
            at = next(iter(parents[at]), None)
        if at is not None and at not in parents:
            at = next((oid for oid in first - parents.keys() if read.is_on_line(oid, at)), None)
        if at in first:
            yield Refusal(line.ref, line.new, what, "place")


def _first_of_meta(
    read: GitReader, end: Oid, parents: Mapping[Oid, tuple[Oid, ...]], seen: Mapping[Oid, AcceptedEntry]
) -> list[Oid]:
    """Return the oldest entry of the ``meta`` branch with the tip ``end``; an empty list if the branch has none."""
    above: list[Oid] = []
    at: Oid | None = end
    while at is not None:
        if at in seen:
            is_start, below = seen[at].starts, next(iter(parents[at]), None)
        else:
            node = load(read, at)
            is_start, below = node.starts_session, node.parent
        if is_start:
            break
        above, at = [at], below
    return above


def _beginnings(read: GitReader, sid: str, begun: Sequence[ProposedBranch], roots: dict[Oid, str]) -> Iterator[Refusal]:
    """Refuse new refs of a session that do not begin with the root of the session.

    ``roots``: the roots of the sessions that are new in this push. The root of this session is added.
    """

    @cache
    def root(line: ProposedBranch) -> Oid:
        below = line.seen.below if line.seen is not None else None
        return below.root if below is not None and below.root else read.root(line.old_below or line.new)

    there = read.known_of(sid)
    if not there and any(line.old_below is not None for line in begun):
        there = read.archived_of(sid)
    if there:
        strangers = [line for line in begun if line.old_below not in there]
        expected = read.root(next(iter(there))) if strangers else ""
    else:
        strangers = list(begun)
        expected = _first_root(read, sid, begun, root)
        if expected and not _is_fork(read, sid, begun) and not _is_first(read, sid, begun, expected, roots):
            what = "another session begins with the same entry, and this one has no `fork` entry"
            yield from (Refusal(line.ref, expected, what, "root") for line in begun)
            return
        if not expected:
            what = "its first entry belongs to a session with another id, and it has no `fork` entry"
            yield from (Refusal(line.ref, root(line), what, "root") for line in begun)
            return
    for line in strangers:
        if root(line) != expected:
            what = f"two roots: it begins with {root(line)[:10]}, but its session begins with {expected[:10]}"
            yield Refusal(line.ref, root(line), what, "root")


def _is_fork(read: GitReader, sid: str, begun: Sequence[ProposedBranch]) -> bool:
    """Return whether the session begins with a ``fork`` entry in one of the histories.

    If the session was archived, that entry exists before the push.
    """
    for line in begun:
        at = line.seen.below.forks if line.seen is not None else None
        while at is not None:
            if at.sid == sid:
                return True
            at = at.before
    return _is_known_fork(read, sid, {line.old_below for line in begun if line.old_below is not None})


def _is_first(read: GitReader, sid: str, begun: Iterable[ProposedBranch], first: Oid, roots: dict[Oid, str]) -> bool:
    """Return whether no other session begins with ``first``, except forks."""
    if roots.setdefault(first, sid) != sid:
        return False
    if any(line.seen is not None and line.seen.below.root == first for line in begun):
        return True
    return all(other == sid or _is_known_fork(read, other, ends) for other, ends in read.sessions_from(first).items())


def _is_known_fork(read: GitReader, sid: str, ends: Iterable[Oid]) -> bool:
    starts = {oid: load(read, oid) for end in ends for oid in read.starts(end)}
    return any(content.begins_fork(read, node, sid) for node in starts.values())


def _first_root(
    read: GitReader, sid: str, begun: Sequence[ProposedBranch], root: Callable[[ProposedBranch], Oid]
) -> Oid:
    """Return the root of a session that is new in this repository; "" if it is the root of another session."""
    in_order = sorted(begun, key=lambda line: (not refs.is_branch(line.branch), line.branch != refs.MAIN, line.branch))
    for line in in_order:
        if _is_fork(read, sid, [line]):
            return root(line)
    line, first = in_order[0], root(in_order[0])
    if line.seen is not None and line.seen.below.root == first:
        named = line.seen.below.named
    else:
        try:
            named = _names_of(read, load(read, first))
        except GitSessionError:
            return ""
    return first if named is None or not named.isdisjoint({sid, sid.partition("-")[0]}) else ""


def _names_of(read: Reader, root: Node) -> frozenset[str] | None:
    """Return the possible ids of a session that begins with ``root`` (``HistoryBase``); none if unreadable."""
    try:
        entry = content.entry_of(read, root)
    except GitSessionError:
        return frozenset()
    if not isinstance(entry, SessionHeader):
        return None
    if entry.source_id is None:
        return frozenset({session_ids.date(entry.at_ms)})
    lengths = (session_ids.LENGTH, session_ids.LENGTH_TAKEN)
    return frozenset(
        session_ids.derived(entry.agent, entry.source_id, entry.at_ms, length=length) for length in lengths
    )


def _misfits(node: Node) -> tuple[Fault | None, ...]:
    return tuple(entry_rules.misfit(node, on) for on in ("branch", refs.META, refs.FILES))
