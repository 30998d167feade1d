"""A sync while it is being hurt: ``store.git``, the hub ``hub.git`` and what others published there, side by side."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from builders import START_MS, Clock, begun, nonces, session
from purged import SECRET, find
from purged import purge as take_out
from remotes import hub, remote, say, store_with

from gitsession.api import Store
from gitsession.server import server
from gitsession.store.git_store import GitStore
from gitsession.sync import cloning, syncing

SYNC, PULL, PUSH, CLONE, TAKE = "sync", "pull", "push", "clone", "take"
WORKS = (SYNC, PULL, PUSH, CLONE, TAKE)
"""The runs that are hurt."""

KEY = "AKIA" + "Z3KQ7XJ2M5TB6WPL"  # joined here, so that no file of ours looks as if it held one

_URANDOM = os.urandom


def prepare(place: Path) -> None:
    """What comes: a line that went on apart, entries that were purged, a new session, titles on both sides. What goes:
    the same but for the purge, and a session with a secret that is held back.
    """
    _prepare(place, purged_by="other")
    server.uninstall(place / "hub.git")


def prepare_purging(place: Path) -> None:
    """The hub has our hooks; what was purged was purged here, and stands there and elsewhere."""
    _prepare(place, purged_by="store")


def do(work: str, place: str) -> None:
    """The run that is hurt, or the one after it."""
    folder = Path(place)
    if work == CLONE:
        Store.clone(str(folder / "hub.git"), folder / "clone.git")[0].close()
        return
    with Store.open(folder / "store.git", clock=Clock(START_MS + 10**6)) as store:
        if work == TAKE:
            store.remotes.unbundle(folder / "sessions.bundle")
        else:
            {SYNC: store.remotes.sync, PULL: store.remotes.pull, PUSH: store.remotes.push}[work]()


def _prepare(place: Path, *, purged_by: str) -> None:
    place.mkdir()
    os.urandom = nonces(b"sync")
    try:
        hub(place / "hub.git")
        server.install(place / "hub.git", [sys.executable, "-P", "-m", "gitsession"])
        clock = Clock()
        with store_with(place / "other.git", place / "hub.git") as other:
            sid = begun(other, "first", SECRET, "last", clock=clock).id
            syncing.sync(other, remote(other))
            with store_with(place / "store.git", place / "hub.git") as store:
                syncing.sync(store, remote(store))
                whose = {"other": other, "store": store}[purged_by]
                take_out(whose, find(whose))
            session(other, sid, clock=clock).rename("there")
            say(other, sid, "from there")
            begun(other, "another, there", clock=clock)
            syncing.sync(other, remote(other))
            cloning.write_bundle(other, place / "sessions.bundle")
        with (place / "store.git/config").open("a") as config:
            config.write("[gitsession]\n\tredact = false\n")
        with GitStore.open(place / "store.git", flush_on_close=False) as store:
            say(store, sid, "from here")
            session(store, sid, clock=clock).rename("here")
            begun(store, "another, here", clock=clock)
            begun(store, f"the key is {KEY}", clock=clock)
            store.flush()
            say(store, sid, "more from here")  # in the journal
    finally:
        os.urandom = _URANDOM
