"""Undo and redo of an operation: its refs in the store, and the files that the operation wrote in a workspace."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gitsession.checkpoints.planning import created_folders, current_state
from gitsession.checkpoints.rewind_decisions import Merge, PathDecision, revert
from gitsession.checkpoints.rewind_merges import Merges
from gitsession.checkpoints.rewinding import RewindResult, RewindRun, take_step
from gitsession.errors import Corrupt
from gitsession.git.types import Oid
from gitsession.model.entries import Checkpoint
from gitsession.sessions import operation_log
from gitsession.sessions.active_branch import active, selected_branch
from gitsession.sessions.content import entry_of, files_of
from gitsession.sessions.graph import branches
from gitsession.sessions.node import load
from gitsession.sessions.operation_log import Operation, UndoScope, UndoStep, Verb, WorkspaceWrite
from gitsession.sessions.session import Clock, StoredSession
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.workspace.root import WorkspaceRoot
from gitsession.workspace.trees import CachedTrees

_REASONS = {"undo": "its state before the command", "redo": "its state after the command"}


def take_next(
    store: GitStore,
    verb: Verb,
    clock: Clock,
    *,
    open_root: Callable[[WorkspaceWrite], WorkspaceRoot],
    open_session: Callable[[str], StoredSession],
    scope: UndoScope = operation_log.unlimited,
) -> RewindResult:
    """Undo the newest command in ``scope`` that has not been undone, or redo the command that was undone last.

    A file that has not changed since the command gets its state before the command (for a redo, after the command). A
    file that has changed since then is merged. If a merge is not possible, the file is kept and reported. Raises
    ``NotFound`` if there is no such command, and ``Refused`` if work would be lost.

    ``open_root``: a function that opens the workspace to which an operation wrote. ``open_session``: a function that
    opens a session by its id.
    """
    step = operation_log.next_step(store, verb, scope)
    files = step.operation.files
    if files is None:
        operation = operation_log.apply_next(store, verb, clock(), scope)
        branch, moved = _conversation(store, operation)
        return RewindResult(verb=verb, branch=branch, moved=moved, operation=operation)
    step.check(store)
    with open_root(files) as root:
        ends = [files_of(store, files.safety), files_of(store, files.result)]
        if verb == "undo":
            ends.reverse()
        run = RewindRun(store, open_session(files.session), root, tree=ends[1])
        merges = Merges(store, root)
        changes, made = plan_step(store, step, files, ends, root, run.file_trees, merges)
        return take_step(run, step, changes, made, merges.made, clock)


def _conversation(store: GitStore, operation: Operation) -> tuple[str, bool]:
    """Return the active branch of the operation's session, and whether the operation moved it.

    The branch is "" if the operation changed several sessions or removed the session. It is also "" if the operation
    moved no branch, the session has several branches, and the user has selected none of them. In that case, the active
    branch is not determined, because this would require reading all tips.
    """
    sids = operation.sessions
    sid = next(iter(sids), "")
    if len(sids) != 1:
        return "", False
    chosen = refs.active(sid)
    moved = {move.ref for move in operation.moves if move.ref == chosen or (move.old and move.new)}
    is_moved = chosen in moved or any(refs.choice(name) == chosen for name in moved)
    if not is_moved:
        selected = selected_branch(store, sid)
        if selected is not None:
            return selected, False
    leaves = branches(store, sid)
    if not leaves or (not is_moved and len(leaves) > 1):
        return "", False
    branch = active(store, sid)
    return branch, bool(moved & {chosen, refs.leaf(sid, branch)})


def plan_step(
    store: GitStore, step: UndoStep, files: WorkspaceWrite, ends: Sequence[Oid | None], root: WorkspaceRoot,
    file_trees: CachedTrees, merge: Merge,
) -> tuple[list[PathDecision], tuple[str, ...]]:  # fmt: skip
    """Return the decisions about the files of a step, and the folders to remove if they are empty after the writes.

    ``ends``: the trees of the files before and after the step.
    """
    entry = entry_of(store, load(store, files.result))
    if not isinstance(entry, Checkpoint):
        oid = files.result
        what = f"cannot read checkpoint {oid}: its payload is not a valid checkpoint"
        raise Corrupt(what, hint="run `gitsession repair`")
    paths = entry.paths
    before, after = (file_trees.look_up(tree, paths) for tree in ends)
    root.forget()
    pairs = {path: (before[path], after[path]) for path in paths if before[path] != after[path]}
    now = {path: current_state(root, path) for path in pairs}
    changes = revert(pairs, now, reason=_REASONS[step.verb], merge=merge)
    removed = [change.path for change in changes if change.action == "remove"]
    return changes, created_folders(file_trees, ends[1], removed)
