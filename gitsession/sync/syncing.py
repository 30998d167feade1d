"""Pull, push and sync: what a remote holds is taken in, what it lacks is sent.

    pull   fetch apart -> tombstones joined -> validate -> packs, tracking refs and our refs in one transaction
    push   note what is about to go -> git push, exact refs only -> tracking refs
    sync   pull, push; again where somebody published in between

Each step can be killed and done again: what a transaction holds is there or not, and the next run comes to the same.
Appends go on meanwhile. docs/explanation/sync.md has the rules.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from gitsession.archive import archive_set, archiving
from gitsession.errors import GitSessionError, Refused, Unavailable
from gitsession.git.ref_files import SYMBOLIC
from gitsession.git.types import Oid
from gitsession.purge import purging
from gitsession.sessions.merge_remote_branches import SyncedBranch, reconcile
from gitsession.store import histories, published, refs
from gitsession.store.git_store import GitStore
from gitsession.store.interface import Transaction
from gitsession.sync import tombstone_sync, transport
from gitsession.sync.pushing import PushResult, in_scope, send
from gitsession.sync.remotes import HEADS, Remote, check_is_store, plain
from gitsession.sync.transport import Quarantine, RejectedTransfer, TransportOptions, flush, sync_lock
from gitsession.validation.quarantine_reader import Proposed
from gitsession.validation.validate import FetchedReader, judge_fetched

ATTEMPTS = 6

_QUIET = TransportOptions()


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What became of each ref. ``pushed``: those that the remote took; ``said``: what its hooks said."""

    remote: str
    branches: tuple[SyncedBranch, ...]
    pushed: frozenset[str] = frozenset()
    said: tuple[str, ...] = ()

    def of(self, *outcomes: str) -> list[SyncedBranch]:
        return [branch for branch in self.branches if branch.outcome in outcomes]


def pull(store: GitStore, remote: Remote, talk: TransportOptions = _QUIET) -> SyncReport:
    """Take in what the remote has. Raises ``Unavailable``."""
    with sync_lock(store):
        return SyncReport(remote.name, tuple(pull_refs(store, remote, talk).branches))


def push(
    store: GitStore,
    remote: Remote,
    talk: TransportOptions = _QUIET,
    *,
    sessions: Iterable[str] = (),
    among: Collection[str] | None = None,
) -> SyncReport:
    """Send what the remote lacks, as far as was seen of it; of ``sessions`` only, if any are named: of others not what
    the archive leads to or a redaction left, either.

    ``among``: the sessions in the remote's scope (``pushing.in_scope``). Nothing is forced: what others published
    meanwhile is refused there, and told. Raises ``Unavailable``, and ``Refused`` for a session outside of the scope.
    """
    sessions = list(sessions)
    with sync_lock(store):
        fits = in_scope(store, remote, among)
        beyond = next((sid for sid in sessions if not fits(refs.leaf(sid))), "")
        if beyond:
            hint = "`gitsession remote` lists the scope of each remote"
            raise Refused(f"cannot push session {beyond}: it is outside of the scope of {remote.name}", hint=hint)
        named = set(sessions)
        sent = send(store, remote, talk, only=named, among=named or among)
    return SyncReport(remote.name, tuple(sent.branches), sent.took, sent.said)


def sync(
    store: GitStore, remote: Remote, talk: TransportOptions = _QUIET, *, among: Collection[str] | None = None
) -> SyncReport:
    """Both, until both have the same, as far as the scope goes (``push``).

    Raises ``Unavailable``, also where others publish again and again.
    """
    pulled: dict[str, SyncedBranch] = {}
    pushed: frozenset[str] = frozenset()
    with sync_lock(store):
        for _ in range(ATTEMPTS):
            if store.ref(refs.TOMBSTONES) != store.ref(remote.tracking(refs.TOMBSTONES)):
                # Before any session: a server with our hooks takes it out of what it has.
                pushed |= send(store, remote, talk, only={refs.TOMBSTONES}, among=among).took
            taken = pull_refs(store, remote, talk)
            for branch in taken.branches:
                pulled[branch.ref] = _summed(pulled.get(branch.ref), branch)
            cleared = tombstone_sync.clear(store, remote, talk, taken.stale)
            pulled |= {ref: _cleared(pulled[ref]) for ref in cleared.took}
            pushed |= cleared.took
            spoilt = {branch.ref for branch in pulled.values() if branch.outcome == "refused" and not branch.beside}
            sent = send(store, remote, talk, leave=spoilt | cleared.stays.keys(), among=among)
            pushed |= sent.took
            if sent.is_whole and not cleared.is_late:
                retire(store, remote, talk)
                return SyncReport(remote.name, _summary(store, pulled, sent, pushed, cleared.stays), pushed, sent.said)
    locked = next((line for line in sent.said if "cannot lock ref" in line), "")
    if locked:
        hint = "if nobody pushes there now, a git that was killed left that file: the owner of the remote may remove it"
        raise Unavailable(f"{remote.name} takes nothing: {plain(locked)[:300]}", hint=hint)
    raise Unavailable(
        f"others publish to {remote.name} again and again; nothing is lost", hint="try again: `gitsession sync`"
    )


def _summary(
    store: GitStore,
    pulled: Mapping[str, SyncedBranch],
    sent: PushResult,
    pushed: Collection[str],
    stays: Mapping[str, str],
) -> tuple[SyncedBranch, ...]:
    """The outcome of each ref over all turns. ``pushed``: in any of them; ``stays``: why the remote keeps it."""
    found = dict(pulled)
    for branch in sent.branches:
        found[branch.ref] = _with_push(pulled.get(branch.ref), branch)
    for ref in pushed:
        if ref not in found or found[ref].outcome == "same":  # it went in a turn before
            now = store.ref(ref)
            found[ref] = SyncedBranch(ref, "ahead", now, now)
    for ref in (refs.TOMBSTONES, refs.ARCHIVE):
        if ref in found and found[ref].outcome == "ahead" and ref not in pushed:
            found[ref] = dataclasses.replace(found[ref], outcome="same")  # the scope kept the rest here
    for ref, why in stays.items():
        found[ref] = dataclasses.replace(found[ref], outcome="refused", why=why)
    return tuple(found[ref] for ref in sorted(found))


def _cleared(branch: SyncedBranch) -> SyncedBranch:
    """A ref that the remote holds without what was purged from now on."""
    return dataclasses.replace(branch, outcome="purged") if branch.outcome in ("same", "ahead") else branch


def _summed(before: SyncedBranch | None, now: SyncedBranch) -> SyncedBranch:
    """What became of a ref over several attempts."""
    if before is None or before.outcome in ("same", "ahead", "refused"):
        return now
    if now.outcome in ("same", "ahead"):
        return before
    return dataclasses.replace(now, old=before.old, beside=now.beside or before.beside)


def _with_push(pulled: SyncedBranch | None, sent: SyncedBranch) -> SyncedBranch:
    if sent.outcome == "refused":
        return sent
    if pulled is None or pulled.outcome in ("same", "ahead"):
        return dataclasses.replace(sent, outcome="ahead")
    return pulled


_OUR_ARCHIVE = f"{refs.TRACKING}{refs.ARCHIVE.removeprefix('refs/heads')}"
"""No ref: what our archive is called while one is judged that it may be joined with."""


@dataclass(frozen=True, slots=True)
class PullResult:
    """``stale``: what the remote holds of refs of ours with something in it that was purged; ``branches`` has them all,
    also those of sessions in the trash or the archive.
    """

    branches: list[SyncedBranch]
    stale: Mapping[str, Oid] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Fetched:
    """Return the refs in the quarantine, by our names.

    ``listed``: the tracking refs of all that the remote has; ``lines``: what leads to entries; ``tombstones``: the set
    of what was purged; ``refused``: what git did not take.
    """

    listed: frozenset[str]
    lines: Mapping[str, Oid]
    tombstones: Oid | None
    refused: Mapping[str, SyncedBranch]


@dataclass(frozen=True, slots=True)
class _Accepted:
    """The part that comes into the store: ``lines`` without what was purged, and ``tombstones``.

    ``rewritten``: the lines that the remote holds with it; ``joined``: what became of our set, and of the refs that it
    moved; ``refused``: what git, the tombstones or the rules do not let in.
    """

    lines: Mapping[str, Oid]
    tombstones: Oid | None
    rewritten: frozenset[str]
    joined: tuple[SyncedBranch, ...]
    refused: Mapping[str, SyncedBranch]


def pull_refs(store: GitStore, remote: Remote, talk: TransportOptions) -> PullResult:
    """First what was purged, which is carried out; then one transaction: the packs, the tracking refs, and our own."""
    flush(store)
    purging.apply(store)  # what a plain `git fetch` has brought
    known = _known(store, remote)
    with Quarantine(store.git_dir, remote, known) as place:
        fetched = _fetched(store, remote, place, talk)
        accepted = _accepted(store, remote, place, fetched, known)
        ours, moved = _move_in(store, remote, place, fetched, accepted)
    published.forget(store.git_dir, remote.name)
    archived = archiving.join(store, store, accepted.lines.get(refs.ARCHIVE))
    archiving.drop_archived_refs(store)
    flush(store)
    stale = {ref: fetched.lines[ref] for ref in accepted.rewritten if remote.tracking(ref) in fetched.listed}
    same = ours | {ref: accepted.lines[ref] for ref in stale}
    found = {ref: SyncedBranch(ref, "same", oid, oid) for ref, oid in same.items()}
    found |= {branch.ref: branch for branch in (*accepted.joined, *archived, *moved)}
    found |= accepted.refused
    return PullResult([found[ref] for ref in sorted(found)], stale if remote.is_named else {})


def _fetched(store: GitStore, remote: Remote, place: Quarantine, talk: TransportOptions) -> _Fetched:
    """Fetch all that the remote has into ``place``. Raises ``Unavailable``, and ``Refused`` for what is no store."""
    refused = _fetch(place, remote, talk)
    place.cut_off()
    there = place.refs(remote.tracks)
    here = {remote.here(name): oid for name, oid in there.items()}
    check_is_store(remote, here, FetchedReader(place.git_dir, store))
    lines = {ref: oid for ref, oid in _of_ours(remote, there).items() if ref not in refused}
    lines |= _only_tracked(store, remote, there)
    tombstones = lines.pop(refs.TOMBSTONES, None)
    return _Fetched(frozenset(there), lines, tombstones, refused)


def _accepted(
    store: GitStore, remote: Remote, place: Quarantine, fetched: _Fetched, known: Mapping[str, Oid]
) -> _Accepted:
    """Join the tombstones with ours, take what they say out of the lines, and validate these.

    ``known``: what our refs and tracking refs held before.
    """
    read = FetchedReader(place.git_dir, store)
    tracked = {remote.tracking(ref): oid for ref, oid in fetched.lines.items()}
    news = tombstone_sync.look(store, read, fetched.tombstones, tracked)
    rewritten = tombstone_sync.rewritten(place, read, news.said, fetched.lines, {} if news.is_new else known)
    joined = tombstone_sync.join(store, read, news)
    flush(store)
    lines = {**fetched.lines, **rewritten}
    known = _known(store, remote)
    archived = still_listed(store, read, {ref: oid for ref, oid in lines.items() if ref != refs.ARCHIVE})
    refused = {**fetched.refused, **{branch.ref: branch for branch in joined if branch.outcome == "refused"}}
    refused |= _judge(store, place, {ref: oid for ref, oid in lines.items() if ref not in archived}, known)
    refused |= _without_branch(store, lines, refused)
    good = {ref: oid for ref, oid in lines.items() if ref not in refused}
    tombstones = None if refs.TOMBSTONES in refused else fetched.tombstones
    if refused or rewritten or joined:  # git completes a pack with what it borrowed: that may be purged by now
        place.keep_only([*good.values(), *([tombstones] if tombstones else [])], known.values())
    return _Accepted(good, tombstones, frozenset(rewritten.keys() & good.keys()), tuple(joined), refused)


def _move_in(
    store: GitStore, remote: Remote, place: Quarantine, fetched: _Fetched, accepted: _Accepted
) -> tuple[dict[str, Oid], list[SyncedBranch]]:
    """Return the lines that are to be ours, and what became of those that differed."""
    archived = still_listed(store, FetchedReader(place.git_dir, store), accepted.lines)
    with store.transaction() as tx:
        try:
            place.move_in()
        except OSError as error:
            raise Unavailable(f"cannot keep what was fetched: {error.strerror}") from error
        if remote.is_named:
            _remember(store, tx, remote, fetched, accepted)
        here, away = store.refs(HEADS), _in_trash(store)
        ours = {
            ref: oid
            for ref, oid in accepted.lines.items()
            if ref not in archived and ref != refs.ARCHIVE and (ref in here or refs.session_of(ref) not in away)
        }
        differ = {ref: oid for ref, oid in ours.items() if here.get(ref) != oid}
        return ours, reconcile(store, tx, differ, is_home=remote.is_home)


def _known(store: GitStore, remote: Remote) -> dict[str, Oid]:
    return {name: oid for prefix in (HEADS, remote.tracks) for name, oid in store.refs(prefix).items()}


def _in_trash(store: GitStore) -> set[str]:
    """Sessions in the trash: remotes keep them, and they do not come back by that."""
    return {refs.session_of(refs.taken_out(name)) for name in store.refs(refs.TRASH)}


def _remember(store: GitStore, tx: Transaction, remote: Remote, fetched: _Fetched, accepted: _Accepted) -> None:
    """Bring the tracking refs up to date; those go that the remote has no more."""
    seen = store.refs(remote.tracks)
    tombstones = {refs.TOMBSTONES: accepted.tombstones} if accepted.tombstones else {}
    for ref, oid in {**accepted.lines, **tombstones}.items():
        name = remote.tracking(ref)
        if seen.get(name) != oid:
            tx.move(name, oid, expected=store.ref(name))
    for name in seen.keys() - fetched.listed:
        tx.move(name, None, expected=store.ref(name))


def _judge(
    store: GitStore, place: Quarantine, theirs: Mapping[str, Oid], known: Mapping[str, Oid]
) -> dict[str, SyncedBranch]:
    """Return what in ``theirs`` violates docs/reference/format.md, by ref. Shared entries were validated before."""
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
    """Return the values of tracking refs, by our names; refs that are none of ours are left out."""
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
    """Return the newest entry that both have: everything up to it was validated before."""
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
    """If the remote has our archive and lists its sessions nevertheless, it has none of our hooks: they are deleted
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
