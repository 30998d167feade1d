"""Which checkpoint says what the files were at an entry of the conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gitsession.checkpoint.line import Point, history
from gitsession.checkpoint.timeline import AFTER, Step
from gitsession.codec.digest import to_base64url
from gitsession.session import graph
from gitsession.session.node import Node
from gitsession.store.base import ObjectStore
from gitsession.workspace import trees


def steps(store: ObjectStore, points: Sequence[Point]) -> list[Step]:
    """The checkpoints (oldest first) as steps: each with what differs from the one before it."""
    found = []
    before: Point | None = None
    for point in points:
        changes = trees.diff(store, before.files if before else None, point.files)
        found.append(Step(point.entry, changes))
        before = point
    return found


def place(store: ObjectStore, points: Sequence[Point], at: Node) -> int:
    """Which of ``points`` (oldest first) says what the files were when ``at`` was the leaf; -1 where none does.

    That is the newest of those that belong to the nearest entry, of ``at`` and those before it. What a call that ``at``
    itself made did afterwards does not count.
    """
    wanted = {point.entry.target for point in points if point.entry.target}
    depths = _depths(store, at, wanted)
    best, nearest = -1, len(depths)
    here = to_base64url(at.chain)
    for number, point in enumerate(points):
        target = point.entry.target or ""
        if target in depths and depths[target] <= nearest and not (point.entry.phase == AFTER and target == here):
            best, nearest = number, depths[target]
    return best


def files_at(store: ObjectStore, sid: str, at: Node) -> Point | None:
    """The checkpoint that says what the files were at an entry; ``None`` where none was made by then."""
    points = history(store, sid)
    number = place(store, points, at)
    return points[number] if number >= 0 else None


def _depths(store: ObjectStore, at: Node, wanted: set[str]) -> Mapping[str, int]:
    """How many of ``wanted`` stand between ``at`` and each of them that is on its line."""
    found: dict[str, int] = {}
    for node in graph.line(store, at.oid):
        if len(found) == len(wanted):
            break
        chain = to_base64url(node.chain)
        if chain in wanted:
            found[chain] = len(found)
    return found
