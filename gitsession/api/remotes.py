"""The API for remotes: add and remove them, push, pull and sync, and bundle files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from gitsession.api.opened import OpenStore
from gitsession.dataclass import dataclass
from gitsession.errors import NotFound
from gitsession.formats import FORMATS
from gitsession.index.catalogue import Row
from gitsession.store import refs
from gitsession.sync import cloning, pushing, remotes, syncing
from gitsession.sync.pushing import RemoteStatus
from gitsession.sync.remotes import Remote
from gitsession.sync.scope import Scope, sessions_in
from gitsession.sync.syncing import SyncReport
from gitsession.sync.transport import TransportOptions


@dataclass(frozen=True, slots=True)
class PushPlan:
    """The sessions that a push to a remote would send.

    Attributes:
        remote: The name of the remote.
        sessions: The sessions.
        archived: The ids of sessions that are sent only as part of the archive.
        unlisted: The ids of sessions whose import was undone. Such sessions are not listed, but their checkpoints are
            sent.
        updates_archive: True if the push would send a new version of the archive. The refs of the sessions in it are
            then removed from the remote.
    """

    remote: str
    sessions: tuple[Row, ...]
    archived: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    updates_archive: bool = False

    @property
    def is_empty(self) -> bool:
        """True if the push would send no session."""
        return not (self.sessions or self.archived or self.unlisted)


class Remotes:
    """The remotes of a store: ``store.remotes``.

    To select a remote, pass its name or its URL. The empty string selects the home remote.
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
            url: The URL of the remote, or the path of a repository.
            namespace: The namespace of the sessions, if the remote is a code repository. The refs of the sessions are
                below ``refs/<namespace>/``.
            home: Whether the remote becomes the home remote. If branches of two remotes have diverged, the branches of
                the home remote keep their names.
            projects: Folders or project identities. If there are any, only their sessions are sent.
            agents: Names of agents. If there are any, only sessions of these agents are sent.
            labels: Labels. If there are any, only sessions with one of these labels are sent.
            all: Whether to send all sessions without a confirmation at the first push.

        Returns:
            The new remote.

        Raises:
            InvalidName: The name, URL or namespace is invalid.
            Refused: There is already a remote with this name.
            NotFound: One of ``agents`` is unknown.
        """
        agents = tuple(agents)
        known = {*FORMATS, *(row.agent for row in self._opened.catalogues.get().sessions())} if agents else frozenset()
        if unknown := sorted({*agents} - known - {""}):
            hint = f"choose one of {', '.join(sorted(known))}"
            raise NotFound(f"cannot add remote {name[:80]!r}: unknown agent {unknown[0][:80]!r}", hint=hint)
        scope = Scope(projects=tuple(projects), agents=agents, labels=tuple(labels), is_all=all)
        return remotes.add(self._objects.git_dir, name, url, namespace=namespace, home=home, scope=scope)

    def remove(self, name: str) -> Remote:
        """Remove a remote and return it. Sessions from this remote stay in the store.

        Raises:
            NotFound: There is no such remote.
            Unavailable: The store cannot be written.
        """
        removed = remotes.remove(self._objects.git_dir, name)
        syncing.forget(self._objects, removed)
        return removed

    def status(self, remote: Remote) -> RemoteStatus:
        """Return the refs in the scope of a remote that were not sent, based on the remote's last known state.

        The remote is not contacted.
        """
        return pushing.status_of(self._objects, remote, self._scope_sids(remote))

    def unmatched_scope(self, remote: Remote) -> list[tuple[str, str]]:
        """Return the criteria in a remote's scope that match no session.

        Each criterion is a pair: ``"project"``, ``"agent"`` or ``"label"``, and the value.
        """
        criteria = [("project", value, Scope(projects=(value,))) for value in remote.scope.projects]
        criteria += [("agent", value, Scope(agents=(value,))) for value in remote.scope.agents]
        criteria += [("label", value, Scope(labels=(value,))) for value in remote.scope.labels]
        if not criteria:
            return []  # do not read the catalog: its first read can take minutes
        catalogue = self._opened.catalogues.get()
        return [(kind, value) for kind, value, scope in criteria if not sessions_in(scope, catalogue)]

    def is_confirmed(self, remote: str = "") -> bool:
        """Return whether the user has confirmed what is sent to a remote.

        A remote counts as confirmed if it was added with ``all``, if the store was cloned from it, or after the first
        push or sync of its whole scope that sent a session. Raises ``NotFound``.
        """
        return self._remote(remote).is_confirmed

    def plan_push(self, remote: str = "") -> PushPlan:
        """Return the sessions that a push would send, based on the last known state of the remote.

        Nothing is sent, and the remote is not contacted.

        Args:
            remote: The name or URL of the remote.

        Returns:
            The plan.

        Raises:
            NotFound: There is no such remote.
            Unavailable: The journal cannot be flushed.
        """
        found = self._remote(remote)
        among = self._scope_sids(found)
        sids, archived, updates_archive = pushing.sessions_to_send(self._objects, found, among)
        listed = self._opened.catalogues.get().sessions() if sids else ()  # see unmatched_scope
        rows = tuple(row for row in listed if row.sid in sids)
        unlisted = sorted(sids - {row.sid for row in rows})
        return PushPlan(found.name, rows, tuple(sorted(archived)), tuple(unlisted), updates_archive)

    def push(
        self, remote: str = "", *, sessions: Iterable[str] = (), transport: TransportOptions | None = None
    ) -> SyncReport:
        """Send the sessions and entries that a remote lacks. Refs of the remote are not overwritten.

        Args:
            remote: The remote.
            sessions: The addresses of the sessions to send. Defaults to all sessions in the scope of the remote.
            transport: Options for git's progress output and password prompts. Both are off by default.

        Returns:
            A report of the sent and the rejected refs.

        Raises:
            NotFound: There is no such remote or session.
            Ambiguous: An address matches several sessions.
            Refused: A session is outside the scope of the remote, or the remote is not a store.
            Unavailable: The remote cannot be reached.
        """
        sids = [self._opened.find(session).sid for session in sessions]
        found = self._remote(remote)
        report = syncing.push(
            self._objects, found, transport or TransportOptions(), sessions=sids, among=self._scope_sids(found)
        )
        if not sids:
            self._confirm(found, report)
        return report

    def pull(self, remote: str = "", *, transport: TransportOptions | None = None) -> SyncReport:
        """Fetch the sessions of a remote and merge them.

        Args:
            remote: The remote.
            transport: Options for git's progress output and password prompts. Both are off by default.

        Returns:
            A report of the fetched and merged refs.

        Raises:
            NotFound: There is no such remote.
            Refused: The remote is not a store.
            Unavailable: The remote cannot be reached.
        """
        return syncing.pull(self._objects, self._remote(remote), transport or TransportOptions())

    def sync(self, remote: str = "", *, transport: TransportOptions | None = None) -> SyncReport:
        """Pull and push until the store and the remote have the same sessions in the scope of the remote.

        Args:
            remote: The remote.
            transport: Options for git's progress output and password prompts. Both are off by default.

        Returns:
            A report of the fetched, merged and sent refs.

        Raises:
            NotFound: There is no such remote.
            Refused: The remote is not a store.
            Unavailable: The remote cannot be reached, or other pushes to it keep conflicting with this one.
        """
        found = self._remote(remote)
        report = syncing.sync(self._objects, found, transport or TransportOptions(), among=self._scope_sids(found))
        self._confirm(found, report)
        return report

    def bundle(self, path: str | Path, sessions: Iterable[str] = ()) -> list[str]:
        """Write sessions to a new bundle file.

        Args:
            path: The path of the file to create.
            sessions: The addresses of the sessions. Defaults to all sessions.

        Returns:
            The ids of the sessions in the bundle.

        Raises:
            Refused: The file already exists.
            NotFound: An address matches no session, or there are no sessions to write.
            Unavailable: The file cannot be written.
        """
        sids = [self._opened.find(session).sid for session in sessions]
        return sorted({refs.session_of(ref) for ref in cloning.write_bundle(self._objects, Path(path), sids)})

    def unbundle(self, path: str | Path, *, transport: TransportOptions | None = None) -> SyncReport:
        """Merge the sessions of a bundle file. If branches have diverged, the branch from the bundle is renamed.

        Args:
            path: The path of the bundle file.
            transport: Options for git's progress output, which is off by default.

        Returns:
            A report of the merged refs.

        Raises:
            NotFound: There is no such file.
            Refused: The file is not a bundle of a store.
            Unavailable: The file cannot be read.
        """
        return cloning.read_bundle(self._objects, Path(path), transport or TransportOptions())

    def _confirm(self, remote: Remote, report: SyncReport) -> None:
        """Record that the user has confirmed the scope of a remote, if ``report`` shows that sessions were sent."""
        if any(refs.session_of(ref) or ref == refs.ARCHIVE for ref in report.pushed):
            remotes.confirm(self._objects.git_dir, remote)

    def _scope_sids(self, remote: Remote) -> frozenset[str] | None:
        return sessions_in(remote.scope, self._opened.catalogues.get()) if remote.scope.is_limited else None

    def _remote(self, name_or_url: str) -> Remote:
        """Return a remote by its name or its URL."""
        if "/" in name_or_url or ":" in name_or_url:
            url = os.path.normpath(remotes.address(name_or_url))
            name_or_url = next((one.name for one in self.list() if os.path.normpath(one.url) == url), name_or_url)
        return remotes.find(self._objects.git_dir, name_or_url)

    def list(self) -> list[Remote]:
        """Return the remotes in the git configuration of the store, sorted by name."""
        return remotes.list_remotes(self._objects.git_dir)
