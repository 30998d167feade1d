"""Find the session that made the staged files, by the checkpoints of each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gitsession.checkpoints import history, lookup
from gitsession.checkpoints.attribution import attributed
from gitsession.errors import GitSessionError
from gitsession.git import process
from gitsession.git.types import Oid
from gitsession.store.interface import ObjectStore
from gitsession.sync.commit_trailers import H
from gitsession.workspace import names, user_repository
from gitsession.workspace.user_repository import UserRepository


def author(store: ObjectStore, candidates: Sequence[H], folder: Path, index_file: str = "") -> H | None:
    """Return the one of ``candidates`` that changed most of the files staged in ``folder``; of equal ones, the first.

    A file counts first where what is staged is what the session made of it, by its checkpoints; then where the session
    changed it at all. If files are staged and no session changed any of them, return ``None``. ``index_file``: the
    index that the commit is made of, if it is not the usual one.
    """
    found = user_repository.find(str(folder))
    staged = _staged(found, index_file)
    if not staged:
        return candidates[0]

    def share(row: H) -> tuple[int, int]:
        made = _made(store, row.sid, found.top)
        same = sum(oid in made.get(path, ()) for path, oid in staged.items())
        return same, len(staged.keys() & made.keys())

    shares = [share(row) for row in candidates]
    most = max(shares)
    return candidates[shares.index(most)] if any(most) else None


def _staged(found: UserRepository, index_file: str) -> dict[str, Oid | None]:
    """Return the paths that differ between the index and HEAD, and what the index holds of each."""
    worktree = process.Worktree(found.top, found.top, index_file or None)
    words = ("diff", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--no-ext-diff")
    rows = process.run(Path(found.git_dir), *words, worktree=worktree, timeout_seconds=2).out.split(b"\0")
    staged = {}
    for head, path in zip(rows[::2], rows[1::2], strict=False):
        oid = head.split()[3].decode()
        staged[os.fsdecode(path)] = oid if oid.strip("0") else None
    return staged


def _made(store: ObjectStore, sid: str, top: str) -> dict[str, set[Oid | None]]:
    """Return each path below ``top`` that a session changed, and everything that it made of it."""
    made: dict[str, set[Oid | None]] = {}
    try:
        steps = lookup.steps(store, history.history(store, sid))
        for step, paths in zip(steps, attributed(steps), strict=True):
            for path in paths:
                place = os.path.join(step.entry.workspace or top, os.fsdecode(names.unescape_path(path)))
                after = step.changes[path][1]
                made.setdefault(os.path.relpath(place, top), set()).add(after.oid if after else None)
    except GitSessionError:
        pass  # `verify` names what cannot be read
    return made
