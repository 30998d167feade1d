"""Commits made by git, and the lock files of a store, for tests of ref writers."""

from __future__ import annotations

from pathlib import Path

from raw import git

from gitsession.store.create import MAIN, PROOFS

OID, OID2 = "a" * 40, "b" * 40


def traces(git_dir: Path) -> list[Path]:
    return [*git_dir.rglob("*.lock"), *(git_dir / PROOFS).iterdir()]


def first(git_dir: Path) -> str:
    return git(git_dir, "rev-parse", MAIN)


def child_of(git_dir: Path, parent: str, text: str) -> str:
    """Write a child commit with git, as a loose object, and return its object id."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    return git(git_dir, *who, "commit-tree", "-p", parent, "-m", text, f"{parent}^{{tree}}")
