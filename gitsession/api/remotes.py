"""Other repositories that sessions are synced with."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from gitsession.api.opened import OpenStore
from gitsession.discovery import projects
from gitsession.errors import NotFound
from gitsession.formats import FORMATS
from gitsession.index import names
from gitsession.index.catalogue import Row
from gitsession.index.current_folder import is_of
from gitsession.store import refs
from gitsession.sync import cloning, pushing, remotes, syncing
from gitsession.sync.pushing import RemoteStatus
from gitsession.sync.remotes import Remote, Scope
from gitsession.sync.syncing import SyncReport
from gitsession.sync.transport import TransportOptions


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


class Remotes:
    """The remotes of a store: ``store.remotes``. A remote is named by its name or its URL, the home remote by ``""``.

    ``talk``: how git reports progress and asks for passwords; by default it does neither.
    """

    def __init__(self, opened: OpenStore) -> None:
        self._opened = opened
        self._objects = opened.objects

    def add(
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
        """Add a remote. ``namespace``: it is shared with code, sessions lie below ``refs/<namespace>/``.

        ``home``: of several, it rules names. ``projects`` (folders or identities), ``agents``, ``labels``: its scope;
        other sessions are not sent to it. ``all``: all sessions, and the commands do not ask before the
        first push. Raises ``InvalidName``, ``Refused``, and ``NotFound`` for an agent that does not exist.
        """
        agents = tuple(agents)
        known = {*FORMATS, *(row.agent for row in self._opened.catalogues.get().sessions())} if agents else frozenset()
        if unknown := sorted({*agents} - known - {""}):
            hint = f"there are {', '.join(sorted(known))}"
            raise NotFound(f"cannot add {name[:80]!r}: there is no agent {unknown[0][:80]!r}", hint=hint)
        scope = Scope(projects=tuple(projects), agents=agents, labels=tuple(labels), is_all=all)
        return remotes.add(self._objects.git_dir, name, url, namespace=namespace, home=home, scope=scope)

    def remove(self, name: str) -> Remote:
        """Remove a remote; what came from it stays. Raises ``NotFound``."""
        return remotes.remove(self._objects.git_dir, name)

    def status(self, remote: Remote) -> RemoteStatus:
        """Return what a remote lacks of what is in its scope, as far as was seen of it. It is not asked."""
        return pushing.standing_of(self._objects, remote, self._among(remote))

    def unmatched_scope(self, remote: Remote) -> list[tuple[str, str]]:
        """Return the projects, agents and labels in the scope of a remote that no session has, each with its kind."""
        alone = [("project", value, Scope(projects=(value,))) for value in remote.scope.projects]
        alone += [("agent", value, Scope(agents=(value,))) for value in remote.scope.agents]
        alone += [("label", value, Scope(labels=(value,))) for value in remote.scope.labels]
        return [(kind, value) for kind, value, scope in alone if not self._among(replace(remote, scope=scope))]

    def plan_push(self, remote: str = "") -> PushPlan:
        """Return the sessions that a push would send, as far as was seen of the remote.

        Nothing is sent, and the remote is not asked. Raises ``NotFound`` and ``Unavailable``.
        """
        found = self._remote(remote)
        among = self._among(found)
        sids = set(pushing.sessions_to_send(self._objects, found, among))
        archived = pushing.sessions_only_archived(self._objects, found, among)
        rows = tuple(row for row in self._opened.catalogues.get().sessions() if row.sid in sids)
        return PushPlan(found.name, rows, not found.is_agreed, tuple(archived))

    def push(
        self, remote: str = "", *, sessions: Iterable[str] = (), talk: TransportOptions | None = None
    ) -> SyncReport:
        """Send what a remote lacks, of all sessions or of those named. Nothing is forced. Raises as ``pull``."""
        sids = [self._opened.find(session).sid for session in sessions]
        found = self._remote(remote)
        report = syncing.push(self._objects, found, talk or TransportOptions(), sessions=sids, among=self._among(found))
        if not sids:
            self._agree(found, report)
        return report

    def pull(self, remote: str = "", *, talk: TransportOptions | None = None) -> SyncReport:
        """Fetch what a remote has and merge it. Raises ``NotFound``, ``Refused``, ``Unavailable``."""
        return syncing.pull(self._objects, self._remote(remote), talk or TransportOptions())

    def sync(self, remote: str = "", *, talk: TransportOptions | None = None) -> SyncReport:
        """Pull and push until both sides have the same. Raises as ``pull``."""
        found = self._remote(remote)
        report = syncing.sync(self._objects, found, talk or TransportOptions(), among=self._among(found))
        self._agree(found, report)
        return report

    def bundle(self, path: str | Path, sessions: Iterable[str] = ()) -> list[str]:
        """Write sessions, by default all, to a new bundle file and return their ids.

        Raises ``Refused``, ``NotFound`` and ``Unavailable``.
        """
        sids = [self._opened.find(session).sid for session in sessions]
        return sorted({refs.session_of(ref) for ref in cloning.write_bundle(self._objects, Path(path), sids)})

    def unbundle(self, path: str | Path, *, talk: TransportOptions | None = None) -> SyncReport:
        """Merge what is in a bundle file. Of diverged branches, theirs is renamed. Raises as ``pull``."""
        return cloning.read_bundle(self._objects, Path(path), talk or TransportOptions())

    def _agree(self, remote: Remote, report: SyncReport) -> None:
        """Record that what is in the scope of a remote may go there, if any of it was sent."""
        if any(refs.session_of(ref) or ref == refs.ARCHIVE for ref in report.pushed):
            remotes.agree(self._objects.git_dir, remote)

    def _among(self, remote: Remote) -> frozenset[str] | None:
        """Return the sessions in the scope of a remote; ``None`` where it has none."""
        scope = remote.scope
        if not scope.is_limited:
            return None
        catalogue = self._opened.catalogues.get()
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
        """Return a remote by its name, or by its URL."""
        if "/" in named or ":" in named:
            where = os.path.normpath(remotes.address(named))
            named = next((one.name for one in self.list() if os.path.normpath(one.url) == where), named)
        return remotes.find(self._objects.git_dir, named)

    def list(self) -> list[Remote]:
        """List the remotes by name. Git's own configuration has them."""
        return remotes.listed(self._objects.git_dir)
