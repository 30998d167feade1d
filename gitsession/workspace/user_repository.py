"""The user's repository that contains a workspace, and its ignore rules. gitsession never writes to the repository."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple, TypeAlias

from gitsession.durable import read_regular
from gitsession.errors import Unavailable
from gitsession.git import process
from gitsession.git.objects import SUBMODULE_MODE
from gitsession.git.types import Oid

Stamp: TypeAlias = "list[int] | None"
"""The inode, size and times of a file, by which a change is detected; ``None`` if the file does not exist."""

_POINTER = b"gitdir:"


class UserRepository(NamedTuple):
    """A repository that contains a workspace.

    ``top``: the highest folder whose ignore rules apply. If no repository contains the workspace, ``top`` is the
    workspace, and ``git_dir`` and ``common_dir`` are ``""``.
    """

    top: str
    git_dir: str = ""
    common_dir: str = ""

    @property
    def index_file(self) -> str:
        return f"{self.git_dir}/index" if self.git_dir else ""

    @property
    def exclude(self) -> str:
        return f"{self.common_dir}/info/exclude" if self.git_dir else ""


def find(workspace: str) -> UserRepository:
    """Return the repository that git would find from ``workspace``.

    As in git, the search ends at a ``.git`` file, even if the file names no git directory.
    """
    device = os.stat(workspace).st_dev
    folder = workspace
    while os.stat(folder).st_dev == device:
        dot_git = f"{folder.rstrip('/')}/.git"
        if os.path.isfile(dot_git):
            git_dir = _linked_git_dir(dot_git, folder)
            return _repository_at(folder, git_dir) if _is_git_dir(git_dir) else UserRepository(folder)
        if _is_git_dir(dot_git):
            return _repository_at(folder, dot_git)
        parent = os.path.dirname(folder)
        if parent == folder:
            break
        folder = parent
    return UserRepository(workspace)


def stamp(path: str) -> Stamp:
    """Return the stamp of a file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return [found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def stamps(repository: UserRepository) -> list[Stamp]:
    """Return the stamps of the files that affect the result of ``excludes_file`` and the user's ignore rules."""
    configs = [f"{repository.common_dir}/config"] if repository.git_dir else []
    return [stamp(path) for path in (repository.exclude, *configs, *process.user_configs())]


def rules(repository: UserRepository, workspace: str, excludes: str) -> list[Stamp]:
    """Return the stamps of the files outside ``workspace`` whose ignore rules apply to it.

    Configuration files are not included, because git writes them for many other reasons.
    """
    folder, found = workspace, [repository.exclude, excludes]
    while folder != repository.top and folder != (above := os.path.dirname(folder)):
        folder = above
        found.append(f"{folder}/.gitignore")
    return [stamp(path) for path in found]


def exclude_text(repository: UserRepository) -> bytes:
    """Return the content of ``info/exclude``. Raises ``BlockedRead``."""
    return _read(check(repository.exclude))


def excludes_file(repository: UserRepository) -> str:
    """Return the path of ``core.excludesFile`` (see ``process.excludes_file``). Raises ``BlockedRead``."""
    path = process.excludes_file(Path(repository.git_dir) if repository.git_dir else None)
    return check(os.path.join(repository.top, path))


def check(path: str) -> str:
    """Return ``path``. Raises ``BlockedRead`` if git would block when it reads the file."""
    if process.blocks(path):
        raise process.BlockedRead(
            f"cannot read the ignore rules in '{path}': it is a pipe or a device", hint="replace it with a regular file"
        )
    return path


def tracked(repository: UserRepository, workspace: str) -> tuple[list[bytes], dict[bytes, Oid]]:
    """Return the files in the user's index, and its submodules; both are empty if git cannot read the index.

    Paths are in on-disk form, relative to the workspace. A sparse index lists some folders instead of their files. Such
    files are not returned, because they are not on the disk.
    """
    if not os.path.isfile(repository.index_file):
        return [], {}
    worktree = process.Worktree(repository.top, workspace)
    try:
        # Without --sparse, git would write objects for the folders of a sparse index.
        output = process.run(Path(repository.git_dir), "ls-files", "-z", "-s", "--sparse", worktree=worktree).out
    except Unavailable:
        return [], {}
    rows = [(head, path) for head, _, path in (row.partition(b"\t") for row in output.split(b"\0")) if path]
    mode = SUBMODULE_MODE.encode()
    submodules = {path: head.split(b" ")[1].decode() for head, path in rows if head.startswith(mode)}
    files = dict.fromkeys(path for _, path in rows if path not in submodules and not path.endswith(b"/"))
    return list(files), submodules


def head(submodule: str) -> Oid | None:
    """Return the commit that is checked out in a submodule; ``None`` if there is none."""
    dot_git = f"{submodule}/.git"
    git_dir = _linked_git_dir(dot_git, submodule) if os.path.isfile(dot_git) else dot_git
    if not _is_git_dir(git_dir):
        return None
    try:
        result = process.run(Path(git_dir), "rev-parse", "--verify", "-q", "HEAD^{commit}", accept=range(256))
    except Unavailable:
        return None
    return result.out.decode("ascii", "replace").strip() if result.code == 0 else None


def _repository_at(top: str, git_dir: str) -> UserRepository:
    pointer = _read(f"{git_dir}/commondir")
    common = os.path.join(git_dir, os.fsdecode(pointer.rstrip(b"\r\n"))) if pointer else git_dir
    return UserRepository(top, git_dir, os.path.normpath(common))


def _linked_git_dir(dot_git: str, folder: str) -> str:
    """Return the git directory that a ``.git`` file names. If the file names none, return a path that cannot exist."""
    text = _read(dot_git)
    if not text.startswith(_POINTER):
        return f"{dot_git}/nowhere"
    return os.path.normpath(os.path.join(folder, os.fsdecode(text.removeprefix(_POINTER).strip(b" \r\n"))))


def _is_git_dir(path: str) -> bool:
    shared = os.path.isfile(f"{path}/commondir")
    parts = () if shared else ("objects", "refs")
    return os.path.lexists(f"{path}/HEAD") and all(os.path.isdir(f"{path}/{part}") for part in parts)


def _read(path: str) -> bytes:
    try:
        return read_regular(path) or b""
    except (OSError, ValueError):
        return b""
