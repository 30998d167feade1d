"""Fetch the refs of a remote into a quarantine, in the way that takes git the least time.

    clone        if nothing was fetched before, and the store has no sessions
    moved refs   if there are many remote-tracking refs and few refs have moved: list the refs, and fetch by name
    all refs     otherwise

If git rejects an object, the refs are fetched in smaller groups, so that only the refs that lead to it are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from gitsession.archive import archive_set
from gitsession.errors import GitSessionError
from gitsession.git.objects import parse_commit
from gitsession.git.ref_files import SYMBOLIC
from gitsession.git.types import Oid
from gitsession.sessions import tombstone_set
from gitsession.sessions.merge_remote_branches import SyncedBranch
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.sync import transport
from gitsession.sync.remotes import Remote
from gitsession.sync.transport import Quarantine, RejectedTransfer, TransportOptions
from gitsession.validation.validate import FetchedReader

_NAMED_MAX, _NAMED_CHARS_MAX = 300, 100_000
"""Maximum number of refs that one fetch names, and of the characters of their names.

git compares each name with every ref of the remote, so a fetch of all refs is faster than one of 1,000 names.
"""
_NO_REF = "couldn't find remote ref"


def fetch_refs(
    store: GitStore, quarantine: Quarantine, remote: Remote, known: Mapping[str, Oid], options: TransportOptions
) -> tuple[Mapping[str, Oid], dict[str, SyncedBranch]]:
    """Fetch all refs into ``quarantine``, and cut it off.

    Return the remote-tracking refs, and the refs that git rejected. ``known``: the refs in the new quarantine.
    Raises ``Unavailable``.
    """
    tracks = remote.tracks
    tracked = {name: oid for name, oid in known.items() if name.startswith(tracks) and not oid.startswith(SYMBOLIC)}
    if remote.is_plain and not (tracked or store.refs(refs.SESSIONS) or store.refs(refs.TRASH)):
        with suppress(RejectedTransfer):
            return {remote.tracking(ref): oid for ref, oid in quarantine.clone(options).items()}, {}
    # git then takes longer to compare all refs than to connect twice. A repository of code may have many other refs.
    if len(tracked) >= transport.MANY_TRACKING_REFS and not remote.is_shared:
        listed = _list_remote_refs(quarantine, remote, options)
        moved = [far for name, (far, oid) in listed.items() if tracked.get(name) != oid]
        if len(moved) <= _NAMED_MAX:
            return _fetch_moved(quarantine, remote, tracked, listed, moved, options)
    return _fetch_all(quarantine, remote, len(tracked), options)


def _fetch_moved(
    quarantine: Quarantine,
    remote: Remote,
    tracked: Mapping[str, Oid],
    listed: Collection[str],
    moved: Sequence[str],
    options: TransportOptions,
) -> tuple[Mapping[str, Oid], dict[str, SyncedBranch]]:
    """Fetch the refs ``moved`` by name. The result is that of ``fetch_refs``.

    ``tracked``: the remote-tracking refs before. ``listed``: those of the refs that the remote has now.
    """
    refused = _fetch_named(quarantine, remote, moved, options)
    quarantine.cut_off()
    tracking = quarantine.refs(remote.tracks) if moved else tracked
    unlisted = tracking.keys() - listed
    gone = {name for name in unlisted if remote.remote_ref(remote.local_ref_of(name)) is not None}
    return {name: oid for name, oid in tracking.items() if name not in gone}, refused


def _fetch_all(
    quarantine: Quarantine, remote: Remote, tracking_refs: int, options: TransportOptions
) -> tuple[Mapping[str, Oid], dict[str, SyncedBranch]]:
    """Fetch all refs. The result is that of ``fetch_refs``. ``tracking_refs``: the number of remote-tracking refs."""
    refused = {}
    try:
        transport.fetch(quarantine.git_dir, remote, remote.fetched(), options, tracking_refs=tracking_refs)
    except RejectedTransfer:
        tracking = quarantine.refs(remote.tracks)
        listed = _list_remote_refs(quarantine, remote, options)
        missing = [far for name, (far, oid) in listed.items() if tracking.get(name) != oid]
        if not missing:
            raise
        refused = _fetch_named(quarantine, remote, missing, options)
    quarantine.cut_off()
    return quarantine.refs(remote.tracks), refused


def _list_remote_refs(quarantine: Quarantine, remote: Remote, options: TransportOptions) -> dict[str, tuple[str, Oid]]:
    """Return the refs of the remote by remote-tracking ref: their names at the remote, and their values."""
    advertised = transport.advertised(quarantine.git_dir, remote, options)
    named = ((remote.local_ref(far), far, oid) for far, oid in advertised.items())
    return {remote.tracking(ref): (far, oid) for ref, far, oid in named if ref is not None}


def _fetch_named(
    quarantine: Quarantine, remote: Remote, names: Sequence[str], options: TransportOptions
) -> dict[str, SyncedBranch]:
    """Fetch the refs with these names at the remote; return the outcomes for those that git rejects.

    If git rejects any of them, or if there are too many for one command, each half is fetched alone.
    """
    if len(names) <= _NAMED_MAX and sum(map(len, names)) <= _NAMED_CHARS_MAX:
        specs = [f"+{far}:{remote.tracking(remote.local_ref(far) or far)}" for far in names]
        try:
            if specs:
                transport.fetch(quarantine.git_dir, remote, specs, options)
            return {}
        except RejectedTransfer as error:
            if len(names) == 1:
                ref = remote.local_ref(names[0]) or names[0]
                is_gone = _NO_REF in str(error)  # it was deleted since the refs were listed
                return {} if is_gone else {ref: SyncedBranch(ref, "refused", why=str(error))}
    middle = len(names) // 2
    first, second = (_fetch_named(quarantine, remote, half, options) for half in (names[:middle], names[middle:]))
    return first | second


def fetch_sets(store: GitStore, quarantine: Quarantine, fetched: Mapping[str, Oid], options: TransportOptions) -> None:
    """Fetch what a filter left out of the tombstone set and the archive, because both are read completely.

    If the remote refuses, the validation rejects the sets. ``fetched``: the fetched refs. Raises ``Unavailable``.
    """
    read = FetchedReader(quarantine.git_dir, store)
    missing: list[Oid] = []
    for ref, grow_only_set in ((refs.TOMBSTONES, tombstone_set.SET), (refs.ARCHIVE, archive_set.SET)):
        with suppress(GitSessionError):  # the validation reports what is wrong
            commits = grow_only_set.commits(read, fetched[ref]) if ref in fetched else iter(())
            new = (oid for oid in commits if not store.contains(oid))
            trees = [parse_commit(read.read(oid)[1]).tree for oid in new]
            missing += quarantine.missing([tree for tree in trees if read.contains(tree)])
    with suppress(RejectedTransfer):
        quarantine.fetch_objects(missing, options)
