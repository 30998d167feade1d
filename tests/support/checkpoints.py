"""Test helpers: checkpoints built without a workspace."""

from __future__ import annotations

from collections.abc import Mapping

from gitsession.api import Store
from gitsession.checkpoints import history
from gitsession.checkpoints import lookup as at
from gitsession.checkpoints.attribution import attributed
from gitsession.checkpoints.history import Point
from gitsession.git.types import Oid
from gitsession.model.entries import Checkpoint
from gitsession.sessions.content import entry_of
from gitsession.sessions.node import Node
from gitsession.store.interface import ObjectStore
from gitsession.workspace import trees
from gitsession.workspace.trees import TreeEntry


def tree_of(store: ObjectStore, files: Mapping[str, str]) -> Oid | None:
    """Write a tree of regular files, given as path and content."""
    with store.transaction() as tx:
        states = {path: TreeEntry("100644", tx.put("blob", content.encode())) for path, content in files.items()}
        return trees.CachedTrees(store).patch(tx, None, states)


def held(store: ObjectStore, sid: str, files: Mapping[str, str], at: Node | None, phase: str = "before",
         mode: str = "workspace", **fields: object) -> Point:  # fmt: skip
    """Record a checkpoint of a workspace that contains ``files``. It is written only if it adds information."""
    tree = tree_of(store, files)
    said = {"at_ms": entry_of(store, at).at_ms if at else 1, **fields}
    entry = Checkpoint(mode=mode, phase=phase, **said)
    return history.add(store, sid, entry, lambda tx, before: tree, at)


def contents(store: ObjectStore, point: Point | None) -> dict[str, str]:
    """Return the contents of the files of a checkpoint by path."""
    found = trees.walk(store, point.files if point else None)
    return {path: store.read(file.oid)[1].decode() for path, file in found}


def oids(store: Store, sid: str) -> list[str]:
    return [point.oid for point in history.history(store.objects, sid)]


def claimed(store: Store, sid: str) -> list[list[str]]:
    """Return the paths that the session changed, step by step."""
    found = attributed(at.steps(trees.CachedTrees(store.objects), history.history(store.objects, sid)))
    return [sorted(paths) for paths in found if paths]
