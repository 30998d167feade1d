"""Undo and redo, whatever the operation did: refs in the store, and files in a workspace where it wrote any."""

from __future__ import annotations

from collections.abc import Callable

from gitsession.checkpoints.planning import folders_above, now_of
from gitsession.checkpoints.rewind_decisions import Merge, PathDecision, revert
from gitsession.checkpoints.rewind_merges import Merges
from gitsession.checkpoints.rewinding import RewindResult, RewindRun, take_step
from gitsession.errors import Corrupt
from gitsession.model.entries import Checkpoint
from gitsession.sessions import operation_log
from gitsession.sessions.content import entry_of, files_of
from gitsession.sessions.node import load
from gitsession.sessions.operation_log import UndoScope, UndoStep, Verb, WorkspaceWrite
from gitsession.sessions.session import Clock, StoredSession
from gitsession.store.git_store import GitStore
from gitsession.workspace import trees
from gitsession.workspace.root import WorkspaceRoot

WHY = {"undo": "as it was before", "redo": "as it had become"}


def take_next(
    store: GitStore,
    verb: Verb,
    clock: Clock,
    *,
    open_root: Callable[[WorkspaceWrite], WorkspaceRoot],
    open_session: Callable[[str], StoredSession],
    scope: UndoScope = operation_log.anywhere,
) -> RewindResult:
    """Take back the newest command of ``scope`` that stands, or do again what was undone last.

    ``open_root``: the workspace that an operation wrote to. Of its files, those that are still as it left them become
    what they were. What was changed since is merged; where it cannot be, the file stays, and is told. Raises
    ``NotFound``, and ``Refused`` where work would be lost.
    """
    step = operation_log.next_step(store, verb, scope)
    files = step.operation.files
    if files is None:
        operation = (operation_log.undo if verb == "undo" else operation_log.redo)(store, clock(), scope)
        return RewindResult(verb=verb, operation=operation)
    step.check(store)
    with open_root(files) as root:
        run = RewindRun(store, open_session(files.session), root)
        merges = Merges(store, root)
        changes, made = plan_step(store, step, files, root, run.levels, merges)
        return take_step(run, step, changes, made, merges.made, clock)


def plan_step(
    store: GitStore, step: UndoStep, files: WorkspaceWrite, root: WorkspaceRoot, levels: trees.TreeCache, merge: Merge
) -> tuple[list[PathDecision], tuple[str, ...]]:
    """What becomes of the files of an operation, and the folders that go if they are empty then."""
    entry = entry_of(store, load(store, files.result))
    if not isinstance(entry, Checkpoint):
        raise Corrupt(f"the checkpoint {files.result} cannot be read", hint="`gitsession repair` may mend it")
    paths = entry.paths
    ends = [files_of(store, files.safety), files_of(store, files.result)]
    if step.verb == "undo":
        ends.reverse()
    before, after = (trees.look_up(store, tree, paths, levels=levels) for tree in ends)
    root.forget()
    pairs = {path: (before[path], after[path]) for path in paths if before[path] != after[path]}
    changes = revert(pairs, {path: now_of(root, path) for path in pairs}, why=WHY[step.verb], merge=merge)
    gone = folders_above(change.path for change in changes if change.action == "remove")
    return changes, tuple(sorted(gone - trees.folders(store, ends[1], gone, levels=levels)))
