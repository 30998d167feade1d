"""Execution of a rewind plan, an undo or a redo, and recovery of an interrupted execution.

    safety    write a checkpoint of the current state of the paths that will be written; store the merged contents
    intent    record the planned writes durably
    restore   replace each file by a rename
    record    in one transaction, write the checkpoint after the operation, the refs of the conversation, and the
              operation log
    end       remove the intent

If the process is killed before the intent is durable, no file is changed. If the process is killed later, ``resume``
completes the operation, or ``abort`` reverts it. At every moment, each file has either its old or its new content.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from gitsession.checkpoints import capturing, history, intents, rewind_merges
from gitsession.checkpoints.attribution import BEFORE, EDITED, REWIND
from gitsession.checkpoints.capturing import CaptureReason
from gitsession.checkpoints.intents import Intent
from gitsession.checkpoints.planning import RewindPlan, created_folders
from gitsession.checkpoints.rewind_decisions import PathDecision, writes
from gitsession.dataclass import dataclass
from gitsession.errors import NotFound, Refused
from gitsession.git.repository import OBJECT_BYTES_MAX
from gitsession.git.types import Oid
from gitsession.model.entries import Checkpoint
from gitsession.sessions import operation_log
from gitsession.sessions.active_branch import active
from gitsession.sessions.content import files_of
from gitsession.sessions.node import Node, load
from gitsession.sessions.operation_log import Operation, WorkspaceWrite
from gitsession.sessions.session import Clock, StoredSession
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.store.interface import Transaction
from gitsession.workspace import names, workspace_lock
from gitsession.workspace.capture import tree_with
from gitsession.workspace.path_rules import PlannedChange
from gitsession.workspace.restore import restore, sweep
from gitsession.workspace.root import WorkspaceRoot
from gitsession.workspace.trees import CachedTrees, State

FileAction: TypeAlias = Literal["written", "removed", "left"]

UNSAFE = "it was changed meanwhile, or it is too large for a checkpoint"


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """The outcome for a path.

    Attributes:
        path: The path, relative to the workspace.
        action: The action that was performed: ``written``, ``removed`` or ``left``.
        reason: The reason for the action.
    """

    path: str
    action: FileAction
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RewindResult:
    """The result of a rewind, an undo or a redo.

    Attributes:
        verb: The command that was executed.
        workspace: The path of the workspace; ``None`` if no files were involved.
        outcomes: The outcome for every path of the plan.
        branch: The branch on which the conversation continues; "" if an undo or redo changed several sessions or
            removed the session. It is also "" if an undo or redo moved no branch, the session has several branches, and
            the user has selected none of them.
        moved: True if the conversation continues at another entry or on another branch.
        prompt: The prompt to which the session was rewound; ``None`` if the entry is not a prompt, or if only files
            were restored.
        operation: The operation that was undone or redone.
    """

    verb: str
    workspace: str | None = None
    outcomes: tuple[FileOutcome, ...] = ()
    branch: str = ""
    moved: bool = False
    prompt: str | None = None
    operation: Operation | None = None


def perform(
    store: GitStore, session: StoredSession, plan: RewindPlan, root: WorkspaceRoot | None, clock: Clock
) -> RewindResult:
    """Execute a rewind plan.

    Raises ``Unavailable``, and ``Refused`` if an operation in the workspace is incomplete. If this operation is
    interrupted, ``resume`` can complete it and ``abort`` can revert it.
    """
    at_ms = clock()
    command = f"rewind {session.id} {plan.at.oid[:12]}" + (f" ({plan.parts})" if plan.parts != "both" else "")
    wanted = writes(plan.changes)
    if root is None or not wanted:
        if root is not None:
            intents.refuse(store, root.path)
        if plan.moves:
            with operation_log.recording(store, command, at_ms) as recorder:
                branch = session.continue_after(recorder, plan.new_tip, plan.branch)
            session.branch_name = branch
        return RewindResult(
            verb="rewind", workspace=plan.workspace, outcomes=_skipped_outcomes(plan.changes),
            branch=session.branch_name, moved=plan.moves, prompt=plan.prompt,
        )  # fmt: skip
    with workspace_lock.hold_workspace_lock(store.git_dir, root.path):
        intents.refuse(store, root.path)
        run = RewindRun(store, session, root, plan.file_trees, plan.tree)
        intent, unsafe = run.prepare("rewind", command, wanted, plan.merged, plan.created_folders, at_ms)
        place = plan.new_tip.oid if plan.moves else ""
        intent = dataclasses.replace(intent, place=place, onto=plan.branch, seen=store.ref(refs.OPLOG))
        intents.write(store, intent)
        done = run.execute(intent)
    return dataclasses.replace(done, outcomes=_merge_outcomes(plan.changes, done, unsafe), prompt=plan.prompt)


def take_step(
    run: RewindRun, step: operation_log.UndoStep, changes: list[PathDecision], made: tuple[str, ...],
    merged: Mapping[Oid, bytes], clock: Clock,
) -> RewindResult:  # fmt: skip
    """Undo or redo an operation that wrote files. Raises the errors of ``perform`` and ``UndoStep.check``.

    ``changes``: the decisions about the files of the operation. ``merged``: the merged contents of these files, by oid.
    ``made``: folders to remove if they are empty after the writes.
    """
    store, root = run.store, run.root
    wanted = writes(changes)
    at_ms = clock()
    with workspace_lock.hold_workspace_lock(store.git_dir, root.path):
        intents.refuse(store, root.path)
        step.check(store)
        if not wanted:
            with store.transaction() as tx:
                operation = step.apply(store, tx, at_ms)
            branch = active(store, run.session.id)
            return RewindResult(verb=step.verb, workspace=str(root.path), outcomes=_skipped_outcomes(changes),
                        branch=branch, operation=operation)  # fmt: skip
        intent, unsafe = run.prepare(step.verb, f"{step.verb}: {step.command}", wanted, merged, made, at_ms)
        intent = dataclasses.replace(intent, operation=step.operation.id, seen=step.seen)
        step.check(store)  # before the intent is written: an operation with an intent must be completed
        intents.write(store, intent)
        try:
            done = run.execute(intent, step)
        except Refused as error:  # a command was logged meanwhile, or the conversation continued
            run.revert_writes(intent, at_ms)
            raise Refused(f"{error} (the changes to files were reverted)", hint=error.hint) from error
    return dataclasses.replace(done, outcomes=_merge_outcomes(changes, done, unsafe))


def resume(store: GitStore, session: StoredSession, root: WorkspaceRoot) -> RewindResult:
    """Complete the interrupted operation in a workspace.

    Raises ``NotFound`` if no operation was interrupted, and the errors of ``perform``.
    """
    with workspace_lock.hold_workspace_lock(store.git_dir, root.path):
        intent = _find_intent(store, session, root)
        if intents.is_done(store, intent):
            _sweep(root, intent)
            intents.remove(store, intent)
            return RewindResult(verb=intent.verb, workspace=str(root.path), branch=active(store, session.id))
        step = _step(store, intent)
        _sweep(root, intent)
        return RewindRun(store, session, root).execute(intent, step)


def abort(store: GitStore, session: StoredSession, root: WorkspaceRoot, clock: Clock) -> RewindResult:
    """Revert the interrupted operation in a workspace.

    Raises ``NotFound`` if no operation was interrupted, and ``Refused`` if the operation is already complete.
    """
    with workspace_lock.hold_workspace_lock(store.git_dir, root.path):
        intent = _find_intent(store, session, root)
        _sweep(root, intent)
        if intents.is_done(store, intent):
            intents.remove(store, intent)
            raise Refused(
                f"cannot abort '{intent.command}': it has completed", hint="run `gitsession undo` to revert it"
            )
        outcomes = RewindRun(store, session, root).revert_writes(intent, clock())
    return RewindResult(verb="abort", workspace=str(root.path), outcomes=outcomes, branch=active(store, session.id))


class RewindRun:
    """The execution of one rewind, undo or redo in a workspace.

    ``file_trees``: the trees that were read for the plan. ``tree``: the tree of an earlier checkpoint with the files to
    restore. The new checkpoint shares its folders.
    """

    def __init__(
        self, store: GitStore, session: StoredSession, root: WorkspaceRoot, file_trees: CachedTrees | None = None,
        tree: Oid | None = None,
    ) -> None:  # fmt: skip
        self.store, self.session, self.root = store, session, root
        self.file_trees = file_trees or CachedTrees(store)
        self._tree = tree

    def prepare(
        self, verb: intents.Verb, command: str, wanted: list[PathDecision], merged: Mapping[Oid, bytes],
        made: tuple[str, ...], at_ms: int,
    ) -> tuple[Intent, tuple[FileOutcome, ...]]:  # fmt: skip
        """Take the safety checkpoint; return the intent, and the outcomes of paths that the operation must not change.

        The current state of these paths is not in the safety checkpoint, so a change to them could not be reverted.

        ``merged``: the merged contents, which are not in the store yet. ``made``: folders to remove if they are empty
        after the writes.
        """
        paths = [names.unescape_path(change.path) for change in wanted]
        why = CaptureReason(target=self.session.leaf, reason=f"before {command}")
        safety = capturing.take_paths(
            self.store, self.session.id, self.root, BEFORE, why, paths, at_ms=at_ms, file_trees=self.file_trees
        )
        captured = self.file_trees.look_up(safety.files, [change.path for change in wanted])
        safe = [change for change in wanted if captured[change.path] == change.now]
        unsafe = (FileOutcome(change.path, "left", UNSAFE) for change in wanted if captured[change.path] != change.now)
        rewind_merges.keep(self.store, merged, safe)
        intent = Intent(
            verb=verb,
            session=self.session.id,
            workspace=str(self.root.path),
            command=command,
            at_ms=at_ms,
            safety=safety.oid,
            changes=tuple(PlannedChange(change.path, change.now, change.to) for change in safe),
            made=made,
        )
        return intent, tuple(unsafe)

    def execute(self, intent: Intent, step: operation_log.UndoStep | None = None) -> RewindResult:
        """Write the files of an intent, record the result, and remove the intent.

        This method also completes an execution that was interrupted. ``step``: the step of an undo or redo.
        """
        outcomes, done = self._restore(intent, intent.changes, intent.made)
        if step is None:
            branch, operation = self._finish_rewind(intent, done), None
        else:
            branch, operation = self._finish_step(intent, step, done)
        moved = branch != self.session.branch_name or bool(intent.place)
        self.session.branch_name = branch
        intents.remove(self.store, intent)
        return RewindResult(
            verb=intent.verb,
            workspace=str(self.root.path),
            outcomes=outcomes,
            branch=branch,
            moved=moved,
            operation=operation,
        )

    def revert_writes(self, intent: Intent, at_ms: int) -> tuple[FileOutcome, ...]:
        """Revert those writes of an intent that were completed, and remove the intent; return the outcomes."""
        intent = intents.with_new_names(self.store, intent)
        reversals = [PlannedChange(change.path, change.new, change.expected) for change in intent.changes]
        removed = [change.path for change in reversals if change.new is None]
        folders = created_folders(self.file_trees, files_of(self.store, intent.safety), removed)
        outcomes, done = self._restore(intent, reversals, folders)
        with self.store.transaction() as tx:
            self._record(tx, intent, done, self.session.leaf, at_ms, always=False)
        intents.remove(self.store, intent)
        return outcomes

    def _restore(
        self, intent: Intent, changes: Sequence[PlannedChange], made: Collection[str]
    ) -> tuple[tuple[FileOutcome, ...], dict[str, State]]:
        """Write ``changes``; return all outcomes, and the new states of the written paths.

        ``made``: folders to remove if they are empty after the writes.
        """
        found = restore(
            self.root, changes, content=lambda oid: self.store.read(oid)[1], tag=intent.tag,
            bytes_max=OBJECT_BYTES_MAX, made=made,
        )  # fmt: skip
        outcomes, done = [], {}
        for change, outcome in zip(changes, found, strict=True):
            action: FileAction = "left"
            if outcome.result == "done":
                action = "removed" if change.new is None else "written"
                done[change.path] = change.new
            outcomes.append(FileOutcome(change.path, action, outcome.reason))
        return tuple(outcomes), done

    def _finish_rewind(self, intent: Intent, done: Mapping[str, State]) -> str:
        """Record the checkpoint, refs and operation in one transaction; return the branch of the conversation."""
        with operation_log.recording(self.store, intent.command, intent.at_ms) as recorder:
            intent = intents.with_new_names(self.store, intent)
            place = load(self.store, intent.place) if intent.place else self.session.leaf
            if done:
                recorder.files = self._record(recorder, intent, done, place, intent.at_ms)
            if intent.place and place is not None:
                return self.session.continue_after(recorder, place, intent.onto)
        return self.session.branch_name

    def _finish_step(
        self, intent: Intent, step: operation_log.UndoStep, done: Mapping[str, State]
    ) -> tuple[str, Operation]:
        """Record an undo or redo in one transaction; return the branch, and the operation that was undone or redone."""
        with self.store.transaction() as tx:
            intent = intents.with_new_names(self.store, intent)
            files = self._record(tx, intent, done, self._leaf_after(step), intent.at_ms) if done else None
            operation = step.apply(self.store, tx, intent.at_ms, files)
            return active(self.store, self.session.id), operation

    def _leaf_after(self, step: operation_log.UndoStep) -> Node | None:
        """Return the tip of the conversation after the refs of ``step`` are moved."""
        ends = {move.ref: move.new for move in step.moves}
        chosen = refs.active(self.session.id)
        value = ends[chosen] if chosen in ends else self.store.ref(chosen)
        name = refs.target(value) if value else refs.leaf(self.session.id, self.session.branch_name)
        oid = ends.get(name or "", self.store.ref(name or ""))
        return load(self.store, oid) if oid else self.session.leaf

    def _record(
        self, tx: Transaction | operation_log.RecordingTransaction, intent: Intent, done: Mapping[str, State],
        target: Node | None, at_ms: int, *, always: bool = True,
    ) -> WorkspaceWrite:  # fmt: skip
        """Write the checkpoint with the new state of the files; return the entry for the operation log."""
        place = capturing.workspace_path(self.root)
        entry = Checkpoint(
            mode=EDITED, phase=REWIND, workspace=place, paths=tuple(done), reason=intent.command, at_ms=at_ms
        )
        result = history.put(
            self.store,
            tx,
            intent.session,
            entry,
            lambda tx, before: tree_with(self.store, tx, before, done, self.file_trees, self._tree),
            target,
            always=always,
        )
        return WorkspaceWrite(intent.session, place, intent.safety, result.oid)


# ---- helpers


def _step(store: GitStore, intent: Intent) -> operation_log.UndoStep | None:
    if intent.verb == "rewind":
        return None
    step = operation_log.next_step(store, intent.verb, lambda sid, _: sid == intent.session)
    if step.operation.id != intent.operation:
        raise Refused(
            f"cannot continue '{intent.command}': other commands have run since it was interrupted",
            hint="run `gitsession rewind --abort` to restore the files, then `gitsession undo` for each command",
        )
    return step


def _find_intent(store: GitStore, session: StoredSession, root: WorkspaceRoot) -> Intent:
    """Return the intent of this workspace, or of a workspace of the session whose folder no longer exists."""
    found = intents.read(store, root.path)
    if found is not None:
        return intents.with_new_names(store, found)
    for intent in intents.pending(store):
        if intent.session == session.id and not Path(intent.workspace).exists():
            return intents.with_new_names(store, intent)
    raise NotFound(f"no interrupted rewind in '{root.path}'", hint="run `gitsession rewind ENTRY` to start a rewind")


def _sweep(root: WorkspaceRoot, intent: Intent) -> None:
    sweep(root, [change.path for change in intent.changes], tag=intent.tag)


def _merge_outcomes(
    changes: Sequence[PathDecision], done: RewindResult, unsafe: tuple[FileOutcome, ...]
) -> tuple[FileOutcome, ...]:
    """Return the outcome for every path of the plan. An outcome without a reason gets the reason in the plan."""
    reasons = {change.path: change.reason for change in changes}
    outcomes = [dataclasses.replace(one, reason=one.reason or reasons[one.path]) for one in done.outcomes]
    return tuple(sorted((*outcomes, *unsafe, *_skipped_outcomes(changes)), key=lambda one: one.path))


def _skipped_outcomes(changes: Sequence[PathDecision]) -> tuple[FileOutcome, ...]:
    return tuple(FileOutcome(change.path, "left", change.reason) for change in changes if change.is_left)
