"""The API for the files in a session's workspace: checkpoints and rewinds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gitsession.api import workspaces
from gitsession.api.opened import Handle, restoring
from gitsession.checkpoints import capturing, history, planning
from gitsession.checkpoints.capturing import CaptureReason, Phase, Running
from gitsession.checkpoints.lookup import FileChange, Files, files_at
from gitsession.checkpoints.planning import RewindParts, RewindPlan
from gitsession.errors import require
from gitsession.sessions.node import Node
from gitsession.workspace.root import WorkspaceRoot
from gitsession.workspace.trees import CachedTrees

if TYPE_CHECKING:
    from gitsession.checkpoints.rewinding import RewindResult
    from gitsession.workspace.patches import FilePatch


class SessionFiles:
    """The files of a session's workspace: ``session.files`` (docs/explanation/checkpoints.md)."""

    def __init__(self, handle: Handle) -> None:
        self._opened = handle.opened
        self._handle = handle
        self._objects = handle.opened.objects
        self._session = handle.session
        self._running = Running()
        self._trees = CachedTrees(self._objects)
        """The trees of earlier plans. Most of their folders are in the next plan, too."""

    @contextmanager
    def checkpoint(
        self,
        workspace: str | Path | None = None,
        *,
        paths: Sequence[str | Path] | None = None,
        call: str | None = None,
        target: str | Node = "leaf",
        reason: str | None = None,
    ) -> Iterator[Node]:
        """Attribute file changes in a ``with`` block to the session: ``with session.files.checkpoint("."): run()``.

        Changes made before the block are not attributed to the session, unless another tool of the session is running.

        Args:
            workspace: The path of the workspace. Defaults to the workspace of the session.
            paths: The files that the tool can change. Only these files are captured. By default, the whole workspace
                is captured, except for ignored files (``.gitignore``).
            call: The id of the tool call.
            target: The entry with the tool call. If a message has several calls, pass this message: ``"leaf"`` is the
                result of the first call as soon as that result is appended.
            reason: A description of the checkpoint.

        Yields:
            The checkpoint with the files before the block.

        Raises:
            NotFound: The session has no entries yet, or its workspace cannot be found.
            Refused: The folder cannot be a workspace.
            Unavailable: Another process keeps capturing the folder.
        """
        node = self._resolve(target)
        self._session.check_view()
        why = CaptureReason(target=node, call=call, reason=reason)
        clock, sid = self._session.clock, self._session.id
        with (
            self._root(workspace) as root,
            capturing.around(self._objects, sid, root, why, clock=clock, running=self._running, paths=paths) as before,
        ):
            yield before

    @restoring
    def take_checkpoint(
        self,
        phase: Phase = "before",
        workspace: str | Path | None = None,
        *,
        paths: Sequence[str | Path] | None = None,
        call: str | None = None,
        target: str | Node = "leaf",
        reason: str | None = None,
    ) -> Node:
        """Record the files once, before or after a tool call, if the call cannot run in a ``checkpoint`` block.

        Args:
            phase: Whether changes since the last checkpoint belong to the session: ``"before"`` (no) or ``"after"``
                (yes). Use ``"after"`` only if a checkpoint was taken before the tool call.
            workspace: The path of the workspace. Defaults to the workspace of the session.
            paths: The files that the tool can change. Only these files are captured. By default, the whole workspace
                is captured, except for ignored files (``.gitignore``).
            call: The id of the tool call.
            target: The entry with the tool call. If a message has several calls, pass this message: ``"leaf"`` is the
                result of the first call as soon as that result is appended.
            reason: A description of the checkpoint.

        Returns:
            The new checkpoint, or the newest existing one if no file has changed.

        Raises:
            NotFound: The session has no entries yet, or its workspace cannot be found.
            Refused: The folder cannot be a workspace.
            Unavailable: Another process keeps capturing the folder.
        """
        self._session.check_view()
        why = CaptureReason(target=self._session.resolve(target), call=call, reason=reason)
        with self._root(workspace) as root:
            taken = capturing.take(
                self._objects, self._session.id, root, phase, why, at_ms=self._session.clock(), paths=paths
            )
            return taken.node

    @restoring
    def at(self, entry: str | Node | None = None) -> Files:
        """Return the files of an entry, as a mapping from each path to the oid of its content.

        For a message with tool calls, these are the files before the calls. For a tool result, they are the files after
        the call.

        Args:
            entry: The entry. Defaults to the newest checkpoint.

        Returns:
            The files in the newest checkpoint that existed at the entry, or for a message with tool calls, in the
            checkpoint that was taken before the calls. If all checkpoints are later, these are the files in the first
            checkpoint. If there are no checkpoints, the mapping is empty.

        Raises:
            NotFound: No entry matches the address.
            Ambiguous: Several entries match the address.
        """
        if entry is None:
            return Files(self._objects, history.newest(self._objects, self._session.id))
        return Files(self._objects, files_at(self._objects, self._session.id, self._session.resolve(entry)))

    @restoring
    def diff(self, at: str | Node, to: str | Node | None = None) -> list[FileChange]:
        """Return the files that differ between two entries. ``to`` defaults to the newest checkpoint."""
        return self.at(at).diff(self.at(to))

    @restoring
    def patch(self, at: str | Node, to: str | Node | None = None, *, paths: Collection[str] = ()) -> list[FilePatch]:
        """Compare the files at two entries line by line.

        Args:
            at: The first entry.
            to: The second entry. Defaults to the newest checkpoint.
            paths: The files and folders to compare. Defaults to all files.

        Returns:
            The patch of each file, with renames and the number of added and deleted lines. The patch of a file that is
            too large to compare has no text.

        Raises:
            NotFound: No entry matches an address.
            MissingObject: The content of a file is lost.
            Corrupt: The content of a file is damaged.
        """
        return self.at(at).patch(self.at(to), paths)

    @restoring
    def plan_rewind(
        self, at: str | Node, parts: RewindParts = "both", *, workspace: str | Path | None = None, force: bool = False
    ) -> RewindPlan:
        """Plan a rewind. Nothing is changed.

        Args:
            at: The entry to return to. If the entry is a prompt, the conversation continues from the point before the
                prompt. The restored files are those that ``SessionFiles.at`` returns: for a message with tool calls,
                the files before the calls, and for a tool result, the files after the call.
            parts: The data to restore: ``"both"``, ``"conversation"`` or ``"files"``.
            workspace: The path of the workspace. Defaults to the workspace of the session.
            force: Whether to also revert changes that are not attributed to the session.

        Returns:
            The plan, with the files that would be written, and the reasons why other files would be left unchanged.

        Raises:
            NotFound: The workspace cannot be found, or ``parts`` is ``"files"`` and the session has no checkpoints.
            InvalidName: ``parts`` is unknown.
        """
        node = self._session.resolve(at)
        if parts != "files" and (parts != "both" or history.newest(self._objects, self._session.id) is None):
            return planning.plan(self._objects, self._session, node, parts)
        with self._root(workspace, writes=True) as root:
            trees = self._trees
            return planning.plan(self._objects, self._session, node, parts, root=root, force=force, file_trees=trees)

    def rewind(self, plan: RewindPlan) -> RewindResult:
        """Restore the files and the conversation of an entry according to a plan. ``Store.undo`` can undo the rewind.

        If the entry is a message with tool calls, the files are restored to their state before the calls. If it is a
        tool result, they are restored to their state after the call. This handle moves to the branch on which the
        conversation continues.

        Args:
            plan: A plan that ``plan_rewind`` returned.

        Returns:
            The outcome for each file, and the branch.

        Raises:
            Refused: Another rewind in this workspace is unfinished.
            Unavailable: A file cannot be written. Call ``finish_rewind`` or ``abort_rewind``.
            ValueError: The plan is for another session.
            TypeError: ``plan`` is not a ``RewindPlan``.
        """
        from gitsession.checkpoints import rewinding

        require(plan, RewindPlan, "a plan, as in session.files.rewind(session.files.plan_rewind(entry))")
        if plan.session != self._session.id:
            raise ValueError(f"the plan is for session {plan.session}, not for {self._session.id}")
        self._session.check_view()
        if plan.workspace is None:
            return rewinding.perform(self._objects, self._session, plan, None, self._session.clock)
        with self._root(plan.workspace) as root:
            return rewinding.perform(self._objects, self._session, plan, root, self._session.clock)

    def finish_rewind(self, workspace: str | Path | None = None) -> RewindResult:
        """Complete an interrupted rewind or undo.

        Args:
            workspace: The path of the workspace. Defaults to the workspace of the session.

        Returns:
            The outcome for each file, and the branch.

        Raises:
            NotFound: There is no interrupted rewind or undo in this workspace.
        """
        from gitsession.checkpoints import rewinding

        with self._root(workspace, writes=True) as root:
            return rewinding.resume(self._objects, self._session, root)

    def abort_rewind(self, workspace: str | Path | None = None) -> RewindResult:
        """Abort an interrupted rewind or undo, and restore the files as they were before it.

        Args:
            workspace: The path of the workspace. Defaults to the workspace of the session.

        Returns:
            The outcome for each file.

        Raises:
            NotFound: There is no interrupted rewind or undo in this workspace.
            Refused: The rewind or undo was already completed.
        """
        from gitsession.checkpoints import rewinding

        with self._root(workspace, writes=True) as root:
            return rewinding.abort(self._objects, self._session, root, self._session.clock)

    @restoring
    def _resolve(self, at: str | Node) -> Node:
        return self._session.resolve(at)

    def _root(self, path: workspaces.WorkspacePath, *, writes: bool = False) -> WorkspaceRoot:
        return workspaces.open_root(self._opened, self._session.id, path, writes=writes)
