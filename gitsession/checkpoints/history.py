"""The line of a session's checkpoints: ``refs/heads/sessions/<sid>/files`` (docs/explanation/checkpoints.md).

In the order of time, whatever branch the talk was on: a workspace is one physical thing. Each is kept below the one
before it, the first below the entry at which the session begins. One parent each: of a merge `git log -p` shows none.
Written under the store's lock: what a checkpoint is compared with is what it then stands behind.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gitsession.codec.digest import to_base64url
from gitsession.codec.payload import NONCE_BYTES
from gitsession.errors import Malformed
from gitsession.git.types import Oid
from gitsession.model.entries import Checkpoint
from gitsession.sessions import checkpoint_refs, commit_writer, graph
from gitsession.sessions.content import kept, view, whole
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.node import Node, load
from gitsession.sessions.operation_log import RecordingTransaction
from gitsession.sessions.root import beginning
from gitsession.store import refs
from gitsession.store.interface import ObjectStore, Transaction
from gitsession.workspace import trees


@dataclass(frozen=True, slots=True)
class Point:
    """One checkpoint of the line. ``files``: the tree of what was there, ``None`` for an empty workspace."""

    node: Node
    entry: Checkpoint
    files: Oid | None

    @property
    def oid(self) -> Oid:
        return self.node.oid


def newest(store: ObjectStore, sid: str) -> Point | None:
    """The last checkpoint of a session; ``None`` where it has none."""
    return next(walk(store, sid), None)


def readable(store: ObjectStore, sid: str) -> Point | None:
    """The same; ``None`` also where it cannot be read: then the next one is kept beside it."""
    try:
        return newest(store, sid)
    except DAMAGE:
        return None


def walk(store: ObjectStore, sid: str, first: str = "") -> Iterator[Point]:
    """The checkpoints, newest first, back to the first, to one that was purged, or to one that is lost and beside which
    the line went on.

    ``first``: the ref on which the line begins, if it is not ours (``captured.starts``). Raises ``MissingObject``,
    ``Corrupt`` or ``Malformed`` where another cannot be read: whoever passed over it would take what changed there for
    somebody else's doing.
    """
    for number, (_, end) in enumerate(reversed(checkpoint_refs.ends(store, sid, first))):
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
    """``None`` for what is no checkpoint."""
    node = load(store, oid)
    if node.kind != Checkpoint.kind:
        return None
    parts = kept(store, node)
    entry = view(node, parts.form, whole(store, node, parts))
    if not isinstance(entry, Checkpoint):
        raise Malformed("not a checkpoint that we can read", where=oid)
    return Point(node, entry, parts.files)


def history(store: ObjectStore, sid: str, first: str = "") -> list[Point]:
    """The same, oldest first."""
    return list(walk(store, sid, first))[::-1]


def histories(store: ObjectStore, sid: str) -> Iterator[list[Point]]:
    """The same of every line that has any: ours, then those of stores that went on without us. Raises as ``walk`` of
    ours; of another that cannot be read nothing is known.
    """
    ours, *others = checkpoint_refs.starts(store, sid)
    if points := history(store, sid, ours):
        yield points
    for first in others:
        try:
            if points := history(store, sid, first):
                yield points
        except DAMAGE:
            continue


Files = Callable[[Transaction | RecordingTransaction, "Point | None"], "Oid | None"]
"""Makes the tree of a checkpoint, given the one it will stand behind."""


def add(
    store: ObjectStore, sid: str, entry: Checkpoint, files: Files, target: Node | None, *, nonce: bytes = b""
) -> Point:
    """Keep a checkpoint, if it says anything that the newest does not; the newest by then.

    ``target``: the entry it belongs to. ``nonce``: of what follows from an agent's own records, so that it is the same
    entry wherever it is taken in; else random. Raises ``NotFound`` where the session has no entries yet.
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
    """The same within a transaction. ``always``: also where it says nothing new."""
    before, is_lost = None, False
    try:
        before = newest(store, sid)
    except DAMAGE:
        is_lost = True  # files are kept whatever became of those before them
    tree = files(tx, before)
    entry = dataclasses.replace(entry, target=None if target is None else to_base64url(target.chain))
    if before is not None and not always and not is_news(store, before, entry, tree, target):
        return before
    ref, seen = next(reversed(checkpoint_refs.ends(store, sid)), (refs.files(sid), None))
    if is_lost and seen is not None:
        ref, seen = checkpoint_refs.beside(ref, seen), None
    parent = load(store, seen) if seen else beginning(store, sid)
    commit_writer.check_goes_on(store, sid, parent)
    draft = commit_writer.own(entry, nonce or os.urandom(NONCE_BYTES), store.guard)
    node = commit_writer.put(tx, parent, dataclasses.replace(draft, files=tree))
    move = tx.advance if isinstance(tx, RecordingTransaction) else tx.move
    move(ref, node.oid, expected=seen)
    return Point(node, entry, tree)


def is_news(store: ObjectStore, before: Point, entry: Checkpoint, tree: Oid | None, target: Node | None) -> bool:
    """Whether a checkpoint says anything that the one before it does not say.

    Beside other files that is: another workspace; that more was looked at; and that the talk is on another line.
    """
    if tree != before.files or entry.workspace != before.entry.workspace:
        return True
    if entry.mode != before.entry.mode and before.entry.mode != "workspace":
        return True
    if entry.skipped != before.entry.skipped and entry.mode == "workspace":
        return True
    if before.entry.mode != "workspace" and _unknown(store, before, entry):
        return True
    if target is None or before.entry.target is None:
        return False
    try:
        return all(to_base64url(node.chain) != before.entry.target for node in graph.line(store, target.oid))
    except DAMAGE:
        return True  # files are kept whatever became of the talk


def _unknown(store: ObjectStore, before: Point, entry: Checkpoint) -> bool:
    """Whether it looked at a path of which the one before says nothing."""
    new = set(entry.paths) - set(before.entry.paths)
    return None in trees.look_up(store, before.files, new).values()
