"""Capture of a workspace's changes in a store. The contents are stored first, in batches, and then the new tree."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from gitsession.errors import Corrupt, MissingObject
from gitsession.git.objects import SUBMODULE_MODE
from gitsession.git.types import Kind, ObjectSink, Oid
from gitsession.store.interface import ObjectStore
from gitsession.workspace import names
from gitsession.workspace.read_file import USUAL, Caps, PathContent, Skipped, read_path
from gitsession.workspace.root import WorkspaceRoot
from gitsession.workspace.trees import CachedTrees, State

BATCH_BYTES = 32 << 20
"""Total size in bytes at which the contents in memory are written to the store. A single file may be larger."""


class Captured(NamedTuple):
    """A captured snapshot.

    ``tree``: the tree of all files; ``None`` for an empty workspace. ``changes``: the new state of each path that has
    changed since the last snapshot.
    """

    tree: Oid | None
    changes: Mapping[str, State]
    skipped: list[Skipped]
    appeared: list[str]


def capture(
    store: ObjectStore,
    root: WorkspaceRoot,
    folder: Path,
    *,
    caps: Caps = USUAL,
    discard_state: bool = False,
) -> Captured:
    """Capture the whole workspace (mode *workspace*), and store the differences from the last snapshot.

    If an object of the last snapshot is missing in the store, that snapshot is discarded, and all files are read again.
    Raises ``Unavailable``.

    ``folder``: the folder of the private git directory (see ``snapshot.take_snapshot``). ``discard_state``: True to
    discard the last snapshot first.
    """
    from gitsession.workspace.snapshot import take_snapshot  # a rewind does not import it

    for is_full in (True,) if discard_state else (False, True):
        with take_snapshot(root, folder, caps=caps, discard_state=is_full) as snapshot:
            try:
                base = snapshot.base()
                if base is not None and not store.contains(base):
                    continue
                changes = put(store, snapshot.changes())
                tree = base
                if changes:
                    with store.transaction() as tx:
                        tree = tree_with(store, tx, base, changes)
            except (MissingObject, Corrupt):
                if is_full:
                    raise
                continue
            snapshot.accept(tree)
            return Captured(tree, changes, snapshot.skipped, snapshot.appeared)
    raise AssertionError("a snapshot of all files depends on no earlier object")


def put(store: ObjectStore, changes: Iterable[PathContent], stored: Collection[Oid] = ()) -> dict[str, State]:
    """Store the contents of ``changes`` in transactions of about ``BATCH_BYTES``; return the new state of each path.

    ``stored``: the oids of contents in ``changes`` that a ref leads to and that can be read. They are not stored again.
    """
    states: dict[str, State] = {}
    batch: dict[Oid, tuple[Kind, bytes]] = {}
    size = 0
    for change in changes:
        states[change.path] = change.file
        if change.file is not None and change.file.mode != SUBMODULE_MODE and change.file.oid not in batch:
            if change.file.oid in stored:
                continue
            batch[change.file.oid] = ("blob", change.data)
            size += len(change.data)
            if size >= BATCH_BYTES:
                _store_blobs(store, batch)
                batch, size = {}, 0
    _store_blobs(store, batch)
    return states


def tree_with(
    store: ObjectStore,
    sink: ObjectSink,
    base: Oid | None,
    changes: Mapping[str, State],
    file_trees: CachedTrees | None = None,
    like: Oid | None = None,
) -> Oid | None:
    """Write the tree ``base`` with ``changes`` applied; return the new tree. The blobs must be in the store already.

    ``like``: see ``CachedTrees.patch``. Raises ``MissingObject`` if a blob no longer exists. `git repack -a -d` can
    remove a blob that no ref reaches yet.
    """
    for state in changes.values():
        if state is not None and state.mode != SUBMODULE_MODE and not store.contains(state.oid):
            what = f"object {state.oid} is missing, although it has just been stored"
            raise MissingObject(f"cannot write the snapshot: {what}")
    return (file_trees or CachedTrees(store)).patch(sink, base, changes, like)


def resolve(root: WorkspaceRoot, paths: Iterable[str | Path]) -> tuple[list[bytes], list[Skipped]]:
    """Return the on-disk forms of ``paths``, relative to the workspace, and the paths outside it as skipped paths.

    ``paths``: absolute paths, or paths relative to the workspace. Links to folders are followed.
    """
    found: list[bytes] = []
    skipped: list[Skipped] = []
    for path in dict.fromkeys(os.fspath(path) for path in paths):
        absolute = os.path.normpath(os.path.join(root.path, path))
        folder = os.path.realpath(os.path.dirname(absolute))
        raw = os.fsencode(os.path.relpath(os.path.join(folder, os.path.basename(absolute)), root.path))
        if raw == b"." or raw.split(b"/", 1)[0] == b"..":
            outside = names.escape_path(os.fsencode(absolute).lstrip(b"/"))
            skipped.append(Skipped(outside, "outside of the workspace"))
        else:
            found.append(raw)
    return found, skipped


def capture_paths(
    root: WorkspaceRoot,
    paths: Iterable[bytes],
    *,
    caps: Caps = USUAL,
    recorded: Mapping[str, State] | None = None,
) -> tuple[list[PathContent], list[Skipped]]:
    """Read only ``paths``, without git (mode *edited*). Return their contents, and the skipped paths.

    Files that git ignores are read, too. Folders are skipped.

    ``paths``: paths in on-disk form, relative to the workspace. ``recorded``: the states of the paths in the last
    checkpoint.
    """
    known = recorded or {}
    changes: dict[str, PathContent] = {}
    skipped: list[Skipped] = []
    for raw in paths:
        reading = read_path(root, raw, caps, known.get(names.escape_path(raw)))
        if reading.skipped:
            skipped.append(reading.skipped)
        elif reading.status and reading.status.kind == "folder":
            skipped.append(Skipped(names.escape_path(raw), "a folder"))
        elif reading.change:
            changes[reading.change.path] = reading.change
    return [changes[path] for path in sorted(changes)], skipped


def _store_blobs(store: ObjectStore, batch: dict[Oid, tuple[Kind, bytes]]) -> None:
    if batch:
        with store.transaction() as tx:
            tx.put_all(batch)
