"""What a purge from elsewhere would take away and no remote was ever given: set aside in a file before it goes.

A set is carried out on all lines or on none: every way to write asks it, and a line that kept what it names would be
told as damage by one command and taken for a new branch by the next. So it is carried out, and nobody's work goes for
good without a word: what was only here stays, as it was, in a bundle beside the store's objects, for its owner to
read or to delete. ``gitsession.acceptTombstones = all`` does without.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from gitsession.durable import make_directories, sync_directory
from gitsession.errors import GitSessionError, Unavailable
from gitsession.git import config, process
from gitsession.git.objects import parse_commit
from gitsession.git.types import Oid
from gitsession.purge import select_objects
from gitsession.purge.rewriting import Rewriter
from gitsession.sessions import node
from gitsession.sessions.tombstone_set import Tombstones
from gitsession.store import create, histories, push_intents, refs
from gitsession.store.git_store import GitStore

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
    seen = [*store.refs(refs.TRACKING).values(), *(oid for *_, oid in push_intents.noted(store.git_dir))]
    published = select_objects.reached(store, [oid for oid in seen if refs.target(oid) is None])
    return {name: left for name, gone in going.items() if (left := gone - published)}


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
