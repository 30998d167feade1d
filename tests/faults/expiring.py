"""An expiry of checkpoints with faults: the folder ``work`` and the store ``store.git``, side by side."""

from __future__ import annotations

import os
from pathlib import Path

from builders import START_MS, Clock, nonces
from rewound import fill, put, take_away

from gitsession.api import Store
from gitsession.model.entries import Message

EXPIRE = "expire"
"""The run with faults."""

BEFORE_MS = START_MS + 10**6
DELETED = "deleted, last state"
_URANDOM = os.urandom


def prepare(place: Path) -> None:
    """Take checkpoints of a file that changes and of one that is deleted: in packs, in the journal and in a fork."""
    os.urandom = nonces(b"expire")
    try:
        _prepare(place)
    finally:
        os.urandom = _URANDOM


def _prepare(place: Path) -> None:
    folder = fill(place / "work", {"kept.txt": "kept", "deleted.txt": "deleted, first state"})
    clock = Clock()
    with Store.create(place / "store.git", clock=clock) as store:
        session = store.new_session(agent="agent", cwd=str(folder))
        session.append(Message.user("first"))
        for number in range(3):
            put(folder, "a.txt", f"state {number}")
            session.files.take_checkpoint(workspace=folder)
            put(folder, "deleted.txt", DELETED)
        take_away(folder / "deleted.txt")
        session.fork().append(Message.user("in the fork"))
        store.flush()
        sid = session.id
    with Store.open(place / "store.git", clock=clock, flush_on_close=False) as store:
        session = store.session(sid)
        for number in range(3, 6):
            session.append(Message.user(f"then {number}"))
            put(folder, "a.txt", f"state {number}")
            session.files.take_checkpoint(workspace=folder)
        session.append(Message.user("last"))


def do(place: str) -> None:
    with Store.open(Path(place) / "store.git", clock=Clock(START_MS + 10**6)) as store:
        store.purges.apply(store.purges.plan_checkpoints(BEFORE_MS))
