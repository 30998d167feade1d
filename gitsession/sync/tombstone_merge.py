"""The set of what was purged, as a remote has it, joined with ours: before anything else that comes from there.

What the joined set says is carried out here at once; then what else was fetched is judged by it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from gitsession.archive import archive_set
from gitsession.durable import make_directories, sync_directory
from gitsession.errors import Corrupt, GitSessionError, Malformed, MissingObject, Unavailable
from gitsession.git import config, process
from gitsession.git.objects import SUBMODULE_MODE, parse_commit, parse_tree
from gitsession.git.types import Kind, Oid
from gitsession.purge import purging, select_objects, tombstone_checks, tombstone_commits
from gitsession.purge.rewriting import Rewriter
from gitsession.purge.tombstone_commits import Merged
from gitsession.sessions import node, tombstone_set
from gitsession.sessions.reconcile import SyncedBranch
from gitsession.sessions.tombstone_set import Tombstones
from gitsession.store import create, histories, published, refs
from gitsession.store.git_store import GitStore
from gitsession.sync.preconditions import flush
from gitsession.validation.validate import FetchedReader, unfit


@dataclass(frozen=True, slots=True)
class TombstoneMerge:
    """What ``theirs`` comes to beside ``ours``. ``said``: by both; ``why``: it cannot be joined with ours."""

    ours: Oid | None
    said: Tombstones
    theirs: Oid | None = None
    merged: Merged | None = None
    why: str = ""

    @property
    def is_new(self) -> bool:
        return self.merged is not None and self.merged.oid != self.ours


def look(store: GitStore, apart: FetchedReader, theirs: Oid | None, fetched: Mapping[str, Oid]) -> TombstoneMerge:
    """``apart``: reads what was fetched, and what is here. ``fetched``: what the tracking refs are to hold."""
    ours = store.ref(refs.TOMBSTONES)
    known = tombstone_set.read(store)
    if theirs is None or theirs == ours:
        return TombstoneMerge(ours, known)
    why = unfit(apart, theirs)
    if why:
        return TombstoneMerge(ours, known, theirs, why=why)
    try:
        said = known | tombstone_commits.at(apart, theirs)
        merged = tombstone_commits.merge(apart, ours, theirs)
    except (Malformed, MissingObject, Corrupt) as error:
        return TombstoneMerge(ours, known, theirs, why=str(error))
    news = TombstoneMerge(ours, said, theirs, merged)
    why = tombstone_checks.problem(apart, {**_leading(store), **fetched}, known, said) if news.is_new else ""
    return TombstoneMerge(ours, known, theirs, why=why) if why else news


def join(store: GitStore, apart: FetchedReader, news: TombstoneMerge) -> list[SyncedBranch]:
    """Take the news into our set; what became of it, and of every ref that was led elsewhere by it.

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
    """Say in our set what the news say; what of it was only here, in words."""
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
    raise Unavailable("others keep writing to the store", hint="try again: `gitsession sync`")


def _leading(store: GitStore) -> dict[str, Oid]:
    held = {name: oid for name, oid in store.refs("refs/").items() if refs.target(oid) is None}
    return {**held, **archive_set.named(archive_set.read(store))}


def _behind(store: GitStore, apart: FetchedReader, tip: Oid) -> Iterator[tuple[Oid, tuple[Kind, bytes]]]:
    """The objects that ``tip`` leads to and the store lacks."""
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


PLACE = f"{create.CONTROL}/set-aside"
ACCEPT, ALL = "gitsession.acceptTombstones", "all"


def held(store: GitStore) -> dict[str, Oid]:
    """The refs that lead to entries of ours."""
    found = {**store.refs(refs.SESSIONS), **store.refs(refs.TRASH)}
    return {name: oid for name, oid in found.items() if refs.target(oid) is None}


def set_aside(store: GitStore, tombstones: Tombstones, named: Mapping[str, Oid]) -> str:
    """Before ``tombstones`` is carried out on ``named``: what went, in words, and where it is; "" for nothing.

    Raises ``Unavailable``.
    """
    if config.said(store.git_dir, ACCEPT) == ALL:
        return ""
    lost = _lost(store, tombstones, named)
    if not lost:
        return ""
    path = _write(store, {name: named[name] for name in lost})
    where = ", ".join(sorted({refs.session_of(name) or name for name in lost}))
    number = len(set().union(*lost.values()))
    words = "an entry that was" if number == 1 else f"{number:,} entries that were"
    return f"{words} only here went with it, of {where}; as it was it is in {path}"


def _lost(store: GitStore, tombstones: Tombstones, named: Mapping[str, Oid]) -> dict[str, set[Oid]]:
    """Commits that go and that no remote may have, by ref."""
    rewriter = Rewriter(store, tombstones)
    going: dict[str, set[Oid]] = {}
    for name, oid in named.items():
        try:
            if (gone := set(_going(store, rewriter, name, oid))):
                going[name] = gone
        except GitSessionError:
            continue  # damage: `verify` names it
    if not going:
        return {}
    seen = [*store.refs(refs.TRACKING).values(), *(oid for *_, oid in published.noted(store.git_dir))]
    reached = select_objects.reached(store, [oid for oid in seen if refs.target(oid) is None])
    return {name: left for name, gone in going.items() if (left := gone - reached)}


def _going(store: GitStore, rewriter: Rewriter, name: str, oid: Oid) -> Iterator[Oid]:
    """The commits of a line that are not left as they are, but for their parents."""
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
    """A bundle of these refs, whole; the same for the same refs, so that a crash makes no second one."""
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
        raise Unavailable(f"cannot set aside what is only here: {error.strerror}") from error
    return path
