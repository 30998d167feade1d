"""The part of the set of what was purged that may leave for a remote with a scope.

A redaction keeps in the set what stands in the place of an entry: its words, but for the secret. So a replacement goes
only where an entry of a session that may go stands in such a place. Digests and names of sessions always go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gitsession.archive import archive_set
from gitsession.git import process
from gitsession.git.objects import parse_commit
from gitsession.git.types import Oid
from gitsession.purge import tombstone_commits
from gitsession.sessions import grow_only_sets, node
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.grow_only_sets import Merged
from gitsession.sessions.tombstone_set import Tombstones
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.sync.remotes import Remote


def tombstones_for(store: GitStore, remote: Remote | None, sids: Collection[str]) -> Merged:
    """Return the commit of the set that goes to a remote to which only the sessions ``sids`` may go.

    ``remote``: ``None`` for a new file, which holds nothing yet. The commit is our own where every
    replacement in it and in its history belongs to one of them or was sent; else one that follows what the remote was
    seen to hold, without the others. ``store`` must have been flushed. Raises ``Unavailable`` and what reading the set
    raises.
    """
    ours = store.ref(refs.TOMBSTONES)
    theirs = store.ref(remote.tracking(refs.TOMBSTONES)) if remote is not None else None
    given = tombstone_commits.NONE if theirs is None else tombstone_commits.at(store, theirs)
    if ours is None or ours == theirs:
        return Merged(theirs)
    steps = _steps(store, ours, theirs)
    said = tombstone_commits.at(store, ours)
    waiting = {(key, by) for step in steps for key, by in tombstone_commits.at(store, step).replaced.items()}
    waiting -= set(given.replaced.items())
    if not waiting:
        return Merged(ours)
    stand = {said.instead(digest) for digest in _replaced(store, remote, sids)} - {None}
    fits = {key for key in said.replaced if said.instead(key) in stand}
    if all(key in fits for key, _ in waiting):
        return Merged(ours)
    part = {key: by for key, by in said.replaced.items() if key in fits}
    less = Tombstones(said.removed, part, said.sessions)
    return tombstone_commits.added(store, theirs, less, grow_only_sets.seconds_of(store, ours) * 1000)


def _steps(store: GitStore, ours: Oid, theirs: Oid | None) -> list[Oid]:
    """The commits of the set from ``ours`` back to what was made before ``theirs``."""
    seen, todo, found = {theirs}, [ours], []
    while todo:
        oid = todo.pop()
        if oid in seen:
            continue
        seen.add(oid)
        found.append(oid)
        todo += parse_commit(store.read(oid)[1]).parents
    return found


def _replaced(store: GitStore, remote: Remote | None, sids: Collection[str]) -> set[str]:
    """The digests of the entries in whose place something stands: in sessions, listed, archived or in the trash, and
    at the remote.
    """
    prefixes = [prefix for sid in sids for prefix in (refs.session(sid), refs.trashed(refs.session(sid)))]
    prefixes += [remote.tracks] if remote is not None else []
    tips = {value for prefix in prefixes for value in store.refs(prefix).values() if refs.target(value) is None}
    ends = archive_set.read(store).ends
    tips |= {oid for sid in sids for _, oid in ends.get(sid, ())}
    return _replaced_behind(store, tips)


def _replaced_behind(store: GitStore, tips: Iterable[Oid]) -> set[str]:
    asked = "".join(f"{oid}\n" for oid in sorted(tips))
    if not asked:
        return set()
    words = ("rev-list", "--ignore-missing", "--grep=^Replaces: ", "--stdin")
    told = process.run(store.git_dir, *words, stdin=asked.encode()).out.decode("ascii")
    found = set()
    for oid in told.split():
        try:
            found.add(node.load(store, oid).replaces.hex())
        except DAMAGE:
            continue  # `verify` names it
    return found - {""}
