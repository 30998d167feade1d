"""Test helpers for purges: tombstone keys, and searches for traces of purged text."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from builders import assert_clean, assert_git_agrees
from remotes import begun, said, store_with, sync

from gitsession.codec.digest import digest as digest_of
from gitsession.purge import finding, purging
from gitsession.sessions import content, graph
from gitsession.sessions.node import Node
from gitsession.sessions.tombstone_set import SESSION, Tombstones
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.store.interface import ObjectStore

SECRET = "the password is hunter2-hunter2"


def key_of(store: ObjectStore, node: Node) -> str:
    """Return the key of an entry in the tombstone set."""
    parts = content.entry_tree(store, node)
    return digest_of(parts.stored, parts.holes).hex()


def entries(store: ObjectStore) -> dict[str, Node]:
    """Return all entries that session refs reach, by oid."""
    return {node.oid: node for value in store.refs(refs.SESSIONS).values() for node in graph.history(store, value)}


def find(store: ObjectStore, text: str = SECRET) -> Node:
    """Return the only entry whose subject contains ``text``."""
    [found] = [node for node in entries(store).values() if text in node.subject]
    return found


def keys(store: ObjectStore, *nodes: Node) -> Tombstones:
    return Tombstones(frozenset(key_of(store, node) for node in nodes))


def purge(store: GitStore, *nodes: Node) -> purging.PurgeResult:
    return purging.add(store, keys(store, *nodes), 1000)


def whole(store: ObjectStore, sid: str) -> Tombstones:
    """Return the tombstones of a whole session."""
    return finding.plan_session(store, sid).more


def traces(store: GitStore, text: str = SECRET) -> list[str]:
    """Return where ``text`` occurs: in files of the store, and in its decompressed objects.

    The data that a purge of another store set aside is not searched.
    """
    found = []
    for parent, _, names in os.walk(store.git_dir):
        if parent.endswith("gitsession/set-aside"):
            continue
        for name in names:
            if text.encode() in Path(parent, name).read_bytes():
                found.append(os.path.join(parent, name))
    return found + (["an object"] if text.encode() in said_by_objects(store.git_dir) else [])


def said_by_objects(path: Path) -> bytes:
    """Return the contents of all objects of a repository: loose, packed, reachable and unreachable."""
    command = ["git", f"--git-dir={path}", "cat-file", "--batch-all-objects", "--batch", "--unordered"]
    return subprocess.run(command, capture_output=True, check=True).stdout


def files_that_say(path: Path) -> bytes:
    """Return the bytes of all files of a repository, except its objects and the data that a purge set aside."""
    apart = ("objects", "gitsession/set-aside")
    found = (file for file in sorted(path.rglob("*")) if not file.relative_to(path).as_posix().startswith(apart))
    return b"".join(file.read_bytes() for file in found if file.is_file())


def chains(store: ObjectStore, ref: str) -> list[bytes]:
    return [node.chain for node in graph.history(store, store.ref(ref) or "")]


def subjects(store: ObjectStore, ref: str) -> list[str]:
    """Return the subjects of a branch from its root to its tip."""
    return [node.subject for node in graph.history(store, store.ref(ref) or "")][::-1]


def session_key(sid: str) -> str:
    return SESSION + sid


class Three:
    """Three stores that share a session with SECRET in the middle, and a server."""

    def __init__(self, folder, make):
        self.hub = make(folder / "hub.git")
        self.a, self.b, self.c = self.stores = [store_with(folder / f"{name}.git", self.hub) for name in "abc"]
        self.sid = begun(self.a, "first", SECRET, "last").id
        for store in self.stores:
            sync(store)

    def settle(self, rounds=2):
        for _ in range(rounds):
            for store in self.stores:
                sync(store)

    def texts_at_the_hub(self):
        return said_by_objects(self.hub).count(SECRET.encode())

    def assert_purged_and_whole(self):
        """Fail unless the entry and branch that ``b`` added exist and the secret is gone from all stores."""
        for store in self.stores:
            assert traces(store) == []
            assert_clean(store)
            assert_git_agrees(store)
        words = said(self.c, self.sid)
        assert words == {"main": ["first", "user message", "last", "of b"], "cut": ["first", "user message"]}

    def close(self):
        for store in self.stores:
            store.close()
