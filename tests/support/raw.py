"""Test helpers for the lowest layer of the store: commits without entries, and git commands."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gitsession.git import objects
from gitsession.store.git_store import GitStore

LEAF = "refs/heads/sessions/s1/main"


def git(git_dir: Path, *arguments: str, stdin: str | bytes = b"") -> str:
    """Run a git command and return its output without leading and trailing whitespace."""
    return git_bytes(git_dir, *arguments, stdin=stdin).decode().strip()


def git_bytes(git_dir: Path, *arguments: str, stdin: str | bytes = b"") -> bytes:
    given = stdin.encode() if isinstance(stdin, str) else stdin
    command = ["git", f"--git-dir={git_dir}", *arguments]
    return subprocess.run(command, input=given, check=True, capture_output=True).stdout


def append(store: GitStore, text: str, ref: str = LEAF) -> str:
    """Append a commit to the current tip of the ref."""
    with store.transaction() as transaction:
        leaf = store.ref(ref)
        tree = objects.encode_tree({"entry.cbor": ("100644", transaction.put("blob", text.encode()))})
        commit = objects.encode_commit(
            tree=transaction.put("tree", tree),
            parents=[leaf] if leaf else [],
            author_name="user",
            author_seconds=0,
            committer_seconds=0,
            message=text.encode(),
        )
        oid = transaction.put("commit", commit)
        transaction.move(ref, oid, expected=leaf)
    return oid
