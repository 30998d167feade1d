"""The pages of a whole store, by address. ``web.server`` sends them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from gitsession.errors import NotFound
from gitsession.index.statistics import Price
from gitsession.redaction.guard import Guard
from gitsession.store import refs
from gitsession.web import file_pages, session_lists, statistics_page
from gitsession.web.served_sessions import ServedSessions
from gitsession.web.serving import Answer, StoreReader


class Site:
    """The pages of a store.

    ``refresh``: a function that ingests what agents wrote since the last call. ``prices``: the prices of models, for
    answers without a recorded cost.
    """

    def __init__(
        self,
        store: StoreReader,
        guard: Guard,
        refresh: Callable[[], None] = lambda: None,
        prices: Mapping[str, Price] | None = None,
    ) -> None:
        self._store, self._guard, self._refresh, self._prices = store, guard, refresh, prices or {}
        self._refreshing = threading.Lock()
        self._sessions = ServedSessions(store, guard)

    def answer(self, path: str, values: Mapping[str, str]) -> Answer:
        """Return the answer to a request for ``path``. Raises ``NotFound`` if there is no such page."""
        self._ingest()
        match path.strip("/").split("/"):
            case [""]:
                return session_lists.session_list(self._store, self._guard, values)
            case ["search"]:
                return session_lists.search(self._store, self._guard, values)
            case ["files"]:
                return file_pages.file_list(self._store, self._guard, values)
            case ["files", "history"]:
                return file_pages.history(self._store, self._guard, values)
            case ["files", "lines"]:
                return file_pages.lines(self._store, self._guard, values)
            case ["stats"]:
                return statistics_page.statistics_page(self._store, self._guard, self._prices, values)
            case ["session", sid, *rest] if refs.is_sid(sid):
                return self._sessions.answer(sid, rest, values)
        raise NotFound(f"there is no page {path[:100]!r}")

    def _ingest(self) -> None:
        if self._refreshing.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._refreshing.release()
