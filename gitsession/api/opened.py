"""An open store, as each part of the front door has it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from gitsession.api.catalogues import Catalogues
from gitsession.context.line import Memory
from gitsession.discovery import projects
from gitsession.errors import require
from gitsession.index.catalogue import Catalogue, Row
from gitsession.index.here import Here, everybodys
from gitsession.store.git_store import GitStore


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Opened:
    """What is kept, what is known of it, and what the time is: what ``Store`` and its parts share."""

    def __init__(self, objects: GitStore, clock: Callable[[], int] = now_ms) -> None:
        self.objects = objects
        self._clock = clock
        self._catalogues = Catalogues(objects)
        self._memory = Memory()

    def sessions(self) -> list[Row]:
        """The catalogue, the newest first."""
        return self.catalogue().sessions()

    def catalogue(self, *, fresh: bool = True) -> Catalogue:
        """The derived index. For this thread only: a transaction of SQLite is its connection's.

        ``fresh``: brought up to date, which looks at the whole of each session that has changed.
        """
        return self._catalogues.get(fresh=fresh)

    def _row(self, address: str, cwd: str | None = None) -> Row:
        """The session that ``address`` names, as ``Store.session`` says. Raises ``NotFound`` or ``Ambiguous``."""
        require(address, str, "an address of a session: a part of its id, '@' or '-'")
        return self.catalogue().find(address, here_of(cwd) if address in ("@", "-") else None)


def here_of(cwd: str | None) -> Here:
    """Return the folder ``cwd``, by default that of this process, as sessions are found by it."""
    place = os.path.abspath(cwd or ".")
    return Here(place, everybodys(str(Path.home()), os.environ), lambda: projects.identity_of(Path(place)))
