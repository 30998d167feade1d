"""The state of a session at an entry, from the catalog and from the few entries with long values."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from gitsession.index import entry_rows, file_changes
from gitsession.index.catalogue import Catalogue
from gitsession.model.entries import Attachment
from gitsession.model.session_state import SessionState, StateChanges, changes_in
from gitsession.sessions import content, graph, history_state
from gitsession.sessions.meta import Meta, meta_of
from gitsession.sessions.node import Node, load
from gitsession.store.interface import ObjectStore


def state_of(catalogue: Catalogue, store: ObjectStore, sid: str, node: Node) -> SessionState:
    """Return the state of a session at an entry. The catalog must be up to date."""
    db, read = catalogue.db, functools.partial(content.entry_of, store)
    state = entry_rows.state_in_history(db, store, node.oid)
    meta = meta_of(store, sid)
    stated = (meta.header and changes_in(meta.header)) or StateChanges()
    rows = _state_in_side_files(store, meta)
    is_tip = node.oid in graph.branches(store, sid).values()
    todos = history_state.todos_of(state, lambda oid: read(load(store, oid)))
    added, removed, files = file_changes.size_of_changes(db, sid, node.oid)
    return SessionState(
        modes=state.modes,
        permissions=_present(stated.permissions) | _present(rows.permissions) | dict(state.permissions),
        todos=todos or (rows.todos if is_tip and rows.todos else ()),
        plan=history_state.plan_of(state, lambda oid: read(load(store, oid))),
        marks=_present(stated.marks) | dict(state.marks),
        added=added,
        removed=removed,
        files=files,
    )


def _state_in_side_files(store: ObjectStore, meta: Meta) -> StateChanges:
    """Return the state in the newest side files that an agent keeps for it, such as the rows of opencode's tables."""
    attachments = [node for node in meta.nodes if node.kind == Attachment.kind]
    changes = StateChanges()
    if meta.header is None or not attachments:
        return changes
    from gitsession.formats import WithSideFiles, with_capability  # not loaded for most sessions

    format = with_capability(meta.header.agent or "", WithSideFiles)
    for name in format.STATES if format is not None else ():
        about = [node for node in attachments if name in node.subject]
        entries = (content.entry_of(store, node) for node in about)  # others can be large
        newest = next((each for each in entries if isinstance(each, Attachment) and each.name == name), None)
        found = format.stated(name, newest.data) if format is not None and newest is not None else None
        if found is not None:
            changes = changes._replace(
                todos=changes.todos if found.todos is None else found.todos,
                permissions={**changes.permissions, **found.permissions},
            )
    return changes


def _present(values: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}
