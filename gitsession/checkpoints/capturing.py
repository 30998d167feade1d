"""Capture of a workspace in checkpoints before and after a tool call: all files, or only those that the call names."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Literal, TypeAlias

from gitsession.checkpoints import history
from gitsession.checkpoints.attribution import AFTER, BEFORE, EDITED, WORKSPACE
from gitsession.checkpoints.history import Point
from gitsession.codec.cbor import to_profile, valid_text
from gitsession.dataclass import dataclass
from gitsession.errors import MissingObject
from gitsession.git.objects import oid_of
from gitsession.git.types import Oid
from gitsession.model.entries import Checkpoint
from gitsession.sessions import tombstone_set
from gitsession.sessions.node import Node
from gitsession.store.git_store import GitStore
from gitsession.workspace import names, workspace_lock
from gitsession.workspace.capture import capture, capture_paths, put, resolve
from gitsession.workspace.read_file import Skipped, caps
from gitsession.workspace.root import WorkspaceRoot
from gitsession.workspace.trees import CachedTrees

Phase: TypeAlias = Literal["before", "after"]
"""The phase of a checkpoint.

Differences from the previous checkpoint are never attributed to the session if the phase is ``before``.
"""

ExclusionRule: TypeAlias = Callable[[bytes], "str | None"]
"""A function that returns the rule by which a file with the given content is not captured; ``None`` otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureReason:
    """The reason for a checkpoint.

    ``target``: the entry that the checkpoint belongs to. ``call``: the id of the tool call.
    """

    target: Node | None = None
    call: str | None = None
    reason: str | None = None


@dataclass
class Running:
    """The tool calls of a session that are running in this process.

    Changes that are made while a call runs belong to that call.
    """

    _calls: list[tuple[Path, str | None]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, workspace: Path, call: str | None) -> tuple[bool, str | None]:
        """Add a call. Return whether other calls are running in the workspace, and the id of the latest of them."""
        with self._lock:
            others = [other for running_in, other in self._calls if running_in == workspace]
            self._calls.append((workspace, call))
        return bool(others), others[-1] if others else None

    def end(self, workspace: Path, call: str | None) -> None:
        with self._lock:
            self._calls.remove((workspace, call))


def take(
    store: GitStore,
    sid: str,
    root: WorkspaceRoot,
    phase: str,
    why: CaptureReason,
    *,
    at_ms: int,
    paths: Sequence[str | Path] | None = None,
) -> Point:
    """Capture the workspace, or only ``paths`` in it, and return the checkpoint.

    If nothing has changed since the newest checkpoint, that checkpoint is returned, and none is written. Raises
    ``NotFound`` if the session has no entries yet, and ``Unavailable``.
    """
    with workspace_lock.hold_workspace_lock(store.git_dir, root.path):
        if paths is not None:
            inside, skipped = resolve(root, paths)
            return take_paths(store, sid, root, phase, why, inside, at_ms=at_ms, outside=skipped)
        try:
            return _take_all(store, sid, root, phase, why, at_ms)
        except MissingObject:  # another process dropped an object that no ref reached yet
            return _take_all(store, sid, root, phase, why, at_ms, discard_state=True)


def _take_all(
    store: GitStore, sid: str, root: WorkspaceRoot, phase: str, why: CaptureReason, at_ms: int,
    *, discard_state: bool = False,
) -> Point:  # fmt: skip
    limits = caps()._replace(secret=exclusion_rule(store))
    folder = workspace_lock.folder_in(store.git_dir, root.path)
    captured = capture(store, root, folder, caps=limits, discard_state=discard_state)
    entry = _entry(root, WORKSPACE, phase, why, at_ms, captured.skipped, appeared=captured.appeared)
    return history.add(store, sid, entry, lambda _, __: captured.tree, why.target)


def take_paths(
    store: GitStore,
    sid: str,
    root: WorkspaceRoot,
    phase: str,
    why: CaptureReason,
    paths: Iterable[bytes],
    *,
    at_ms: int,
    outside: Sequence[Skipped] = (),
    file_trees: CachedTrees | None = None,
) -> Point:
    """Capture only ``paths``, and return the checkpoint like ``take``. The caller must hold the lock of the workspace.

    ``paths``: paths in on-disk form, relative to the workspace. ``outside``: requested paths outside the workspace.
    """
    trees, paths = file_trees or CachedTrees(store), list(paths)
    before = history.readable(store, sid)
    recorded = trees.look_up(before.files, [names.escape_path(raw) for raw in paths]) if before else {}
    limits = caps()._replace(secret=exclusion_rule(store))
    contents, skipped = capture_paths(root, paths, caps=limits, recorded=recorded)
    same = {each.file.oid for each in contents if each.file is not None and each.file == recorded.get(each.path)}

    def add(stored: Collection[Oid]) -> Point:
        states = put(store, contents, stored)
        entry = _entry(root, EDITED, phase, why, at_ms, [*outside, *skipped], paths=states)
        return history.add(store, sid, entry, lambda tx, tree: trees.patch(tx, tree, states), why.target)

    try:  # the contents are read, not only looked up, so that a damaged one is stored again
        return add({oid for oid, _, _ in store.read_all(same)})
    except MissingObject:  # another process dropped an object that no ref reached yet
        return add(())


def _entry(
    root: WorkspaceRoot,
    mode: str,
    phase: str,
    why: CaptureReason,
    at_ms: int,
    skipped: Iterable[Skipped],
    *,
    paths: Iterable[str] = (),
    appeared: Iterable[str] = (),
) -> Checkpoint:
    return Checkpoint(
        mode=mode,
        phase=phase,
        workspace=workspace_path(root),
        at_ms=at_ms,
        call=to_profile(why.call),
        reason=to_profile(why.reason),
        paths=tuple(paths),
        skipped=tuple((valid_text(path), valid_text(reason)) for path, reason in skipped),
        appeared=tuple(appeared),
    )


def exclusion_rule(store: GitStore) -> ExclusionRule | None:
    """Return a rule that excludes files with a secret, and files whose content was purged; ``None`` for no rule."""
    secret = None if store.guard is None else store.guard.in_file
    tombstones = tombstone_set.read(store)
    if not tombstones.has_files:
        return secret

    def rule(data: bytes) -> str | None:
        if tombstones.has_file(oid_of("blob", data)):
            return tombstone_set.RULE
        return None if secret is None else secret(data)

    return rule


def workspace_path(root: WorkspaceRoot) -> str:
    """Return the path of a workspace in the form that checkpoints contain."""
    return os.fsencode(root.path).decode("utf-8", "replace")


@contextmanager
def around(
    store: GitStore,
    sid: str,
    root: WorkspaceRoot,
    why: CaptureReason,
    *,
    clock: Callable[[], int],
    running: Running,
    paths: Sequence[str | Path] | None = None,
) -> Iterator[Node]:
    """Take a checkpoint before and after the block that runs a tool; yield the node of the first checkpoint.

    The second checkpoint is taken even if the tool fails.
    """
    is_concurrent, other = running.begin(root.path, why.call)
    try:
        reason = f"before {why.reason}" if why.reason else None  # earlier changes do not belong to the tool
        first = CaptureReason(target=why.target, call=other if is_concurrent else why.call, reason=reason)
        phase = AFTER if is_concurrent else BEFORE
        before = take(store, sid, root, phase, first, at_ms=clock(), paths=paths)
        try:
            yield before.node
        finally:
            take(store, sid, root, AFTER, why, at_ms=clock(), paths=paths)
    finally:
        running.end(root.path, why.call)
