"""Archived sessions."""

from __future__ import annotations

from gitsession.api.opened import Opened
from gitsession.api.trash import Trashed, described
from gitsession.archive import archive_set, archiving
from gitsession.archive.archive_set import InArchive


class ArchivedSessions:
    """The archive of a store: ``store.archive``. Its sessions are kept whole behind one ref (docs/archive.md)."""

    def __init__(self, opened: Opened) -> None:
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

    def list(self, number: int | None = None) -> list[Trashed]:
        """List what is archived, the newest first; at most ``number``, of those that began last."""
        archive = archive_set.read(self._opened.objects)
        return described(InArchive(self._opened.objects, archive), sorted(archive, reverse=True)[:number])
