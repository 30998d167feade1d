"""What a clone left out (`--filter`), fetched when it is read.

Only where a program asks for it: by itself the store reaches out to nobody, for a lost object would do the same as one
that was left out, and whatever remote its configuration names would be asked.
"""

from __future__ import annotations

from gitsession.errors import GitSessionError, MissingObject
from gitsession.git.types import Oid
from gitsession.store.git_store import GitStore
from gitsession.sync import remotes, transport
from gitsession.sync.quarantine import Quarantine
from gitsession.sync.remotes import Remote
from gitsession.sync.transport import TransportOptions


def promisor(store: GitStore) -> Remote | None:
    """The remote that promised what this store left out, if there is one."""
    found = (remote for remote in remotes.listed(store.git_dir) if ("promisor", "true") in remote.settings)
    return next(found, None)


def fetch_on_demand(store: GitStore) -> None:
    """From now on an object that ``store`` lacks is asked of the remote that promised it."""
    remote = promisor(store)
    if remote is not None:
        store.promised = lambda oid: _fetch(store, remote, oid)


def _fetch(store: GitStore, remote: Remote, oid: Oid) -> None:
    """Bring one object. Raises ``MissingObject`` where it cannot be had."""
    try:
        with Quarantine(store.git_dir, remote, {}, beside_others=True) as place:
            transport.fetch(place.git_dir, remote, [oid], TransportOptions())
            place.move_in(kept=False)
    except (GitSessionError, OSError) as error:
        raise MissingObject(
            f"no object {oid} here, and {remote.name} does not give it: {error}",
            hint="it was left out when this store was cloned; try again when the remote can be reached",
        ) from None
