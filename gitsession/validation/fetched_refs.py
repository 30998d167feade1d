"""What was fetched is judged by our rules (``validation.validate``) before it reaches a ref of the store's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import inf
from pathlib import Path

from gitsession.errors import GitSessionError
from gitsession.git.repository import VerifiedRepository
from gitsession.git.types import Kind, Oid
from gitsession.sessions import tombstone_set
from gitsession.store import refs
from gitsession.store.interface import ObjectStore
from gitsession.validation import tombstone_rules, validate
from gitsession.validation.reader import GitReader
from gitsession.validation.verdicts import Deadline, Limits, Proposed, Refusal

__all__ = ["FetchedReader", "Proposed", "Refusal", "judge"]

SESSIONS_AT_ONCE, ENTRIES_AT_ONCE = 200, 50_000
"""Sessions that are judged together: so many, and where they are short, as many more as have together these entries."""

LIMITS = Limits(entries=10_000_000, seconds=inf)
"""Whoever fetches has asked for it: what a server is guarded against is only much, and not wrong."""


class FetchedReader:
    """What was fetched, and what the store has."""

    def __init__(self, git_dir: Path, store: ObjectStore) -> None:
        self.git_dir, self.store = git_dir, store
        self._door = VerifiedRepository(git_dir)

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        return self._door.read(oid) if self._door.contains(oid) else self.store.read(oid)

    def contains(self, oid: Oid) -> bool:
        return self._door.contains(oid) or self.store.contains(oid)


def judge(read: FetchedReader, moves: list[Proposed], known: Mapping[str, Oid]) -> list[Refusal]:
    """Why refs may not be moved so; none where all may. ``known``: refs whose lines were judged before.

    A clone that leaves large blobs out is judged without them.
    """
    gone = tombstone_set.read(read.store)
    good = dict(known)
    found: list[Refusal] = []
    for some in _portions(moves, _at_once(read, moves, known)):
        with GitReader(read.git_dir, good) as apart:
            refused = validate.judge(apart, some, gone, LIMITS, partial=_is_partial(read.git_dir))
        bad = {refusal.ref for refusal in refused}
        good |= {move.ref: move.new for move in some if move.new is not None and move.ref not in bad}
        if refs.TOMBSTONES in {move.ref for move in some} - bad:
            gone |= tombstone_set.at(read, good[refs.TOMBSTONES])
        found += refused
    return found


def unfit(read: FetchedReader, theirs: Oid) -> str:
    """Why a set of what was purged, as a remote has it, cannot be joined with ours; "" where it can."""
    ours = read.store.ref(refs.TOMBSTONES)
    with GitReader(read.git_dir, {} if ours is None else {refs.TOMBSTONES: ours}) as apart:
        move = Proposed(refs.TOMBSTONES, None, theirs)
        fault, _ = tombstone_rules.judge(apart, move, tombstone_set.NONE, LIMITS, Deadline(inf))
    return "" if fault is None else fault.what


def _at_once(read: FetchedReader, moves: Sequence[Proposed], known: Mapping[str, Oid]) -> int:
    """How many sessions are judged together."""
    sessions = len({refs.session_of(move.ref) for move in moves})
    if sessions <= SESSIONS_AT_ONCE:
        return SESSIONS_AT_ONCE
    try:
        with GitReader(read.git_dir, known) as apart:
            entries = apart.count_new([move.new for move in moves if move.new is not None])
    except GitSessionError:
        return SESSIONS_AT_ONCE  # what was fetched is not whole: the judge says which
    return max(SESSIONS_AT_ONCE, sessions * ENTRIES_AT_ONCE // max(entries, 1))


def _portions(moves: Iterable[Proposed], at_once: int) -> Iterator[list[Proposed]]:
    """Sessions whole, and not all at once, for of each entry a few words are held; first what is no session's."""
    by_session: dict[str, list[Proposed]] = {}
    for move in moves:
        by_session.setdefault(refs.session_of(move.ref), []).append(move)
    sids = iter(sorted(by_session))
    while group := list(islice(sids, at_once)):
        yield [move for sid in group for move in by_session[sid]]


def _is_partial(git_dir: Path) -> bool:
    return any((git_dir / "objects" / "pack").glob("*.promisor"))
