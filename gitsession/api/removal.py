"""What leaves a store, at the front door: the trash, purges, secrets, and the rules by which old sessions go."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gitsession.api.opened import Opened
from gitsession.archive import trash
from gitsession.errors import GitSessionError, require
from gitsession.sessions.node import Node
from gitsession.store import refs

if TYPE_CHECKING:
    # Nothing of it is loaded by who only reads and appends.
    from gitsession.api.purges import Trashed
    from gitsession.api.redacting import Redaction
    from gitsession.archive.retention import Expired, Retention
    from gitsession.purge.exports import RedactedExport
    from gitsession.purge.finding import PurgePlan
    from gitsession.purge.purging import Purged
    from gitsession.sessions.stored_secrets import FoundSecret, SecretSearch


class Leaving(Opened):
    """What ``Store`` does with what is to go."""

    def remove(self, sid: str) -> None:
        """Put a session into the trash. Remotes keep theirs. Raises ``NotFound``."""
        trash.remove(self.objects, sid, self._clock())

    def restore(self, part: str) -> str:
        """Take the session with ``part`` in its name out of the trash, or out of the archive; its name.

        Raises ``NotFound``, ``Ambiguous``.
        """
        from gitsession.api import purges

        return purges.restore(self.objects, part, self._clock())

    def archive(self, sessions: Iterable[str]) -> list[str]:
        """Archive sessions: kept whole behind one ref, and no longer listed (docs/archive.md); their ids.

        Raises ``NotFound`` and ``Refused``, and archives none then.
        """
        from gitsession.api import purges

        return purges.archive(self.objects, sessions, self._clock())

    def archived(self, number: int | None = None) -> list[Trashed]:
        """What is archived, the newest first; at most ``number``, of those that began last."""
        from gitsession.api import purges

        return purges.listed_archive(self.objects, number)

    def trashed(self) -> list[Trashed]:
        """What is in the trash, the newest first."""
        from gitsession.api import purges

        return purges.trashed(self.objects)

    def plan_purge(self, sid: str | None = None, at: Node | None = None, *, text: str = "") -> PurgePlan:
        """What a purge would take: a session, here or in the trash; the entry ``at`` of it; or what says ``text``, in
        it or in all sessions. Reads only. Raises ``NotFound``.
        """
        from gitsession.api import purges

        return purges.wanted(self.objects, sid, at, text)

    def purge(self, what: PurgePlan) -> Purged:
        """Take it out of this store for good: nothing of it is left, and no ``undo`` brings it back.

        Raises ``Refused`` where a copy would stay, ``Unavailable`` where others keep writing; what was begun goes on
        when the store is opened again.
        """
        from gitsession.api import purges
        from gitsession.purge.finding import PurgePlan

        require(what, PurgePlan, "a plan, as store.plan_purge(...) returns")
        return purges.purge(self.objects, self._catalogues, self._memory, what, self._clock)

    def redact_exports(self, what: PurgePlan) -> list[RedactedExport]:
        """Take what ``what`` purges out of the files that this store wrote for agents, in place (docs/purge.md).

        A file that its agent could not read then stays as it is, and its ``problem`` says so.
        """
        from gitsession.purge import exports

        return exports.redact(self.objects, what)

    def secrets(self, sid: str | None = None) -> SecretSearch:
        """What is secret in what is stored already, of one session or of all: to iterate over (docs/secrets.md)."""
        from gitsession.api import redacting

        sids = [sid] if sid is not None else [row.sid for row in self.catalogue().sessions()]
        return redacting.search(self.objects, sids)

    def redact(self, found: Iterable[FoundSecret]) -> Redaction:
        """Hide what ``secrets`` found in entries. The old ones are purged, here and wherever this store is synced with.

        Raises ``Refused`` where a copy would stay, ``Unavailable`` where others keep writing.
        """
        from gitsession.api import redacting

        return redacting.redact(self.objects, self._catalogues, self._memory, found, self._clock)

    def settle_purges(self, *, thorough: bool = False) -> Purged:
        """Purge what came in that was purged before: from a remote, or by plain git. Cheap where nothing did.

        ``thorough``: also what no ref leads to any more; every object is looked at.
        """
        from gitsession.api import purges

        return purges.settle(self.objects, self._catalogues, self._memory, thorough=thorough)

    def _settle_quietly(self) -> None:
        """The same on the way: what cannot be done now is done by the next one."""
        with contextlib.suppress(GitSessionError, OSError):
            if not self.objects.read_only and self.objects.ref(refs.TOMBSTONES) is not None:
                self.settle_purges()

    def plan_retention(self, rules: Retention) -> list[Expired]:
        """The sessions that ``rules`` let go. Reads only."""
        from gitsession.api import purges

        return purges.leaving(self.objects, self._catalogues, rules)

    def retain(self, leaves: list[Expired]) -> None:
        """Put them into the trash, as one command."""
        from gitsession.api import purges

        purges.let_go(self.objects, leaves, self._clock())
