"""The state of a session at an entry, from the catalog and from the few entries with long values."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from gitsession.index import entry_rows, file_changes
from gitsession.index.catalogue import Catalogue
from gitsession.model.session_state import SessionState, StateChanges, changes_in
from gitsession.sessions import content, graph, history_state
from gitsession.sessions.meta import meta_of
from gitsession.sessions.node import Node, load
from gitsession.store.interface import ObjectStore


def state_of(catalogue: Catalogue, store: ObjectStore, sid: str, node: Node) -> SessionState:
    """Return the state of a session at an entry. The catalog must be up to date."""
    db, read = catalogue.db, functools.partial(content.entry_of, store)
    state = history_state.walk(
        graph.history(store, node.oid),
        read,
        lambda oid: entry_rows.state_at(db, entry_rows.row_in_any_session(db, oid)),
    )
    header = meta_of(store, sid).header
    stated = (header and changes_in(header)) or StateChanges()
    added, removed, files = file_changes.size_of_changes(db, sid, node.oid)
    return SessionState(
        modes=state.modes,
        permissions=_present(stated.permissions) | dict(state.permissions),
        todos=history_state.todos_of(state, lambda oid: read(load(store, oid))),
        plan=history_state.plan_of(state, lambda oid: read(load(store, oid))),
        marks=_present(stated.marks) | dict(state.marks),
        added=added,
        removed=removed,
        files=files,
    )


def _present(values: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}
