"""Pull, push and sync: what a remote holds is taken in, what it lacks is sent.

    pull   fetch apart -> judge -> packs, tracking refs and our refs in one transaction
    push   note what is about to go -> git push, exact refs only -> tracking refs
    sync   pull, push; again where somebody published in between

Each step can be killed and done again: what a transaction holds is there or not, and the next run comes to the same.
Appends go on meanwhile. docs/sync.md has the rules.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gitsession.errors import Refused, Unavailable
from gitsession.sessions.reconcile import SyncedBranch
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.sync import purged_remotes
from gitsession.sync.preconditions import sync_lock
from gitsession.sync.pulling import pull_refs
from gitsession.sync.pushing import in_scope, send
from gitsession.sync.remotes import Remote, plain
from gitsession.sync.transport import TransportOptions

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

    ``among``: the sessions in the remote's scope (``outgoing.in_scope``). Nothing is forced: what others published
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
            cleared = purged_remotes.clear(store, remote, talk, taken.stale)
            pulled |= {ref: _cleared(pulled[ref]) for ref in cleared.took}
            pushed |= cleared.took
            spoilt = {branch.ref for branch in pulled.values() if branch.outcome == "refused" and not branch.beside}
            sent = send(store, remote, talk, leave=spoilt | cleared.stays.keys(), among=among)
            pushed |= sent.took
            if sent.is_whole and not cleared.is_late:
                purged_remotes.retire(store, remote, talk)
                found = {branch.ref: branch for branch in sent.branches} | pulled
                for branch in sent.branches:
                    found[branch.ref] = _with_push(pulled.get(branch.ref), branch)
                for ref in pushed:
                    if ref not in found or found[ref].outcome == "same":  # it went in a turn before
                        now = store.ref(ref)
                        found[ref] = SyncedBranch(ref, "ahead", now, now)
                for ref in (refs.TOMBSTONES, refs.ARCHIVE):
                    if ref in found and found[ref].outcome == "ahead" and ref not in pushed:
                        found[ref] = dataclasses.replace(found[ref], outcome="same")  # the scope kept the rest here
                for ref, why in cleared.stays.items():
                    found[ref] = dataclasses.replace(found[ref], outcome="refused", why=why)
                return SyncReport(remote.name, tuple(found[ref] for ref in sorted(found)), pushed, sent.said)
    locked = next((line for line in sent.said if "cannot lock ref" in line), "")
    if locked:
        hint = "if nobody pushes there now, a git that was killed left that file: the owner of the remote may remove it"
        raise Unavailable(f"{remote.name} takes nothing: {plain(locked)[:300]}", hint=hint)
    raise Unavailable(
        f"others publish to {remote.name} again and again; nothing is lost", hint="try again: `gitsession sync`"
    )


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
