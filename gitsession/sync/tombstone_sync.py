"""Exchange of purges between stores: the tombstone set is merged, applied, and sent.

On fetch, the tombstone set of a remote is merged with the local set before any other data of the remote. The merged set
is applied at once, and the rest of the fetched data is validated against it. Entries that only this store had are first
saved in a bundle.

A remote without gitsession's hooks does not remove purged content itself. The histories of such a remote are rewritten
on fetch and pushed back. The rewrite is deterministic, so every store computes the same history. The push overwrites a
ref only if the ref still has the fetched value (`git push --force-with-lease`), so a concurrent push is never
overwritten. A remote with the hooks rewrites its own histories when it receives the tombstone set, which is pushed
first. No ref is forced at such a remote.

For a redacted entry, the set contains the replacement, which is the text of the entry without the secret. So if a
remote has a scope, a replacement is sent only if the replaced entry belongs to a session that may be sent. Digests and
ids of sessions are always sent.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from hashlib import sha256
from pathlib import Path

from gitsession.archive import archive_set
from gitsession.dataclass import dataclass
from gitsession.durable import make_directories, sync_directory
from gitsession.errors import Corrupt, GitSessionError, Malformed, MissingObject, Unavailable
from gitsession.git import config, process
from gitsession.git.objects import SUBMODULE_MODE, parse_commit, parse_tree
from gitsession.git.ref_files import SYMBOLIC
from gitsession.git.types import Kind, Oid
from gitsession.purge import purging, select_objects, tombstone_checks
from gitsession.purge.rewriting import Rewriter
from gitsession.sessions import grow_only_sets, node, tombstone_set
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.grow_only_sets import Merged
from gitsession.sessions.merge_remote_branches import SyncedBranch
from gitsession.sessions.tombstone_set import Tombstones
from gitsession.store import create, histories, published, refs
from gitsession.store.git_store import GitStore
from gitsession.sync import transport
from gitsession.sync.remotes import Remote
from gitsession.sync.transport import Quarantine, TransportOptions, flush
from gitsession.validation.quarantine_reader import GitReader
from gitsession.validation.validate import FETCH_LIMITS, FetchedReader, unmergeable_reason

FOLDER = f"{create.CONTROL}/set-aside"
ACCEPT, ALL = "gitsession.acceptTombstones", "all"
_REJECTED = (
    "the remote still has purged content and rejects the branch without it ({why}): its owner must allow one forced "
    "push, delete the branch, or install gitsession's hooks, and then run `git gc`"
)


@dataclass(frozen=True, slots=True)
class TombstoneMerge:
    """The result of merging the fetched tombstone set ``remote_tip`` with the local set ``local``.

    ``tombstones``: the tombstones of both sets. ``why``: the reason why the sets cannot be merged, or "".
    """

    local: Oid | None
    tombstones: Tombstones
    remote_tip: Oid | None = None
    merged: Merged | None = None
    why: str = ""

    @property
    def is_new(self) -> bool:
        return self.merged is not None and self.merged.oid != self.local


def merge_fetched(
    store: GitStore, reader: FetchedReader, remote_tip: Oid | None, fetched: Mapping[str, Oid]
) -> TombstoneMerge:
    """Read the fetched tombstone set and merge it with the local set.

    ``reader``: reads fetched and local objects. ``remote_tip``: the tip of the fetched set. ``fetched``: the new values
    of the remote-tracking refs.
    """
    local = store.ref(refs.TOMBSTONES)
    known = tombstone_set.read(store)
    if remote_tip is None or remote_tip == local:
        return TombstoneMerge(local, known)
    why = unmergeable_reason(reader, remote_tip)
    if why:
        return TombstoneMerge(local, known, remote_tip, why=why)
    try:
        union = known | tombstone_set.at(reader, remote_tip)
        merged = tombstone_set.merge(reader, local, remote_tip)
    except (Malformed, MissingObject, Corrupt) as error:
        return TombstoneMerge(local, known, remote_tip, why=str(error))
    merge = TombstoneMerge(local, union, remote_tip, merged)
    why = tombstone_checks.problem(reader, {**_all_tips(store), **fetched}, known, union) if merge.is_new else ""
    return TombstoneMerge(local, known, remote_tip, why=why) if why else merge


def join(store: GitStore, reader: FetchedReader, merge: TombstoneMerge) -> list[SyncedBranch]:
    """Write the merged set and apply it; return the outcomes for the set and for every ref that moved.

    Raises ``Refused`` and ``Unavailable``, like a purge.
    """
    local, merged = merge.local, merge.merged
    if merge.why:
        return [SyncedBranch(refs.TOMBSTONES, "refused", local, local, why=merge.why)]
    if merged is None or not merge.is_new:
        return [SyncedBranch(refs.TOMBSTONES, "ahead", local, local)] if merged else []
    message = _move(store, reader, merge, merged)
    moved = purging.apply(store).moved
    purged = [SyncedBranch(ref, "purged", None, store.ref(ref)) for ref in moved if ref.startswith(refs.SESSIONS)]
    return [SyncedBranch(refs.TOMBSTONES, "forwarded" if local else "new", local, merged.oid, why=message), *purged]


def _move(store: GitStore, reader: FetchedReader, merge: TombstoneMerge, merged: Merged) -> str:
    """Move the local set to the merged set; return a message about saved entries that only this store had, or ""."""
    for _ in range(purging.TRIES):
        tips = entry_refs(store)
        message = save_lost_entries(store, merge.tombstones, tips)
        purging.begin(store)
        with store.transaction() as tx:
            if entry_refs(store) == tips:
                tx.put_all(dict(_missing_objects(store, reader, merge.remote_tip or "")))
                tx.put_all(merged.objects)
                tx.move(refs.TOMBSTONES, merged.oid, expected=merge.local)
                return message
        flush(store)
    raise Unavailable(
        "cannot merge the tombstone set: other processes keep writing to the store", hint="run `gitsession sync` again"
    )


def _all_tips(store: GitStore) -> dict[str, Oid]:
    values = {name: oid for name, oid in store.refs("refs/").items() if refs.target(oid) is None}
    return {**values, **archive_set.named(archive_set.read(store))}


def _missing_objects(store: GitStore, reader: FetchedReader, tip: Oid) -> Iterator[tuple[Oid, tuple[Kind, bytes]]]:
    """Yield the objects that are reachable from ``tip`` and missing in the store."""
    todo, seen = [tip], {tip}
    while todo:
        oid = todo.pop()
        if store.contains(oid):
            continue
        kind, data = reader.read(oid)
        yield oid, (kind, data)
        for other in _referenced(kind, data):
            if other not in seen:
                seen.add(other)
                todo.append(other)


def _referenced(kind: Kind, data: bytes) -> list[Oid]:
    if kind == "commit":
        commit = parse_commit(data)
        return [commit.tree, *commit.parents]
    rows = parse_tree(data) if kind == "tree" else []
    return [oid for mode, _, oid in rows if mode != SUBMODULE_MODE]


def entry_refs(store: GitStore) -> dict[str, Oid]:
    """Return the refs that lead to entries in this store."""
    found = {**store.refs(refs.SESSIONS), **store.refs(refs.TRASH)}
    return {name: oid for name, oid in found.items() if refs.target(oid) is None}


def save_lost_entries(store: GitStore, tombstones: Tombstones, tips: Mapping[str, Oid]) -> str:
    """Save the entries that ``tombstones`` will remove from ``tips`` and that no remote has; return a message.

    The message is "" if there are no such entries. Raises ``Unavailable``.
    """
    if config.value_of(store.git_dir, ACCEPT) == ALL:
        return ""
    lost = _lost(store, tombstones, tips)
    if not lost:
        return ""
    path = _write(store, {name: tips[name] for name in lost})
    sessions = ", ".join(sorted({refs.session_of(name) or name for name in lost}))
    number = len(set().union(*lost.values()))
    amount = "an entry" if number == 1 else f"{number:,} entries"
    return f"the purge removed {amount} of {sessions} that only this store had (a copy is in '{path}')"


def _lost(store: GitStore, tombstones: Tombstones, tips: Mapping[str, Oid]) -> dict[str, set[Oid]]:
    """Return the commits that ``tombstones`` will remove and that no remote is known to have, by ref."""
    rewriter = Rewriter(store, tombstones)
    removed_by_ref: dict[str, set[Oid]] = {}
    for name, oid in tips.items():
        try:
            if removed := set(_removed_commits(store, rewriter, name, oid)):
                removed_by_ref[name] = removed
        except GitSessionError:
            continue  # the history is damaged, which `verify` reports
    if not removed_by_ref:
        return {}
    seen = [*store.refs(refs.TRACKING).values(), *(oid for *_, oid in published.list_records(store.git_dir))]
    reached = select_objects.reachable_commits(store, [oid for oid in seen if refs.target(oid) is None])
    return {name: left for name, removed in removed_by_ref.items() if (left := removed - reached)}


def _removed_commits(store: GitStore, rewriter: Rewriter, name: str, oid: Oid) -> Iterator[Oid]:
    """Yield the commits of a history that a purge removes or changes.

    Commits that only get new parents are not included.
    """
    new = rewriter.ref(name, oid)
    if new == oid:
        return
    is_purged = rewriter.is_purged(name)
    first = rewriter.start(name, oid) if is_purged else None
    for at in histories.walk(store.read, oid):
        before = rewriter.read(at)[1]
        after = rewriter.read(rewriter.mapped.get(at, at))[1]
        is_unchanged = not is_purged and parse_commit(before).tree == parse_commit(after).tree
        if not is_unchanged and not node.parse(at, before).is_tombstone:
            yield at
        if is_purged and first is not None and at == first.oid:
            return


def _write(store: GitStore, tips: Mapping[str, Oid]) -> Path:
    """Write a bundle of the refs ``tips`` atomically; return its path.

    The path depends only on the refs, so a repeated call after a crash writes no second file.
    """
    rows = "".join(f"{name} {oid}\n" for name, oid in sorted(tips.items()))
    folder = store.git_dir / FOLDER
    path = folder / f"{sha256(rows.encode()).hexdigest()[:16]}.bundle"
    if path.exists():
        return path
    try:
        make_directories(folder)
        temporary = path.with_suffix(".tmp")
        transport.create_bundle(store.git_dir, temporary, [create.MAIN, *tips])
        os.chmod(temporary, 0o600)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.rename(temporary, path)
        sync_directory(folder)
    except OSError as error:
        what = "cannot save a copy of the entries that exist only in this store"
        raise Unavailable(f"{what}: {error.strerror}") from error
    return path


# -- remotes without gitsession's hooks


def rewritten(
    quarantine: Quarantine,
    read: FetchedReader,
    tombstones: Tombstones,
    fetched: Mapping[str, Oid],
    known: Mapping[str, Oid],
) -> dict[str, Oid]:
    """Return the fetched refs that a purge changes, with their new values, and store the new objects.

    ``known``: refs whose histories have no purged content; if empty, all entries are checked. A history that cannot be
    rewritten is not changed, and its validation reports the reason. Raises ``Unavailable``.
    """
    if not tombstones:
        return {}
    rewriter = Rewriter(read, tombstones, _NotIn(_new(quarantine, fetched, known)) if known else ())
    found = {}
    for ref, oid in fetched.items():
        try:
            if (new := rewriter.ref(ref, oid)) != oid:
                found[ref] = new
        except GitSessionError:
            continue
    if found:
        try:
            quarantine.put(rewriter.objects)
        except OSError as error:
            raise Unavailable(f"cannot store the fetched objects: {error.strerror}") from error
    return found


@dataclass(frozen=True, slots=True)
class _NotIn:
    """The set of all commits that are not in ``new``."""

    new: frozenset[Oid]

    def __contains__(self, oid: object) -> bool:
        return oid not in self.new


def _new(quarantine: Quarantine, fetched: Mapping[str, Oid], known: Mapping[str, Oid]) -> frozenset[Oid]:
    """Return the commits that are reachable from ``fetched`` and not from ``known``."""
    plain = {name: oid for name, oid in known.items() if not oid.startswith(SYMBOLIC)}
    tips = set(fetched.values()) - set(plain.values())
    if not tips:
        return frozenset()
    with GitReader(quarantine.git_dir, plain) as reader:
        return frozenset(reader.new(tips, None, FETCH_LIMITS.entries) or ())


@dataclass(frozen=True, slots=True)
class RemotePurge:
    """The outcome of a purge at a remote.

    ``accepted``: the refs that the remote accepted. ``stays``: the refs with purged content that the remote keeps, each
    with the reason. ``is_late``: True if another store has pushed to the remote meanwhile.
    """

    accepted: frozenset[str] = frozenset()
    stays: Mapping[str, str] = field(default_factory=dict)
    is_late: bool = False


def clear(store: GitStore, remote: Remote, options: TransportOptions, stale: Mapping[str, Oid]) -> RemotePurge:
    """Push rewritten histories back to the remote.

    ``stale``: the refs to overwrite, by local name, each with its value at the remote.

    Raises ``Unavailable``.
    """
    seen = store.refs(remote.tracks)
    wanted = {
        ref: (seen[name], remote.remote_ref(ref) or ref) for ref in stale if (name := remote.tracking(ref)) in seen
    }
    if not wanted:
        return RemotePurge()
    with Quarantine(store.git_dir, remote, {}) as quarantine:
        done = transport.push(quarantine.git_dir, remote, wanted, options, leases=stale)
        refused = {ref: result for ref, result in done.refs.items() if not result.ok}
        is_late = any(result.moved for result in refused.values())
        if refused and not is_late:
            remote_refs = transport.advertised(quarantine.git_dir, remote, options)
            is_late = any(remote_refs.get(wanted[ref][1]) != stale[ref] for ref in refused)
    stays = {ref: _REJECTED.format(why=result.why) for ref, result in refused.items() if not result.moved}
    return RemotePurge(frozenset(done.refs.keys() - refused.keys()), stays, is_late)


# -- remotes with a scope


def tombstones_for(store: GitStore, remote: Remote | None, sids: Collection[str]) -> Merged:
    """Return the commit of the tombstone set for a remote that may receive only the sessions ``sids``.

    The result is the local tip if every replacement in its history belongs to one of these sessions or was sent before.
    Otherwise, the result is a new commit without the other replacements; its parent is the commit that the remote has.
    ``remote`` is ``None`` for a new bundle file, which has no set yet. ``store`` must have been flushed. Raises
    ``Unavailable``, and the errors of reading the set.
    """
    local = store.ref(refs.TOMBSTONES)
    tracked = store.ref(remote.tracking(refs.TOMBSTONES)) if remote is not None else None
    remote_tombstones = tombstone_set.NONE if tracked is None else tombstone_set.at(store, tracked)
    if local is None or local == tracked:
        return Merged(tracked)
    steps = _steps(store, local, tracked)
    tombstones = tombstone_set.at(store, local)
    waiting = {(key, by) for step in steps for key, by in tombstone_set.at(store, step).replaced.items()}
    waiting -= set(remote_tombstones.replaced.items())
    if not waiting:
        return Merged(local)
    replacements = {tombstones.replacement_of(digest) for digest in _replaced(store, remote, sids)} - {None}
    fits = {key for key in tombstones.replaced if tombstones.replacement_of(key) in replacements}
    if all(key in fits for key, _ in waiting):
        return Merged(local)
    part = {key: by for key, by in tombstones.replaced.items() if key in fits}
    in_scope = Tombstones(tombstones.removed, part, tombstones.sessions)
    return tombstone_set.add(store, tracked, in_scope, grow_only_sets.seconds_of(store, local) * 1000)


def _steps(store: GitStore, local: Oid, tracked: Oid | None) -> list[Oid]:
    """Return the commits of the tombstone set from ``local`` back to ``tracked``, excluding ``tracked``."""
    seen, todo, found = {tracked}, [local], []
    while todo:
        oid = todo.pop()
        if oid in seen:
            continue
        seen.add(oid)
        found.append(oid)
        todo += parse_commit(store.read(oid)[1]).parents
    return found


def _replaced(store: GitStore, remote: Remote | None, sids: Collection[str]) -> set[str]:
    """Return the digests of replaced entries in the sessions ``sids`` and at the remote.

    The sessions may be archived or in the trash.
    """
    prefixes = [prefix for sid in sids for prefix in (refs.session(sid), refs.trashed(refs.session(sid)))]
    prefixes += [remote.tracks] if remote is not None else []
    tips = {value for prefix in prefixes for value in store.refs(prefix).values() if refs.target(value) is None}
    ends = archive_set.read(store).ends
    tips |= {oid for sid in sids for _, oid in ends.get(sid, ())}
    revisions = "".join(f"{oid}\n" for oid in sorted(tips))
    if not revisions:
        return set()
    arguments = ("rev-list", "--ignore-missing", "--grep=^Replaces: ", "--stdin")
    output = process.run(store.git_dir, *arguments, stdin=revisions.encode()).out.decode("ascii")
    found = set()
    for oid in output.split():
        try:
            found.add(node.load(store, oid).replaces.hex())
        except DAMAGE:
            continue  # `verify` reports the damage
    return found - {""}
