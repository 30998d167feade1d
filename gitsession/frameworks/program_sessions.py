"""Sessions that a program finds by its own id or, such as a fork of the command line, by the id in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gitsession.frameworks.session_folder import session_folder

if TYPE_CHECKING:
    from gitsession.api.session import Session
    from gitsession.api.store import Store


def find_session(store: Store, id: str, *, agent: str) -> Session | None:
    """Return the session of ``agent`` with the key or the session id ``id``; ``None`` if there is none."""
    found = store.find_keyed(id, agent=agent)
    if found is None and any(row.sid == id and row.agent == agent for row in store.sessions()):
        return store.session(id)
    return found


def open_session(store: Store, id: str, *, agent: str, cwd: str | None = None) -> Session:
    """Return the same session as ``find_session``. If there is none, create a session with the key ``id``."""
    return find_session(store, id, agent=agent) or store.keyed_session(id, agent=agent, cwd=session_folder(cwd))
