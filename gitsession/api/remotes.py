"""Other repositories, at the front door. What sync needs is loaded by the first call that needs it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gitsession.api.opened import Opened
from gitsession.store import refs

if TYPE_CHECKING:
    from gitsession.sync.remotes import Remote
    from gitsession.sync.syncing import SyncReport
    from gitsession.sync.transport import Talk


class Syncing(Opened):
    """What ``Store`` does with other repositories."""

    def remotes(self) -> list[Remote]:
        """Other repositories, by name. Git's own configuration has them."""
        from gitsession.sync import remotes

        return remotes.listed(self.objects.git_dir)

    def add_remote(self, name: str, url: str, *, namespace: str = "", home: bool = False) -> Remote:
        """Remember a repository. ``namespace``: it is shared with code, sessions lie below ``refs/<namespace>/``.

        ``home``: of several, it rules names. Raises ``InvalidName`` and ``Refused``.
        """
        from gitsession.sync import remotes

        return remotes.add(self.objects.git_dir, name, url, namespace=namespace, home=home)

    def remove_remote(self, name: str) -> Remote:
        """Forget one; what came from it stays. Raises ``NotFound``."""
        from gitsession.sync import remotes

        return remotes.remove(self.objects.git_dir, name)

    def pull(self, remote: str = "", *, talk: Talk | None = None) -> SyncReport:
        """Take in what a remote has, by default the home remote (docs/sync.md).

        ``talk``: how git talks to the user meanwhile; without, it says and asks nothing. Raises ``NotFound``,
        ``Refused`` and ``Unavailable``.
        """
        from gitsession.sync import syncing

        return syncing.pull(self.objects, self._remote(remote), talk or _silent())

    def push(self, remote: str = "", *, sessions: Iterable[str] = (), talk: Talk | None = None) -> SyncReport:
        """Send what a remote lacks, of all sessions or of those named. Nothing is forced. Raises as ``pull``."""
        from gitsession.sync import syncing

        sids = [self._row(session).sid for session in sessions]
        return syncing.push(self.objects, self._remote(remote), talk or _silent(), sessions=sids)

    def sync(self, remote: str = "", *, talk: Talk | None = None) -> SyncReport:
        """Both, until both have the same. Raises as ``pull``."""
        from gitsession.sync import syncing

        return syncing.sync(self.objects, self._remote(remote), talk or _silent())

    def bundle(self, path: str | Path, sessions: Iterable[str] = ()) -> list[str]:
        """Put sessions, or all, into a new file; their ids. Raises ``Refused``, ``NotFound`` and ``Unavailable``."""
        from gitsession.sync import bundles

        sids = [self._row(session).sid for session in sessions]
        return sorted({refs.session_of(ref) for ref in bundles.write(self.objects, Path(path), sids)})

    def unbundle(self, path: str | Path, *, talk: Talk | None = None) -> SyncReport:
        """Take in what is in such a file. A line that went on without ours comes in beside it. Raises as ``pull``."""
        from gitsession.sync import bundles

        return bundles.take(self.objects, Path(path), talk or _silent())

    def _remote(self, named: str) -> Remote:
        """A remote by its name, or by its address."""
        from gitsession.sync import remotes

        if "/" in named or ":" in named:
            where = os.path.normpath(remotes.address(named))
            named = next((one.name for one in self.remotes() if os.path.normpath(one.url) == where), named)
        return remotes.find(self.objects.git_dir, named)


def _silent() -> Talk:
    from gitsession.sync.transport import Talk

    return Talk()
