"""Trailers in the commits of a project. Each trailer names the session in which the commit was made.

A git hook in the project's repository adds the trailer ``Session: <session>@<beginning of the entry's chain digest>``.
The chain digest stays the same when commits are rewritten.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from gitsession.checkpoints import history, lookup
from gitsession.checkpoints.attribution import attributed
from gitsession.codec.digest import to_base64url
from gitsession.errors import GitSessionError, NotFound, Refused
from gitsession.git import hook_files, process
from gitsession.git.types import Oid
from gitsession.sessions.node import Node
from gitsession.store.interface import ObjectStore
from gitsession.sync.code_commits import TRAILER
from gitsession.workspace import names, user_repository
from gitsession.workspace.trees import CachedTrees
from gitsession.workspace.user_repository import UserRepository

HOOK = "prepare-commit-msg"
PROGRAM = "gitsession.link"
HOURS = "gitsession.linkHours"
HOURS_DEFAULT = 4.0
_CHAIN_CHARS = 12
_COMMENT = "#"


class RecentSession(Protocol):
    """The id and the folder of a session, and the time of its last entry."""

    @property
    def sid(self) -> str: ...
    @property
    def project(self) -> str | None: ...
    @property
    def updated_ms(self) -> int: ...


H = TypeVar("H", bound=RecentSession)


def enable(folder: Path, program: Sequence[str], hours: float | None = None) -> bool:
    """Install the hook that adds trailers to commits in the repository of ``folder``; return whether anything changed.

    ``program``: the command that the hook uses to run gitsession. ``hours``: a session counts as active for this number
    of hours after its last entry. Raises ``NotFound`` if there is no repository, and ``Refused`` if git is configured
    to read hooks from another folder.
    """
    git_dir = _repository(folder)
    wanted = {PROGRAM: shlex.join(program), **({HOURS: f"{hours:g}"} if hours is not None else {})}
    changed = False
    for name, value in wanted.items():
        if _setting(git_dir, name) != value:
            process.run(git_dir, "config", "--local", name, value)
            changed = True
    return hook_files.install(git_dir / "hooks", HOOK) or changed


def disable(folder: Path) -> bool:
    """Remove the hook that adds trailers, and its settings; return whether anything changed.

    Trailers in commits are kept.
    """
    git_dir = _repository(folder)
    changed = hook_files.remove(git_dir / "hooks", HOOK)
    for name in (PROGRAM, HOURS):
        changed |= process.run(git_dir, "config", "--local", "--unset-all", name, accept=(0, 5)).code == 0
    return changed


def is_enabled(folder: Path) -> bool:
    git_dir = _repository(folder)
    return hook_files.state(git_dir / "hooks", HOOK) == hook_files.CURRENT and bool(_setting(git_dir, PROGRAM))


def active_sessions(rows: Iterable[H], folder: Path, now_ms: int) -> list[H]:
    """Return the sessions in the working tree of ``folder`` that have a recent entry, newest first."""
    found = user_repository.find(str(folder))
    if not found.git_dir:
        return []
    setting = _setting(Path(found.common_dir), HOURS)
    hours = float(setting) if setting.replace(".", "", 1).isdecimal() else HOURS_DEFAULT
    inside = f"{found.top.rstrip('/')}/"
    candidates = [row for row in rows if row.project is not None and f"{row.project.rstrip('/')}/".startswith(inside)]
    recent = [row for row in candidates if now_ms - row.updated_ms <= hours * 3_600_000]
    return sorted(recent, key=lambda row: -row.updated_ms)


def address(sid: str, node: Node) -> str:
    return f"{sid}@{to_base64url(node.chain)[:_CHAIN_CHARS]}"


def add(message: Path, value: str) -> bool:
    """Add a session trailer to a commit message file; return whether the file now has the trailer.

    An empty message is not changed, because it aborts the commit.
    """
    text = message.read_bytes()
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(_COMMENT.encode())]
    if not lines:
        return False
    arguments = ("interpret-trailers", "--if-exists", "doNothing", "--trailer", f"{TRAILER}: {value}")
    output = process.run(None, *arguments, stdin=text, timeout_seconds=5).out
    message.write_bytes(output)
    return True


def _repository(folder: Path) -> Path:
    """Return the path of the git directory that contains the hooks."""
    found = user_repository.find(str(folder.resolve()))
    if not found.git_dir:
        what = f"cannot change the hooks of '{folder}': it is not in a git repository"
        raise NotFound(what, hint="pass a folder in a git repository")
    git_dir = Path(found.common_dir)
    hooks_path = _setting(git_dir, "core.hooksPath") or process.user_setting("core.hooksPath")
    if hooks_path:
        raise Refused(
            f"cannot change the hooks of '{found.top}': its core.hooksPath is '{hooks_path}'",
            hint=f'add this line to the hook {HOOK} in that folder: gitsession link message "$1" || true',
        )
    return git_dir


def _setting(git_dir: Path, name: str) -> str:
    output = process.run(git_dir, "config", "--local", "--null", "--get", name, accept=(0, 1)).out
    return output.decode("utf-8", "surrogateescape").rstrip("\0")


def author(
    store: ObjectStore,
    candidates: Sequence[H],
    folder: Path,
    index_file: str = "",
    *,
    edited_by: Callable[[str], Collection[str]] = lambda _: (),
) -> H | None:
    """Return the candidate that most likely changed the files staged in ``folder``.

    Candidates are ranked by the number of staged files whose content the session wrote, according to its checkpoints,
    and then by the number of staged files that the session changed, according to its checkpoints or tool calls. In a
    tie, the first candidate wins. If files are staged and no session changed any of them, the result is ``None``.

    Args:
        store: The store.
        candidates: The sessions.
        folder: A folder in the repository.
        index_file: The index of the commit; empty for the default index.
        edited_by: A function that returns the absolute paths of the files that tool calls of a session changed.
    """
    found = user_repository.find(str(folder))
    staged = _staged(found, index_file)
    if not staged:
        return candidates[0]

    def share(row: H) -> tuple[int, int]:
        written = _written_contents(store, row.sid, found.top)
        same = sum(oid in written.get(path, ()) for path, oid in staged.items())
        edited = {os.path.relpath(path, found.top) for path in edited_by(row.sid) if os.path.isabs(path)}
        return same, len(staged.keys() & (written.keys() | edited))

    shares = [share(row) for row in candidates]
    most = max(shares)
    return candidates[shares.index(most)] if any(most) else None


def _staged(found: UserRepository, index_file: str) -> dict[str, Oid | None]:
    """Return the paths that differ between the index and HEAD, each with its oid in the index."""
    worktree = process.Worktree(found.top, found.top, index_file or None)
    arguments = ("diff", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--no-ext-diff")
    rows = process.run(Path(found.git_dir), *arguments, worktree=worktree, timeout_seconds=2).out.split(b"\0")
    staged = {}
    for head, path in zip(rows[::2], rows[1::2], strict=False):
        oid = head.split()[3].decode()
        staged[os.fsdecode(path)] = oid if oid.strip("0") else None
    return staged


def _written_contents(store: ObjectStore, sid: str, top: str) -> dict[str, set[Oid | None]]:
    """Return each path below ``top`` that a session changed, with the oids of all contents that the session wrote."""
    written: dict[str, set[Oid | None]] = {}
    try:
        steps = lookup.steps(CachedTrees(store), history.history(store, sid))
        for step, paths in zip(steps, attributed(steps), strict=True):
            for path in paths:
                file = os.path.join(step.entry.workspace or top, os.fsdecode(names.unescape_path(path)))
                after = step.changes[path][1]
                written.setdefault(os.path.relpath(file, top), set()).add(after.oid if after else None)
    except GitSessionError:
        pass  # `verify` reports entries that cannot be read
    return written
