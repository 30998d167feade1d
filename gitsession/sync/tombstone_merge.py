"""The set of what was purged, as a remote has it, joined with ours: before anything else that comes from there.

What the joined set says is carried out here at once; then what else was fetched is judged by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gitsession.archive import archive_set
from gitsession.errors import Corrupt, Malformed, MissingObject, Unavailable
from gitsession.git.objects import SUBMODULE_MODE, parse_commit, parse_tree
from gitsession.git.types import Kind, Oid
from gitsession.purge import claims, purging, tombstone_commits, unpublished_backup
from gitsession.purge.tombstone_commits import Merged
from gitsession.sessions import tombstone_set
from gitsession.sessions.reconcile import SyncedBranch
from gitsession.sessions.tombstone_set import Tombstones
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.sync.preflight import flush
from gitsession.validation.fetched import Reader, unfit


@dataclass(frozen=True, slots=True)
class News:
    """What ``theirs`` comes to beside ``ours``. ``said``: by both; ``why``: it cannot be joined with ours."""

    ours: Oid | None
    said: Tombstones
    theirs: Oid | None = None
    merged: Merged | None = None
    why: str = ""

    @property
    def is_new(self) -> bool:
        return self.merged is not None and self.merged.oid != self.ours


def look(store: GitStore, apart: Reader, theirs: Oid | None, fetched: Mapping[str, Oid]) -> News:
    """``apart``: reads what was fetched, and what is here. ``fetched``: what the tracking refs are to hold."""
    ours = store.ref(refs.TOMBSTONES)
    known = tombstone_set.read(store)
    if theirs is None or theirs == ours:
        return News(ours, known)
    why = unfit(apart, theirs)
    if why:
        return News(ours, known, theirs, why=why)
    try:
        said = known | tombstone_commits.at(apart, theirs)
        merged = tombstone_commits.merge(apart, ours, theirs)
    except (Malformed, MissingObject, Corrupt) as error:
        return News(ours, known, theirs, why=str(error))
    news = News(ours, said, theirs, merged)
    why = claims.problem(apart, {**_leading(store), **fetched}, known, said) if news.is_new else ""
    return News(ours, known, theirs, why=why) if why else news


def join(store: GitStore, apart: Reader, news: News) -> list[SyncedBranch]:
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


def _move(store: GitStore, apart: Reader, news: News, merged: Merged) -> str:
    """Say in our set what the news say; what of it was only here, in words."""
    for _ in range(purging.TRIES):
        named = unpublished_backup.held(store)
        words = unpublished_backup.set_aside(store, news.said, named)
        purging.begin(store)
        with store.transaction() as tx:
            if unpublished_backup.held(store) == named:
                tx.put_all(dict(_behind(store, apart, news.theirs or "")))
                tx.put_all(merged.objects)
                tx.move(refs.TOMBSTONES, merged.oid, expected=news.ours)
                return words
        flush(store)
    raise Unavailable("others keep writing to the store", hint="try again: `gitsession sync`")


def _leading(store: GitStore) -> dict[str, Oid]:
    held = {name: oid for name, oid in store.refs("refs/").items() if refs.target(oid) is None}
    return {**held, **archive_set.named(archive_set.read(store))}


def _behind(store: GitStore, apart: Reader, tip: Oid) -> Iterator[tuple[Oid, tuple[Kind, bytes]]]:
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
