"""Origins of sessions, found with the catalog, and the sessions that began at the entries of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gitsession.git.types import Oid
from gitsession.index.catalogue import Catalogue, Row
from gitsession.sessions.gaps import DAMAGE
from gitsession.store.interface import ObjectStore

if TYPE_CHECKING:
    from gitsession.sessions.origin import Origin


def origin_of(store: ObjectStore, catalogue: Catalogue, sid: str, source_id: str | None) -> Origin | None:
    """Return the origin of a session; ``None`` if it has none, or if the origin is not in the store.

    ``source_id``: the agent's id of the session.
    """
    from gitsession.sessions.origin import origin  # it reads agents' formats, and few sessions have an origin

    def find(agent: str, source_id: str) -> str | None:
        return next((row.sid for row in catalogue.by_source(agent, source_id)), None)

    (start,) = catalogue.db.execute("SELECT start FROM sessions WHERE sid = ?", (sid,)).fetchone()
    return origin(store, sid, source_id, start, find)


def begun_in(store: ObjectStore, catalogue: Catalogue, session: Row) -> dict[Oid, list[Row]]:
    """Return the sessions that ``session`` started, its forks, and those that continue it, by the oid of their origin.

    If the entry where a session began is unknown, the key is "".
    """
    found: dict[Oid, list[Row]] = {}
    for row in catalogue.begun_in(session):
        try:
            origin = origin_of(store, catalogue, row.sid, row.source_id)
        except DAMAGE:  # of that session
            origin = None
        entry = origin.entry if origin is not None else None
        found.setdefault(entry.oid if entry is not None else "", []).append(row)
    return found
