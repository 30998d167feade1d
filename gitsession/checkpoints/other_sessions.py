"""What other sessions did in the same workspace, by their own lines: where calls ran at one time, each saw both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gitsession.checkpoints import history, lookup
from gitsession.checkpoints.attribution import REWIND, PathAttribution, attributed
from gitsession.checkpoints.history import Point
from gitsession.errors import GitSessionError
from gitsession.git.types import Oid
from gitsession.store import refs
from gitsession.store.interface import ObjectStore
from gitsession.workspace.trees import State, TreeCache


def claims(
    store: ObjectStore, sid: str, workspace: str, since_ms: int, touches: Mapping[str, Sequence[PathAttribution]], *,
    levels: TreeCache | None = None,
) -> dict[str, set[State]]:  # fmt: skip
    """The paths that other sessions changed in ``workspace`` from then on, and what they became. ``touches``: ours.

    What another's rewind brought back is what others had made, perhaps we; it is that session's only where we say that
    we did the very same: then our call ran meanwhile, and saw it. What we made of a path on which another was at work
    during our call, and did not bring it back, may have the other's work in it: it is the other's too.

    A fork and the session it was forked from share what was before; what either did since is its own.
    """
    ours: set[Oid] | None = None
    levels = levels or TreeCache(store)
    found: dict[str, set[State]] = {}
    for other in _others(store, sid):
        try:
            points = list(_recent(store, other, workspace, since_ms))[::-1]
            steps = lookup.steps(store, points, levels=levels)
            if ours is None and points:
                ours = {point.oid for point in history.walk(store, sid)}
        except GitSessionError:
            continue  # `verify` names what cannot be read there
        theirs: dict[str, list[tuple[int, State]]] = {}
        for point, step, paths in zip(points, steps, attributed(steps), strict=True):
            if ours is not None and point.oid not in ours:
                for path in paths:
                    was, now = step.changes[path]
                    theirs.setdefault(path, []).append((step.entry.at_ms, now))
                    if step.entry.phase != REWIND or (was, now) in _own(touches, path):
                        found.setdefault(path, set()).add(now)
        for path in touches.keys() & theirs.keys():
            found.setdefault(path, set()).update(_worked_over(touches[path], theirs[path]))
    return found


def _own(touches: Mapping[str, Sequence[PathAttribution]], path: str) -> Iterator[tuple[State, State]]:
    return ((touch.was, touch.now) for touch in touches.get(path, ()) if touch.ours)


def _worked_over(touches: Sequence[PathAttribution], theirs: Sequence[tuple[int, State]]) -> Iterator[State]:
    """What our calls made of a path that another had changed while they ran."""
    for touch in touches:
        within = [now for at_ms, now in theirs if touch.since_ms < at_ms <= touch.at_ms]
        if touch.ours and within and within[-1] != touch.was:
            yield touch.now


def _others(store: ObjectStore, sid: str) -> Iterator[str]:
    for name in store.refs(refs.SESSIONS):
        parsed = refs.parse(name)
        if parsed is not None and parsed[1] == refs.FILES and parsed[0] != sid:
            yield parsed[0]


def _recent(store: ObjectStore, sid: str, workspace: str, since_ms: int) -> Iterator[Point]:
    """The checkpoints of that time, and the one before them, newest first; none where the newest is older."""
    for number, point in enumerate(history.walk(store, sid)):
        is_recent = point.entry.at_ms >= since_ms
        if number == 0 and not is_recent:
            return
        if point.entry.workspace == workspace:
            yield point
        if not is_recent:
            return
