"""Methods of ``gitsession rpc`` for the files of a session: checkpoints, rewinds, and undo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import gitsession
from gitsession.checkpoints.planning import RewindParts
from gitsession.checkpoints.rewind_decisions import PathDecision
from gitsession.checkpoints.rewinding import FileOutcome
from gitsession.cli.rpc.results import Checkpointed, Rewind, Undone
from gitsession.cli.rpc.service import RpcService
from gitsession.model.entries import Checkpoint


def take_checkpoint(
    service: RpcService,
    session: str,
    workspace: str | None = None,
    phase: Literal["before", "after"] = "before",
    call: str | None = None,
    reason: str | None = None,
) -> Checkpointed:
    """Record the files of a session's workspace.

    Args:
        session: The session.
        workspace: Folder of the workspace. Default: that of the session.
        phase: Whether changes since the last checkpoint belong to the session: `before` (no) or `after` (yes).
        call: Id of the tool call.
        reason: Description of the checkpoint.
    """
    found = service.session(session)
    node = found.files.take_checkpoint(phase, workspace, call=call, reason=reason)
    entry = found.read(node)
    skipped = entry.skipped if isinstance(entry, Checkpoint) else ()
    return {
        "session": found.id,
        "id": node.oid,
        "files": len(found.files.at()),
        "skipped": [{"path": path, "why": why} for path, why in skipped],
    }


def plan_rewind(
    service: RpcService,
    session: str,
    at: str,
    parts: RewindParts = "both",
    workspace: str | None = None,
    force: bool = False,
) -> Rewind:
    """Return what a rewind to an entry would change. Nothing is changed.

    Args:
        session: The session.
        at: The entry.
        parts: The data to restore.
        workspace: Folder of the workspace. Default: that of the session.
        force: Whether to also revert changes that do not belong to the session.
    """
    found = service.session(session)
    plan = found.files.plan_rewind(at, parts, workspace=workspace, force=force)
    return _rewind(found, plan, plan.branch or None, plan.moves, plan.changes)


def perform_rewind(
    service: RpcService,
    session: str,
    at: str,
    parts: RewindParts = "both",
    workspace: str | None = None,
    force: bool = False,
) -> Rewind:
    """Restore the files and the conversation of an entry. `undo` reverts it.

    Args:
        session: The session.
        at: The entry.
        parts: The data to restore.
        workspace: Folder of the workspace. Default: that of the session.
        force: Whether to also revert changes that do not belong to the session.
    """
    found = service.session(session)
    plan = found.files.plan_rewind(at, parts, workspace=workspace, force=force)
    done = found.files.rewind(plan)
    return _rewind(found, plan, done.branch, done.moved, done.outcomes)


def undo(service: RpcService, session: str | None = None, workspace: str | None = None) -> Undone:
    """Undo the last operation.

    Args:
        session: Undo the last operation on this session. Default: on any session.
        workspace: Folder in which files are restored.
    """
    return _undone(service.store.undo(workspace, session=session))


def redo(service: RpcService, session: str | None = None, workspace: str | None = None) -> Undone:
    """Redo the operation that was undone last.

    Args:
        session: Redo an operation on this session. Default: on any session.
        workspace: Folder in which files are restored.
    """
    return _undone(service.store.redo(workspace, session=session))


def _rewind(
    session: gitsession.Session,
    plan: gitsession.RewindPlan,
    branch: str | None,
    moved: bool,
    files: Sequence[PathDecision | FileOutcome],
) -> Rewind:
    return {
        "session": session.id,
        "branch": branch,
        "moved": moved,
        "place": plan.new_tip.oid,
        "prompt": plan.prompt,
        "workspace": plan.workspace,
        "files": _files(files),
    }


def _files(changes: Sequence[PathDecision | FileOutcome]) -> list[dict[str, str]]:
    return [{"path": one.path, "action": one.action, "why": one.reason} for one in changes]


def _undone(done: gitsession.RewindResult) -> Undone:
    command = done.operation.command if done.operation is not None else ""
    return {"command": command, "workspace": done.workspace, "files": _files(done.outcomes)}
