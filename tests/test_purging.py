"""After a purge nothing of a store holds what was purged, and all else is as it was."""

from __future__ import annotations

import os
import subprocess
import zlib
from pathlib import Path

import pytest
from builders import Clock, assert_clean, assert_git_agrees, begun, bring, exported, git, on_disk, pi_file, session, talk

from gitsession.codec.digest import digest as digest_of
from gitsession.model.entries import Message
from gitsession.session import content, graph, purged
from gitsession.session.node import Node
from gitsession.session.purged import Tombstones
from gitsession.store import refs
from gitsession.store.gitstore import GitStore
from gitsession.sync import purging

SECRET = "the password is hunter2-hunter2"


@pytest.fixture
def store(tmp_path: Path):
    with on_disk(tmp_path / "store.git") as made:
        yield made


def key_of(store: GitStore, node: Node) -> str:
    parts = content.kept(store, node)
    return digest_of(parts.stored, parts.holes).hex()


def find(store: GitStore, text: str) -> Node:
    [found] = [
        node
        for value in store.refs(refs.SESSIONS).values()
        for node in {node.oid: node for node in graph.line(store, value)}.values()
        if text in node.subject
    ][:1]
    return found


def purge(store: GitStore, *nodes: Node) -> purging.Applied:
    return purging.add(store, Tombstones(frozenset(key_of(store, node) for node in nodes)), 1000)


def traces(store: GitStore, text: str = SECRET) -> list[str]:
    """Where ``text`` stands: in every file below the store, and in every object, inflated."""
    found = []
    for parent, _, names in os.walk(store.git_dir):
        for name in names:
            if text.encode() in Path(parent, name).read_bytes():
                found.append(os.path.join(parent, name))
    listed = subprocess.run(
        ["git", "-C", store.git_dir, "cat-file", "--batch-all-objects", "--batch", "--unordered"],
        capture_output=True,
        check=True,
    ).stdout
    return found + (["an object"] if text.encode() in listed else [])


def chains(store: GitStore, ref: str) -> list[bytes]:
    return [node.chain for node in graph.line(store, store.ref(ref))]


def test_an_entry_in_the_middle_of_a_line_leaves_its_tombstone(store) -> None:
    talk = begun(store, "first", SECRET, "last")
    ref = refs.leaf(talk.id)
    before = chains(store, ref)
    store.flush()
    assert traces(store)
    done = purge(store, find(store, SECRET))
    assert done.moved
    assert traces(store) == []
    assert chains(store, ref) == before
    assert [node.subject for node in graph.line(store, store.ref(ref))][1] == "purged: user message"
    assert_clean(store)
    assert_git_agrees(store)
