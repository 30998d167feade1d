"""The files of a session: checkpoints, and rewinds to them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gitsession.api import workspaces
from gitsession.api.opened import Handle
from gitsession.checkpoints import capturing, history, planning, rewinding
from gitsession.checkpoints.capturing import CaptureReason, Phase, Running
from gitsession.checkpoints.lookup import FileChange, Files, files_at
from gitsession.checkpoints.planning import RewindPlan, What
from gitsession.checkpoints.rewinding import RewindResult
from gitsession.errors import require
from gitsession.sessions.node import Node
from gitsession.workspace.patches import FilePatch
from gitsession.workspace.root import WorkspaceRoot


class SessionFiles:
    """The files of a session's workspace: ``session.files`` (docs/explanation/checkpoints.md)."""

    def __init__(self, handle: Handle) -> None:
        self._opened = handle.opened
        self._objects = handle.opened.objects
        self._session = handle.session
        self._running = Running()

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
        """Record what a tool changes in a folder, and what not: ``with session.files.checkpoint("."): run()``.

        ``paths``: the only ones that it can change; else all of the folder is looked at, by the rules of its
        ``.gitignore``. ``call``: the tool call's id; ``target``: the entry that called it.
        Raises ``NotFound`` where nobody has spoken in the session yet, ``Refused`` for a folder that is no workspace.
        """
        self._session.check_view()
        why = CaptureReason(target=self._session.resolve(target), call=call, reason=reason)
        clock, sid = self._session.clock, self._session.id
        with (
            self._root(workspace) as root,
            capturing.around(
                self._objects, sid, root, why, clock=clock, running=self._running, paths=paths
            ) as before,
        ):
            yield before

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
        """Record the files once, ``before`` or ``after`` a tool, if ``checkpoint`` cannot be used around it.

        What differs ``before`` is not the session's, and what differs ``after`` is, so who could not look before a
        tool must not say ``after``. Where nothing differs the newest checkpoint comes back.
        """
        self._session.check_view()
        why = CaptureReason(target=self._session.resolve(target), call=call, reason=reason)
        with self._root(workspace) as root:
            taken = capturing.take(
                self._objects, self._session.id, root, phase, why, at_ms=self._session.clock(), paths=paths
            )
            return taken.node

    def at(self, entry: str | Node | None = None) -> Files:
        """Return the files as they were at an entry, as far as checkpoints tell; by default the newest."""
        if entry is None:
            return Files(self._objects, history.newest(self._objects, self._session.id))
        return Files(self._objects, files_at(self._objects, self._session.id, self._session.resolve(entry)))

    def diff(self, at: str | Node, to: str | Node | None = None) -> list[FileChange]:
        """List the files that differ between two entries, by default between one and the newest checkpoint."""
        return self.at(at).diff(self.at(to))

    def patch(self, at: str | Node, to: str | Node | None = None, *, paths: Collection[str] = ()) -> list[FilePatch]:
        """Compare the files at one entry with those at another, by default with the newest checkpoint.

        Returns the patch of each file, with the lines added and deleted, and with renames. ``paths``: only files at or
        below these. What is too large to compare soon has no text. Raises ``MissingObject`` and ``Corrupt`` for a
        content that cannot be read.
        """
        return self.at(at).patch(self.at(to), paths)

    def plan_rewind(
        self, at: str | Node, what: What = "both", *, workspace: str | Path | None = None, force: bool = False
    ) -> RewindPlan:
        """Plan a rewind without doing it: the files that it writes, and the reasons why it leaves others.

        ``at``: an entry; of one in which the user spoke, the conversation goes on before it. ``force``: what
        others than the session changed goes too. Raises ``NotFound`` where the workspace is not here, or has no
        checkpoints.
        """
        node = self._session.resolve(at)
        if what != "files" and (what != "both" or history.newest(self._objects, self._session.id) is None):
            return planning.plan(self._objects, self._session, node, what)
        with self._root(workspace, writes=True) as root:
            return planning.plan(self._objects, self._session, node, what, root=root, force=force)

    def rewind(self, plan: RewindPlan) -> RewindResult:
        """Restore the files and the conversation of an entry, as planned; ``Store.undo`` takes it back.

        The handle of the session then is on the branch where the conversation goes on. Raises ``Refused`` where another
        rewind has not ended, and ``Unavailable``: then ``finish_rewind`` or ``abort_rewind`` follow. Raises
        ``TypeError`` for anything but a plan.
        """
        require(plan, RewindPlan, "a plan, as in session.files.rewind(session.files.plan_rewind(entry))")
        if plan.session != self._session.id:
            raise ValueError(f"a plan of session {plan.session}, not of {self._session.id}")
        self._session.check_view()
        if plan.workspace is None:
            return rewinding.perform(self._objects, self._session, plan, None, self._session.clock)
        with self._root(plan.workspace) as root:
            return rewinding.perform(self._objects, self._session, plan, root, self._session.clock)

    def finish_rewind(self, workspace: str | Path | None = None) -> RewindResult:
        """Do the rest of a rewind, or of an undo, that was killed. Raises ``NotFound`` where none was."""
        with self._root(workspace, writes=True) as root:
            return rewinding.go_on(self._objects, self._session, root)

    def abort_rewind(self, workspace: str | Path | None = None) -> RewindResult:
        """Put the files back as they were before a rewind, or an undo, that was killed."""
        with self._root(workspace, writes=True) as root:
            return rewinding.abort(self._objects, self._session, root, self._session.clock)

    def _root(self, given: workspaces.Given, *, writes: bool = False) -> WorkspaceRoot:
        return workspaces.open_root(self._opened, self._session.id, given, writes=writes)
