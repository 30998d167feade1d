"""What is written to the store once files are: checkpoint, refs and operation, together."""

from __future__ import annotations

from collections.abc import Mapping

from gitsession.checkpoints import capturing, history
from gitsession.checkpoints.attribution import EDITED, REWIND
from gitsession.checkpoints.history import Point
from gitsession.checkpoints.intents import Intent
from gitsession.model.entries import Checkpoint
from gitsession.sessions import operation_log
from gitsession.sessions.active_branch import active
from gitsession.sessions.node import Node, load
from gitsession.sessions.operation_log import Operation, RecordingTransaction, WorkspaceWrite
from gitsession.sessions.session import StoredSession
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.store.interface import Transaction
from gitsession.workspace.capture import tree_with
from gitsession.workspace.root import WorkspaceRoot
from gitsession.workspace.trees import State, TreeCache


def finish_rewind(
    store: GitStore, session: StoredSession, intent: Intent, root: WorkspaceRoot, done: Mapping[str, State],
    levels: TreeCache | None = None,
) -> str:  # fmt: skip
    """What a rewind leaves in the store, in one transaction; the branch where the talk goes on. ``done``: what is there
    now of all that was to be written.
    """
    with operation_log.recording(store, intent.command, intent.at_ms) as recorder:
        place = load(store, intent.place) if intent.place else session.leaf
        if done:
            result = record(store, recorder, intent, root, done, place, intent.at_ms, levels=levels)
            recorder.files = WorkspaceWrite(intent.session, capturing.place_of(root), intent.safety, result.oid)
        if intent.place and place is not None:
            return session.go_on(recorder, place, intent.onto)
    return session.branch_name


def finish_step(
    store: GitStore, session: StoredSession, step: operation_log.UndoStep, intent: Intent, root: WorkspaceRoot,
    done: Mapping[str, State],
    levels: TreeCache | None = None,
) -> tuple[str, Operation]:  # fmt: skip
    """The same of an undo or redo; and the operation that it took back or did again."""
    with store.transaction() as tx:
        files = None
        if done:
            leaf = _leaf_after(store, step, session)
            result = record(store, tx, intent, root, done, leaf, intent.at_ms, levels=levels)
            files = WorkspaceWrite(intent.session, capturing.place_of(root), intent.safety, result.oid)
        operation = step.take(store, tx, intent.at_ms, files)
        return active(store, session.id), operation


def _leaf_after(store: GitStore, step: operation_log.UndoStep, session: StoredSession) -> Node | None:
    """Where the talk will be once the step's refs have moved."""
    ends = {move.ref: move.new for move in step.moves}
    chosen = refs.active(session.id)
    value = ends[chosen] if chosen in ends else store.ref(chosen)
    name = refs.target(value) if value else refs.leaf(session.id, session.branch_name)
    oid = ends.get(name or "", store.ref(name or ""))
    return load(store, oid) if oid else session.leaf


def record(
    store: GitStore,
    tx: Transaction | RecordingTransaction,
    intent: Intent,
    root: WorkspaceRoot,
    done: Mapping[str, State],
    target: Node | None,
    at_ms: int,
    *,
    always: bool = True,
    levels: TreeCache | None = None,
) -> Point:
    """The checkpoint of what was written."""
    entry = Checkpoint(
        mode=EDITED,
        phase=REWIND,
        workspace=capturing.place_of(root),
        paths=tuple(done),
        reason=intent.command,
        at_ms=at_ms,
    )
    return history.put(
        store,
        tx,
        intent.session,
        entry,
        lambda tx, before: tree_with(store, tx, before.files if before else None, done, levels=levels),
        target,
        always=always,
    )
