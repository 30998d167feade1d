"""What a remote holds, taken in: fetched apart, rid of what was purged, judged; then one transaction for all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gitsession.archive import archiving
from gitsession.errors import GitSessionError, Unavailable
from gitsession.git.ref_files import SYMBOLIC
from gitsession.git.types import Oid
from gitsession.purge import purging
from gitsession.sessions.reconcile import SyncedBranch, reconcile
from gitsession.store import histories, published, refs
from gitsession.store.git_store import GitStore
from gitsession.store.interface import Transaction
from gitsession.sync import purged_remotes, tombstone_merge, transport
from gitsession.sync.preconditions import HEADS, check_is_store, flush
from gitsession.sync.quarantine import Quarantine
from gitsession.sync.remotes import Remote
from gitsession.sync.transport import RejectedTransfer, TransportOptions
from gitsession.validation.proposals import Proposed
from gitsession.validation.validate import FetchedReader, judge_fetched

_OUR_ARCHIVE = f"{refs.TRACKING}{refs.ARCHIVE.removeprefix('refs/heads')}"
"""No ref: what our archive is called while one is judged that it may be joined with."""


@dataclass(frozen=True, slots=True)
class PullResult:
    """``stale``: what the remote holds of refs of ours with something in it that was purged; ``branches`` has them all,
    also those of sessions in the trash or the archive.
    """

    branches: list[SyncedBranch]
    stale: Mapping[str, Oid] = field(default_factory=dict)


def pull_refs(store: GitStore, remote: Remote, talk: TransportOptions) -> PullResult:
    """First what was purged, which is carried out; then one transaction: the packs, the tracking refs, and our own."""
    flush(store)
    purging.apply(store)  # what a plain `git fetch` has brought
    known = _known(store, remote)
    with Quarantine(store.git_dir, remote, known) as place:
        refused = _fetch(place, remote, talk)
        place.cut_off()
        read = FetchedReader(place.git_dir, store)
        there = place.refs(remote.tracks)
        check_is_store(remote, {remote.here(name): oid for name, oid in there.items()}, read)
        fetched = {ref: oid for ref, oid in _of_ours(remote, there).items() if ref not in refused}
        fetched |= _only_tracked(store, remote, there)
        raw = {ref: oid for ref, oid in fetched.items() if ref != refs.TOMBSTONES}
        news = tombstone_merge.look(
            store, read, fetched.get(refs.TOMBSTONES), {remote.tracking(ref): raw[ref] for ref in raw}
        )
        left = purged_remotes.rewritten(place, read, news.said, raw, {} if news.is_new else known)
        joined = tombstone_merge.join(store, read, news)
        refused |= {branch.ref: branch for branch in joined if branch.outcome == "refused"}
        flush(store)
        known = _known(store, remote)
        kept = purged_remotes.still_listed(
            store, read, {ref: oid for ref, oid in (raw | left).items() if ref != refs.ARCHIVE}
        )
        refused |= _judge(store, place, {ref: oid for ref, oid in (raw | left).items() if ref not in kept}, known)
        refused |= _without_branch(store, raw | left, refused)
        theirs = {ref: oid for ref, oid in (raw | left).items() if ref not in refused}
        tips = {ref: oid for ref, oid in fetched.items() if ref == refs.TOMBSTONES and ref not in refused}
        if refused or left or joined:  # git completes a pack with what it borrowed: that may be purged by now
            place.keep_only({**theirs, **tips}.values(), known.values())
            read = FetchedReader(place.git_dir, store)  # it has other packs now
        listed = purged_remotes.still_listed(store, read, theirs)
        with store.transaction() as tx:
            try:
                place.move_in()
            except OSError as error:
                raise Unavailable(f"cannot keep what was fetched: {error.strerror}") from error
            if remote.is_named:
                _remember(store, tx, remote, {**theirs, **tips}, {*there})
            here, away = store.refs(HEADS), _in_trash(store)
            ours = {ref: oid for ref, oid in theirs.items() if ref in here or refs.session_of(ref) not in away}
            ours = {ref: oid for ref, oid in ours.items() if ref not in listed and ref != refs.ARCHIVE}
            differ = {ref: oid for ref, oid in ours.items() if here.get(ref) != oid}
            done = reconcile(store, tx, differ, is_home=remote.is_home)
    published.forget(store.git_dir, remote.name)
    joined += archiving.join(store, store, theirs.get(refs.ARCHIVE))
    archiving.drop_archived_refs(store)
    flush(store)
    held = {ref: raw[ref] for ref in left if ref in theirs and remote.tracking(ref) in there}
    same = {ref: oid for ref, oid in (ours | {ref: theirs[ref] for ref in held}).items() if ref not in differ}
    found = {ref: SyncedBranch(ref, "same", oid, oid) for ref, oid in same.items()}
    found |= {branch.ref: branch for branch in (*joined, *done)} | refused
    return PullResult([found[ref] for ref in sorted(found)], held if remote.is_named else {})


def _known(store: GitStore, remote: Remote) -> dict[str, Oid]:
    return {name: oid for prefix in (HEADS, remote.tracks) for name, oid in store.refs(prefix).items()}


def _in_trash(store: GitStore) -> set[str]:
    """Sessions in the trash: remotes keep them, and they do not come back by that."""
    return {refs.session_of(refs.taken_out(name)) for name in store.refs(refs.TRASH)}


def _remember(store: GitStore, tx: Transaction, remote: Remote, theirs: Mapping[str, Oid], there: set[str]) -> None:
    """Bring the tracking refs up to date; those go that the remote has no more."""
    seen = store.refs(remote.tracks)
    for ref, oid in theirs.items():
        name = remote.tracking(ref)
        if seen.get(name) != oid:
            tx.move(name, oid, expected=store.ref(name))
    for name in seen.keys() - there:
        tx.move(name, None, expected=store.ref(name))


def _judge(
    store: GitStore, place: Quarantine, theirs: Mapping[str, Oid], known: Mapping[str, Oid]
) -> dict[str, SyncedBranch]:
    """What of ``theirs`` is not what docs/format.md says, ref by ref. What both hold of a line was judged before."""
    read = FetchedReader(place.git_dir, store)
    differ = {ref: oid for ref, oid in theirs.items() if known.get(ref) != oid}
    ours = {ref: known.get(ref) for ref in differ if ref != refs.ARCHIVE}  # which is no line
    moves = [Proposed(ref, _base(read, ours.get(ref), oid), oid) for ref, oid in differ.items()]
    before = {name: oid for name, oid in known.items() if name.startswith(HEADS) and name not in differ}
    before |= {move.ref: move.old for move in moves if move.old is not None}
    if refs.ARCHIVE in known:
        before[_OUR_ARCHIVE] = known[refs.ARCHIVE]
    return {
        refusal.ref: SyncedBranch(
            refusal.ref,
            "refused",
            known.get(refusal.ref),
            why=refusal.what + (f" (at {refusal.oid[:10]})" if refusal.oid else ""),
        )
        for refusal in judge_fetched(read, moves, before)
    }


def _without_branch(
    store: GitStore, theirs: Mapping[str, Oid], refused: Mapping[str, SyncedBranch]
) -> dict[str, SyncedBranch]:
    """Refuse the other refs of sessions of which every branch was refused, and none is here."""
    there = [*store.refs(refs.SESSIONS), *(ref for ref in theirs if ref not in refused)]
    parsed = [found for ref in there if (found := refs.parse(ref)) is not None]
    left = {refs.session_of(ref) for ref in refused} - {sid for sid, name in parsed if refs.is_branch(name)} - {""}
    why = "its session was refused"
    alone = (ref for ref in theirs if ref not in refused and refs.session_of(ref) in left)
    return {ref: SyncedBranch(ref, "refused", why=why) for ref in alone}


def _of_ours(remote: Remote, tracking: Mapping[str, Oid]) -> dict[str, Oid]:
    """What tracking refs say, by our names; of what is none of ours nothing."""
    found = {remote.here(name): oid for name, oid in tracking.items()}
    return {ref: oid for ref, oid in found.items() if remote.there(ref) is not None}


def _only_tracked(store: GitStore, remote: Remote, there: Mapping[str, Oid]) -> dict[str, Oid]:
    """Return the branches that plain `git fetch` brought, that no branch holds, and that the remote has deleted since.

    Their tracking refs are about to be deleted, and may be the last that lead to these entries.
    """
    found = {}
    for ref, oid in _of_ours(remote, store.refs(remote.tracks)).items():
        sid = refs.session_of(ref)
        if remote.tracking(ref) in there or not sid or oid.startswith(SYMBOLIC):
            continue
        ends = [end for end in store.refs(refs.session(sid)).values() if not end.startswith(SYMBOLIC)]
        try:
            if not any(histories.holds(store.read, end, oid) for end in ends):
                found[ref] = oid
        except GitSessionError:
            found[ref] = oid
    return found


def _base(read: FetchedReader, ours: Oid | None, theirs: Oid) -> Oid | None:
    """What both hold of a line: it was judged before."""
    try:
        return None if ours is None else histories.parting(read.read, ours, theirs).base
    except GitSessionError:
        return None


def _fetch(place: Quarantine, remote: Remote, talk: TransportOptions) -> dict[str, SyncedBranch]:
    """Fetch all into ``place``; the refs that git refused. Raises ``Unavailable``."""
    try:
        transport.fetch(place.git_dir, remote, remote.fetched(), talk)
        return {}
    except RejectedTransfer as error:
        told = transport.advertised(place.git_dir, remote, talk)
        seen = place.refs(remote.tracks)
        ours = {far: ref for far in told if (ref := remote.near(far)) is not None}
        todo = [far for far, ref in ours.items() if seen.get(remote.tracking(ref)) != told[far]]
        if not todo:
            raise
        return _fetch_halves(place, remote, todo, talk, str(error))


def _fetch_halves(
    place: Quarantine, remote: Remote, todo: list[str], talk: TransportOptions, why: str
) -> dict[str, SyncedBranch]:
    if len(todo) == 1:
        ref = remote.near(todo[0]) or todo[0]
        return {ref: SyncedBranch(ref, "refused", why=why)}
    refused: dict[str, SyncedBranch] = {}
    for half in (todo[: len(todo) // 2], todo[len(todo) // 2 :]):
        specs = [f"+{far}:{remote.tracking(remote.near(far) or far)}" for far in half]
        try:
            transport.fetch(place.git_dir, remote, specs, talk)
        except RejectedTransfer as error:
            refused |= _fetch_halves(place, remote, half, talk, str(error))
    return refused
