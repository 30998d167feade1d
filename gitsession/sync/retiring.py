"""What remotes list of sessions that are archived: not taken in again, and deleted there where no hook of ours does."""

from __future__ import annotations

from collections.abc import Mapping

from gitsession.archive import archive_set, archiving
from gitsession.git.types import Oid
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.sync import transport
from gitsession.sync.quarantine import Quarantine
from gitsession.sync.remotes import Remote
from gitsession.sync.transport import Talk
from gitsession.validation.fetched import Reader


def held(store: GitStore, read: Reader, theirs: Mapping[str, Oid]) -> set[str]:
    """Return the refs of archived sessions that say no more than that: remotes without our hooks list them for a while.

    None of a session that went on, here or there: it comes out of the archive, and all its refs meet.
    """
    archive = theirs.get(refs.ARCHIVE)
    said = archive_set.read(store) | (archive_set.at(read, archive) if archive is not None else archive_set.NONE)
    listed = {ref for ref in theirs if refs.session_of(ref) in said}
    here = {ref: oid for ref, oid in store.refs(refs.SESSIONS).items() if refs.session_of(ref) in said}
    every = (*here.items(), *((ref, theirs[ref]) for ref in listed))
    went_on = {refs.session_of(ref) for ref, oid in every if not archiving.is_held(said, ref, oid, read.read)}
    return {ref for ref in listed if refs.session_of(ref) not in went_on}


def retire(store: GitStore, remote: Remote, talk: Talk) -> None:
    """Where the remote has our archive and lists its sessions nevertheless, it has none of our hooks: they are deleted
    there, each if it holds what we have seen of it. What it will not delete stays. Raises ``Unavailable``.
    """
    seen = {remote.here(name): oid for name, oid in store.refs(remote.tracks).items()}
    if refs.ARCHIVE not in seen or seen[refs.ARCHIVE] != store.ref(refs.ARCHIVE):
        return
    listed = held(store, Reader(store.git_dir, store), seen)
    leases = {there: seen[ref] for ref in sorted(listed) if (there := remote.there(ref)) is not None}
    if not leases:
        return
    with Quarantine(store.git_dir, remote, {}) as place:
        gone = transport.delete(place.git_dir, remote, leases, talk)
    with store.transaction() as tx:
        for there in gone:
            name = remote.tracking(remote.near(there) or there)
            if store.ref(name) == leases[there]:
                tx.move(name, None, expected=leases[there])
    store.flush()
