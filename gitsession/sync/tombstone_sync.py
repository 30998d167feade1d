"""Purges between stores: the tombstone set is merged, applied, and sent.

On fetch, the set of a remote is merged with the local set before any other data of the remote. The merged set is
applied at once, and the rest of the fetched data is validated against it. Entries that only this store had are first
saved in a bundle.

A remote without gitsession's hooks keeps purged content. Its histories are rewritten on fetch and pushed back. The
rewrite is deterministic, so every store computes the same history. A lease names the value that is replaced, so a
concurrent push is never overwritten. A remote with the hooks rewrites its own histories when it receives the set, which
is pushed first; nothing is forced there.

For a redacted entry, the set contains the replacement, which is the text of the entry without the secret. So if a
remote has a scope, a replacement is sent only if it replaces an entry of a session that may be sent. Digests and ids of
sessions are always sent.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from gitsession.archive import archive_set
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

PLACE = f"{create.CONTROL}/set-aside"
ACCEPT, ALL = "gitsession.acceptTombstones", "all"
_STAYS = (
    "the remote still has purged content and rejects the branch without it ({why}): its owner must allow one forced "
    "push, delete the branch, or install gitsession's hooks, and then run `git gc`"
)


@dataclass(frozen=True, slots=True)
class TombstoneMerge:
    """The result of merging ``theirs`` with ``ours``.

    ``said``: the tombstones of both sets. ``why``: the reason why they cannot be merged, or "".
    """

    ours: Oid | None
    said: Tombstones
    theirs: Oid | None = None
    merged: Merged | None = None
    why: str = ""

    @property
    def is_new(self) -> bool:
        return self.merged is not None and self.merged.oid != self.ours


def look(store: GitStore, apart: FetchedReader, theirs: Oid | None, fetched: Mapping[str, Oid]) -> TombstoneMerge:
    """Read the fetched tombstone set and merge it with the local one.

    ``apart``: reads fetched and local objects. ``theirs``: the tip of the fetched set. ``fetched``: the new values of
    the tracking refs.
    """
    ours = store.ref(refs.TOMBSTONES)
    known = tombstone_set.read(store)
    if theirs is None or theirs == ours:
        return TombstoneMerge(ours, known)
    why = unmergeable_reason(apart, theirs)
    if why:
        return TombstoneMerge(ours, known, theirs, why=why)
    try:
        said = known | tombstone_set.at(apart, theirs)
        merged = tombstone_set.merge(apart, ours, theirs)
    except (Malformed, MissingObject, Corrupt) as error:
        return TombstoneMerge(ours, known, theirs, why=str(error))
    news = TombstoneMerge(ours, said, theirs, merged)
    why = tombstone_checks.problem(apart, {**_leading(store), **fetched}, known, said) if news.is_new else ""
    return TombstoneMerge(ours, known, theirs, why=why) if why else news


def join(store: GitStore, apart: FetchedReader, news: TombstoneMerge) -> list[SyncedBranch]:
    """Write the merged set and apply it; return the outcomes for the set and for every ref that it moved.

    Raises ``Refused`` and ``Unavailable`` as a purge does.
    """
    ours, merged = news.ours, news.merged
    if news.why:
        return [SyncedBranch(refs.TOMBSTONES, "refused", ours, ours, why=news.why)]
    if merged is None or not news.is_new:
        return [SyncedBranch(refs.TOMBSTONES, "ahead", ours, ours)] if merged else []
    words = _move(store, apart, news, merged)
    moved = purging.apply(store).moved
    gone = [SyncedBranch(ref, "purged", None, store.ref(ref)) for ref in moved if ref.startswith(refs.SESSIONS)]
    return [SyncedBranch(refs.TOMBSTONES, "forwarded" if ours else "new", ours, merged.oid, why=words), *gone]


def _move(store: GitStore, apart: FetchedReader, news: TombstoneMerge, merged: Merged) -> str:
    """Move the local set to the merged one; return a message about entries that only this store had."""
    for _ in range(purging.TRIES):
        named = held(store)
        words = set_aside(store, news.said, named)
        purging.begin(store)
        with store.transaction() as tx:
            if held(store) == named:
                tx.put_all(dict(_behind(store, apart, news.theirs or "")))
                tx.put_all(merged.objects)
                tx.move(refs.TOMBSTONES, merged.oid, expected=news.ours)
                return words
        flush(store)
    raise Unavailable(
        "cannot merge the tombstone set: others keep writing to the store", hint="run `gitsession sync` again"
    )


def _leading(store: GitStore) -> dict[str, Oid]:
    held = {name: oid for name, oid in store.refs("refs/").items() if refs.target(oid) is None}
    return {**held, **archive_set.named(archive_set.read(store))}


def _behind(store: GitStore, apart: FetchedReader, tip: Oid) -> Iterator[tuple[Oid, tuple[Kind, bytes]]]:
    """Yield the objects that are reachable from ``tip`` and missing in the store."""
    todo, seen = [tip], {tip}
    while todo:
        oid = todo.pop()
        if store.contains(oid):
            continue
        kind, data = apart.read(oid)
        yield oid, (kind, data)
        for other in _named(kind, data):
            if other not in seen:
                seen.add(other)
                todo.append(other)


def _named(kind: Kind, data: bytes) -> list[Oid]:
    if kind == "commit":
        commit = parse_commit(data)
        return [commit.tree, *commit.parents]
    rows = parse_tree(data) if kind == "tree" else []
    return [oid for mode, _, oid in rows if mode != SUBMODULE_MODE]


def held(store: GitStore) -> dict[str, Oid]:
    """Return the refs that lead to entries in this store."""
    found = {**store.refs(refs.SESSIONS), **store.refs(refs.TRASH)}
    return {name: oid for name, oid in found.items() if refs.target(oid) is None}


def set_aside(store: GitStore, tombstones: Tombstones, named: Mapping[str, Oid]) -> str:
    """Save the entries in ``named`` that ``tombstones`` will remove and no remote has; return a message.

    The message is "" if there are no such entries. Raises ``Unavailable``.
    """
    if config.said(store.git_dir, ACCEPT) == ALL:
        return ""
    lost = _lost(store, tombstones, named)
    if not lost:
        return ""
    path = _write(store, {name: named[name] for name in lost})
    where = ", ".join(sorted({refs.session_of(name) or name for name in lost}))
    number = len(set().union(*lost.values()))
    words = "an entry" if number == 1 else f"{number:,} entries"
    return f"the purge removed {words} of {where} that only this store had (a copy is in '{path}')"


def _lost(store: GitStore, tombstones: Tombstones, named: Mapping[str, Oid]) -> dict[str, set[Oid]]:
    """Return the commits that will be removed and that no remote is known to have, by ref."""
    rewriter = Rewriter(store, tombstones)
    going: dict[str, set[Oid]] = {}
    for name, oid in named.items():
        try:
            if (gone := set(_going(store, rewriter, name, oid))):
                going[name] = gone
        except GitSessionError:
            continue  # the history is damaged, which `verify` reports
    if not going:
        return {}
    seen = [*store.refs(refs.TRACKING).values(), *(oid for *_, oid in published.noted(store.git_dir))]
    reached = select_objects.reachable_commits(store, [oid for oid in seen if refs.target(oid) is None])
    return {name: left for name, gone in going.items() if (left := gone - reached)}


def _going(store: GitStore, rewriter: Rewriter, name: str, oid: Oid) -> Iterator[Oid]:
    """Yield the commits of a history that a purge removes or changes, except those that only get new parents."""
    new = rewriter.ref(name, oid)
    if new == oid:
        return
    is_purged = rewriter.is_purged(name)
    first = rewriter.start(name, oid) if is_purged else None
    for at in histories.walk(store.read, oid):
        before = _read(store, rewriter, at)
        after = _read(store, rewriter, rewriter.mapped.get(at, at))
        is_kept = not is_purged and parse_commit(before).tree == parse_commit(after).tree
        if not is_kept and not node.parse(at, before).is_tombstone:
            yield at
        if is_purged and first is not None and at == first.oid:
            return


def _read(store: GitStore, rewriter: Rewriter, oid: Oid) -> bytes:
    return (rewriter.objects.get(oid) or store.read(oid))[1]


def _write(store: GitStore, named: Mapping[str, Oid]) -> Path:
    """Write a bundle of these refs atomically. The same refs give the same file, so a crash leaves no second file."""
    rows = "".join(f"{name} {oid}\n" for name, oid in sorted(named.items()))
    folder = store.git_dir / PLACE
    path = folder / f"{sha256(rows.encode()).hexdigest()[:16]}.bundle"
    if path.exists():
        return path
    try:
        make_directories(folder)
        made = path.with_suffix(".tmp")
        words = ("bundle", "create", "--quiet", "--version=2", str(made), "--stdin")
        listed = "".join(f"{name}\n" for name in (create.MAIN, *named))
        process.run(store.git_dir, *words, stdin=listed.encode(), timeout_seconds=6 * 3600)
        os.chmod(made, 0o600)
        with made.open("rb") as file:
            os.fsync(file.fileno())
        os.rename(made, path)
        sync_directory(folder)
    except OSError as error:
        raise Unavailable(f"cannot save the entries that only this store has: {error.strerror}") from error
    return path


# -- remotes without gitsession's hooks


def rewritten(
    place: Quarantine, read: FetchedReader, tombstones: Tombstones, theirs: Mapping[str, Oid], known: Mapping[str, Oid]
) -> dict[str, Oid]:
    """Return the refs in ``place`` that a purge changes, with their new values, and store the new objects in ``place``.

    ``known``: refs whose histories have no purged content; if empty, all entries are checked. A history that cannot be
    rewritten is left unchanged, and its validation reports the reason. Raises ``Unavailable``.
    """
    if not tombstones:
        return {}
    rewriter = Rewriter(read, tombstones, _NotIn(_new(place, theirs, known)) if known else ())
    found = {}
    for ref, oid in theirs.items():
        try:
            if (made := rewriter.ref(ref, oid)) != oid:
                found[ref] = made
        except GitSessionError:
            continue
    if found:
        try:
            place.put(rewriter.objects)
        except OSError as error:
            raise Unavailable(f"cannot store the fetched objects: {error.strerror}") from error
    return found


@dataclass(frozen=True, slots=True)
class _NotIn:
    """The complement of ``new``."""

    new: frozenset[Oid]

    def __contains__(self, oid: object) -> bool:
        return oid not in self.new


def _new(place: Quarantine, theirs: Mapping[str, Oid], known: Mapping[str, Oid]) -> frozenset[Oid]:
    """Return the commits that are reachable from ``theirs`` and not from ``known``."""
    plain = {name: oid for name, oid in known.items() if not oid.startswith(SYMBOLIC)}
    tips = set(theirs.values()) - set(plain.values())
    if not tips:
        return frozenset()
    with GitReader(place.git_dir, plain) as apart:
        return frozenset(apart.new(tips, None, FETCH_LIMITS.entries) or ())


@dataclass(frozen=True, slots=True)
class RemotePurge:
    """The outcome of a purge at a remote.

    ``took``: the refs that the remote accepted. ``stays``: the reasons, by ref, why the remote keeps the others.
    ``is_late``: True if others published there meanwhile.
    """

    took: frozenset[str] = frozenset()
    stays: Mapping[str, str] = field(default_factory=dict)
    is_late: bool = False


def clear(store: GitStore, remote: Remote, talk: TransportOptions, held: Mapping[str, Oid]) -> RemotePurge:
    """Push the tracking refs of ``held`` back to the remote. ``held``: the refs at the remote, by local names.

    Raises ``Unavailable``.
    """
    seen = store.refs(remote.tracks)
    wanted = {ref: (seen[name], remote.there(ref) or ref) for ref in held if (name := remote.tracking(ref)) in seen}
    if not wanted:
        return RemotePurge()
    with Quarantine(store.git_dir, remote, {}) as place:
        done = transport.push(place.git_dir, remote, wanted, talk, leases=held)
        refused = {ref: result for ref, result in done.refs.items() if not result.ok}
        is_late = any(result.moved for result in refused.values())
        if refused and not is_late:
            there = transport.advertised(place.git_dir, remote, talk)
            is_late = any(there.get(wanted[ref][1]) != held[ref] for ref in refused)
    stays = {ref: _STAYS.format(why=result.why) for ref, result in refused.items() if not result.moved}
    return RemotePurge(frozenset(done.refs.keys() - refused.keys()), stays, is_late)


# -- remotes with a scope


def tombstones_for(store: GitStore, remote: Remote | None, sids: Collection[str]) -> Merged:
    """Return the commit of the tombstone set for a remote that may receive only the sessions ``sids``.

    The result is the local tip if every replacement in its history belongs to one of these sessions or was sent before.
    Otherwise it is a new commit without the other replacements, after the commit that the remote has. ``remote`` is
    ``None`` for a new bundle file, which has no set yet. ``store`` must have been flushed. Raises ``Unavailable``, and
    the errors of reading the set.
    """
    ours = store.ref(refs.TOMBSTONES)
    theirs = store.ref(remote.tracking(refs.TOMBSTONES)) if remote is not None else None
    given = tombstone_set.NONE if theirs is None else tombstone_set.at(store, theirs)
    if ours is None or ours == theirs:
        return Merged(theirs)
    steps = _steps(store, ours, theirs)
    said = tombstone_set.at(store, ours)
    waiting = {(key, by) for step in steps for key, by in tombstone_set.at(store, step).replaced.items()}
    waiting -= set(given.replaced.items())
    if not waiting:
        return Merged(ours)
    stand = {said.instead(digest) for digest in _replaced(store, remote, sids)} - {None}
    fits = {key for key in said.replaced if said.instead(key) in stand}
    if all(key in fits for key, _ in waiting):
        return Merged(ours)
    part = {key: by for key, by in said.replaced.items() if key in fits}
    less = Tombstones(said.removed, part, said.sessions)
    return tombstone_set.added(store, theirs, less, grow_only_sets.seconds_of(store, ours) * 1000)


def _steps(store: GitStore, ours: Oid, theirs: Oid | None) -> list[Oid]:
    """Return the commits of the set from ``ours`` back to ``theirs``, excluding ``theirs``."""
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
    """Return the digests of replaced entries in these sessions (also archived or in the trash) and at the remote."""
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
            continue  # `verify` reports the damage
    return found - {""}
