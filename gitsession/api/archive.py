"""Archived sessions."""

from __future__ import annotations

from gitsession.api.opened import OpenStore
from gitsession.api.trash import RemovedSession, described
from gitsession.archive import archive_set, archiving
from gitsession.archive.archive_set import ArchiveView


class ArchivedSessions:
    """The archive of a store: ``store.archive``. Its sessions are kept whole behind one ref (docs/archive.md)."""

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
