"""The checkpoints of a session, on ``refs/heads/sessions/<sid>/files`` (docs/explanation/checkpoints.md).

Checkpoints are in chronological order, regardless of the branch of the conversation, because all branches share one
workspace. The parent of a checkpoint is the previous checkpoint. The parent of the first checkpoint is the entry at
which the session begins. A checkpoint has only one parent, because `git log -p` shows no changes for a merge. The
store's lock is held while a checkpoint is compared with the newest one and written, so the newest one is its parent.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator

from gitsession.codec.digest import to_base64url
from gitsession.codec.payload import NONCE_BYTES
from gitsession.dataclass import dataclass
from gitsession.errors import Malformed, MissingObject
from gitsession.git.objects import SUBMODULE_MODE
from gitsession.git.types import Oid
from gitsession.model.entries import Checkpoint
from gitsession.sessions import checkpoint_refs, commit_writer, graph
from gitsession.sessions.content import decode_payload, entry_tree, full_payload
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.node import Node, load
from gitsession.sessions.operation_log import RecordingTransaction
from gitsession.sessions.session_facts import beginning
from gitsession.store import refs
from gitsession.store.interface import ObjectStore, Transaction
from gitsession.workspace.trees import CachedTrees


@dataclass(frozen=True, slots=True)
class Point:
    """One checkpoint of a session. ``files``: the tree of the files; ``None`` for an empty workspace."""

    node: Node
    entry: Checkpoint
    files: Oid | None

    @property
    def oid(self) -> Oid:
        return self.node.oid


def newest(store: ObjectStore, sid: str) -> Point | None:
    """Return the newest checkpoint of a session; ``None`` if the session has no checkpoints."""
    return next(walk(store, sid), None)


def readable(store: ObjectStore, sid: str) -> Point | None:
    """Return the newest checkpoint of a session; ``None`` if there is none or it cannot be read.

    In the latter case, the next checkpoint that is written starts a second history.
    """
    try:
        return newest(store, sid)
    except DAMAGE:
        return None


def walk(store: ObjectStore, sid: str, first: str = "") -> Iterator[Point]:
    """Yield the checkpoints, newest first, to the end of the history.

    The history ends at the first checkpoint, at a purged checkpoint, or at a damaged checkpoint after which a second
    history was started. Raises ``MissingObject``, ``Corrupt`` or ``Malformed`` if another checkpoint cannot be read.
    Such a checkpoint is not skipped, because the changes in it could then not be attributed to the session.

    ``first``: the ref of the history of a diverged store (``checkpoint_refs.first_refs``); empty for the history of
    this store.
    """
    for number, (_, end) in enumerate(reversed(checkpoint_refs.line_refs(store, sid, first))):
        oid: Oid | None = end
        while oid is not None:
            try:
                point = _point(store, oid)
            except DAMAGE:
                if number and oid == end:
                    return
                raise
            if point is None:
                break
            yield point
            oid = point.node.parent


def _point(store: ObjectStore, oid: Oid) -> Point | None:
    """Return the checkpoint that a commit contains; ``None`` if the commit is not a checkpoint."""
    node = load(store, oid)
    if node.kind != Checkpoint.kind:
        return None
    parts = entry_tree(store, node)
    entry = decode_payload(node, parts.form, full_payload(store, node, parts))
    if not isinstance(entry, Checkpoint):
        raise Malformed("not a valid checkpoint", where=oid)
    return Point(node, entry, parts.files)


def history(store: ObjectStore, sid: str, first: str = "") -> list[Point]:
    """Return the checkpoints that ``walk`` yields, oldest first."""
    return list(walk(store, sid, first))[::-1]


def histories(store: ObjectStore, sid: str) -> Iterator[list[Point]]:
    """Yield all histories of checkpoints, each oldest first: the history of this store, then those of diverged stores.

    Raises the errors of ``walk`` if the history of this store cannot be read. If the history of a diverged store cannot
    be read, that history is skipped.
    """
    for number, first in enumerate(checkpoint_refs.first_refs(store, sid)):
        try:
            points = history(store, sid, first)
        except DAMAGE:
            if number == 0:
                raise
            continue
        if points:
            yield points


Files = Callable[[Transaction | RecordingTransaction, "Oid | None"], "Oid | None"]
"""A function that writes the tree of a checkpoint. Its second argument is the tree of the previous checkpoint."""


def add(
    store: ObjectStore, sid: str, entry: Checkpoint, files: Files, target: Node | None, *, nonce: bytes = b""
) -> Point:
    """Write a checkpoint and return it. If it has no new information, return the newest checkpoint instead.

    Raises ``NotFound`` if the session has no entries yet.

    ``target``: the entry that the checkpoint belongs to. ``nonce``: the nonce of the entry; random by default. Pass a
    nonce for a checkpoint that is derived from an agent's records, so that every import creates the same entry.
    """
    with store.transaction() as tx:
        return put(store, tx, sid, entry, files, target, nonce=nonce)


def put(
    store: ObjectStore,
    tx: Transaction | RecordingTransaction,
    sid: str,
    entry: Checkpoint,
    files: Files,
    target: Node | None,
    *,
    always: bool = False,
    nonce: bytes = b"",
) -> Point:
    """Do the same as ``add``, in a transaction. ``always``: True to write a checkpoint even if nothing has changed.

    Raises ``MissingObject`` if another process dropped an object of the tree before the transaction.
    """
    before, is_lost = None, False
    try:
        before = newest(store, sid)
    except DAMAGE:
        is_lost = True  # capture files even if earlier checkpoints are damaged
    tree = files(tx, before.files if before else None)
    _check_stored(store, before.files if before else None, tree)
    entry = dataclasses.replace(entry, target=None if target is None else to_base64url(target.chain))
    if before is not None and not always and not has_news(store, before, entry, tree, target):
        return before
    ref, seen = next(reversed(checkpoint_refs.line_refs(store, sid)), (refs.files(sid), None))
    if is_lost and seen is not None:
        ref, seen = checkpoint_refs.continuation_ref(ref, seen), None
    parent = load(store, seen) if seen else beginning(store, sid)
    commit_writer.check_not_purged(store, sid, parent)
    draft = commit_writer.draft_own(entry, nonce or os.urandom(NONCE_BYTES), store.guard)
    node = commit_writer.put(tx, parent, dataclasses.replace(draft, files=tree))
    move = tx.advance if isinstance(tx, RecordingTransaction) else tx.move
    move(ref, node.oid, expected=seen)
    return Point(node, entry, tree)


def _check_stored(store: ObjectStore, before: Oid | None, tree: Oid | None) -> None:
    """Raise ``MissingObject`` if an object of ``tree`` is missing, unless ``before``, which a ref reaches, has it.

    No ref reaches the objects of a new tree yet, so a purge or `git repack -a -d` can have dropped some of them.
    """
    for _, state in CachedTrees(store).diff(before, tree).values():
        if state is not None and state.mode != SUBMODULE_MODE and not store.contains(state.oid):
            raise MissingObject(f"cannot write the checkpoint: object {state.oid} is missing")


def has_news(store: ObjectStore, before: Point, entry: Checkpoint, tree: Oid | None, target: Node | None) -> bool:
    """Return whether a checkpoint has new information compared with the previous one.

    This is the case if the files, the skipped files, the workspace or the branch of the conversation have changed since
    the previous checkpoint, or if the new checkpoint covers more paths.
    """
    if tree != before.files or entry.workspace != before.entry.workspace:
        return True
    if entry.mode != before.entry.mode and before.entry.mode != "workspace":
        return True
    if entry.skipped != before.entry.skipped and entry.mode == "workspace":
        return True
    new_paths = set(entry.paths) - set(before.entry.paths)
    if before.entry.mode != "workspace" and None in CachedTrees(store).look_up(before.files, new_paths).values():
        return True  # the previous checkpoint does not cover this path, which does not exist
    if target is None or before.entry.target is None:
        return False
    try:
        return all(to_base64url(node.chain) != before.entry.target for node in graph.history(store, target.oid))
    except DAMAGE:
        return True  # capture files even if the conversation is damaged
