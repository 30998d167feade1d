"""Tests that a purge in one store reaches all stores, through a server with hooks and despite outdated clones."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import assert_clean, assert_git_agrees, begun, fork, session
from purged import SECRET, find, keys, purge, traces, whole
from raw import git
from remotes import everywhere, hub, pull, push, say, shared, store_with, sync, there

from gitsession.api import Store
from gitsession.archive import archiving
from gitsession.model.entries import BranchSummary, Message
from gitsession.purge import purging
from gitsession.server import server
from gitsession.sessions import graph, tombstone_set
from gitsession.sessions import session as sessions
from gitsession.store import create, refs
from gitsession.store.git_store import GitStore

Verb = Callable[[GitStore], dict[str, str]]


@pytest.fixture
def runner(tmp_path: Path) -> list[str]:
    return [sys.executable, "-m", "gitsession"]


@pytest.fixture
def place(tmp_path: Path, runner: list[str]) -> Path:
    """Create a hub with the hooks of gitsession."""
    made = hub(tmp_path / "hub.git")
    server.install(made, runner)
    return made


def held(path: Path) -> bool:
    """Return whether an object of a repository contains the secret."""
    command = ["git", "-C", path, "cat-file", "--batch-all-objects", "--batch", "--unordered"]
    return SECRET.encode() in subprocess.run(command, capture_output=True, check=True).stdout


def plain_push(store: GitStore) -> str:
    """Return the output of `git push` with the refspecs of a store."""
    store.flush()
    done = subprocess.run(
        ["git", "-C", store.git_dir, "push", "origin", "refs/heads/sessions/*:refs/heads/sessions/*"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("verb", [pull, sync])
@pytest.mark.parametrize("is_archived", [False, True])
def test_a_new_fork_of_a_session_that_was_purged_meanwhile_is_fetched(
    tmp_path: Path, place: Path, verb: Verb, *, is_archived: bool
) -> None:
    """The remote does not send the entries that the store had before it applied the tombstones."""
    with store_with(tmp_path / "a.git", place) as a, store_with(tmp_path / "b.git", place) as b:
        origin, other = begun(a, "first", "second"), begun(a, "another session")
        sync(a)
        sync(b)
        copy = fork(origin)
        copy.append(Message.user("in the fork"))
        other.append(Message.user("more"))
        purging.add(a, whole(a, origin.id), 1000)
        sync(a)
        if is_archived:
            archiving.archive(b, [origin.id])
        told = verb(b)
        assert "refused" not in told.values()
        assert b.ref(refs.leaf(copy.id)) == a.ref(refs.leaf(copy.id)) is not None
        assert b.ref(refs.leaf(other.id)) == a.ref(refs.leaf(other.id))
        assert tombstone_set.SESSION + origin.id in tombstone_set.read(b)
        assert_clean(b)


def test_a_purge_reaches_every_store_and_the_hub_and_stays(tmp_path: Path, place: Path) -> None:
    """One store purges, one has appended and branched at the entry, and one summarizes it."""
    stores = {name: store_with(tmp_path / f"{name}.git", place) for name in "abc"}
    a, b, c = stores.values()
    try:
        said = sessions.StoredSession.new(a, "agent", "/work", lambda: 1000)
        for words in ("first", SECRET, "last"):
            said.append(Message.user(words, at_ms=1000))
        for store in stores.values():
            sync(store)
        secret = find(a)
        there_c = session(c, said.id)
        tip = there_c.leaf
        assert tip is not None
        there_c.branch("sum", graph.load(c, c.ref(refs.leaf(said.id)) or "").parent and tip)
        there_c.on("sum").append(BranchSummary(summary="what was said", at_ms=2000), summarises=tip)
        there_b = session(b, said.id)
        there_b.branch("fork", find(b))
        there_b.on("fork").append(Message.user("from the fork", at_ms=3000))
        say(b, said.id, "only here", "main")

        purge(a, secret)
        assert traces(a) == []
        sync(a)
        assert not held(place)
        assert there(place)[refs.TOMBSTONES] == a.ref(refs.TOMBSTONES)

        told = plain_push(b)
        assert "purged" in told
        assert not held(place)
        plain_push(c)
        assert not held(place)

        for store in (b, c, a, b):
            sync(store)
        assert everywhere(stores, place)
        branches = set(graph.branches(a, said.id))
        assert branches == {"main", "fork", "sum"}
        for store in stores.values():
            assert traces(store) == []
            assert_clean(store)
            assert_git_agrees(store)
        words = {node.subject for node in graph.history(a, a.ref(refs.leaf(said.id, "fork")) or "")}
        assert {"user: first", "purged: user message", "user: from the fork"} <= words
        assert "user: only here" in {node.subject for node in graph.history(a, a.ref(refs.leaf(said.id)) or "")}
        assert git(place, "fsck", "--strict", "--no-dangling", "--no-progress") == ""
        assert not held(place)
    finally:
        for store in stores.values():
            store.close()


@pytest.mark.parametrize("first", [True, False])
def test_two_stores_with_different_purges_end_equal(tmp_path: Path, place: Path, first: bool) -> None:
    """``first`` is set if the tombstone set of the later store is the first parent of the union."""
    stores = {name: store_with(tmp_path / f"{name}.git", place) for name in "ab"}
    a, b = stores.values()
    try:
        said = sessions.StoredSession.new(a, "agent", "/work", lambda: 1000)
        for words in ("first", SECRET, f"{SECRET} twice", "last"):
            said.append(Message.user(words, at_ms=1000))
        sync(a)
        sync(b)
        purge(a, find(a, f"user: {SECRET} twice"))
        line = graph.history(b, b.ref(refs.leaf(said.id)) or "")
        more = keys(b, next(node for node in line if node.subject.endswith(SECRET)))
        other = a.ref(refs.TOMBSTONES) or ""
        times = (n * 1000 for n in range(1000))
        at_ms = next(at for at in times if ((tombstone_set.add(b, None, more, at).oid or "") < other) == first)
        purging.add(b, more, at_ms)
        for store in (a, b, a, b):
            sync(store)
        assert everywhere(stores, place)
        assert set(graph.branches(a, said.id)) == {"main"}
        assert traces(a) == traces(b) == []
        assert not held(place)
        assert shared(a) == there(place)
    finally:
        for store in stores.values():
            store.close()


@pytest.mark.parametrize("damaged", [False, True], ids=["opened", "opened as verify does"])
def test_purge_killed_after_a_push_is_completed_on_opening(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool
) -> None:
    with store_with(tmp_path / "a.git", place) as a, store_with(tmp_path / "b.git", place) as b:
        begun(a, "first", SECRET)
        sync(a)
        sync(b)
        purge(a, find(a))
        sync(a)
        real = purging.apply

        def killed(store: GitStore, *more: tombstone_set.Tombstones) -> object:
            if store.ref(refs.TOMBSTONES) is not None:
                raise KeyboardInterrupt
            return real(store, *more)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(purging, "apply", killed)
            sync(b)
        assert b.ref(refs.TOMBSTONES) == a.ref(refs.TOMBSTONES)
        assert purging.is_pending(b)
    with Store.open(tmp_path / "b.git", damaged=damaged) as opened:
        assert opened.verify().problems == []
        assert traces(opened.objects) == []


def test_server_killed_before_a_purge_completes_it_at_the_next_push(tmp_path: Path, place: Path) -> None:
    with store_with(tmp_path / "a.git", place) as a:
        begun(a, "first", SECRET)
        sync(a)
        purge(a, find(a))
        hook = place / "hooks/post-receive"
        words = hook.read_text()
        hook.write_text("#!/bin/sh\nkill -9 $$\n")
        push(a)
        assert held(place)
        hook.write_text(words)
        sync(a)
        assert not held(place)
        assert shared(a) == there(place)
        assert not create.is_purge_pending(place)
