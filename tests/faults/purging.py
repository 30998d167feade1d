"""A purge with faults: a store with a secret in its journal, its packs, a title and an exported file."""

from __future__ import annotations

import os
from pathlib import Path

from builders import START_MS, Clock, nonces
from purged import SECRET

from gitsession.api import Store
from gitsession.model.entries import Message
from gitsession.store.git_store import GitStore

PURGE = "purge"
"""The run with faults."""

EXPORT = "exported.jsonl"
"""File in the folder of the store, so that it is restored together with the store."""
_URANDOM = os.urandom


def prepare(place: Path) -> None:
    """Create entries in packs and in the journal, on two branches, and undone commands."""
    os.urandom = nonces(b"purge")
    try:
        clock = Clock()
        with Store.create(place, clock=clock) as store:
            session = store.new_session(agent="agent", cwd="/work")
            session.append(Message.user("first"))
            session.append(Message.user(SECRET))
            session.append(Message.user("last"))
            session.branch("side")
            session.rename(SECRET)
            session.rename("harmless")
            sid = session.id
            data = store.export(sid, to="claude").data
            (place / EXPORT).write_bytes(data)
            store.agents.record_export(sid, place / EXPORT, "claude", data)
            store.flush()
            store.sessions()
        with Store.open(place, clock=clock, flush_on_close=False) as store:
            store.session(sid).append(Message.user(f"again: {SECRET}"))
            store.undo()
    finally:
        os.urandom = _URANDOM


def do(place: str) -> None:
    with Store.open(place, clock=Clock(START_MS + 10**6)) as store:
        carry_out(store)


def carry_out(store: Store) -> None:
    what = store.purges.plan(text=SECRET)
    if not what.is_empty:
        store.purges.apply(what)
        store.purges.redact_exports(what)


def settle(place: Path) -> GitStore:
    """Do the work of the next program: open the store and complete any pending purge."""
    with Store.open(place, clock=Clock(START_MS + 2 * 10**6)) as store:
        carry_out(store)
    return GitStore.open(place)
