"""Tests of git notes after a purge: notes on purged entries are deleted, and notes on rewritten ones are moved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import begun, on_disk
from purged import SECRET, find, purge, traces, whole
from raw import git

from gitsession.purge import purging
from gitsession.sessions import graph
from gitsession.store import refs
from gitsession.store.git_store import GitStore

HIDDEN = "the heron again"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GitStore]:
    with on_disk(tmp_path / "store.git") as made:
        yield made


def note(store: GitStore, on: str, words: str, *ref: str) -> None:
    who = ("-c", "user.name=ada", "-c", "user.email=ada@example.com")
    git(store.git_dir, *who, "notes", *ref, "add", "-f", "-m", words, on)


def said_of(store: GitStore, ref: str) -> dict[str, str]:
    """Return the note on each entry of a branch, by the entry's subject."""
    found = {}
    for node in graph.history(store, store.ref(ref) or ""):
        told = git(store.git_dir, "log", "-1", "--notes", "--format=%N", node.oid).strip()
        if told:
            found[node.subject] = told
    return found


def fsck(store: GitStore) -> None:
    git(store.git_dir, "fsck", "--strict", "--no-dangling")


def test_notes_on_rewritten_entries_are_moved_and_on_purged_ones_deleted(store: GitStore) -> None:
    ref = refs.leaf(begun(store, "first", SECRET, "last").id)
    store.flush()
    for node in graph.history(store, store.ref(ref) or ""):
        note(store, node.oid, HIDDEN if SECRET in node.subject else f"on {node.subject}")
    note(store, store.ref(ref) or "", "and more of it")  # a later version, which keeps the earlier ones in its history
    purge(store, find(store))
    assert said_of(store, ref) == {
        "user: last": "and more of it", "user: first": "on user: first", "session: agent": "on session: agent",
    }  # fmt: skip
    assert traces(store) == [] and traces(store, HIDDEN) == []
    fsck(store)


def test_many_notes_and_other_refs_of_them(store: GitStore) -> None:
    ref = refs.leaf(begun(store, *(f"words {number}" for number in range(300)), SECRET, "last").id)
    store.flush()
    with_note = [node.oid for node in graph.history(store, store.ref(ref) or "")]
    who = "committer a <a@b> 1800000000 +0000\n"
    stream = f"commit refs/notes/reviews\n{who}data 0\n" + "".join(
        f"N inline {oid}\ndata <<E\n{HIDDEN if oid == find(store).oid else oid}\nE\n" for oid in with_note
    )
    git(store.git_dir, "fast-import", "--quiet", stdin=stream.encode())
    assert any("/" in path for path in git(store.git_dir, "ls-tree", "-r", "--name-only", "refs/notes/reviews").split())
    purge(store, find(store))
    now = [node.oid for node in graph.history(store, store.ref(ref) or "")]
    kept = git(store.git_dir, "notes", "--ref=reviews", "list").split("\n")
    noted = {line.split()[1] for line in kept if line}
    assert noted == set(now) - {now[1]}
    assert traces(store, HIDDEN) == []
    fsck(store)


def test_notes_on_a_purged_session_are_deleted(store: GitStore) -> None:
    sid, other = begun(store, "one", SECRET).id, begun(store, "two").id
    store.flush()
    note(store, find(store).oid, HIDDEN)
    note(store, store.ref(refs.leaf(other)) or "", "stays")
    purging.add(store, whole(store, sid), 1)
    assert traces(store, HIDDEN) == []
    assert said_of(store, refs.leaf(other)) == {"user: two": "stays"}


def test_notes_that_have_nothing_to_do_with_it_stay_as_they_are(store: GitStore) -> None:
    begun(store, "first", SECRET)
    other = begun(store, "two").id
    store.flush()
    note(store, store.ref(refs.leaf(other)) or "", "stays")
    before = store.ref("refs/notes/commits")
    purge(store, find(store))
    assert store.ref("refs/notes/commits") == before
