"""An open store, as its parts share it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from gitsession.api.catalogues import Catalogues
from gitsession.context.history import HistoryCache
from gitsession.discovery import projects
from gitsession.errors import require
from gitsession.index.catalogue import Row
from gitsession.index.current_folder import CurrentFolder, everybodys
from gitsession.store.git_store import GitStore


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class OpenStore:
    """The objects, the clock, the catalogs and the memory of a store, which ``Store`` and its parts share."""

    def __init__(self, objects: GitStore, clock: Callable[[], int] = now_ms) -> None:
        self.objects = objects
        self.clock = clock
        self.catalogues = Catalogues(objects)
        self.memory = HistoryCache()

    def find(self, address: str, cwd: str | None = None) -> Row:
        """Return the session that ``address`` names, as in ``Store.session``. Raises ``NotFound`` or ``Ambiguous``."""
        require(address, str, "an address of a session: a part of its id, '@' or '-'")
        return self.catalogues.get().find(address, here_of(cwd) if address in ("@", "-") else None)

    def forget(self) -> None:
        """Close the catalogs and forget what contexts remember: objects were removed or rewritten."""
        self.catalogues.close()
        self.memory.clear()


def here_of(cwd: str | None) -> CurrentFolder:
    """Return the folder ``cwd``, by default that of this process, as sessions are found by it."""
    place = os.path.abspath(cwd or ".")
    return CurrentFolder(place, everybodys(str(Path.home()), os.environ), lambda: projects.identity_of(Path(place)))
