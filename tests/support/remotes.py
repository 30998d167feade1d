"""Test helpers for sync: stores and a hub."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from builders import begun, on_disk, session
from raw import git

from gitsession.git.types import Oid
from gitsession.model.entries import Message
from gitsession.sessions import graph
from gitsession.store import create, refs
from gitsession.store.git_store import GitStore
from gitsession.store.interface import ObjectStore
from gitsession.sync import remotes, syncing
from gitsession.sync.remotes import Remote

__all__ = ["begun", "git", "hub", "said", "session", "shared", "store_with", "sync", "there"]


def hub(path: Path) -> Path:
    """Create a hub: a bare repository that checks every object and rejects non-fast-forward pushes and deletions."""
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(path)], check=True)
    for setting in ("transfer.fsckObjects=true", "receive.denyNonFastForwards=true", "receive.denyDeletes=true"):
        git(path, "config", *setting.split("="))
    git(path, "config", "gc.auto", "0")
    return path


def forge(path: Path) -> Path:
    """Create a hub without hooks that accepts non-fast-forward pushes."""
    hub(path)
    git(path, "config", "receive.denyNonFastForwards", "false")
    return path


def store_with(path: Path, *urls: Path, home: str = "") -> GitStore:
    """Create a store with a remote for each of ``urls``.

    The first is called ``origin``, the others by their file names.
    """
    store = on_disk(path)
    for number, url in enumerate(urls):
        name = url.stem if number else "origin"
        remotes.add(path, name, str(url), home=name == home)
    return store


def remote(store: GitStore, name: str = "") -> Remote:
    return remotes.find(store.git_dir, name)


def sync(store: GitStore, name: str = "") -> dict[str, str]:
    """Sync and return the outcome of every changed ref, by the last part of its name."""
    return told(syncing.sync(store, remote(store, name)))


def pull(store: GitStore, name: str = "") -> dict[str, str]:
    return told(syncing.pull(store, remote(store, name)))


def push(store: GitStore, name: str = "", *sessions: str) -> dict[str, str]:
    return told(syncing.push(store, remote(store, name), sessions=sessions))


def told(report: syncing.SyncReport) -> dict[str, str]:
    return {
        branch.ref.rpartition("/")[2]: branch.outcome
        for branch in report.branches
        if branch.outcome != "same" and branch.ref != create.MAIN
    }


def shared(store: ObjectStore) -> dict[str, str]:
    """Return the refs that are equal in all stores after a sync."""
    return dict(store.refs("refs/heads/"))


def there(path: Path) -> dict[str, str]:
    """Return the same refs of a bare repository, read with git."""
    rows = git(path, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads").splitlines()
    return dict(row.split(" ") for row in rows)


def said(store: ObjectStore, sid: str) -> dict[str, list[str]]:
    """Return the text of the entries of every branch, oldest first."""
    return {
        name: [node.subject.partition(": ")[2] for node in graph.history(store, oid)][-2::-1]
        for name, oid in graph.branches(store, sid).items()
    }


def say(store: GitStore, sid: str, text: str, branch: str | None = None) -> Oid:
    return session(store, sid, branch).append(Message.user(text)).oid


def meta_kinds(store: ObjectStore, sid: str) -> list[str]:
    return [node.kind for node in graph.history(store, store.ref(refs.meta(sid)) or "")][::-1]


def everywhere(stores: Mapping[str, GitStore], path: Path) -> bool:
    """Return whether all stores and the hub have the same refs."""
    return all(shared(store) == there(path) for store in stores.values())
