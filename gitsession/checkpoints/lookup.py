"""Lookup of the checkpoint with the files of an entry of the conversation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gitsession.checkpoints.attribution import BEFORE, REWIND, WORKSPACE, CheckpointStep
from gitsession.checkpoints.history import Point, histories
from gitsession.codec.digest import to_base64url
from gitsession.git.types import Oid
from gitsession.sessions import graph
from gitsession.sessions.content import entry_of, files_of
from gitsession.sessions.node import Node
from gitsession.store.interface import ObjectStore
from gitsession.workspace.trees import CachedTrees, walk

if TYPE_CHECKING:
    from gitsession.workspace.patches import FilePatch


def steps(file_trees: CachedTrees, points: Sequence[Point]) -> list[CheckpointStep]:
    """Convert checkpoints, oldest first, to steps, each with its differences from the previous checkpoint.

    The step of the first checkpoint has no differences if that checkpoint covers the whole workspace. Its differences
    could be many, and they would not be attributed to the session.
    """
    found = []
    before: Point | None = None
    for point in points:
        is_first_full = before is None and point.entry.mode == WORKSPACE
        changes = {} if is_first_full else file_trees.diff(before.files if before else None, point.files)
        found.append(CheckpointStep(point.entry, changes))
        before = point
    return found


def index_at(store: ObjectStore, points: Sequence[Point], at: Node) -> int:
    """Return the index in ``points`` (oldest first) of the checkpoint with the files at ``at``; -1 if there is none.

    All branches share the workspace, so the result is the newest checkpoint at the time of ``at``, on any branch.
    Checkpoints of ``at`` itself count only if they directly follow that checkpoint and have the phase ``before``.
    """
    chain = to_base64url(at.chain)
    number = _latest_index(store, points, at, chain)
    for point in points[number + 1 :]:
        if point.entry.target != chain or point.entry.phase != BEFORE:
            break
        number += 1
    return number


def _latest_index(store: ObjectStore, points: Sequence[Point], at: Node, chain: str) -> int:
    """Return the index of the newest checkpoint at the time of ``at``, without those of ``at``; -1 if there is none.

    The commit of an entry that gitsession wrote contains the tree of that checkpoint. If several checkpoints have the
    same tree, or the commit contains no tree of files, the timestamps decide.

    For an imported entry, the result is the newest checkpoint of the nearest entry in the history of ``at`` that has
    checkpoints. Checkpoints from a rewind after ``at`` onward are ignored. If there is no such checkpoint, the
    timestamps decide. They are the last resort, because the agent and gitsession may use different clocks.
    """
    at_ms = entry_of(store, at).at_ms
    others = [number for number, point in enumerate(points) if point.entry.target != chain]
    earlier = [number for number in others if points[number].entry.at_ms <= at_ms]
    if at.source is None:
        carried = files_of(store, at.oid)
        same = [number for number in others if carried and points[number].files == carried]
        return max((set(same) & set(earlier)) or same[:1] or earlier, default=-1)
    depths = _depths(store, at, {point.entry.target for point in points if point.entry.target} - {chain})
    best, nearest = -1, len(depths)
    for number, point in enumerate(points):
        if point.entry.phase == REWIND and point.entry.at_ms > at_ms:
            break
        target = point.entry.target or ""
        if target in depths and depths[target] <= nearest:
            best, nearest = number, depths[target]
    return best if best >= 0 else max(earlier, default=-1)


class FileChange(NamedTuple):
    """One change to one path: the old and new modes and oids, as in git.

    ``old_mode`` and ``old`` are ``None`` for a new file. ``new_mode`` and ``new`` are ``None`` for a deleted file.
    """

    path: str
    old_mode: str | None
    old: Oid | None
    new_mode: str | None
    new: Oid | None


class Files(Mapping[str, Oid]):
    """The files of a workspace in a checkpoint, as a mapping from each path to the oid of its content.

    Attributes:
        checkpoint: The entry with the files; ``None`` if there are no checkpoints.
        tree: The oid of the git tree of the files.
    """

    def __init__(self, store: ObjectStore, point: Point | None) -> None:
        self.checkpoint = point.node if point else None
        self.tree = point.files if point else None
        self._store = store

    def __getitem__(self, path: str) -> Oid:
        found = CachedTrees(self._store).look_up(self.tree, [path])[path]
        if found is None:
            raise KeyError(path)
        return found.oid

    def __iter__(self) -> Iterator[str]:
        return (path for path, _ in walk(self._store, self.tree))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def read(self, path: str) -> bytes:
        """Return a file's bytes or a link's target. Raises ``KeyError`` if there is no such path."""
        return self._store.read(self[path])[1]

    def diff(self, other: Files) -> list[FileChange]:
        """Return the changes from these files to ``other``."""
        found = CachedTrees(self._store).diff(self.tree, other.tree).items()
        return [FileChange(path, *(old or (None, None)), *(new or (None, None))) for path, (old, new) in found]

    def patch(self, other: Files, paths: Collection[str] = ()) -> list[FilePatch]:
        """Return the patches from these files to ``other``: for all files, or only for files at or below ``paths``.

        Raises the errors of ``read``.
        """
        from gitsession.workspace import patches

        tops = tuple(path.rstrip("/") + "/" for path in paths)
        changes = CachedTrees(self._store).diff(self.tree, other.tree)
        if tops:
            changes = {path: change for path, change in changes.items() if f"{path}/".startswith(tops)}
        return patches.compare(self._store, changes)


def find_history(store: ObjectStore, sid: str, at: Node, workspace: str = "") -> tuple[list[Point], int]:
    """Return the history with the files of an entry (oldest first), and the index of the checkpoint with these files.

    The index is -1 if no checkpoint existed at the time of the entry.

    If stores diverged, there are several histories. Prefer, in this order: a history of the folder ``workspace``; a
    history with a checkpoint at the time of the entry; the history whose checkpoint belongs to the entry nearest to
    ``at`` in the history of ``at``; the history with the newest of these checkpoints; the history of this store.
    Raises the errors of ``histories``.
    """
    candidates = [(points, index_at(store, points, at)) for points in histories(store, sid)]
    if len(candidates) < 2:
        return candidates[0] if candidates else ([], -1)
    newest = [points[max(number, 0)].entry for points, number in candidates]
    depths = _depths(store, at, {entry.target for entry in newest if entry.target})

    def rank(number: int) -> tuple[bool, bool, int, int]:
        entry = newest[number]
        nearness = -depths.get(entry.target or "", len(depths))
        return entry.workspace == workspace, candidates[number][1] >= 0, nearness, entry.at_ms

    return candidates[max(range(len(candidates)), key=rank)]


def files_at(store: ObjectStore, sid: str, at: Node) -> Point | None:
    """Return the checkpoint with the files of an entry; ``None`` if the session has no checkpoints.

    If no checkpoint existed at the time of the entry, return the first checkpoint.
    """
    points, number = find_history(store, sid, at)
    return points[max(number, 0)] if points else None


def _depths(store: ObjectStore, at: Node, wanted: set[str]) -> Mapping[str, int]:
    """Return the rank of each chain digest of ``wanted`` in the history of ``at``; the nearest entry has rank 0."""
    found: dict[str, int] = {}
    for node in graph.history(store, at.oid):
        if len(found) == len(wanted):
            break
        chain = to_base64url(node.chain)
        if chain in wanted:
            found[chain] = len(found)
    return found
