"""Test helpers for workspaces: files, a plain walk for comparison, and the full state of a repository."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from pathlib import Path

from gitsession.git.objects import oid_of
from gitsession.workspace import names
from gitsession.workspace.root import WorkspaceRoot
from gitsession.workspace.trees import TreeEntry


def git(at: Path, *words: str, stdin: bytes = b"", accept: tuple[int, ...] = (0,)) -> bytes:
    """Run git as the user does."""
    who = ("-c", "user.name=u", "-c", "user.email=u@example.com", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *who, *words], cwd=at, input=stdin, capture_output=True, check=False)
    assert done.returncode in accept, done.stderr
    return done.stdout


def repository(at: Path) -> Path:
    at.mkdir(parents=True, exist_ok=True)
    git(at, "init", "-q", "-b", "main")
    return at


def fill(at: Path, **files: str | bytes) -> None:
    """Write files. In their names, ``__`` is a slash and ``_dot_`` is a dot."""
    for name, data in files.items():
        write(at / name.replace("__", "/").replace("_dot_", "."), data)


def write(file: Path, data: str | bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data.encode() if isinstance(data, str) else data)


def opened(at: Path) -> WorkspaceRoot:
    return WorkspaceRoot.open(at, home=None, store=None)


def is_repository(folder: bytes) -> bool:
    return os.path.isdir(folder + b"/.git") and os.path.exists(folder + b"/.git/HEAD")


def walked(at: Path, *, bytes_max: int = 1 << 30) -> dict[str, TreeEntry]:
    """Return every file and link as tree entries, including ignored ones.

    ``.git`` folders and other repositories are left out.
    """
    found: dict[str, TreeEntry] = {}
    for folder, folders, files in os.walk(os.fsencode(at)):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = [name for name in folders if name != b".git" and name not in links]
        folders[:] = [name for name in folders if not is_repository(os.path.join(folder, name))]
        for name in [*files, *links]:
            path = os.path.join(folder, name)
            file = stated(path, bytes_max)
            if file:
                found[names.escape_path(os.path.relpath(path, os.fsencode(at)))] = file
    return found


def stated(path: bytes, bytes_max: int = 1 << 30) -> TreeEntry | None:
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return TreeEntry("120000", oid_of("blob", os.readlink(path)))
    if not stat.S_ISREG(status.st_mode) or status.st_size > bytes_max:
        return None
    with open(path, "rb") as file:
        return TreeEntry("100755" if status.st_mode & 0o100 else "100644", oid_of("blob", file.read()))


def without_ignored(at: Path, found: dict[str, TreeEntry]) -> dict[str, TreeEntry]:
    """Return the files without those that ``git check-ignore`` reports.

    ``--no-index`` makes the result independent of the index. ``./`` protects names that begin with a colon.
    """
    asked = b"".join(b"./%b\0" % names.unescape_path(path) for path in found)
    told = git(at, "check-ignore", "-z", "--no-index", "--stdin", stdin=asked, accept=(0, 1))
    ignored = {names.escape_path(raw.removeprefix(b"./")) for raw in told.split(b"\0") if raw}
    return {path: file for path, file in found.items() if path not in ignored}


def fingerprint(at: Path) -> list[object]:
    """Return the state of the user's repository that must not change."""
    told: list[object] = [
        git(at, "--no-optional-locks", *words)
        for words in (
            ("status", "--porcelain=v2", "--branch"),
            ("stash", "list"),
            ("for-each-ref",),
            ("fsck", "--no-dangling"),
        )
    ]
    git_dir = Path(os.fsdecode(git(at, "rev-parse", "--absolute-git-dir").rstrip(b"\n")))
    return told + kept(git_dir)


def kept(git_dir: Path) -> list[object]:
    """Return every file of a repository's git directory with its content and status."""
    told: list[object] = []
    for file in sorted(git_dir.rglob("*")):
        status = file.lstat()
        content = hashlib.sha1(file.read_bytes()).hexdigest() if file.is_file() else ""
        told.append((str(file), status.st_mode, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, content))
    return told
