"""Sessions in the trash, and archived ones."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from gitsession.api.opened import OpenStore
from gitsession.archive import archive_set, archiving, trash
from gitsession.archive.archive_set import ArchiveView
from gitsession.archive.trash import TrashView
from gitsession.sessions import graph, marks, session_facts
from gitsession.sessions.meta import meta_of
from gitsession.store.interface import ObjectStore


@dataclass(frozen=True, slots=True)
class RemovedSession:
    """A session in the trash, or archived. ``name``: its title, else how it began; ``updated_ms``: its newest entry."""

    sid: str
    name: str
    entries: int
    updated_ms: int


class Trash:
    """The trash of a store: ``store.trash``. Its sessions are kept whole, and nothing else lists them."""

    def __init__(self, opened: OpenStore) -> None:
        self._opened = opened

    def put(self, *sessions: str) -> None:
        """Move sessions to the trash, as one command; ``sessions``: their ids. Remotes keep theirs.

        Raises ``NotFound`` at the first that is not there, and ``Refused`` where another of its name is in the trash.
        """
        group = secrets.token_hex(8) if len(sessions) > 1 else None
        for sid in sessions:
            trash.remove(self._opened.objects, sid, self._opened.clock(), group)

    def restore(self, part: str) -> str:
        """Restore the session with ``part`` in its id, and return the id. Raises ``NotFound``, ``Ambiguous``."""
        sid = trash.find(self._opened.objects, part)
        trash.restore(self._opened.objects, sid, self._opened.clock())
        return sid

    def list(self) -> list[RemovedSession]:
        """List what is in the trash, the newest first."""
        objects = self._opened.objects
        return described(TrashView(objects), trash.sessions(objects))


def described(view: ObjectStore, sids: Iterable[str]) -> list[RemovedSession]:
    """Describe sessions of which there is no catalog, the newest first."""
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


class ArchivedSessions:
    """The archive of a store: ``store.archive``. Its sessions are kept whole behind one ref."""

    def __init__(self, opened: OpenStore) -> None:
        self._opened = opened

    def put(self, *sessions: str) -> list[str]:
        """Archive sessions, by their ids, and return these; they are no longer listed.

        Raises ``NotFound`` and ``Refused``, and archives none then.
        """
        return archiving.archive(self._opened.objects, sessions, self._opened.clock())

    def restore(self, part: str) -> str:
        """Restore the session with ``part`` in its id, and return the id. Raises ``NotFound``, ``Ambiguous``."""
        sid = archiving.find(self._opened.objects, part)
        archiving.restore(self._opened.objects, sid, self._opened.clock())
        return sid

    def list(self, number: int | None = None) -> list[RemovedSession]:
        """List what is archived, the newest first; at most ``number``, of those that began last."""
        archive = archive_set.read(self._opened.objects)
        return described(ArchiveView(self._opened.objects, archive), sorted(archive, reverse=True)[:number])
