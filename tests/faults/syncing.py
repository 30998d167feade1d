"""A sync with faults: ``store.git``, the hub ``hub.git`` and data published there by others, side by side."""

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
"""The runs with faults."""

KEY = "AKIA" + "Z3KQ7XJ2M5TB6WPL"  # joined here, so that this file does not seem to contain a key

_URANDOM = os.urandom


def prepare(place: Path) -> None:
    """Prepare data in both directions.

    To be fetched: a diverged branch, purged entries, a new session, titles set on both sides. To be pushed: the same
    except the purge, and a session that is held back because of a secret.
    """
    _prepare(place, purged_by="other")
    server.uninstall(place / "hub.git")


def prepare_purging(place: Path) -> None:
    """Prepare a hub with the hooks of gitsession, and a purge in this store of data that the hub and others have."""
    _prepare(place, purged_by="store")


def do(work: str, place: str) -> None:
    """Run the work with faults, or the one after it."""
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
