"""What other sessions did in the same workspace, by their own lines: where calls ran at one time, each saw both."""

from __future__ import annotations

from collections.abc import Iterator

from gitsession.checkpoint import at, line
from gitsession.checkpoint.line import Point
from gitsession.checkpoint.timeline import attributed
from gitsession.errors import GitSessionError
from gitsession.store import refs
from gitsession.store.base import ObjectStore, Oid
from gitsession.workspace.trees import State


def claims(store: ObjectStore, sid: str, workspace: str, since_ms: int) -> dict[str, set[State]]:
    """The paths that other sessions changed in ``workspace`` from then on, and what they became.

    A fork and the session it was forked from share what was before; what either did since is its own.
    """
    ours: set[Oid] | None = None
    found: dict[str, set[State]] = {}
    for other in _others(store, sid):
        try:
            points = list(_recent(store, other, workspace, since_ms))[::-1]
            steps = at.steps(store, points)
            if ours is None and points:
                ours = {point.oid for point in line.walk(store, sid)}
        except GitSessionError:
            continue  # `verify` names what cannot be read there
        for point, step, paths in zip(points, steps, attributed(steps), strict=True):
            if ours is not None and point.oid not in ours:
                for path in paths:
                    found.setdefault(path, set()).add(step.changes[path][1])
    return found


def _others(store: ObjectStore, sid: str) -> Iterator[str]:
    for name in store.refs(refs.SESSIONS):
        parsed = refs.parse(name)
        if parsed is not None and parsed[1] == refs.FILES and parsed[0] != sid:
            yield parsed[0]


def _recent(store: ObjectStore, sid: str, workspace: str, since_ms: int) -> Iterator[Point]:
    """The checkpoints of that time, and the one before them, newest first; none where the newest is older."""
    for number, point in enumerate(line.walk(store, sid)):
        is_recent = point.entry.at_ms >= since_ms
        if number == 0 and not is_recent:
            return
        if point.entry.workspace == workspace:
            yield point
        if not is_recent:
            return
