"""Other repositories, at the front door. What sync needs is loaded by the first call that needs it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gitsession.api.opened import Opened
from gitsession.discovery import projects
from gitsession.errors import NotFound
from gitsession.formats import FORMATS
from gitsession.index import names
from gitsession.index.here import is_of
from gitsession.store import refs

if TYPE_CHECKING:
    from gitsession.index.catalogue import Row
    from gitsession.sync.pushing import Standing
    from gitsession.sync.remotes import Remote
    from gitsession.sync.syncing import SyncReport
    from gitsession.sync.transport import Talk


@dataclass(frozen=True, slots=True)
class PushPlan:
    """The sessions that a push to ``remote`` would send.

    ``is_first``: nobody has agreed yet to what the remote takes: it was not added with ``all``, not cloned from, and no
    push or sync of all that is in its scope has sent a session.
    ``archived``: the ids of sessions that the archive would take along, though none of their branches is sent.
    """

    remote: str
    sessions: tuple[Row, ...]
    is_first: bool
    archived: tuple[str, ...] = ()


class Syncing(Opened):
    """What ``Store`` does with other repositories."""

    def remotes(self) -> list[Remote]:
        """Other repositories, by name. Git's own configuration has them."""
        from gitsession.sync import remotes

        return remotes.listed(self.objects.git_dir)

    def add_remote(
        self,
        name: str,
        url: str,
        *,
        namespace: str = "",
        home: bool = False,
        projects: Iterable[str] = (),
        agents: Iterable[str] = (),
        labels: Iterable[str] = (),
        all: bool = False,
    ) -> Remote:
        """Remember a repository. ``namespace``: it is shared with code, sessions lie below ``refs/<namespace>/``.

        ``home``: of several, it rules names. ``projects`` (folders or identities), ``agents``, ``labels``: its scope;
        other sessions are not sent to it (docs/sync.md). ``all``: all sessions, and the commands do not ask before the
        first push. Raises ``InvalidName``, ``Refused``, and ``NotFound`` for an agent that does not exist.
        """
        from gitsession.sync import remotes

        agents = tuple(agents)
        known = {*FORMATS, *(row.agent for row in self.catalogue().sessions())} if agents else frozenset()
        if unknown := sorted({*agents} - known - {""}):
            hint = f"there are {', '.join(sorted(known))}"
            raise NotFound(f"cannot add {name[:80]!r}: there is no agent {unknown[0][:80]!r}", hint=hint)
        scope = remotes.Scope(projects=tuple(projects), agents=agents, labels=tuple(labels), is_all=all)
        return remotes.add(self.objects.git_dir, name, url, namespace=namespace, home=home, scope=scope)

    def plan_push(self, remote: str = "") -> PushPlan:
        """Return the sessions that a push would send, as far as was seen of the remote.

        Nothing is sent, and the remote is not asked. Raises ``NotFound`` and ``Unavailable``.
        """
        from gitsession.sync import pushing

        found = self._remote(remote)
        among = self._among(found)
        sids = set(pushing.sessions_to_send(self.objects, found, among))
        archived = pushing.sessions_only_archived(self.objects, found, among)
        rows = tuple(row for row in self.catalogue().sessions() if row.sid in sids)
        return PushPlan(found.name, rows, not found.is_agreed, tuple(archived))

    def standing(self, remote: Remote) -> Standing:
        """Return what a remote lacks of what is in its scope, as far as was seen of it. It is not asked."""
        from gitsession.sync import pushing

        return pushing.standing_of(self.objects, remote, self._among(remote))

    def unmatched_scope(self, remote: Remote) -> list[tuple[str, str]]:
        """Return the projects, agents and labels in the scope of a remote that no session has, each with its kind."""
        from gitsession.sync.remotes import Scope

        alone = [("project", value, Scope(projects=(value,))) for value in remote.scope.projects]
        alone += [("agent", value, Scope(agents=(value,))) for value in remote.scope.agents]
        alone += [("label", value, Scope(labels=(value,))) for value in remote.scope.labels]
        return [(kind, value) for kind, value, scope in alone if not self._among(replace(remote, scope=scope))]

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
        found = self._remote(remote)
        report = syncing.push(self.objects, found, talk or _silent(), sessions=sids, among=self._among(found))
        if not sids:
            self._agree(found, report)
        return report

    def sync(self, remote: str = "", *, talk: Talk | None = None) -> SyncReport:
        """Both, until both have the same. Raises as ``pull``."""
        from gitsession.sync import syncing

        found = self._remote(remote)
        report = syncing.sync(self.objects, found, talk or _silent(), among=self._among(found))
        self._agree(found, report)
        return report

    def bundle(self, path: str | Path, sessions: Iterable[str] = ()) -> list[str]:
        """Put sessions, or all, into a new file; their ids. Raises ``Refused``, ``NotFound`` and ``Unavailable``."""
        from gitsession.sync import bundles

        sids = [self._row(session).sid for session in sessions]
        return sorted({refs.session_of(ref) for ref in bundles.write(self.objects, Path(path), sids)})

    def unbundle(self, path: str | Path, *, talk: Talk | None = None) -> SyncReport:
        """Take in what is in such a file. A line that went on without ours comes in beside it. Raises as ``pull``."""
        from gitsession.sync import bundles

        return bundles.take(self.objects, Path(path), talk or _silent())

    def _agree(self, remote: Remote, report: SyncReport) -> None:
        """Record that what is in the scope of a remote may go there, if any of it was sent."""
        from gitsession.sync import remotes

        if any(refs.session_of(ref) or ref == refs.ARCHIVE for ref in report.pushed):
            remotes.agree(self.objects.git_dir, remote)

    def _among(self, remote: Remote) -> frozenset[str] | None:
        """Return the sessions in the scope of a remote; ``None`` where it has none."""
        scope = remote.scope
        if not scope.is_limited:
            return None
        catalogue = self.catalogue()
        folders = {project: projects.identity_of(Path(project)) for project in scope.projects}
        found = {
            row.sid
            for row in catalogue.sessions()
            if (not folders or any(is_of(row, *item) for item in folders.items()))
            and (not scope.agents or row.agent in scope.agents)
        }
        if scope.labels:
            labels = {sid: names.names(catalogue, sid).labels.values() for sid in found}
            found = {sid for sid in found if not set(scope.labels).isdisjoint(labels[sid])}
        return frozenset(found)

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
