"""Pull, push and sync.

    pull   fetch into a quarantine -> merge tombstones -> validate -> move in packs and all refs in one transaction
    push   record what is about to be pushed -> git push, exact refs only -> remote-tracking refs
    sync   pull, push; again if another store has pushed meanwhile

Each step can be interrupted and repeated: a transaction is applied completely or not at all, and the next run has the
same result. Other processes can append meanwhile. The rules are in docs/explanation/sync.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field

from gitsession.archive import archive_set, archiving
from gitsession.dataclass import dataclass
from gitsession.errors import GitSessionError, Refused, Unavailable
from gitsession.git.ref_files import SYMBOLIC
from gitsession.git.types import Oid
from gitsession.purge import purging
from gitsession.sessions.merge_remote_branches import SyncedBranch, reconcile
from gitsession.store import histories, published, refs
from gitsession.store.git_store import GitStore
from gitsession.store.interface import Transaction
from gitsession.sync import fetching, tombstone_sync, transport
from gitsession.sync.pushing import PushResult, in_scope, send
from gitsession.sync.remotes import HEADS, Remote, check_is_store, plain
from gitsession.sync.transport import Quarantine, TransportOptions, flush, sync_lock
from gitsession.validation.quarantine_reader import LOCAL_ARCHIVE, Proposed
from gitsession.validation.validate import FetchedReader, validate_fetched

ATTEMPTS = 6

_QUIET = TransportOptions()


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The outcome of a pull, a push or a sync.

    Attributes:
        remote: The name of the remote.
        branches: The outcome for each ref.
        pushed: The refs that the remote accepted.
        messages: The messages of the remote's hooks.
    """

    remote: str
    branches: tuple[SyncedBranch, ...]
    pushed: frozenset[str] = frozenset()
    messages: tuple[str, ...] = ()

    def of(self, *outcomes: str) -> list[SyncedBranch]:
        """Return the branches with one of the given outcomes."""
        return [branch for branch in self.branches if branch.outcome in outcomes]


def pull(store: GitStore, remote: Remote, options: TransportOptions = _QUIET) -> SyncReport:
    """Fetch all sessions of the remote and merge them into the store. Raises ``Unavailable``."""
    with sync_lock(store):
        return SyncReport(remote.name, tuple(pull_refs(store, remote, options).branches))


def push(
    store: GitStore,
    remote: Remote,
    options: TransportOptions = _QUIET,
    *,
    sessions: Iterable[str] = (),
    among: Collection[str] | None = None,
) -> SyncReport:
    """Push all data that the remote lacks according to its remote-tracking refs.

    No ref is forced. If another store has pushed to a ref meanwhile, the remote rejects the ref, and its outcome is
    ``refused``.

    Args:
        store: The store to push from.
        remote: The remote to push to.
        options: Options for git's interaction with the user.
        sessions: Push only these sessions. The archive and the tombstone set are then pushed as to a remote whose scope
            is these sessions (``pushing.in_scope``).
        among: The sessions in the remote's scope (``pushing.in_scope``).

    Raises:
        Unavailable: The remote cannot be reached.
        Refused: A session is outside the scope.
    """
    sessions = list(sessions)
    with sync_lock(store):
        fits = in_scope(store, remote, among)
        excluded = next((sid for sid in sessions if not fits(refs.leaf(sid))), "")
        if excluded:
            raise Refused(
                f"cannot push session {excluded}: it is outside the scope of remote {remote.name!r}",
                hint="run `gitsession remote` to list the scopes",
            )
        named = set(sessions)
        sent = send(store, remote, options, only=named, among=named or among)
    return SyncReport(remote.name, tuple(sent.branches), sent.accepted, sent.messages)


def sync(
    store: GitStore, remote: Remote, options: TransportOptions = _QUIET, *, among: Collection[str] | None = None
) -> SyncReport:
    """Pull and push until the store and the remote have the same sessions, within the scope (see ``push``).

    Raises ``Unavailable`` if the remote cannot be reached or other stores keep pushing to the remote.
    """
    pulled: dict[str, SyncedBranch] = {}
    pushed: frozenset[str] = frozenset()
    with sync_lock(store):
        for _ in range(ATTEMPTS):
            if store.ref(refs.TOMBSTONES) != store.ref(remote.tracking(refs.TOMBSTONES)):
                # Tombstones are pushed before any session: a server with gitsession's hooks then removes the purged
                # content itself.
                pushed |= send(store, remote, options, only={refs.TOMBSTONES}, among=among).accepted
            pull_result = pull_refs(store, remote, options)
            for branch in pull_result.branches:
                pulled[branch.ref] = _summed(pulled.get(branch.ref), branch)
            cleared = tombstone_sync.clear(store, remote, options, pull_result.stale)
            pulled |= {ref: _cleared(pulled[ref]) for ref in cleared.accepted}
            pushed |= cleared.accepted
            spoilt = {branch.ref for branch in pulled.values() if branch.outcome == "refused" and not branch.beside}
            sent = send(store, remote, options, leave=spoilt | cleared.stays.keys(), among=among)
            pushed |= sent.accepted
            if sent.is_whole and not cleared.is_late:
                if refs.ARCHIVE not in spoilt:
                    retire(store, remote, options)
                return SyncReport(
                    remote.name, _summary(store, pulled, sent, pushed, cleared.stays), pushed, sent.messages
                )
    locked = next((line for line in sent.messages if "cannot lock ref" in line), "")
    if locked:
        raise Unavailable(
            f"cannot push to {remote.name}: {plain(locked)[:300]}",
            hint="if no other push is running, ask the remote's owner to remove the ref's lock file",
        )
    raise Unavailable(
        f"cannot sync with {remote.name}: other clients keep pushing to it", hint="run `gitsession sync` again"
    )


def _summary(
    store: GitStore,
    pulled: Mapping[str, SyncedBranch],
    sent: PushResult,
    pushed: Collection[str],
    stays: Mapping[str, str],
) -> tuple[SyncedBranch, ...]:
    """Return the outcome for each ref over all rounds.

    ``pushed``: the refs pushed in any round. ``stays``: the refs with purged content that the remote keeps, each with
    the reason.
    """
    found = dict(pulled)
    for branch in sent.branches:
        found[branch.ref] = _with_push(pulled.get(branch.ref), branch)
    for ref in pushed:
        if ref not in found or found[ref].outcome == "same":  # the ref was pushed in an earlier round
            now = store.ref(ref)
            found[ref] = SyncedBranch(ref, "ahead", now, now)
    for ref in (refs.TOMBSTONES, refs.ARCHIVE):
        if ref in found and found[ref].outcome == "ahead" and ref not in pushed:
            found[ref] = dataclasses.replace(found[ref], outcome="same")  # what the remote lacks is outside the scope
    for ref, why in stays.items():
        found[ref] = dataclasses.replace(found[ref], outcome="refused", why=why)
    return tuple(found[ref] for ref in sorted(found))


def _cleared(branch: SyncedBranch) -> SyncedBranch:
    """Return the outcome for a ref from which the remote has removed purged content."""
    return dataclasses.replace(branch, outcome="purged") if branch.outcome in ("same", "ahead") else branch


def _summed(before: SyncedBranch | None, now: SyncedBranch) -> SyncedBranch:
    """Combine the outcomes for a ref of an earlier and a later round."""
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


_LOCAL_TIP = ".local"
"""Suffix of the name under which the validation knows the tip of a diverged local branch. The name is not a ref."""


@dataclass(frozen=True, slots=True)
class PullResult:
    """The outcome of a pull.

    ``branches``: the outcomes for all refs, including session refs in the trash or the archive. ``stale``: the values
    of refs at the remote that still contain purged content.
    """

    branches: list[SyncedBranch]
    stale: Mapping[str, Oid] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Fetched:
    """The refs in the quarantine, by their local names.

    ``listed``: the remote-tracking refs for all refs that the remote has. ``tips``: the refs that lead to entries.
    ``tombstones``: the tip of the tombstone set. ``refused``: the refs that git rejected.
    """

    listed: frozenset[str]
    tips: Mapping[str, Oid]
    tombstones: Oid | None
    refused: Mapping[str, SyncedBranch]


@dataclass(frozen=True, slots=True)
class _Accepted:
    """The refs that are accepted into the store, and the outcomes so far.

    ``tips``: the accepted refs that lead to entries, without purged content. ``tombstones``: the tip of the fetched
    tombstone set; ``None`` if the set was rejected or not fetched. ``rewritten``: the refs whose histories at the
    remote contain purged content. ``joined``: the outcomes for the local tombstone set and for the refs that its
    application moved. ``refused``: the outcomes for the refs that were rejected.
    """

    tips: Mapping[str, Oid]
    tombstones: Oid | None
    rewritten: frozenset[str]
    joined: tuple[SyncedBranch, ...]
    refused: Mapping[str, SyncedBranch]


def pull_refs(store: GitStore, remote: Remote, options: TransportOptions) -> PullResult:
    """Fetch all refs of the remote, and merge them into the store.

    The fetched tombstones are applied first. This can remove entries that the remote did not send because the store had
    them, such as those of a purged session that a new fork continues. The refs that require them are fetched again.
    """
    first, has_purged = _pull_once(store, remote, options)
    if not (has_purged and any(branch.outcome == "refused" for branch in first.branches)):
        return first
    second, _ = _pull_once(store, remote, options)
    found = {branch.ref: branch for branch in first.branches}
    found |= {branch.ref: _summed(found.get(branch.ref), branch) for branch in second.branches}
    return PullResult([found[ref] for ref in sorted(found)], second.stale)


def _pull_once(store: GitStore, remote: Remote, options: TransportOptions) -> tuple[PullResult, bool]:
    """Fetch and merge all refs once; return the outcomes, and whether fetched tombstones were applied to the store.

    One transaction moves the packs, the remote-tracking refs and the refs into the store.
    """
    flush(store)
    purging.apply(store)  # tombstones from a plain `git fetch`
    known = _known(store, remote)
    with Quarantine(store.git_dir, remote, known) as quarantine:
        fetched = _fetched(store, remote, quarantine, known, options)
        accepted = _accepted(store, remote, quarantine, fetched, known)
        merged, moved = _move_in(store, remote, quarantine, fetched, accepted)
    published.forget(store.git_dir, remote.name)
    archived = archiving.join(store, store, accepted.tips.get(refs.ARCHIVE))
    archiving.drop_archived_refs(store)
    flush(store)
    stale = {ref: fetched.tips[ref] for ref in accepted.rewritten if remote.tracking(ref) in fetched.listed}
    same = merged | {ref: accepted.tips[ref] for ref in stale}
    found = {ref: SyncedBranch(ref, "same", oid, oid) for ref, oid in same.items()}
    found |= {branch.ref: branch for branch in (*accepted.joined, *archived, *moved)}
    found |= accepted.refused
    result = PullResult([found[ref] for ref in sorted(found)], stale if remote.is_named else {})
    return result, bool(accepted.joined)


def _fetched(
    store: GitStore, remote: Remote, quarantine: Quarantine, known: Mapping[str, Oid], options: TransportOptions
) -> _Fetched:
    """Fetch all refs of the remote. Raises ``Unavailable``, and ``Refused`` if the remote is not a store."""
    tracking, refused = fetching.fetch_refs(store, quarantine, remote, known, options)
    local = {remote.local_ref_of(name): oid for name, oid in tracking.items()}
    if ("promisor", "true") in remote.settings:
        fetching.fetch_sets(store, quarantine, local, options)
    check_is_store(remote, local, FetchedReader(quarantine.git_dir, store))
    tips = {ref: oid for ref, oid in local.items() if remote.remote_ref(ref) is not None and ref not in refused}
    tips |= _only_tracked(store, remote, tracking)
    tombstones = tips.pop(refs.TOMBSTONES, None)
    return _Fetched(frozenset(tracking), tips, tombstones, refused)


def _accepted(
    store: GitStore, remote: Remote, quarantine: Quarantine, fetched: _Fetched, known: Mapping[str, Oid]
) -> _Accepted:
    """Merge the fetched tombstones with the local ones, apply them to the fetched histories, and validate the results.

    ``known``: the values of refs and remote-tracking refs before the merge.
    """
    read = FetchedReader(quarantine.git_dir, store)
    tracked = {remote.tracking(ref): oid for ref, oid in fetched.tips.items()}
    merge = tombstone_sync.merge_fetched(store, read, fetched.tombstones, tracked)
    rewritten = tombstone_sync.rewritten(
        quarantine, read, merge.tombstones, fetched.tips, {} if merge.is_new else known
    )
    joined = tombstone_sync.join(store, read, merge)
    flush(store)
    tips = {**fetched.tips, **rewritten}
    known = _known(store, remote)
    archived = still_listed(store, read, {ref: oid for ref, oid in tips.items() if ref != refs.ARCHIVE})
    refused = {**fetched.refused, **{branch.ref: branch for branch in joined if branch.outcome == "refused"}}
    refused |= _validate(store, quarantine, {ref: oid for ref, oid in tips.items() if ref not in archived}, known)
    refused |= _without_branch(store, tips, refused)
    good = {ref: oid for ref, oid in tips.items() if ref not in refused}
    tombstones = None if refs.TOMBSTONES in refused else fetched.tombstones
    if refused or rewritten or joined:  # fetched packs can contain objects of the store that were purged just now
        quarantine.keep_only([*good.values(), *([tombstones] if tombstones else [])], known.values())
    return _Accepted(good, tombstones, frozenset(rewritten.keys() & good.keys()), tuple(joined), refused)


def _move_in(
    store: GitStore, remote: Remote, quarantine: Quarantine, fetched: _Fetched, accepted: _Accepted
) -> tuple[dict[str, Oid], list[SyncedBranch]]:
    """Move packs and refs into the store; return the merged refs, and the outcomes for refs with a new value."""
    archived = still_listed(store, FetchedReader(quarantine.git_dir, store), accepted.tips)
    with store.transaction() as tx:
        try:
            quarantine.move_in()
        except OSError as error:
            raise Unavailable(f"cannot store the fetched objects: {error.strerror}") from error
        if remote.is_named:
            _update_tracking(store, tx, remote, fetched, accepted)
        local = store.refs(HEADS)
        # Remotes may still have the sessions in the trash, but a pull does not restore them.
        in_trash = {refs.session_of(refs.untrashed(name)) for name in store.refs(refs.TRASH)}
        merged = {
            ref: oid
            for ref, oid in accepted.tips.items()
            if ref not in archived and ref != refs.ARCHIVE and (ref in local or refs.session_of(ref) not in in_trash)
        }
        differ = {ref: oid for ref, oid in merged.items() if local.get(ref) != oid}
        return merged, reconcile(store, tx, differ, is_home=remote.is_home)


def _known(store: GitStore, remote: Remote) -> dict[str, Oid]:
    return {name: oid for prefix in (HEADS, remote.tracks) for name, oid in store.refs(prefix).items()}


def _update_tracking(store: GitStore, tx: Transaction, remote: Remote, fetched: _Fetched, accepted: _Accepted) -> None:
    """Update the remote-tracking refs; remove those whose refs no longer exist at the remote."""
    seen = store.refs(remote.tracks)
    tombstones = {refs.TOMBSTONES: accepted.tombstones} if accepted.tombstones else {}
    for ref, oid in {**accepted.tips, **tombstones}.items():
        name = remote.tracking(ref)
        if seen.get(name) != oid:
            tx.move(name, oid, expected=seen.get(name))
    for name in seen.keys() - fetched.listed:
        tx.move(name, None, expected=seen[name])


def _validate(
    store: GitStore, quarantine: Quarantine, tips: Mapping[str, Oid], known: Mapping[str, Oid]
) -> dict[str, SyncedBranch]:
    """Return the outcomes for the refs in ``tips`` that violate docs/reference/format.md.

    Entries that the local branch also has were validated before.
    """
    read = FetchedReader(quarantine.git_dir, store)
    differ = {ref: oid for ref, oid in tips.items() if known.get(ref) != oid}
    local = {ref: known.get(ref) for ref in differ if ref != refs.ARCHIVE}  # the archive is not a branch
    moves = [Proposed(ref, _base(read, local.get(ref), oid), oid) for ref, oid in differ.items()]
    before = {name: oid for name, oid in known.items() if name.startswith(HEADS) and name not in differ}
    before |= {move.ref: move.old for move in moves if move.old is not None}
    diverged = {move.ref: local.get(move.ref) for move in moves if move.old is not None}
    before |= {f"{ref}{_LOCAL_TIP}": oid for ref, oid in diverged.items() if oid is not None and oid != before[ref]}
    if refs.ARCHIVE in known:
        before[LOCAL_ARCHIVE] = known[refs.ARCHIVE]
    return {
        refusal.ref: SyncedBranch(
            refusal.ref,
            "refused",
            known.get(refusal.ref),
            why=refusal.what + (f" (at {refusal.oid[:10]})" if refusal.oid else ""),
        )
        for refusal in validate_fetched(read, moves, before)
    }


def _without_branch(
    store: GitStore, tips: Mapping[str, Oid], refused: Mapping[str, SyncedBranch]
) -> dict[str, SyncedBranch]:
    """Reject the other refs of each session that has no accepted branch and no branch in this store."""
    if not refused:
        return {}
    available = [*store.refs(refs.SESSIONS), *(ref for ref in tips if ref not in refused)]
    parsed = [found for ref in available if (found := refs.parse(ref)) is not None]
    sids = {refs.session_of(ref) for ref in refused} - {sid for sid, name in parsed if refs.is_branch(name)} - {""}
    why = "its session was refused"
    orphaned = (ref for ref in tips if ref not in refused and refs.session_of(ref) in sids)
    return {ref: SyncedBranch(ref, "refused", why=why) for ref in orphaned}


def _only_tracked(store: GitStore, remote: Remote, fetched: Mapping[str, Oid]) -> dict[str, Oid]:
    """Return the tracked branches that no local branch contains and that the remote no longer has.

    These branches were fetched by a plain `git fetch`. Their remote-tracking refs are about to be deleted and may be
    the only refs that lead to their entries.
    """
    found = {}
    for name, oid in store.refs(remote.tracks).items():
        ref = remote.local_ref_of(name)
        sid = refs.session_of(ref)
        if name in fetched or not sid or remote.remote_ref(ref) is None or oid.startswith(SYMBOLIC):
            continue
        ends = [end for end in store.refs(refs.session(sid)).values() if not end.startswith(SYMBOLIC)]
        try:
            if not any(histories.holds(store.read, end, oid) for end in ends):
                found[ref] = oid
        except GitSessionError:
            found[ref] = oid
    return found


def _base(read: FetchedReader, local: Oid | None, fetched: Oid) -> Oid | None:
    """Return the newest common entry of a local and a fetched history.

    This entry and the entries before it have been validated before.
    """
    try:
        return None if local is None else histories.find_divergence(read.read, local, fetched).base
    except GitSessionError:
        return None


def still_listed(store: GitStore, read: FetchedReader, tips: Mapping[str, Oid]) -> set[str]:
    """Return the refs in ``tips`` of archived sessions that add nothing to the archive.

    A remote without gitsession's hooks may still have such refs.

    If a session has been continued in the store or at the remote, its refs are not returned: the session leaves the
    archive, and all its refs are merged.
    """
    archives = {oid for oid in (store.ref(refs.ARCHIVE), tips.get(refs.ARCHIVE)) if oid is not None}
    if not archives:
        return set()
    local = store.refs(refs.SESSIONS)
    archived = archive_set.of_sessions(read, archives, {refs.session_of(ref) for ref in (*tips, *local)})
    listed = {ref for ref in tips if refs.session_of(ref) in archived}
    all_refs = [(ref, oid) for ref, oid in local.items() if refs.session_of(ref) in archived]
    all_refs += [(ref, tips[ref]) for ref in listed]
    continued = {
        refs.session_of(ref) for ref, oid in all_refs if not archiving.is_archived(archived, ref, oid, read.read)
    }
    return {ref for ref in listed if refs.session_of(ref) not in continued}


def forget(store: GitStore, remote: Remote) -> None:
    """Delete the remote-tracking refs of a removed remote, so that a new remote with its name counts as empty.

    A remote-tracking ref is kept if the local ref has another value, because no other ref may lead to its entries.
    Raises ``Unavailable``.
    """
    with store.transaction() as tx:
        local = store.refs(HEADS)
        for name, oid in store.refs(remote.tracks).items():
            if local.get(remote.local_ref_of(name)) == oid:
                tx.move(name, None, expected=oid)


def retire(store: GitStore, remote: Remote, options: TransportOptions) -> None:
    """Delete the refs of archived sessions at a remote without gitsession's hooks.

    Nothing is deleted unless the remote had the same archive as this store when it was last fetched. A ref is deleted
    only if it has the value of its remote-tracking ref. If the remote does not delete a ref, the remote-tracking ref is
    kept.

    Raises ``Unavailable``.
    """
    seen = {remote.local_ref_of(name): oid for name, oid in store.refs(remote.tracks).items()}
    if refs.ARCHIVE not in seen or seen[refs.ARCHIVE] != store.ref(refs.ARCHIVE):
        return
    listed = still_listed(store, FetchedReader(store.git_dir, store), seen)
    if not listed:
        return
    leases = {ref: seen[ref] for ref in listed}
    kept = {ref: oid for ref, oid in seen.items() if ref not in listed}
    kept |= {remote.tracking(ref): oid for ref, oid in kept.items()}
    with Quarantine(store.git_dir, remote, kept) as quarantine:
        deleted = transport.delete(quarantine.git_dir, remote, leases, options)
    with store.transaction() as tx:
        for remote_ref in deleted:
            ref = remote.local_ref(remote_ref) or remote_ref
            if store.ref(remote.tracking(ref)) == leases[ref]:
                tx.move(remote.tracking(ref), None, expected=leases[ref])
    store.flush()
