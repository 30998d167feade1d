"""Sessions in one file, for a stick or a mail: git's own bundles."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from gitsession.errors import NotFound, Refused
from gitsession.store import create, gitcli, refs
from gitsession.store.base import Oid
from gitsession.store.gitstore import GitStore
from gitsession.sync import remotes, syncing
from gitsession.sync.reconcile import SyncedBranch
from gitsession.sync.syncing import SyncReport
from gitsession.sync.transport import Talk


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
    own = (create.MAIN, *([refs.TOMBSTONES] if store.ref(refs.TOMBSTONES) is not None else []))
    named = "".join(f"{ref}\n" for ref in (*own, *held))
    words = ("bundle", "create", "--quiet", "--version=2", os.path.abspath(path), "--stdin")
    gitcli.run(store.git_dir, *words, stdin=named.encode(), timeout_seconds=6 * 3600)
    return held


def take(store: GitStore, path: Path, talk: Talk) -> SyncReport:
    """Take in what is in a file, as from a remote that rules no names. Raises as ``syncing.pull``, and ``NotFound``."""
    report = syncing.pull(store, remotes.file(path), talk)
    return SyncReport(report.remote, tuple(_told(branch) for branch in report.branches))


def _told(branch: SyncedBranch) -> SyncedBranch:
    """Nobody is refused whose line has come in beside ours."""
    if branch.outcome == "refused" and branch.beside:
        return SyncedBranch(branch.ref, "forked", branch.old, branch.new, branch.beside)
    return branch
