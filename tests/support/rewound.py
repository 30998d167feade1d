"""Test helpers for real folders: their contents, and the changes that people and tools make."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

from gitsession.api import Session, Store
from gitsession.model.entries import Message

Held = tuple[str, bytes]
"""Kind of a path (``file``, ``executable`` or ``link``), and its bytes."""


def snapshot(folder: Path) -> dict[bytes, Held]:
    """Return every file and link below ``folder``, by its name on disk. ``.git`` folders are left out."""
    found: dict[bytes, Held] = {}
    root = os.fsencode(folder)
    for base, folders, names in os.walk(root):
        if b".git" in folders:
            folders.remove(b".git")
        for name in [*names, *(name for name in folders if os.path.islink(os.path.join(base, name)))]:
            path = os.path.join(base, name)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                held = ("link", os.readlink(path))
            elif stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    held = ("executable" if status.st_mode & stat.S_IXUSR else "file", file.read())
            else:
                held = ("special", b"")
            found[os.path.relpath(path, root)] = held
    return found


def put(folder: Path, name: bytes | str, content: bytes | str = b"", *, kind: str = "file") -> None:
    """Write ``name`` in ``folder`` and replace anything that was there."""
    path = os.path.join(os.fsencode(folder), name.encode() if isinstance(name, str) else name)
    content = content.encode() if isinstance(content, str) else content
    os.makedirs(os.path.dirname(path), exist_ok=True)
    take_away(path)
    if kind == "link":
        os.symlink(content, path)
        return
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, 0o755 if kind == "executable" else 0o644)


def take_away(path: bytes | str | Path) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def fill(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write these files into ``folder`` and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        put(folder, name, content)
    return folder


def talk(store: Store, folder: Path, *words: str) -> Session:
    """Create a session in ``folder`` with the prompts ``words``."""
    session = store.new_session(agent="agent", cwd=str(folder))
    for text in words or ("hi",):
        session.append(Message.user(text))
    return session


def git_in(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=True)
    return done.stdout


def repository(folder: Path) -> Path:
    """Create a repository of the user, with a commit and a stash."""
    folder.mkdir(parents=True, exist_ok=True)
    git_in(folder, "init", "-q", "-b", "trunk")
    git_in(folder, "config", "user.name", "user")
    git_in(folder, "config", "user.email", "user@example.org")
    put(folder, ".gitignore", "ignored/\n")
    put(folder, "tracked.txt", "tracked\n")
    git_in(folder, "add", "-A")
    git_in(folder, "commit", "-q", "-m", "first")
    put(folder, "tracked.txt", "stashed\n")
    git_in(folder, "stash", "-q")
    put(folder, "staged.txt", "staged\n")
    git_in(folder, "add", "staged.txt")
    return folder


def told(folder: Path) -> dict[str, str]:
    """Return the state of a repository except its files."""
    return {
        "head": git_in(folder, "rev-parse", "HEAD"),
        "stash": git_in(folder, "stash", "list"),
        "refs": git_in(folder, "for-each-ref"),
        "index": git_in(folder, "ls-files", "-s"),
        "config": (folder / ".git/config").read_text(),
        "objects": git_in(folder, "count-objects", "-v"),
        "branch": "\n".join(
            line for line in git_in(folder, "status", "--porcelain=v2", "--branch").splitlines() if line[0] == "#"
        ),
        "fsck": git_in(folder, "fsck", "--strict"),
    }
