"""Sessions in one file, for a stick or a mail: git's own bundles.

A bundle of chosen sessions takes as much of the set of what was purged as a push of them to a new remote (``scoped``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from gitsession.errors import NotFound, Refused
from gitsession.git import process
from gitsession.git.types import Oid
from gitsession.sessions.grow_only_sets import Merged
from gitsession.sessions.reconcile import SyncedBranch
from gitsession.store import create, refs
from gitsession.store.git_store import GitStore
from gitsession.sync import remotes, scoped_tombstones, syncing
from gitsession.sync.preconditions import sync_lock
from gitsession.sync.quarantine import Quarantine
from gitsession.sync.remotes import Remote
from gitsession.sync.syncing import SyncReport
from gitsession.sync.transport import TransportOptions


def write(store: GitStore, path: Path, sessions: Iterable[str] = ()) -> dict[str, Oid]:
    """Put ``sessions``, or all, into a new file at ``path``, whole; the refs in it.

    Raises ``Refused`` where there is a file, ``NotFound`` where there are no sessions, ``Unavailable``.
    """
    store.flush()
    wanted = set(sessions)
    held = {
        ref: oid
        for ref, oid in store.refs(refs.SESSIONS).items()
        if refs.is_session_ref(ref) and (not wanted or refs.session_of(ref) in wanted)
    }
    if not held:
        raise NotFound("there are no sessions to put into it")
    if os.path.lexists(path):
        raise Refused(f"{path} is there already", hint="name a new file")
    # Without the set of what was purged nobody could tell a tombstone in it from one that somebody made.
    ours = store.ref(refs.TOMBSTONES)
    given = scoped_tombstones.tombstones_for(store, None, wanted) if wanted else Merged(ours)
    own = {ref: oid for ref, oid in ((create.MAIN, store.ref(create.MAIN)), (refs.TOMBSTONES, given.oid)) if oid}
    if given.oid == ours:
        _create(store.git_dir, path, [*own, *held])
        return held
    with sync_lock(store), Quarantine(store.git_dir, Remote("bundle", str(path)), {**own, **held}) as place:
        place.put(given.objects)
        _create(place.git_dir, path, [*own, *held])
    return held


def _create(git_dir: Path, path: Path, names: Iterable[str]) -> None:
    named = "".join(f"{ref}\n" for ref in names)
    words = ("bundle", "create", "--quiet", "--version=2", os.path.abspath(path), "--stdin")
    process.run(git_dir, *words, stdin=named.encode(), timeout_seconds=6 * 3600)


def take(store: GitStore, path: Path, talk: TransportOptions) -> SyncReport:
    """Take in what is in a file, as from a remote that rules no names. Raises as ``syncing.pull``, and ``NotFound``."""
    report = syncing.pull(store, remotes.file(path), talk)
    return SyncReport(report.remote, tuple(_told(branch) for branch in report.branches))


def _told(branch: SyncedBranch) -> SyncedBranch:
    """Nobody is refused whose line has come in beside ours."""
    if branch.outcome == "refused" and branch.beside:
        return SyncedBranch(branch.ref, "forked", branch.old, branch.new, branch.beside)
    return branch
