"""Tests of purges with a server without hooks: the next sync of any store removes purged data from it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from builders import assert_clean, assert_git_agrees, session
from checkpoints import held
from purged import SECRET, Three, find, keys, purge, said_by_objects, traces, whole
from pushed import bare
from pushed import hub as server
from remotes import begun, everywhere, forge, git, pull, remote, said, say, shared, store_with, sync, there

from gitsession import Message, Store
from gitsession.archive import archiving
from gitsession.errors import Unavailable
from gitsession.git.objects import oid_of
from gitsession.purge import purging
from gitsession.sessions import tombstone_set as sets
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.sync import cloning, remotes, syncing, transport
from gitsession.sync.transport import TransportOptions
from gitsession.validation import validate


@pytest.fixture
def three(tmp_path):
    made = Three(tmp_path, forge)
    yield made
    made.close()


def swept(path) -> bytes:
    """Return the objects that remain after the `git gc` of the repository's owner."""
    git(path, "-c", "gc.reflogExpire=now", "gc", "-q", "--prune=now")
    return said_by_objects(path)


def plain_git(store: GitStore, *words: str) -> int:
    """Run git in a clone that does not have the purge yet, and return the exit code."""
    store.flush()
    return subprocess.run(["git", f"--git-dir={store.git_dir}", *words], capture_output=True, check=False).returncode


@pytest.mark.timeout(300)
def test_purge_reaches_a_forge_and_every_store_and_removes_nothing_else(three):
    """B continued at the tip and branched at the purged entry. C summarized the entry."""
    say(three.b, three.sid, "of b")
    session(three.b, three.sid).branch("cut", at=find(three.b))
    three.b.flush()
    purge(three.a, find(three.a))
    report = syncing.sync(three.a, remote(three.a))
    assert [one.ref for one in report.of("purged")] == [refs.leaf(three.sid)]
    assert report.of("refused") == []
    assert shared(three.a) == there(three.hub)
    assert SECRET.encode() not in swept(three.hub)
    three.settle()
    assert everywhere({"a": three.a, "b": three.b, "c": three.c}, three.hub)
    assert SECRET.encode() not in swept(three.hub)
    three.assert_purged_and_whole()


def test_outdated_clone_restores_the_entry_until_any_store_syncs(three):
    """The clone pushes a branch that no other store has, and forces a push."""
    session(three.b, three.sid).branch("cut", at=find(three.b))
    purge(three.a, find(three.a))
    sync(three.a)
    assert plain_git(three.b, "push", "origin") == 1  # `main` has another history there
    assert plain_git(three.b, "push", "--force", "origin", f"{refs.leaf(three.sid)}:{refs.leaf(three.sid)}") == 0
    assert SECRET.encode() in swept(three.hub)
    assert sync(three.c)["cut"] == "new"
    assert SECRET.encode() not in swept(three.hub)
    assert there(three.hub) == shared(three.c)
    assert traces(three.c) == []
    assert said(three.c, three.sid) == {"main": ["first", "user message", "last"], "cut": ["first", "user message"]}


def test_local_objects_used_by_a_fetch_are_not_imported(three):
    """Git completes a fetched pack with local objects, which may have been purged meanwhile."""
    words = "".join(f" {n * n * n}" for n in range(100))
    say(three.a, three.sid, "sesame" + words)
    three.settle(1)
    purge(three.a, find(three.a, "sesame"))
    say(three.a, three.sid, "more" + words)
    sync(three.a)
    pull(three.b)
    assert traces(three.b, "sesame") == []


def test_entry_published_during_a_purge_is_not_overwritten(three, monkeypatch):
    purge(three.a, find(three.a))
    send = transport.push
    rivals = iter(["of b"])

    def late(git_dir, to, wanted, talk, *, leases=None):
        for text in rivals if leases else ():
            say(three.b, three.sid, text)
            assert plain_git(three.b, "push", "origin") == 0
        return send(git_dir, to, wanted, talk, leases=leases)

    monkeypatch.setattr(transport, "push", late)
    sync(three.a)
    assert said(three.a, three.sid)["main"] == ["first", "user message", "last", "of b"]
    assert there(three.hub) == shared(three.a)
    assert SECRET.encode() not in swept(three.hub)
    assert traces(three.a) == []


@pytest.mark.parametrize("refusal", ["receive.denyNonFastForwards", "a protected branch"])
def test_remote_that_rejects_a_purge_is_reported_and_all_else_is_synced(tmp_path, refusal):
    three = Three(tmp_path, forge)
    if refusal.startswith("receive"):
        git(three.hub, "config", refusal, "true")
    else:
        hook = three.hub / "hooks" / "update"
        hook.write_text(f'#!/bin/sh\ncase $1 in */{three.sid}/main) git merge-base --is-ancestor "$2" "$3" ;; esac\n')
        hook.chmod(0o755)
    purge(three.a, find(three.a))
    other = begun(three.a, "another").id
    for store in (three.a, three.b, three.a):
        report = syncing.sync(store, remote(store))
        [refused] = report.of("refused")
        assert refused.ref == refs.leaf(three.sid)
        assert "still has purged content" in refused.why
        assert traces(store) == []
        assert_clean(store)
    assert SECRET.encode() in said_by_objects(three.hub)
    assert refs.leaf(other) in shared(three.b)
    say(three.b, three.sid, "more")
    sync(three.b)
    assert said(three.b, three.sid)["main"] == ["first", "user message", "last", "more"]
    git(three.hub, "config", "receive.denyNonFastForwards", "false")
    (three.hub / "hooks" / "update").unlink(missing_ok=True)
    three.settle()
    assert everywhere({"a": three.a, "b": three.b, "c": three.c}, three.hub)
    assert SECRET.encode() not in swept(three.hub)
    three.close()


def test_push_alone_removes_nothing_and_names_the_command_that_does(three):
    purge(three.a, find(three.a))
    pull(three.a)
    say(three.a, three.sid, "more")
    [refused] = syncing.push(three.a, remote(three.a)).of("refused")
    assert "gitsession sync" in refused.why


def test_a_server_with_our_hooks_is_never_forced(tmp_path, monkeypatch):
    three = Three(tmp_path, server)
    forced = []
    send = transport.push

    def watched(git_dir, to, wanted, talk, *, leases=None):
        forced.extend(leases or ())
        return send(git_dir, to, wanted, talk, leases=leases)

    monkeypatch.setattr(transport, "push", watched)
    say(three.b, three.sid, "of b")
    purge(three.a, find(three.a))
    three.settle()
    assert forced == []
    assert everywhere({"a": three.a, "b": three.b, "c": three.c}, three.hub)
    three.close()


def test_whole_session_is_purged_from_a_forge(three):
    session(three.b, three.sid).branch("side")
    other = begun(three.b, "stays").id
    sync(three.b)
    purging.add(three.a, whole(three.a, three.sid), 1000)
    three.settle()
    assert everywhere({"a": three.a, "b": three.b, "c": three.c}, three.hub)
    assert SECRET.encode() not in swept(three.hub)
    assert set(said(three.a, other)["main"]) == {"stays"}
    for store in three.stores:
        assert traces(store) == []
        assert_clean(store)


def test_captured_file_is_purged_from_a_forge(three):
    held(three.a, three.sid, {"notes": "the file says sesame", "other": "stays"}, session(three.a, three.sid).leaf)
    blob = oid_of("blob", b"the file says sesame")
    three.settle()
    assert b"sesame" in said_by_objects(three.hub)
    purging.add(three.a, sets.Tombstones(frozenset({sets.FILE + blob})), 1000)
    three.settle()
    assert b"sesame" not in swept(three.hub)
    for store in three.stores:
        assert traces(store, "sesame") == []
        assert_clean(store)


def test_a_clone_of_a_forge_and_a_bundle_bring_nothing_of_it(three, tmp_path):
    session(three.b, three.sid).branch("cut", at=find(three.b))
    three.b.flush()
    cloning.write_bundle(three.b, tmp_path / "old.bundle")
    purge(three.a, find(three.a))
    sync(three.a)
    plain_git(three.b, "push", "origin")
    assert SECRET.encode() in swept(three.hub)
    report = cloning.clone(str(three.hub), tmp_path / "d.git", TransportOptions())
    assert report.of("refused") == []
    with GitStore.open(tmp_path / "d.git") as made:
        assert traces(made) == []
        assert_clean(made)
        sync(made)
        assert there(three.hub) == shared(made)
    assert SECRET.encode() not in swept(three.hub)
    cloning.read_bundle(three.a, tmp_path / "old.bundle", TransportOptions())
    assert traces(three.a) == []
    assert said(three.a, three.sid) == {"main": ["first", "user message", "last"], "cut": ["first", "user message"]}


def test_clone_validates_every_session_against_the_tombstone_set(three, tmp_path, monkeypatch):
    begun(three.a, "another")
    purge(three.a, find(three.a))
    sync(three.a)
    monkeypatch.setattr(validate, "SESSIONS_AT_ONCE", 1)
    monkeypatch.setattr(validate, "ENTRIES_AT_ONCE", 0)
    report = cloning.clone(str(three.hub), tmp_path / "d.git", TransportOptions())
    assert report.of("refused") == []


def test_clone_without_large_blobs_purges_the_remote_too(three, tmp_path):
    git(three.hub, "config", "uploadpack.allowFilter", "true")
    large = "x" * 100_000
    begun(three.a, "first", large, "last")
    sync(three.a)
    made = [tmp_path / "d.git", tmp_path / "e.git"]
    cloning.clone(f"file://{three.hub}", made[0], TransportOptions(), filter="blob:limit=64k")
    purge(three.a, find(three.a), find(three.a, "xxx"))
    syncing.push(three.a, remote(three.a))  # the tombstone set; branches are not forced
    cloning.clone(f"file://{three.hub}", made[1], TransportOptions(), filter="blob:limit=64k")
    for path in made:
        with GitStore.open(path) as store:
            sync(store)
            assert there(three.hub) == shared(store)
            assert traces(store) == []
            assert_git_agrees(store)
    assert SECRET.encode() not in swept(three.hub)


def test_purge_in_a_repository_of_code(tmp_path):
    git_dir = forge(tmp_path / "code.git")
    with store_with(tmp_path / "a.git") as store:
        remotes.add(store.git_dir, "team", str(git_dir), namespace="gitsession", home=True)
        sid = begun(store, "first", SECRET, "last").id
        sync(store, "team")
        purge(store, find(store))
        assert sync(store, "team") == {"main": "purged", "tombstones": "ahead"}
        assert SECRET.encode() not in swept(git_dir)
        assert git(git_dir, "rev-parse", f"refs/gitsession/sessions/{sid}/main").strip() == store.ref(refs.leaf(sid))


def test_lock_of_a_killed_git_on_the_remote_is_reported_with_gits_message(tmp_path: Path) -> None:
    place = bare(tmp_path / "hub.git")
    with Store.create(tmp_path / "one.git") as one:
        one.remotes.add("origin", str(place))
        said = one.new_session(agent="agent")
        said.append(Message.user("hi"))
        one.remotes.sync("origin")
        lock = place / f"{refs.leaf(said.id)}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
        said.append(Message.user("more"))
        with pytest.raises(Unavailable, match="lock") as error:
            one.remotes.sync("origin")
        assert "no other push is running" in (error.value.hint or "")
        lock.unlink()
        assert not one.remotes.sync("origin").of("refused")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("refuses", ["false", "true"])
@pytest.mark.parametrize("away", ["archive", "trash"])
def test_purge_in_a_session_that_is_archived_or_in_the_trash_reaches_a_forge(three, away, refuses):
    """The refs of such a session are not branches of the store.

    At the remote, they are rewritten like all others.
    """
    store, going = three.a, keys(three.a, find(three.a))
    if away == "archive":
        archiving.archive(store, [three.sid])
    else:
        Store(store, tends=False).trash.put(three.sid)
    sync(store)
    git(three.hub, "config", "receive.denyNonFastForwards", refuses)
    purging.add(store, going, 2000)
    report = syncing.sync(store, remote(store))
    ref = refs.ARCHIVE if away == "archive" else refs.leaf(three.sid)
    assert ref in [one.ref for one in report.of("purged" if refuses == "false" else "refused")]
    assert (SECRET.encode() in swept(three.hub)) is (refuses == "true")
    assert traces(store) == []
    assert_clean(store)
