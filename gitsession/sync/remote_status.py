"""How a store stands to its remotes as they were last seen: nobody is asked."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from gitsession.errors import GitSessionError
from gitsession.git import process
from gitsession.git.types import Oid
from gitsession.store import push_intents, refs
from gitsession.store.git_store import GitStore
from gitsession.sync import pushing
from gitsession.sync.remotes import Remote


@dataclass(frozen=True, slots=True)
class Standing:
    """``seen``: how many of our refs the remote was seen to hold. ``unsent``: refs that it does not hold as they are
    here; ``entries``: what those lead to and it has not, ``None`` where git cannot tell. ``noted``: refs that a push
    which did not end may have sent.
    """

    remote: Remote
    seen: int
    unsent: tuple[str, ...]
    entries: int | None
    noted: int


def of(store: GitStore, remote: Remote, among: Collection[str] | None = None) -> Standing:
    """Sessions only: what the store itself notes goes along with them. ``among``: see ``outgoing.in_scope``."""
    seen = store.refs(remote.tracks)
    fits = pushing.in_scope(store, remote, among)
    ours = store.refs(refs.SESSIONS).items()
    here = {name: oid for name, oid in ours if remote.there(name) is not None and fits(name)}
    unsent = {name: oid for name, oid in here.items() if seen.get(remote.tracking(name)) != oid}
    noted = {name for to, name, _ in push_intents.noted(store.git_dir) if to == remote.name}
    entries = _count(store.git_dir, unsent.values(), seen.values()) if unsent else 0
    return Standing(remote, len(seen), tuple(unsent), entries, len(noted))


def _count(git_dir: Path, tips: Iterable[Oid], known: Iterable[Oid]) -> int | None:
    """What git has of them: what waits in the journal comes to it with the next flush."""
    asked = "".join([*(f"{oid}\n" for oid in tips), *(f"^{oid}\n" for oid in known)])
    try:
        told = process.run(git_dir, "rev-list", "--count", "--ignore-missing", "--stdin", stdin=asked.encode())
        return int(told.out)
    except (GitSessionError, ValueError):
        return None
