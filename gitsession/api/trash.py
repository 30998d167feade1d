"""The API for removed and archived sessions."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from gitsession.api.opened import OpenStore
from gitsession.archive import archive_set, archiving, trash
from gitsession.archive.archive_set import ArchiveView
from gitsession.archive.trash import TrashView
from gitsession.dataclass import dataclass
from gitsession.errors import Ambiguous, NotFound
from gitsession.index.catalogue import Catalogue
from gitsession.sessions import graph, marks, session_facts
from gitsession.sessions.meta import meta_of
from gitsession.store.git_store import GitStore
from gitsession.store.interface import ObjectStore


@dataclass(frozen=True, slots=True)
class RemovedSession:
    """A session in the trash or in the archive.

    Attributes:
        sid: The id of the session.
        name: The title of the session, or the beginning of its first prompt.
        entries: The number of entries, without the root.
        updated_ms: The time of the newest entry, Unix time in ms.
    """

    sid: str
    name: str
    entries: int
    updated_ms: int


class Trash:
    """The trash of a store: ``store.trash``. Sessions in the trash are complete, but are not listed elsewhere."""

    def __init__(self, opened: OpenStore) -> None:
        self._opened = opened

    def put(self, *sessions: str) -> None:
        """Move sessions to the trash, as one operation for ``undo``. Copies in remotes stay there.

        Args:
            sessions: The ids of the sessions.

        Raises:
            NotFound: One of the sessions does not exist. The sessions before it have been moved.
            Refused: The trash already has another session with the same id. The sessions before it have been moved.
        """
        group = secrets.token_hex(8) if len(sessions) > 1 else None
        for sid in sessions:
            trash.remove(self._opened.objects, sid, self._opened.clock(), group)

    def restore(self, part: str) -> str:
        """Restore a session from the trash.

        Args:
            part: A part of the session id.

        Returns:
            The full id of the restored session.

        Raises:
            NotFound: No session in the trash matches.
            Ambiguous: Several sessions match.
        """
        sid = _find(part, trash.sessions(self._opened.objects), "the trash", "--trash")
        trash.restore(self._opened.objects, sid, self._opened.clock())
        return sid

    def list(self) -> list[RemovedSession]:
        """Return the sessions in the trash, the newest first."""
        objects = self._opened.objects
        return described(TrashView(objects), trash.sessions(objects))

    def catalogue(self) -> Catalogue:
        """Return a new catalog, in memory, of only the sessions in the trash. All of their entries are read."""
        return _catalogue(self._opened.objects, TrashView(self._opened.objects))


def described(view: ObjectStore, sids: Iterable[str]) -> list[RemovedSession]:
    """Return descriptions of sessions that are not in the catalog, the newest first."""
    found = []
    for sid in sids:
        tree, meta = graph.tree(view, sid), meta_of(view, sid)
        nodes = sorted(tree.nodes.values(), key=lambda node: node.committer_seconds)
        first = next((node.subject.partition(": ")[2] for node, _ in tree.walk() if node.role == "user"), "")
        title = marks.title(session_facts.marks(view, sid, tree, meta))
        found.append(
            RemovedSession(sid, title or first or "(untitled)", len(nodes) - 1, nodes[-1].committer_seconds * 1000)
        )
    return sorted(found, key=lambda one: (-one.updated_ms, one.sid))


def _catalogue(objects: GitStore, view: ObjectStore) -> Catalogue:
    """Return a new catalog of the sessions in a view of a store."""
    from gitsession.index import update

    catalogue = Catalogue(objects.local_dir, objects.fingerprint)
    catalogue.begin_in_memory()
    with objects.without_fetching():
        update.refresh(catalogue, view)
    return catalogue


def _find(part: str, sids: Iterable[str], place: str, option: str) -> str:
    """Return the session in ``place`` whose id contains ``part``. Raises ``NotFound`` or ``Ambiguous``."""
    found = [sid for sid in sids if part and part in sid]
    if len(found) > 1:
        what = f"{part!r} matches {len(found)} sessions in {place}"
        raise Ambiguous(what, found, hint="pass more characters of the id")
    if not found:
        what = f"no session {part[:80]!r} in {place}"
        raise NotFound(what, hint=f"run `gitsession ls {option}` to list the sessions in {place}")
    return found[0]


class ArchivedSessions:
    """The archive of a store: ``store.archive``. Archived sessions are complete and are stored behind one ref."""

    def __init__(self, opened: OpenStore) -> None:
        self._opened = opened

    def put(self, *sessions: str) -> list[str]:
        """Move sessions to the archive. If one of them cannot be archived, none is moved.

        Args:
            sessions: The ids of the sessions.

        Returns:
            The ids of the sessions, without duplicates.

        Raises:
            NotFound: One of the sessions does not exist.
            Refused: A ref of a session is not a branch that can be archived.
        """
        return archiving.archive(self._opened.objects, sessions)

    def restore(self, part: str) -> str:
        """Restore a session from the archive.

        Args:
            part: A part of the session id.

        Returns:
            The full id of the restored session.

        Raises:
            NotFound: No session in the archive matches.
            Ambiguous: Several sessions match.
        """
        sid = _find(part, archive_set.read(self._opened.objects), "the archive", "--archived")
        archiving.restore(self._opened.objects, sid)
        return sid

    def list(self, number: int | None = None) -> list[RemovedSession]:
        """Return the archived sessions, the newest first.

        Args:
            number: The maximum number of sessions. If there are more, those that began on the latest days are
                returned. By default, all sessions are returned.
        """
        archive = archive_set.read(self._opened.objects)
        sids = sorted(archive, reverse=True)
        oldest = sids[:number][-1].partition("-")[0] if sids[:number] else ""  # the ids of one day are not in order
        later = [sid for sid in sids if sid >= oldest]
        return described(ArchiveView(self._opened.objects, archive), later)[:number]

    def catalogue(self) -> Catalogue:
        """Return a new catalog, in memory, of only the archived sessions. All of their entries are read."""
        objects = self._opened.objects
        return _catalogue(objects, ArchiveView(objects, archive_set.read(objects)))
