"""The files of a session, at the front door: checkpoints, and rewinds to them.

What they need is loaded with the first of them: a list or an append starts without it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from gitsession.api.handle import Handle
from gitsession.sessions.node import Node

if TYPE_CHECKING:
    from gitsession.api.workspaces import WorkspaceDoor
    from gitsession.checkpoints.at import FileChange, Files
    from gitsession.checkpoints.capturing import Phase
    from gitsession.checkpoints.planning import RewindPlan, What
    from gitsession.checkpoints.rewinding import Rewound
    from gitsession.workspace.patches import FilePatch


class Checkpoints(Handle):
    """What ``Session`` does with the files of a workspace."""

    def checkpoint(
        self,
        workspace: str | Path | None = None,
        *,
        paths: Sequence[str | Path] | None = None,
        call: str | None = None,
        target: str | Node = "leaf",
        reason: str | None = None,
    ) -> AbstractContextManager[Node]:
        """Round a tool: ``with session.checkpoint("."): run()`` keeps what the tool changed in a folder, and what not.

        ``paths``: the only ones that it can change; else all of the folder is looked at, by the rules of its
        ``.gitignore``. ``call``: the tool call's id; ``target``: the entry that called it. docs/checkpoints.md.
        Raises ``NotFound`` where nobody has spoken in the session yet, ``Refused`` for a folder that is no workspace.
        """
        self._session.check_view()
        why = self._files.why(self._session.resolve(target), call, reason)
        return self._files.around(workspace, why, paths, self._running)

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
        """One look, for whoever cannot stand round a tool: ``before`` it, and ``after`` it.

        What differs ``before`` is not the session's, and what differs ``after`` is, so who could not look before a
        tool must not say ``after``. Where nothing differs the newest checkpoint comes back.
        """
        self._session.check_view()
        why = self._files.why(self._session.resolve(target), call, reason)
        return self._files.take(workspace, phase, why, paths)

    def files(self, at: str | Node | None = None) -> Files:
        """The files as they were at an entry, as far as checkpoints tell; by default, as they were seen last."""
        return self._files.newest() if at is None else self._files.at(self._session.resolve(at))

    def diff(self, at: str | Node, to: str | Node | None = None) -> list[FileChange]:
        """What became of the files from one entry to another, by default to the newest checkpoint."""
        return self.files(at).diff(self.files(to))

    def patch(self, at: str | Node, to: str | Node | None = None, *, paths: Collection[str] = ()) -> list[FilePatch]:
        """Compare the files at one entry with those at another, by default with the newest checkpoint.

        Returns the patch of each file, with the lines added and deleted, and with renames. ``paths``: only files at or
        below these. What is too large to compare soon has no text. Raises ``MissingObject`` and ``Corrupt`` for a
        content that cannot be read.
        """
        return self.files(at).patch(self.files(to), paths)

    def plan_rewind(
        self, at: str | Node, what: What = "both", *, workspace: str | Path | None = None, force: bool = False
    ) -> RewindPlan:
        """What ``rewind`` would do, without doing it: which files, and why it leaves others (docs/checkpoints.md).

        ``at``: an entry; of one in which the user spoke, the talk goes on before it. ``force``: what others than the
        session changed goes too. Raises ``NotFound`` where the workspace is not here, or has no checkpoints.
        """
        return self._files.plan(self._session, self._session.resolve(at), what, workspace, force=force)

    def rewind(self, plan: RewindPlan) -> Rewound:
        """Files and talk as they were at an entry, as planned; ``Store.undo`` takes it back.

        This handle then is on the branch where the talk goes on. Raises ``Refused`` where another rewind has not
        ended, and ``Unavailable``: then ``finish_rewind`` or ``abort_rewind`` follow.
        Raises ``TypeError`` for anything but a plan.
        """
        return self._files.rewind(self._session, plan)

    def finish_rewind(self, workspace: str | Path | None = None) -> Rewound:
        """Do the rest of a rewind, or of an undo, that was killed. Raises ``NotFound`` where none was."""
        return self._files.finish(self._session, workspace)

    def abort_rewind(self, workspace: str | Path | None = None) -> Rewound:
        """Put the files back as they were before a rewind, or an undo, that was killed."""
        return self._files.abort(self._session, workspace)

    @property
    def _files(self) -> WorkspaceDoor:
        from gitsession.api.workspaces import WorkspaceDoor

        return WorkspaceDoor(self._objects, self._catalogues, self.id, self._session.clock)
