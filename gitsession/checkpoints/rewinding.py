"""Carrying out what was decided: a rewind, or taking one back; and what a crash left of either.

    safety    a checkpoint of the paths that will be written, as they are; the contents that were merged
    intent    what will be written, durable
    restore   each file by a rename
    record    one transaction: the checkpoint after it, the refs of the talk, the operation of the log
    end       the intent goes

Killed before the intent, nothing was touched; after it, ``go_on`` does the rest or ``abort`` takes it back; each file
is the old one or the new one at any moment.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from gitsession.checkpoints import capturing, intents, merging, workspace_turn
from gitsession.checkpoints.attribution import BEFORE
from gitsession.checkpoints.capturing import CaptureReason
from gitsession.checkpoints.history import Point
from gitsession.checkpoints.intents import Intent
from gitsession.checkpoints.planning import RewindPlan, folders_above
from gitsession.checkpoints.record_rewind import finish_rewind, finish_step, record
from gitsession.checkpoints.rewind_decisions import PathDecision, writes
from gitsession.errors import NotFound, Refused
from gitsession.git.repository import OBJECT_BYTES_MAX
from gitsession.git.types import Oid
from gitsession.sessions import operation_log
from gitsession.sessions.active_branch import active
from gitsession.sessions.content import files_of
from gitsession.sessions.operation_log import Operation
from gitsession.sessions.session import Clock, StoredSession
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.workspace import names, trees
from gitsession.workspace.path_rules import PlannedChange
from gitsession.workspace.restore import Content, restore, sweep
from gitsession.workspace.restore import Outcome as Restored
from gitsession.workspace.root import WorkspaceRoot

Did: TypeAlias = Literal["written", "removed", "left"]

UNSAFE = "somebody changed it meanwhile, or it is too large to be kept safe"


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What became of a path, and why."""

    path: str
    did: Did
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RewindResult:
    """``outcomes``: of every path that was considered. ``branch``: where the talk goes on; ``moved``: whether that is
    elsewhere. ``prompt``: what the user had said at the entry. ``operation``: what was taken back or done again.
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
    """Carry out a plan. Raises ``Refused`` where something has not ended in the workspace, and ``Unavailable``; then
    ``go_on`` and ``abort`` are there for what was begun.
    """
    at_ms = clock()
    command = f"rewind {session.id} {plan.at.oid[:12]}" + (f" ({plan.what})" if plan.what != "both" else "")
    wanted = writes(plan.changes)
    if root is None or not wanted:
        if root is not None:
            intents.refuse(store, root.path)
        return dataclasses.replace(_talk_only(store, session, plan, command, at_ms), outcomes=_left(plan.changes))
    with workspace_turn.turn(store, root.path):
        intents.refuse(store, root.path)
        levels = plan.levels or trees.TreeCache(store)
        safety = _safety(store, session, root, wanted, f"before {command}", at_ms, levels)
        wanted, unsafe = _kept_safe(store, safety, wanted, levels)
        merging.keep(store, plan.merged, wanted)
        intent = Intent(
            verb="rewind",
            session=session.id,
            workspace=str(root.path),
            command=command,
            at_ms=at_ms,
            safety=safety.oid,
            changes=tuple(PlannedChange(change.path, change.now, change.to) for change in wanted),
            made=plan.made,
            place=plan.place.oid if plan.moves else "",
            onto=plan.onto,
            seen=store.ref(refs.OPLOG),
        )
        intents.write(store, root.path, intent)
        done = _carry_out(store, session, root, intent, None, levels)
    return dataclasses.replace(done, outcomes=_all(plan.changes, done, unsafe), prompt=plan.prompt)


def take_step(
    store: GitStore, session: StoredSession, step: operation_log.UndoStep, changes: list[PathDecision],
    made: tuple[str, ...],
    root: WorkspaceRoot, clock: Clock, levels: trees.TreeCache, merged: Mapping[Oid, bytes],
) -> RewindResult:  # fmt: skip
    """Undo, or do again, an operation that wrote files: ``changes``. Raises as ``perform`` and ``UndoStep.check``.

    ``merged``: contents that were merged for ``changes``.
    """
    wanted = writes(changes)
    at_ms = clock()
    with workspace_turn.turn(store, root.path):
        intents.refuse(store, root.path)
        step.check(store)
        if not wanted:
            with store.transaction() as tx:
                operation = step.take(store, tx, at_ms)
            branch = active(store, session.id)
            return RewindResult(verb=step.verb, workspace=str(root.path), outcomes=_left(changes), branch=branch,
                        operation=operation)  # fmt: skip
        command = f"{step.verb}: {step.command}"
        safety = _safety(store, session, root, wanted, f"before {command}", at_ms, levels)
        wanted, unsafe = _kept_safe(store, safety, wanted, levels)
        merging.keep(store, merged, wanted)
        intent = Intent(
            verb=step.verb,
            session=session.id,
            workspace=str(root.path),
            command=command,
            at_ms=at_ms,
            safety=safety.oid,
            changes=tuple(PlannedChange(change.path, change.now, change.to) for change in wanted),
            made=made,
            operation=step.operation.id,
            seen=step.seen,
        )
        step.check(store)  # once it is noted it must be ended
        intents.write(store, root.path, intent)
        try:
            done = _carry_out(store, session, root, intent, step, levels)
        except Refused as error:  # a command was logged, or the talk went on, while files were written
            _put_back(store, session, root, intent, at_ms)
            raise Refused(f"{error}; the files are as they were", hint=error.hint) from error
    return dataclasses.replace(done, outcomes=_all(changes, done, unsafe))


def go_on(store: GitStore, session: StoredSession, root: WorkspaceRoot) -> RewindResult:
    """Finish what was begun in a workspace. Raises ``NotFound`` where nothing was, and as ``perform``."""
    with workspace_turn.turn(store, root.path):
        intent = _begun(store, session, root)
        if intents.is_done(store, intent):
            _sweep(root, intent)
            intents.remove(store, intent.workspace)
            return RewindResult(verb=intent.verb, workspace=str(root.path), branch=active(store, session.id))
        step = _step(store, intent)
        _sweep(root, intent)
        return _carry_out(store, session, root, intent, step, trees.TreeCache(store))


def abort(store: GitStore, session: StoredSession, root: WorkspaceRoot, clock: Clock) -> RewindResult:
    """Take back what was begun in a workspace.

    Raises ``NotFound`` where nothing was, and ``Refused`` where all of it was done.
    """
    with workspace_turn.turn(store, root.path):
        intent = _begun(store, session, root)
        if intents.is_done(store, intent):
            _sweep(root, intent)
            intents.remove(store, intent.workspace)
            raise Refused(f"{intent.command} was done already", hint="`gitsession undo` takes it back")
        _sweep(root, intent)
        outcomes = _put_back(store, session, root, intent, clock())
    return RewindResult(verb="abort", workspace=str(root.path), outcomes=outcomes, branch=active(store, session.id))


# ---- how


def _carry_out(
    store: GitStore, session: StoredSession, root: WorkspaceRoot, intent: Intent, step: operation_log.UndoStep | None,
    levels: trees.TreeCache
) -> RewindResult:
    """What follows the intent, from the beginning or from wherever a crash left it. ``step``: of an undo or redo."""
    content = _content(store)
    outcomes = restore(
        root, intent.changes, content=content, tag=intent.tag, bytes_max=OBJECT_BYTES_MAX, made=intent.made
    )
    done = {change.path: change.new for change, one in zip(intent.changes, outcomes, strict=True) if one.did == "done"}
    if step is None:
        branch, operation = finish_rewind(store, session, intent, root, done, levels), None
    else:
        branch, operation = finish_step(store, session, step, intent, root, done, levels)
    moved = branch != session.branch_name or bool(intent.place)
    session.branch_name = branch
    intents.remove(store, intent.workspace)
    return RewindResult(
        verb=intent.verb,
        workspace=str(root.path),
        outcomes=_told(intent.changes, outcomes),
        branch=branch,
        moved=moved,
        operation=operation,
    )


def _put_back(
    store: GitStore, session: StoredSession, root: WorkspaceRoot, intent: Intent, at_ms: int
) -> tuple[FileOutcome, ...]:
    """What follows the intent, backwards, however far it has come."""
    back = [PlannedChange(change.path, change.new, change.expected) for change in intent.changes]
    made = _folders_made(store, intent, back)
    outcomes = restore(root, back, content=_content(store), tag=intent.tag, bytes_max=OBJECT_BYTES_MAX, made=made)
    done = {change.path: change.new for change, one in zip(back, outcomes, strict=True) if one.did == "done"}
    with store.transaction() as tx:
        record(store, tx, intent, root, done, session.leaf, at_ms, always=False)
    intents.remove(store, intent.workspace)
    return _told(back, outcomes)


def _safety(
    store: GitStore, session: StoredSession, root: WorkspaceRoot, wanted: list[PathDecision], reason: str, at_ms: int,
    levels: trees.TreeCache,
) -> Point:  # fmt: skip
    """A checkpoint of all that will be written, as it is now."""
    paths = [os.fsdecode(names.unescape_path(change.path)) for change in wanted]
    why = CaptureReason(target=session.leaf, reason=reason)
    return capturing.take_in_turn(store, session.id, root, BEFORE, why, at_ms=at_ms, paths=paths, levels=levels)


def _kept_safe(
    store: GitStore, safety: Point, wanted: list[PathDecision], levels: trees.TreeCache
) -> tuple[list[PathDecision], tuple[FileOutcome, ...]]:
    """Of what is wanted, what may be written: its content is in the checkpoint. And what must not be."""
    held = trees.look_up(store, safety.files, [change.path for change in wanted], levels=levels)
    safe = [change for change in wanted if held[change.path] == change.now]
    unsafe = (FileOutcome(change.path, "left", UNSAFE) for change in wanted if held[change.path] != change.now)
    return safe, tuple(unsafe)


def _talk_only(store: GitStore, session: StoredSession, plan: RewindPlan, command: str, at_ms: int) -> RewindResult:
    branch = session.branch_name
    if plan.moves:
        with operation_log.recording(store, command, at_ms) as recorder:
            branch = session.go_on(recorder, plan.place, plan.onto)
        session.branch_name = branch
    return RewindResult(verb="rewind", workspace=plan.workspace, branch=branch, moved=plan.moves, prompt=plan.prompt)


def _step(store: GitStore, intent: Intent) -> operation_log.UndoStep | None:
    if intent.verb == "rewind":
        return None
    step = operation_log.next_step(store, intent.verb, lambda sid, _: sid == intent.session)
    if step.operation.id != intent.operation:
        raise Refused(
            f"{intent.command} cannot go on: other commands were logged since, and it takes back the last one only",
            hint="`gitsession rewind --abort` puts the files back as they were; then undo step by step",
        )
    return step


def _begun(store: GitStore, session: StoredSession, root: WorkspaceRoot) -> Intent:
    """What has not ended here; or elsewhere, where that workspace was moved since."""
    found = intents.read(store, root.path)
    if found is not None:
        return found
    for intent in intents.pending(store):
        if intent.session == session.id and not Path(intent.workspace).exists():
            return intent
    raise NotFound(f"nothing has been begun in {root.path}", hint="`gitsession rewind ENTRY` begins")


def _folders_made(store: GitStore, intent: Intent, back: list[PlannedChange]) -> set[str]:
    """Folders that we made, and that go if they are empty again."""
    above = folders_above(change.path for change in back if change.new is None)
    return above - trees.folders(store, files_of(store, intent.safety), above)


def _content(store: GitStore) -> Content:
    return lambda oid: store.read(oid)[1]


def _sweep(root: WorkspaceRoot, intent: Intent) -> None:
    sweep(root, [change.path for change in intent.changes], tag=intent.tag)


def _told(
    changes: tuple[PlannedChange, ...] | list[PlannedChange], outcomes: list[Restored]
) -> tuple[FileOutcome, ...]:
    found = []
    for change, one in zip(changes, outcomes, strict=True):
        did: Did = "left" if one.did != "done" else ("removed" if change.new is None else "written")
        found.append(FileOutcome(change.path, did, one.reason))
    return tuple(found)


def _all(
    changes: Sequence[PathDecision], done: RewindResult, unsafe: tuple[FileOutcome, ...]
) -> tuple[FileOutcome, ...]:
    """What became of every path that was considered, with the reasons that the plan had."""
    why = {change.path: change.why for change in changes}
    outcomes = [dataclasses.replace(one, why=one.why or why[one.path]) for one in done.outcomes]
    return tuple(sorted((*outcomes, *unsafe, *_left(changes)), key=lambda one: one.path))


def _left(changes: Sequence[PathDecision]) -> tuple[FileOutcome, ...]:
    return tuple(FileOutcome(change.path, "left", change.why) for change in changes if change.is_left)
