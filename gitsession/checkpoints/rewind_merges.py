"""Merged contents of a plan, for files with changes to revert and changes to keep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from gitsession.checkpoints.capturing import ExclusionRule, exclusion_rule
from gitsession.checkpoints.rewind_decisions import NotMerged, PathDecision
from gitsession.errors import GitSessionError
from gitsession.git.objects import oid_of
from gitsession.git.types import Oid
from gitsession.store.git_store import GitStore
from gitsession.workspace.root import WorkspaceRoot

BYTES_MAX_IN_ALL = 256 << 20
"""Maximum total size in bytes of the merged contents of one plan. Files beyond the limit are not merged."""


class Merges:
    """The merges of one plan. ``made``: the merged contents by oid. They are not in the store yet."""

    def __init__(self, store: GitStore, root: WorkspaceRoot) -> None:
        self._store, self._root = store, root
        self._bytes = 0
        self.made: dict[Oid, bytes] = {}

    def __call__(self, path: str, base: Oid, ours: Oid, theirs: Oid) -> Oid:
        """Merge ``ours`` and ``theirs``, two changed versions of ``base``; return the oid of the merged content.

        Raises ``NotMerged`` if the changes cannot be merged, a content cannot be read, or the result is excluded.
        """
        from gitsession.git import engine  # importing pygit2 takes 30 ms

        merged = engine.merge_file(*(self._content(path, oid, engine.BYTES_MAX) for oid in (base, ours, theirs)))
        if isinstance(merged, engine.MergeConflict):
            raise NotMerged(overlap=merged.reason == "overlapping changes")
        self._bytes += len(merged)
        if self._bytes > BYTES_MAX_IN_ALL or (self._exclusion is not None and self._exclusion(merged)):
            raise NotMerged
        oid = oid_of("blob", merged)
        self.made[oid] = merged
        return oid

    @cached_property
    def _exclusion(self) -> ExclusionRule | None:
        return exclusion_rule(self._store)

    def _content(self, path: str, oid: Oid, bytes_max: int) -> bytes:
        """Return the content of a blob from the store, or from the file in the workspace if the store lacks it."""
        if oid in self.made:
            return self.made[oid]
        try:
            if self._store.contains(oid):
                return self._store.read(oid)[1]
            status = self._root.state(path)
            if status is None or status.size > bytes_max:
                raise NotMerged
            data = self._root.read(path)
        except (GitSessionError, OSError) as error:
            raise NotMerged from error
        if oid_of("blob", data) != oid:
            raise NotMerged
        return data


def keep(store: GitStore, merged: Mapping[Oid, bytes], changes: Iterable[PathDecision]) -> None:
    """Write to the store those merged contents that ``changes`` restore."""
    needed = {change.to.oid for change in changes if change.to is not None} & merged.keys()
    if needed:
        with store.transaction() as tx:
            tx.put_all({oid: ("blob", merged[oid]) for oid in needed})
