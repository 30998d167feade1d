"""What differs in a workspace, into a store: contents in pieces, then the tree that the one before it becomes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gitsession.errors import Corrupt, MissingObject
from gitsession.git.objects import SUBMODULE_MODE
from gitsession.git.types import Kind, ObjectSink, Oid
from gitsession.store.interface import ObjectStore
from gitsession.workspace import names, trees
from gitsession.workspace.read_file import USUAL, Caps, PathContent, Skipped, take
from gitsession.workspace.root import WorkspaceRoot
from gitsession.workspace.snapshot import look
from gitsession.workspace.trees import State, TreeCache

PIECE_BYTES = 32 << 20
"""What is held in memory, and handed to the store, at a time. One file may be more."""


class Captured(NamedTuple):
    """``tree`` holds all there is, ``changes`` says how it differs from the one of the last look."""

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
    wait_seconds: float = 30.0,
) -> Captured:
    """Look at the whole workspace and keep what differs (mode *workspace*); ``folder`` as in ``scan.look``.

    What an earlier look left is thrown away where the store does not have it. Raises ``Unavailable``.
    """
    for afresh in (False, True):
        with look(root, folder, caps=caps, afresh=afresh, wait_seconds=wait_seconds) as seen:
            try:
                base = seen.base()
                if base is not None and not store.contains(base):
                    continue
                changes = put(store, seen.changes())
                tree = base
                if changes:
                    with store.transaction() as to:
                        tree = tree_with(store, to, base, changes)
            except (MissingObject, Corrupt):
                if afresh:
                    raise
                continue
            seen.accept(tree)
            return Captured(tree, changes, seen.skipped, seen.appeared)
    raise AssertionError("a look afresh needs nothing that was there before")


def put(store: ObjectStore, changes: Iterable[PathContent]) -> dict[str, State]:
    """Contents into the store, in transactions of about ``PIECE_BYTES``; what each path is now."""
    states: dict[str, State] = {}
    piece: dict[Oid, tuple[Kind, bytes]] = {}
    size = 0
    for change in changes:
        states[change.path] = change.file
        if change.file is not None and change.file.mode != SUBMODULE_MODE and change.file.oid not in piece:
            piece[change.file.oid] = ("blob", change.data)
            size += len(change.data)
            if size >= PIECE_BYTES:
                _hand_over(store, piece)
                piece, size = {}, 0
    _hand_over(store, piece)
    return states


def tree_with(
    store: ObjectStore,
    to: ObjectSink,
    base: Oid | None,
    changes: Mapping[str, State],
    *,
    levels: TreeCache | None = None,
) -> Oid | None:
    """``base`` with ``changes``, whose contents are in the store. Raises ``MissingObject`` where they no longer are.

    Until a ref leads to them, a `git repack -a -d` of the user's may have dropped them.
    """
    for state in changes.values():
        if state is not None and state.mode != SUBMODULE_MODE and not store.contains(state.oid):
            raise MissingObject(f"no object {state.oid}: it was put here a moment ago")
    return trees.patch(store, to, base, changes, levels=levels)


class Named(NamedTuple):
    """What named paths are now (mode *edited*)."""

    changes: list[PathContent]
    skipped: list[Skipped]


def named(root: WorkspaceRoot, paths: Iterable[str | Path], *, caps: Caps = USUAL) -> Named:
    """Only these paths, absolute or relative to the workspace, ignored or not; no git is asked.

    A path outside of the workspace is skipped, and so is a folder.
    """
    changes: dict[str, PathContent] = {}
    skipped: list[Skipped] = []
    for raw, told in _relative(root, paths):
        if raw is None:
            skipped.append(Skipped(told, "outside of the workspace"))
            continue
        taken = take(root, raw, caps)
        if taken.skipped:
            skipped.append(taken.skipped)
        elif taken.status and taken.status.kind == "folder":
            skipped.append(Skipped(told, "a folder"))
        elif taken.change:
            changes[told] = taken.change
    return Named([changes[path] for path in sorted(changes)], skipped)


def _relative(root: WorkspaceRoot, paths: Iterable[str | Path]) -> Iterator[tuple[bytes | None, str]]:
    for path in dict.fromkeys(os.fspath(path) for path in paths):
        whole = os.path.normpath(os.path.join(root.path, path))
        folder = os.path.realpath(os.path.dirname(whole))
        raw = os.fsencode(os.path.relpath(os.path.join(folder, os.path.basename(whole)), root.path))
        if raw == b"." or raw.split(b"/", 1)[0] == b"..":
            yield None, names.escape_path(os.fsencode(whole).lstrip(b"/"))
        else:
            yield raw, names.escape_path(raw)


def _hand_over(store: ObjectStore, piece: dict[Oid, tuple[Kind, bytes]]) -> None:
    if piece:
        with store.transaction() as to:
            to.put_all(piece)
