"""One session of an open store, as its parts share it."""

from __future__ import annotations

import functools

from gitsession.api.opened import OpenStore
from gitsession.context import profiles
from gitsession.context.history import ContextHistory
from gitsession.index.history_states import CatalogueEntryIndex
from gitsession.sessions import session as sessions
from gitsession.sessions.attached_files import SessionAttachments
from gitsession.sessions.node import Node


class Handle:
    """A session on one of its branches, and the store that it is in: what ``Session`` and its parts share."""

    def __init__(self, opened: OpenStore, session: sessions.StoredSession) -> None:
        self.opened = opened
        self.session = session

    @functools.cached_property
    def profile(self) -> str:
        """The context profile of the session's agent, which never changes."""
        catalogues = self.opened.catalogues
        row = catalogues.get(fresh=False).session(self.session.id) or catalogues.get().session(self.session.id)
        return profiles.of_agent(row.agent if row else "")

    def context_line(self, at: str | Node = "leaf") -> ContextHistory:
        """Return the history of an entry, as contexts are computed from it."""
        leaf = None if at == "leaf" and self.session.leaf is None else self.session.resolve(at).oid
        objects, catalogues = self.opened.objects, self.opened.catalogues
        known = CatalogueEntryIndex(catalogues.get(fresh=False), self.session.id, catalogues.get)
        return ContextHistory(objects, leaf, known, self.opened.memory, SessionAttachments(objects, self.session.id))
