"""The API for remotes: add and remove them, push, pull and sync, and bundle files."""

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
    """The sessions that a push to a remote would send.

    Attributes:
        remote: The name of the remote.
        sessions: The sessions.
        is_first: Whether the user has not agreed yet to what the remote receives: it was not added with ``all``, not
            cloned from, and no push or sync of its whole scope has sent a session.
        archived: The ids of archived sessions that are sent with the archive, although none of their branches is.
        unlisted: The ids of sessions that no list has, but whose checkpoints are sent: their import was undone.
    """

    remote: str
    sessions: tuple[Row, ...]
    is_first: bool
    archived: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if the push would send no session."""
        return not (self.sessions or self.archived or self.unlisted)


class Remotes:
    """The remotes of a store: ``store.remotes``.

    Where a remote is an argument, pass its name or its URL; ``""`` is the home remote. ``talk`` states how git reports
    progress and asks for passwords; by default it does neither.
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
        """Add a remote.

        Args:
            name: The name of the remote.
            url: Its URL, or the path of a repository.
            namespace: The namespace of the sessions, if the remote is a code repository: they are below
                ``refs/<namespace>/``.
            home: Whether it is the home remote. If two remotes differ, the branches of the home remote keep their
                names.
            projects: The scope: only sessions of these folders or project identities are sent to it.
            agents: The scope: only sessions of these agents are sent to it.
            labels: The scope: only sessions with one of these labels are sent to it.
            all: Whether the user agrees to send all sessions, so that the first push does not ask.

        Returns:
            The remote.

        Raises:
            InvalidName: The name, URL or namespace is invalid.
            Refused: There is a remote of that name.
            NotFound: An agent does not exist.
        """
        agents = tuple(agents)
        known = {*FORMATS, *(row.agent for row in self._opened.catalogues.get().sessions())} if agents else frozenset()
        if unknown := sorted({*agents} - known - {""}):
            hint = f"known agents: {', '.join(sorted(known))}"
            raise NotFound(f"cannot add remote {name[:80]!r}: unknown agent {unknown[0][:80]!r}", hint=hint)
        scope = Scope(projects=tuple(projects), agents=agents, labels=tuple(labels), is_all=all)
        return remotes.add(self._objects.git_dir, name, url, namespace=namespace, home=home, scope=scope)

    def remove(self, name: str) -> Remote:
        """Remove a remote and return it; sessions that were fetched from it are kept. Raises ``NotFound``."""
        return remotes.remove(self._objects.git_dir, name)

    def status(self, remote: Remote) -> RemoteStatus:
        """Return the refs in the scope of a remote that were not sent to it, by its last known state.

        The remote is not contacted.
        """
        return pushing.status_of(self._objects, remote, self._among(remote))

    def unmatched_scope(self, remote: Remote) -> list[tuple[str, str]]:
        """Return the entries of a remote's scope that match no session.

        Each is a pair: ``project``, ``agent`` or ``label``, and the value.
        """
        alone = [("project", value, Scope(projects=(value,))) for value in remote.scope.projects]
        alone += [("agent", value, Scope(agents=(value,))) for value in remote.scope.agents]
        alone += [("label", value, Scope(labels=(value,))) for value in remote.scope.labels]
        return [(kind, value) for kind, value, scope in alone if not self._among(replace(remote, scope=scope))]

    def plan_push(self, remote: str = "") -> PushPlan:
        """Return the sessions that a push would send, by the last known state of the remote.

        Nothing is sent, and the remote is not contacted.

        Args:
            remote: The remote.

        Returns:
            The sessions, and whether this would be the first push.

        Raises:
            NotFound: There is no such remote.
            Unavailable: The journal cannot be flushed.
        """
        found = self._remote(remote)
        among = self._among(found)
        sids = set(pushing.sessions_to_send(self._objects, found, among))
        archived = pushing.sessions_only_archived(self._objects, found, among)
        rows = tuple(row for row in self._opened.catalogues.get().sessions() if row.sid in sids)
        unlisted = sorted(sids - {row.sid for row in rows})
        return PushPlan(found.name, rows, not found.is_agreed, tuple(archived), tuple(unlisted))

    def push(
        self, remote: str = "", *, sessions: Iterable[str] = (), talk: TransportOptions | None = None
    ) -> SyncReport:
        """Send the sessions that a remote lacks. No ref is forced.

        Args:
            remote: The remote.
            sessions: Addresses of the sessions to send. By default all in its scope.
            talk: How git reports progress and asks for passwords.

        Returns:
            The report of what was sent and what the remote rejected.

        Raises:
            NotFound: There is no such remote or session.
            Ambiguous: An address matches several sessions.
            Refused: A session is outside the scope of the remote, or the remote is not a store.
            Unavailable: The remote cannot be reached.
        """
        sids = [self._opened.find(session).sid for session in sessions]
        found = self._remote(remote)
        report = syncing.push(self._objects, found, talk or TransportOptions(), sessions=sids, among=self._among(found))
        if not sids:
            self._agree(found, report)
        return report

    def pull(self, remote: str = "", *, talk: TransportOptions | None = None) -> SyncReport:
        """Fetch the sessions of a remote and merge them.

        Args:
            remote: The remote.
            talk: How git reports progress and asks for passwords.

        Returns:
            The report of what was received and merged.

        Raises:
            NotFound: There is no such remote.
            Refused: The remote is not a store.
            Unavailable: The remote cannot be reached.
        """
        return syncing.pull(self._objects, self._remote(remote), talk or TransportOptions())

    def sync(self, remote: str = "", *, talk: TransportOptions | None = None) -> SyncReport:
        """Pull and push until both sides have the same sessions, as far as the remote's scope allows.

        Args:
            remote: The remote.
            talk: How git reports progress and asks for passwords.

        Returns:
            The report of what was received, merged and sent.

        Raises:
            NotFound: There is no such remote.
            Refused: The remote is not a store.
            Unavailable: The remote cannot be reached, or others push to it again and again.
        """
        found = self._remote(remote)
        report = syncing.sync(self._objects, found, talk or TransportOptions(), among=self._among(found))
        self._agree(found, report)
        return report

    def bundle(self, path: str | Path, sessions: Iterable[str] = ()) -> list[str]:
        """Write sessions to a new bundle file.

        Args:
            path: The file to create.
            sessions: Addresses of the sessions. By default all.

        Returns:
            The ids of the sessions.

        Raises:
            Refused: The file exists.
            NotFound: There is no such session.
            Unavailable: The file cannot be written.
        """
        sids = [self._opened.find(session).sid for session in sessions]
        return sorted({refs.session_of(ref) for ref in cloning.write_bundle(self._objects, Path(path), sids)})

    def unbundle(self, path: str | Path, *, talk: TransportOptions | None = None) -> SyncReport:
        """Merge the sessions of a bundle file. If branches have diverged, the branch from the bundle is renamed.

        Args:
            path: The bundle file.
            talk: How git reports progress.

        Returns:
            The report of what was merged.

        Raises:
            NotFound: There is no such file.
            Refused: The file is not a bundle of a store.
            Unavailable: The file cannot be read.
        """
        return cloning.read_bundle(self._objects, Path(path), talk or TransportOptions())

    def _agree(self, remote: Remote, report: SyncReport) -> None:
        """Record that the user agreed to the scope of a remote, if any session was sent."""
        if any(refs.session_of(ref) or ref == refs.ARCHIVE for ref in report.pushed):
            remotes.agree(self._objects.git_dir, remote)

    def _among(self, remote: Remote) -> frozenset[str] | None:
        """Return the ids of the sessions in the scope of a remote; ``None`` if it has no scope."""
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
        """Return a remote by its name or its URL."""
        if "/" in named or ":" in named:
            where = os.path.normpath(remotes.address(named))
            named = next((one.name for one in self.list() if os.path.normpath(one.url) == where), named)
        return remotes.find(self._objects.git_dir, named)

    def list(self) -> list[Remote]:
        """Return the remotes, sorted by name. They are kept in git's configuration of the store."""
        return remotes.listed(self._objects.git_dir)
