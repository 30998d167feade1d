"""The sessions that an undo or redo may change: one session, or those of a folder and its project."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gitsession.git.types import Oid, RefValue
from gitsession.index.catalogue import Row
from gitsession.index.current_folder import CurrentFolder, is_here, is_of
from gitsession.model.entries import Fork
from gitsession.sessions import graph
from gitsession.sessions.content import entry_of
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.meta import meta_of
from gitsession.sessions.operation_log import Operation, UndoScope
from gitsession.store import refs
from gitsession.store.interface import ObjectStore, StoreProxy


class _Held(NamedTuple):
    sid: str
    project: str | None
    identity: str | None


class _AsMoved(StoreProxy):
    """A store whose session refs are those that operations moved. For reading."""

    def __init__(self, store: ObjectStore, values: Mapping[str, Oid]) -> None:
        super().__init__(store)
        self._values = values

    def ref(self, name: str) -> RefValue | None:
        return self._values.get(name)


def of_session(sid: str) -> UndoScope:
    """Return the scope of one session."""
    return lambda changed, _: changed == sid


def of_folder(store: ObjectStore, rows: Sequence[Row], here: CurrentFolder) -> UndoScope:
    """Return the scope of the sessions held in a folder, above or below it, or of its project.

    A session that no folder is known of is in every scope. ``rows``: the catalogue, which does not list what a command
    removed: of that the operation leads to the entries.
    """
    known = {row.sid: _Held(row.sid, row.project, row.identity) for row in rows}
    identity = functools.cache(here.identity)

    def is_within(sid: str, unit: Sequence[Operation]) -> bool:
        held = known.get(sid) or _held(store, sid, unit)
        is_below = here.cwd.rstrip("/") not in here.everybodys and is_of(held, here.cwd)
        if held.project is None or is_here(held, here) or is_below:
            return True
        return held.identity is not None and held.identity == identity()

    return is_within


def _held(store: ObjectStore, sid: str, unit: Sequence[Operation]) -> _Held:
    """Return where a session was held by the entries that ``unit`` moved its refs to or from."""
    values: dict[str, Oid] = {}
    for move in (move for operation in unit for move in operation.moves):
        value = move.new or move.old
        if refs.session_at(move.ref) == sid and value is not None and refs.target(value) is None:
            values[refs.taken_out(move.ref) if move.ref.startswith(refs.TRASH) else move.ref] = value
    try:
        meta = meta_of(_AsMoved(store, values), sid)
        if meta.header is not None:
            return _Held(sid, meta.header.cwd, meta.project)
        for value in values.values():
            for node in graph.line(store, value):
                entry = entry_of(store, node) if node.kind == Fork.kind else None
                if isinstance(entry, Fork) and entry.session == sid:
                    return _Held(sid, entry.cwd, None)
    except DAMAGE:
        pass  # `verify` names what cannot be read
    return _Held(sid, None, None)
