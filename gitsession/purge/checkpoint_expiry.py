"""The plan of a purge of old checkpoints. The newest state of each file is kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from gitsession import progress
from gitsession.checkpoints import history
from gitsession.checkpoints.history import Point
from gitsession.git.types import Oid
from gitsession.purge.finding import EntryHit, PurgePlan, hit_of, plan_of
from gitsession.store.interface import ObjectStore
from gitsession.workspace.trees import CachedTrees


def plan_expired(sessions: Collection[tuple[ObjectStore, str]], before_ms: int) -> PurgePlan:
    """Plan the purge of the checkpoints that no rewind to an entry since ``before_ms`` needs.

    Forks share checkpoints. A checkpoint is kept if any session needs it.

    Args:
        sessions: All sessions, each with a view of the store that contains it.
        before_ms: Unix time in ms.
    """
    kept: set[Oid] = set()
    old: dict[Oid, EntryHit] = {}
    for store, sid in progress.each("Reading checkpoints", sessions):
        for points in history.histories(store, sid):
            needed = {point.oid for point in _needed(store, points, before_ms)}
            kept |= needed
            old |= {p.oid: hit_of(store, sid, p.node) for p in points if p.oid not in needed and p.oid not in old}
    if not sessions:
        return PurgePlan()
    store = next(iter(sessions))[0]
    return plan_of(store, [hit for oid, hit in old.items() if oid not in kept], ())


def _needed(store: ObjectStore, points: Sequence[Point], before_ms: int) -> Iterable[Point]:
    """Yield the checkpoints of a history that are kept. ``points``: the oldest first.

    These are the checkpoints since ``before_ms``, the last one before that time, and for each file that was deleted
    before that, the last checkpoint that has the file.
    """
    old = [number for number, point in enumerate(points) if point.entry.at_ms < before_ms]
    start = old[-1] if old else 0
    yield from points[start:]
    trees = CachedTrees(store)
    holders: dict[str, Point] = {}
    for before, after in pairwise(points[: start + 1]):
        for path, (_, state) in trees.diff(before.files, after.files).items():
            if state is None:
                holders[path] = before
            else:
                holders.pop(path, None)
    yield from holders.values()
