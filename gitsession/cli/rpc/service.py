"""The state of ``gitsession rpc`` that its methods share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import gitsession
from gitsession.cli.rpc.results import Json
from gitsession.cli.rpc.subscriptions import Subscriptions
from gitsession.errors import NotFound

if TYPE_CHECKING:
    from gitsession.api.agent_lines import AgentLines


class RpcService:
    """The store that a server serves, the sessions that are not stored yet, and the subscriptions.

    ``notify``, ``ingest``: see ``Subscriptions``.
    """

    def __init__(
        self, store: gitsession.Store, notify: Callable[[str, Json], None], ingest: Callable[[], None] = lambda: None
    ) -> None:
        self.store = store
        self.unstored: dict[str, gitsession.Session] = {}
        self.subscriptions = Subscriptions(store, notify, ingest)

    @functools.cached_property
    def lines(self) -> AgentLines:
        """The sessions as files of lines."""
        from gitsession.api.agent_lines import AgentLines  # most clients do not use it

        return AgentLines(self.store)

    def session(self, address: str, branch: str | None = None) -> gitsession.Session:
        """Return the session that an address names, on a branch."""
        found = self.unstored.get(address) or self.store.session(address)
        return found if branch is None else found.on(branch)

    def row(self, sid: str) -> gitsession.Row:
        """Return the row of a stored session in the catalog."""
        row = self.store.catalogue().session(sid)
        if row is None:
            raise NotFound(f"session {sid} has no entries yet", hint="append a message of the user first")
        return row
