"""The catalogue of a store, one connection for each thread: a transaction of SQLite is its connection's."""

from __future__ import annotations

import os
import threading

from gitsession.index import update
from gitsession.index.catalogue import Catalogue
from gitsession.store.git_store import GitStore


class Catalogues:
    """The catalogues of ``objects`` that are open in this process."""

    def __init__(self, objects: GitStore) -> None:
        self._objects = objects
        self._open: dict[tuple[int, int], Catalogue] = {}

    def get(self, *, fresh: bool = True) -> Catalogue:
        """This thread's. ``fresh``: brought up to date, which looks at the whole of each session that has changed."""
        me = (os.getpid(), threading.get_ident())
        found = self._open.get(me)
        if found is None:
            found = self._open[me] = Catalogue(self._objects.git_dir)
        if fresh and not found.is_fresh():
            with self._objects.asking_nobody():
                update.refresh(found, self._objects)
        return found

    def close(self) -> None:
        """Idempotent."""
        for pid, thread in list(self._open):
            if pid == os.getpid():  # a forked child leaves its parent's as they are
                self._open.pop((pid, thread)).close()
