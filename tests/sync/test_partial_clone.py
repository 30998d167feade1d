"""Tests of partial clones: missing objects are fetched, and a session is never mistaken for a shorter one."""

from __future__ import annotations

import subprocess

import pytest
from builders import assert_git_agrees, bring, pi_file, said
from remotes import begun, git, hub, remote, say, shared, store_with, sync

from gitsession.api import Store
from gitsession.errors import Corrupt, GitSessionError, MissingObject, Refused
from gitsession.model.entries import Message
from gitsession.sessions import tombstone_set
from gitsession.sessions.content import payload_of
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.sync import syncing, transport
from gitsession.sync.transport import RejectedTransfer

LARGE = "x" * 100_000


@pytest.fixture
def url(tmp_path):
    """Create a hub with one session that contains a large text."""
    path = hub(tmp_path / "hub.git")
    git(path, "config", "uploadpack.allowFilter", "true")
    with store_with(tmp_path / "a.git", path) as store:
        bring(store, pi_file(said("a", None, LARGE), said("b", "a", "small", role="assistant")))
        sync(store)
    return path


def large_of(store):
    """Return the payload of the entry with the large text."""
    [row] = store.sessions()
    nodes = store.session(row.sid).history()
    return payload_of(store.objects, nodes[1])


@pytest.fixture
def clone(url, tmp_path):
    made, report = Store.clone(f"file://{url}", tmp_path / "clone.git", filter="blob:limit=64k")
    assert report.of("refused") == []
    with made:
        yield made


def test_missing_object_is_fetched_on_reading(clone):
    sizes = git(clone.objects.git_dir, "count-objects", "-v")
    assert LARGE.encode() in large_of(clone)
    assert git(clone.objects.git_dir, "count-objects", "-v") != sizes
    assert_git_agrees(clone.objects)


def test_present_object_is_read_without_the_remote(clone, url):
    url.rename(url.with_name("away"))
    [row] = clone.sessions()
    assert "small" in str(clone.session(row.sid).resolve("leaf").subject)


def test_unreachable_remote_is_reported(clone, url):
    url.rename(url.with_name("away"))
    with pytest.raises(MissingObject, match="cannot be fetched from origin"):
        large_of(clone)


def test_store_never_contacts_a_remote_by_itself(clone, tmp_path):
    with GitStore.open(clone.objects.git_dir) as store:
        [row] = clone.sessions()
        nodes = clone.session(row.sid).history()
        with pytest.raises(MissingObject):
            payload_of(store, nodes[1])


def test_partial_clone_is_synced_as_any_store(clone, url, tmp_path):
    sid = begun(clone.objects, "from the clone").id
    [old] = [row.sid for row in clone.sessions() if row.sid != sid]
    with GitStore.open(tmp_path / "a.git") as store:
        say(store, old, "more")
        sync(store)
        clone.remotes.sync()
        sync(store)
        assert shared(store) == shared(clone.objects)
    assert clone.session(old).history()[-1].subject == "user: more"


def test_a_shallow_clone_is_no_short_session(url, tmp_path):
    path = tmp_path / "shallow.git"
    subprocess.run(["git", "clone", "-q", "--bare", "--depth", "1", f"file://{url}", str(path)], check=True)
    with Store.open(path) as store:
        for row in store.sessions():
            with pytest.raises((Corrupt, GitSessionError)):
                store.session(row.sid).history()
        store.objects.flush()
        from gitsession.sync import remotes

        remotes.remove(path, "origin")
        remotes.add(path, "origin", str(url))
        with pytest.raises(Refused, match="shallow"):
            syncing.sync(store.objects, remote(store.objects))
        begun(store.objects, "goes on").append(Message.user("more"))


@pytest.mark.parametrize("filter", ["blob:none", "blob:limit=100"])
def test_sets_are_read_although_the_filter_leaves_them_out(url, tmp_path, filter):
    with Store.open(tmp_path / "a.git") as other:
        other.archive.put(other.sessions()[0].sid)
        purged = begun(other.objects, "purge this").id
        other.purges.apply(other.purges.plan(purged))
        other.remotes.sync()
        made, report = Store.clone(f"file://{url}", tmp_path / "clone.git", filter=filter)
        with made:
            # The tombstones of the purged session cannot be validated without their payloads.
            assert {refs.session_of(branch.ref) for branch in report.of("refused")} == {purged}
            assert [row.sid for row in made.archive.list()] == [row.sid for row in other.archive.list()]
            assert tombstone_set.read(made.objects) == tombstone_set.read(other.objects)
            new = begun(other.objects, "from the other store").id
            other.archive.put(new)
            other.remotes.sync()
            report = made.remotes.sync()
            assert {refs.session_of(branch.ref) for branch in report.of("refused")} == {purged}
            assert new in {row.sid for row in made.archive.list()}
            assert_git_agrees(made.objects)


@pytest.mark.parametrize("filter", ["blob:none", "blob:limit=100"])
def test_partial_clone_receives_later_changes_of_the_archive(url, tmp_path, filter):
    with Store.open(tmp_path / "a.git") as other:
        sids = [other.sessions()[0].sid, *(begun(other.objects, f"prompt {number}").id for number in range(5))]
        other.archive.put(*sids)
        other.remotes.sync()
        Store.clone(f"file://{url}", tmp_path / "clone.git", filter=filter)[0].close()
        other.archive.restore(sids[1])
        other.remotes.sync()
        with Store.open(tmp_path / "clone.git") as clone:
            assert clone.remotes.sync().of("refused") == []
            assert {row.sid for row in clone.archive.list()} == {*sids} - {sids[1]}
            assert sids[1] in {row.sid for row in clone.sessions()}


def test_refs_of_archived_sessions_stay_at_a_remote_whose_archive_is_refused(url, tmp_path):
    git(url, "config", "receive.denyDeletes", "false")
    with Store.open(tmp_path / "a.git") as other:
        [row] = other.sessions()
        other.archive.put(row.sid)
        other.remotes.sync()
        with Store.clone(f"file://{url}", tmp_path / "clone.git")[0] as clone:
            other.archive.restore(row.sid)
            other.remotes.sync()
            author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
            bad = git(url, *author, "commit-tree", "-m", "none", "-p", refs.ARCHIVE, f"{refs.ARCHIVE}^{{tree}}")
            git(url, "update-ref", refs.ARCHIVE, bad)
            listed = git(url, "for-each-ref", refs.SESSIONS)
            assert {branch.ref for branch in clone.remotes.sync().of("refused")} >= {refs.ARCHIVE}
            assert listed and git(url, "for-each-ref", refs.SESSIONS) == listed


def test_filter_is_kept_if_the_remote_refuses_to_send_single_objects(url, tmp_path, monkeypatch):
    with Store.open(tmp_path / "a.git") as other:
        other.archive.put(other.sessions()[0].sid)
        other.remotes.sync()

    def refuse(*_: object, **__: object) -> None:
        raise RejectedTransfer("not our ref")

    monkeypatch.setattr(transport, "fetch", refuse)
    made, report = Store.clone(f"file://{url}", tmp_path / "clone.git", filter="blob:none")
    with made:
        assert {branch.ref for branch in report.of("refused")} == {refs.ARCHIVE}
        assert git(made.objects.git_dir, "config", "remote.origin.partialclonefilter") == "blob:none"


def test_many_objects_are_fetched_in_several_requests(url, tmp_path, monkeypatch):
    monkeypatch.setattr(transport, "_OIDS_MAX", 1)
    test_sets_are_read_although_the_filter_leaves_them_out(url, tmp_path, "blob:none")
