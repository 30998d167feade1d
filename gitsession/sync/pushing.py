"""Push of all data that the remote lacks.

The refs to push are recorded first (``store.published``). Then each ref is pushed by its exact name and without force.
Finally, the remote-tracking refs are set to the values that the remote accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from gitsession.archive import archive_set
from gitsession.dataclass import dataclass
from gitsession.errors import GitSessionError, Unavailable
from gitsession.git import process
from gitsession.git.types import Oid
from gitsession.sessions import tombstone_set
from gitsession.sessions.merge_remote_branches import SyncedBranch
from gitsession.store import create, histories, maintenance, published, refs
from gitsession.store.git_store import GitStore
from gitsession.sync import secret_scan, tombstone_sync, transport
from gitsession.sync.remotes import HEADS, Remote, check_is_store
from gitsession.sync.transport import Quarantine, TransportOptions, flush
from gitsession.validation.quarantine_reader import Proposed

_SETS = (refs.TOMBSTONES, refs.ARCHIVE)
"""The refs of the grow-only sets.

When a server with gitsession's hooks receives one of these refs, it changes its other refs, which must then be fetched
again.
"""

_DIVERGED = "the branch has diverged at the remote: run `gitsession sync`, or pull and push again"


class PushResult(NamedTuple):
    """The outcomes of a push.

    ``accepted``: the refs that the remote accepted. ``messages``: the messages of the remote's hooks. ``is_whole``:
    False if a pull and another push are necessary, because another store has moved a ref at the remote, or because the
    remote accepted a grow-only set and may have changed its other refs.
    """

    branches: list[SyncedBranch]
    accepted: frozenset[str] = frozenset()
    messages: tuple[str, ...] = ()
    is_whole: bool = True


def send(
    store: GitStore,
    remote: Remote,
    options: TransportOptions,
    *,
    only: Iterable[str] = frozenset(),
    leave: Iterable[str] = frozenset(),
    among: Collection[str] | None = None,
) -> PushResult:
    """Push all refs that are missing at the remote or have an older value there.

    ``only``: the sessions and refs to push; empty for all. ``leave``: the refs to omit. ``among``: see ``in_scope``.
    Raises ``Unavailable``.
    """
    before, wanted, branches = _wanted(store, remote, among, set(only), set(leave))
    if not wanted:
        return PushResult(sorted(branches, key=lambda one: one.ref))
    try:
        with Quarantine(store.git_dir, remote, {}) as quarantine:
            if remote.is_shared or store.ref(remote.tracking(create.MAIN)) is not None:
                branches += _remove_secrets(store, remote, wanted, before)
            else:
                with transport.advertising(quarantine.git_dir, remote, options) as refs_of_remote:
                    branches += _remove_secrets(store, remote, wanted, before)
                    check_is_store(remote, refs_of_remote())
            if not wanted:
                return PushResult(sorted(branches, key=lambda one: one.ref))
            published.record(store.git_dir, remote.name, {ref: oid for ref, (oid, _) in wanted.items()})
            is_whole = not only and among is None and len(wanted) > len(before)
            if is_whole and maintenance.is_deltified(store.git_dir):
                quarantine.disable_delta_search()
            done = transport.push(quarantine.git_dir, remote, wanted, options)
        accepted = {ref: wanted[ref] for ref, result in done.refs.items() if result.ok}
        with store.transaction() as tx:
            for oid, remote_ref in accepted.values():
                name = remote.tracking(remote.local_ref(remote_ref) or remote_ref)
                if (seen := store.ref(name)) != oid:
                    tx.move(name, oid, expected=seen)
        published.forget(store.git_dir, remote.name, done.refs)
    except OSError as error:
        raise Unavailable(f"cannot record the push to {remote.name}: {error.strerror}") from error
    for ref, result in done.refs.items():
        old, new = before.get(remote.tracking(ref)), wanted[ref][0]
        if result.ok:
            branches.append(SyncedBranch(ref, "forwarded" if old else "new", old, new))
        else:
            branches.append(SyncedBranch(ref, "refused", old, new, why=_DIVERGED if result.moved else result.why))
    branches.sort(key=lambda one: one.ref)
    is_whole = not any(result.moved for result in done.refs.values()) and accepted.keys().isdisjoint(_SETS)
    return PushResult(branches, frozenset(accepted), tuple(done.messages), is_whole)


def _remove_secrets(
    store: GitStore, remote: Remote, wanted: dict[str, tuple[Oid, str]], before: Mapping[str, Oid]
) -> list[SyncedBranch]:
    """Remove the refs whose push would send a secret from ``wanted``; return the outcomes for these refs."""
    moves = [Proposed(ref, before.get(remote.tracking(ref)), oid) for ref, (oid, _) in wanted.items()]
    blocked = secret_scan.blocked_refs(store, moves, before.values())
    return [
        SyncedBranch(
            ref,
            "refused",
            before.get(remote.tracking(ref)),
            wanted.pop(ref)[0],
            why=f"found a secret in {hit}: run `gitsession redact` to hide it, "
            f"or `gitsession gate allow {hit.address} {hit.rule}` to send it",
            secret=True,
        )
        for ref, hit in blocked.items()
    ]


def sessions_to_send(
    store: GitStore, remote: Remote, among: Collection[str] | None = None
) -> tuple[set[str], set[str], bool]:
    """Return the sessions with data that the remote lacks, those that only the archive sends, and whether it is sent.

    What the remote has is taken from its remote-tracking refs. ``among``: see ``in_scope``. Raises ``Unavailable``.
    """
    _, wanted, _ = _wanted(store, remote, among)
    sids = {refs.session_of(ref) for ref in wanted} - {""}
    if refs.ARCHIVE not in wanted:
        return sids, set(), False
    return sids, archive_set.read(store).ends.keys() - _sessions_at(store, remote) - sids, True


def in_scope(store: GitStore, remote: Remote, among: Collection[str] | None) -> Callable[[str], bool]:
    """Return a predicate that is true for the refs that may be sent to the remote.

    ``among``: the sessions in the remote's scope. If ``among`` is ``None``, all refs may be sent.

    Sessions that the remote already has, including archived ones, may always be sent. The archive leads to every
    session that it lists, so the archive is sent only if all these sessions may be sent. Tombstones are always sent,
    but the replacements of redacted entries only for sessions that may be sent (``tombstone_sync.tombstones_for``).
    """
    if among is None:
        return lambda ref: True
    sids = {*among, *_sessions_at(store, remote)}

    def fits(ref: str) -> bool:
        if ref == refs.ARCHIVE:
            return archive_set.read(store).ends.keys() <= sids
        return not refs.session_of(ref) or refs.session_of(ref) in sids

    return fits


def _sessions_at(store: GitStore, remote: Remote) -> set[str]:
    """Return the sessions that the remote has according to its remote-tracking refs, including archived sessions."""
    seen = store.refs(remote.tracks)
    archive = seen.get(remote.tracking(refs.ARCHIVE))
    listed = archive_set.at(store, archive).ends if archive is not None else {}
    return {*listed, *(refs.session_of(remote.local_ref_of(name)) for name in seen)} - {""}


def _with_tombstones_in_scope(
    store: GitStore, remote: Remote, local: Mapping[str, Oid], among: Collection[str]
) -> Mapping[str, Oid]:
    merged = tombstone_sync.tombstones_for(store, remote, {*among, *_sessions_at(store, remote)})
    if merged.objects:
        with store.transaction() as tx:
            tx.put_all(merged.objects)
        flush(store)
    others = {ref: oid for ref, oid in local.items() if ref != refs.TOMBSTONES}
    return others if merged.oid is None else {refs.TOMBSTONES: merged.oid, **others}


def _wanted(
    store: GitStore,
    remote: Remote,
    among: Collection[str] | None,
    only: Collection[str] = (),
    leave: Collection[str] = (),
) -> tuple[Mapping[str, Oid], dict[str, tuple[Oid, str]], list[SyncedBranch]]:
    """Flush the store; return the remote-tracking refs, the refs to push, and outcomes for refs that cannot be sent.

    The refs to push are in push order, each with its value and its name at the remote. Raises ``Unavailable``.
    """
    flush(store)
    with_sessions = only if refs.TOMBSTONES in only else {create.MAIN, *_SETS}  # not refs of sessions
    seen = store.refs(remote.tracks)
    found: dict[str, tuple[Oid, str]] = {}
    refused = []
    fits = in_scope(store, remote, among)
    local = store.refs(HEADS)
    if among is not None and refs.TOMBSTONES in local:
        local = _with_tombstones_in_scope(store, remote, local, among)
    unsent = _unsent(remote, local, seen)
    for ref, oid in sorted(unsent, key=lambda row: (row[0].startswith(refs.SESSIONS), row[0])):
        if not _is_sendable(remote, ref) or ref in leave or not fits(ref):
            continue
        remote_oid = seen.get(remote.tracking(ref))
        if only and refs.session_of(ref) not in only and ref not in with_sessions:
            continue
        name = ref
        if remote_oid is not None and not _holds(store, ref, oid, remote_oid):
            if _holds(store, ref, remote_oid, oid):
                continue  # the remote has a later value
            if remote.is_home or refs.parse(ref) is None:
                refused.append(SyncedBranch(ref, "refused", remote_oid, oid, why=_DIVERGED))
                continue
            name = histories.unused_name(store.read, lambda at: seen.get(remote.tracking(at)), ref, oid, remote_oid)
            if seen.get(remote.tracking(name)) == oid:
                continue
        elif (
            remote_oid is None
            and not remote.is_home
            and "." in ref
            and oid == seen.get(remote.tracking(ref.rpartition(".")[0]))
        ):
            continue  # the remote has this history under the name that the branch had before it was renamed
        found[ref] = (oid, remote.remote_ref(name) or name)
    return seen, found, refused


def _unsent(remote: Remote, local: Mapping[str, Oid], seen: Mapping[str, Oid]) -> list[tuple[str, Oid]]:
    """Return the refs in ``local`` whose remote-tracking refs, in ``seen``, do not have the same values.

    A store can have hundreds of thousands of refs, so names are not built by methods.
    """
    tracks, start = remote.tracks, len(HEADS)
    return [(ref, oid) for ref, oid in local.items() if seen.get(tracks + ref[start:]) != oid]


def _holds(store: GitStore, ref: str, new: Oid, old: Oid) -> bool:
    """Return whether ``old`` is ``new`` or an ancestor of ``new``. On a branch, only first parents are followed."""
    if ref == refs.ARCHIVE:
        return new == old or archive_set.is_ancestor(store, old, new)
    if ref == refs.TOMBSTONES:
        return new == old or tombstone_set.is_ancestor(store, old, new)
    return histories.holds(store.read, new, old)


def _is_sendable(remote: Remote, ref: str) -> bool:
    return remote.remote_ref(ref) is not None and (refs.is_session_ref(ref) or not ref.startswith(refs.SESSIONS))


@dataclass(frozen=True, slots=True)
class RemoteStatus:
    """The state of a remote according to the remote-tracking refs.

    Attributes:
        remote: The remote.
        seen: The number of refs at the remote.
        unsent: The refs that the remote lacks or has with another value.
        entries: The number of entries that the remote lacks and the unsent refs lead to; ``None`` if git cannot count
            them.
        noted: The number of refs that an interrupted push may have sent.
    """

    remote: Remote
    seen: int
    unsent: tuple[str, ...]
    entries: int | None
    noted: int


def status_of(store: GitStore, remote: Remote, among: Collection[str] | None = None) -> RemoteStatus:
    """Return the state of a remote. Only session refs are counted. ``among``: see ``in_scope``."""
    seen = store.refs(remote.tracks)
    fits = in_scope(store, remote, among)
    sessions = store.refs(refs.SESSIONS).items()
    local = {name: oid for name, oid in sessions if remote.remote_ref(name) is not None and fits(name)}
    unsent = dict(_unsent(remote, local, seen))
    noted = {name for to, name, _ in published.list_records(store.git_dir) if to == remote.name}
    entries = _count(store.git_dir, unsent.values(), seen.values()) if unsent else 0
    return RemoteStatus(remote, len(seen), tuple(unsent), entries, len(noted))


def _count(git_dir: Path, tips: Iterable[Oid], known: Iterable[Oid]) -> int | None:
    """Return the number of commits reachable from ``tips`` but not from ``known``. Pending commits are not counted."""
    revisions = "".join([*(f"{oid}\n" for oid in tips), *(f"^{oid}\n" for oid in known)])
    try:
        result = process.run(git_dir, "rev-list", "--count", "--ignore-missing", "--stdin", stdin=revisions.encode())
        return int(result.out)
    except (GitSessionError, ValueError):
        return None
