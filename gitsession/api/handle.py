"""A handle of one session, as each part of the front door has it."""

from __future__ import annotations

from gitsession.api.catalogues import Catalogues
from gitsession.checkpoints.running_calls import Running
from gitsession.context.line import Memory
from gitsession.sessions import session as sessions
from gitsession.sessions.node import Node
from gitsession.store.git_store import GitStore


class Handle:
    """A session, where it is kept, and what is known of it: what ``Session`` and its parts share."""

    def __init__(self, objects: GitStore, catalogues: Catalogues, memory: Memory, session: sessions.Session) -> None:
        self._objects = objects
        self._catalogues = catalogues
        self._memory = memory
        self._session = session
        self._running = Running()

    @property
    def id(self) -> str:
        """Its whole id, as in the names of its refs."""
        return self._session.id

    @property
    def leaf(self) -> Node | None:
        """Where the branch ends now, whoever appended last; ``None`` before the first user message."""
        return self._session.leaf
