"""Tests of purges and sync: an entry purged in one store is deleted from the server and every other store, alone."""

from __future__ import annotations

import contextlib
import subprocess

import pytest
from builders import assert_clean, session
from builders import fork as forked
from checkpoints import held
from purged import SECRET, Three, find, purge, traces
from pushed import hub as server
from remotes import begun, forge, git, pull, remote, said, say, shared, sync, there

from gitsession.model.entries import Message
from gitsession.purge import finding, purging
from gitsession.sessions import operation_log
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.sync import cloning, syncing
from gitsession.sync.transport import TransportOptions


@pytest.fixture
def three(tmp_path):
    made = Three(tmp_path, server)
    yield made
    for store in made.stores:
        store.close()


@pytest.mark.timeout(300)
def test_purge_reaches_every_store_and_removes_nothing_else(three):
    """B continued at the tip and branched at the purged entry. C summarized the entry."""
    say(three.b, three.sid, "of b")
    session(three.b, three.sid).branch("cut", at=find(three.b))
    three.b.flush()
    purge(three.a, find(three.a))
    sync(three.a)
    assert three.texts_at_the_hub() == 0
    assert shared(three.a) == there(three.hub)
    three.settle()
    assert shared(three.a) == shared(three.b) == shared(three.c) == there(three.hub)
    assert three.texts_at_the_hub() == 0
    three.assert_purged_and_whole()


def test_outdated_store_reports_purged_refs(three):
    purge(three.a, find(three.a))
    sync(three.a)
    report = syncing.pull(three.b, remote(three.b))
    assert {one.ref for one in report.of("purged", "same")} >= {refs.leaf(three.sid)}
    assert traces(three.b) == []


def test_two_concurrent_purges_are_merged(three):
    other = begun(three.a, "more", "of " + SECRET[::-1]).id
    three.settle()
    purge(three.a, find(three.a))
    purge(three.b, find(three.b, SECRET[::-1]))
    three.settle()
    assert shared(three.a) == shared(three.b) == shared(three.c) == there(three.hub)
    assert said(three.c, three.sid)["main"] == ["first", "user message", "last"]
    assert said(three.c, other)["main"] == ["more", "user message"]


def test_trashed_session_does_not_return(three):
    from gitsession.api import Store

    Store(three.a, tends=False).trash.put(three.sid)
    assert pull(three.a) == {}
    assert refs.leaf(three.sid) not in shared(three.a)
    operation_log.apply_next(three.a, "undo", 1)
    assert pull(three.a) == {}
    assert refs.leaf(three.sid) in shared(three.a)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("make", [server, forge])
def test_purged_fork_that_others_continued_is_equal_everywhere(tmp_path, make):
    """Another clone renamed, labeled, branched and checkpointed the fork meanwhile, and a new clone joins."""
    three = Three(tmp_path, make)
    a, b, c = three.stores
    fork = forked(session(a, three.sid), find(a))
    fork.append(Message.user(SECRET[::-1]))
    fork.rename("a title")
    three.settle()
    theirs = session(b, fork.id)
    theirs.rename("another title")
    theirs.label("leaf", "here")
    theirs.branch("above", at="root")
    theirs.on("above").append(Message.user(SECRET[::-1]))
    held(b, fork.id, {"a.txt": SECRET[::-1]}, theirs.history()[-1])
    held(c, three.sid, {"b.txt": "kept"}, session(c, three.sid).history()[-1])
    sync(c)
    purging.add(a, finding.plan_session(a, fork.id).more, 1000)
    three.settle(3)
    assert shared(a) == shared(b) == shared(c) == there(three.hub)
    cloning.clone(str(three.hub), tmp_path / "d.git", TransportOptions())
    with contextlib.closing(GitStore.open(tmp_path / "d.git")) as d:
        assert shared(d) == there(three.hub)
        assert not syncing.sync(d, remote(d)).of("refused")
        for store in (a, b, c, d):
            assert traces(store, SECRET[::-1]) == []
            assert_clean(store)
    three.close()


def test_plain_git_may_sync_in_between(three):
    purge(three.a, find(three.a))
    sync(three.a)
    done = subprocess.run(["git", f"--git-dir={three.b.git_dir}", "fetch"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    say(three.b, three.sid, "more")
    three.b.flush()
    done = subprocess.run(["git", f"--git-dir={three.b.git_dir}", "push"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    three.settle()
    assert shared(three.a) == shared(three.b) == there(three.hub)
    assert said(three.a, three.sid)["main"] == ["first", "user message", "last", "more"]
    assert traces(three.b) == []
    assert git(three.hub, "fsck", "--strict", "--no-dangling") == ""
