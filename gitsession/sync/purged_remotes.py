"""A remote without our hooks keeps what was purged: it is taken in as a purge leaves it, and set to that there.

The rewrite is pure, so every store comes to the same line, and the lease says which one it takes the place of: whoever
publishes in between is never overwritten. A remote with our hooks rewrites itself when the set of tombstones arrives,
which is pushed before anything else; nothing is forced there.

Such a remote also goes on listing the sessions that are archived: they are not taken in again, and deleted there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gitsession.archive import archive_set, archiving
from gitsession.errors import GitSessionError, Unavailable
from gitsession.git.ref_files import SYMBOLIC
from gitsession.git.types import Oid
from gitsession.purge.rewriting import Rewriter
from gitsession.sessions.tombstone_set import Tombstones
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.sync import transport
from gitsession.sync.quarantine import Quarantine
from gitsession.sync.remotes import Remote
from gitsession.sync.transport import TransportOptions
from gitsession.validation.proposals import GitReader
from gitsession.validation.validate import FETCH_LIMITS, FetchedReader

_STAYS = (
    "the remote still holds what was purged, and takes nothing in its place ({why}): its owner must allow one forced "
    "push, or delete the branch there, or install gitsession's hooks; then `git gc` there"
)


def rewritten(
    place: Quarantine, read: FetchedReader, tombstones: Tombstones, theirs: Mapping[str, Oid], known: Mapping[str, Oid]
) -> dict[str, Oid]:
    """What refs in ``place`` are without what was purged, those that differ; the objects are put there.

    ``known``: refs whose lines hold nothing of it; none, and all is looked at. A line that cannot be rewritten stays:
    the judge says why. Raises ``Unavailable``.
    """
    if not tombstones:
        return {}
    rewriter = Rewriter(read, tombstones, _NotIn(_new(place, theirs, known)) if known else ())
    found = {}
    for ref, oid in theirs.items():
        try:
            if (made := rewriter.ref(ref, oid)) != oid:
                found[ref] = made
        except GitSessionError:
            continue
    if found:
        try:
            place.put(rewriter.objects)
        except OSError as error:
            raise Unavailable(f"cannot keep what was fetched: {error.strerror}") from error
    return found


@dataclass(frozen=True, slots=True)
class _NotIn:
    """All but ``new``."""

    new: frozenset[Oid]

    def __contains__(self, oid: object) -> bool:
        return oid not in self.new


def _new(place: Quarantine, theirs: Mapping[str, Oid], known: Mapping[str, Oid]) -> frozenset[Oid]:
    """The commits that ``theirs`` lead to, and none of ``known``."""
    plain = {name: oid for name, oid in known.items() if not oid.startswith(SYMBOLIC)}
    tips = set(theirs.values()) - set(plain.values())
    if not tips:
        return frozenset()
    with GitReader(place.git_dir, plain) as apart:
        return frozenset(apart.new(tips, None, FETCH_LIMITS.entries) or ())


@dataclass(frozen=True, slots=True)
class RemotePurge:
    """``stays``: why, by ref, the remote keeps what it holds. ``is_late``: somebody published there in between."""

    took: frozenset[str] = frozenset()
    stays: Mapping[str, str] = field(default_factory=dict)
    is_late: bool = False


def clear(store: GitStore, remote: Remote, talk: TransportOptions, held: Mapping[str, Oid]) -> RemotePurge:
    """Set what the remote holds to what our tracking refs say of it. ``held``: what was seen there, by our names.

    Raises ``Unavailable``.
    """
    seen = store.refs(remote.tracks)
    wanted = {ref: (seen[name], remote.there(ref) or ref) for ref in held if (name := remote.tracking(ref)) in seen}
    if not wanted:
        return RemotePurge()
    with Quarantine(store.git_dir, remote, {}) as place:
        done = transport.push(place.git_dir, remote, wanted, talk, leases=held)
        refused = {ref: result for ref, result in done.refs.items() if not result.ok}
        is_late = any(result.moved for result in refused.values())
        if refused and not is_late:
            there = transport.advertised(place.git_dir, remote, talk)
            is_late = any(there.get(wanted[ref][1]) != held[ref] for ref in refused)
    stays = {ref: _STAYS.format(why=result.why) for ref, result in refused.items() if not result.moved}
    return RemotePurge(frozenset(done.refs.keys() - refused.keys()), stays, is_late)


def still_listed(store: GitStore, read: FetchedReader, theirs: Mapping[str, Oid]) -> set[str]:
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


def retire(store: GitStore, remote: Remote, talk: TransportOptions) -> None:
    """Where the remote has our archive and lists its sessions nevertheless, it has none of our hooks: they are deleted
    there, each if it holds what we have seen of it. What it will not delete stays. Raises ``Unavailable``.
    """
    seen = {remote.here(name): oid for name, oid in store.refs(remote.tracks).items()}
    if refs.ARCHIVE not in seen or seen[refs.ARCHIVE] != store.ref(refs.ARCHIVE):
        return
    listed = still_listed(store, FetchedReader(store.git_dir, store), seen)
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
