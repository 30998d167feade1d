"""Tests of fetches from a remote without validation: the store validates them with the rules of the servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import assert_clean, begun, fork, session
from promises import Faults
from pushed import Client, bare, checkpoint, push, user

from gitsession import Message, Store
from gitsession.errors import GitSessionError
from gitsession.model.entries import Entry
from gitsession.sessions.node import Node
from gitsession.store import create, refs
from gitsession.validation import validate
from gitsession.validation.quarantine_reader import GitReader, Refusal

EVERYTHING = ("refs/heads/*:refs/heads/*",)


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client.begin(tmp_path / "theirs.git")


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """Create a repository without hooks."""
    return bare(tmp_path / "remote.git")


@pytest.fixture
def ours(tmp_path: Path, remote: Path):
    with Store.create(tmp_path / "ours.git") as store:
        store.remotes.add("origin", str(remote))
        yield store


def altered(client: Client, entry: Entry) -> Node:
    return client.entry(entry, client.leaf, old=b"user: more", new=b"user: less")


@pytest.mark.promise("P34")
def test_invalid_branch_is_rejected_with_its_reason_and_others_are_fetched(
    client: Client, remote: Path, ours: Store, faults: Faults
) -> None:
    good = begun(client.store, "good")
    client.store.flush()
    bad = altered(client, user())
    push(client.path, remote, *EVERYTHING, f"{bad.oid}:{client.ref('side')}")
    told = {branch.ref: branch for branch in ours.remotes.pull("origin").branches}
    assert told[client.ref("side")].outcome == "refused"
    assert "the commit message does not match the payload" in told[client.ref("side")].why
    assert told[client.ref()].outcome == "new"
    assert told[refs.leaf(good.id)].outcome == "new"
    assert ours.objects.ref(client.ref("side")) is None
    with faults.one():
        assert not ours.objects.contains(bad.oid)


def test_tree_that_leads_out_of_the_workspace_is_rejected(client: Client, remote: Path, ours: Store) -> None:
    evil = client.entry(checkpoint(), client.on("files"), files=client.files(("100644", b"..", b"evil")))
    push(client.path, remote, *EVERYTHING, f"{evil.oid}:{client.ref('files-x')}")
    try:
        told = {branch.ref: branch.outcome for branch in ours.remotes.pull("origin").branches}
        assert told[client.ref("files-x")] == "refused"
    except GitSessionError as error:  # git's own checks may have failed first
        assert "files-x" in str(error) or "hasDotdot" in str(error)
    assert not ours.objects.contains(evil.oid)


def test_diverged_branches_are_validated_from_their_common_entry(client: Client, remote: Path, ours: Store) -> None:
    push(client.path, remote, *EVERYTHING)
    ours.remotes.pull("origin")
    ours.session(client.sid).append(Message.user("ours"))
    session(client.store, client.sid).append(Message.user("theirs"))
    client.store.flush()
    push(client.path, remote, *EVERYTHING)
    told = {branch.ref: branch.outcome for branch in ours.remotes.pull("origin").branches}
    assert told[client.ref()] == "forked"


def test_more_sessions_than_one_batch_are_fetched(
    client: Client, remote: Path, ours: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validate, "SESSIONS_AT_ONCE", 2)
    for n in range(5):
        begun(client.store, str(n))
    client.store.flush()
    push(client.path, remote, *EVERYTHING)
    assert {branch.outcome for branch in ours.remotes.pull("origin").branches if branch.ref != create.MAIN} == {"new"}
    assert len(ours.sessions()) == 6


def test_malformed_start_of_a_session_does_not_affect_others(client: Client, remote: Path, ours: Store) -> None:
    push(client.path, remote, *EVERYTHING)
    ours.remotes.pull("origin")
    first = session(client.store, client.sid).history()[0].oid
    tree = client.git("rev-parse", f"{first}^{{tree}}")
    bad = client.git("commit-tree", "-m", "fork\n\nEntry: fork\n\nmore", "-p", first, tree)
    other = begun(client.store, "other").id
    client.store.flush()
    push(client.path, remote, *EVERYTHING, f"{bad}:{client.ref('side')}")
    told = {branch.ref: branch.outcome for branch in ours.remotes.pull("origin").branches}
    assert (told[client.ref("side")], told[refs.leaf(other)]) == ("refused", "new")


def test_failure_of_git_does_not_affect_the_next_sessions(
    client: Client, remote: Path, ours: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validate, "SESSIONS_AT_ONCE", 1)
    monkeypatch.setattr(validate, "ENTRIES_AT_ONCE", 0)
    for n in range(3):
        begun(client.store, str(n))
    client.store.flush()
    push(client.path, remote, *EVERYTHING)
    validate_moves = validate.validate_moves

    def validate_and_kill(read: GitReader, *arguments: Any, **named: Any) -> list[Refusal]:
        found = validate_moves(read, *arguments, **named)
        read.heads(["0" * 40])  # starts git if it does not run
        read._git.kill()
        return found

    monkeypatch.setattr(validate, "validate_moves", validate_and_kill)
    report = ours.remotes.pull("origin")
    assert {branch.outcome for branch in report.branches if branch.ref != create.MAIN} == {"new"}
    assert len(ours.sessions()) == 4


def test_invalid_tombstone_set_is_not_merged(client: Client, remote: Path, ours: Store) -> None:
    odd = client.git("commit-tree", "-m", "1 purged", client.files(("100644", b"run.sh", b"evil")))
    push(client.path, remote, *EVERYTHING, f"{odd}:{refs.TOMBSTONES}")
    told = {branch.ref: branch.outcome for branch in ours.remotes.pull("origin").branches}
    assert told[refs.TOMBSTONES] == "refused"
    assert told[client.ref()] == "new"
    assert ours.objects.ref(refs.TOMBSTONES) is None
    assert not ours.objects.contains(odd)


def test_meta_without_its_session_is_rejected(client: Client, remote: Path, ours: Store) -> None:
    held = session(client.store, client.sid)
    held.label(held.leaf, "a label")
    client.store.flush()
    bad = altered(client, user())
    push(client.path, remote, f"{client.ref('meta')}:{client.ref('meta')}", f"{bad.oid}:{client.ref()}")
    told = {branch.ref: (branch.outcome, branch.why) for branch in ours.remotes.pull("origin").branches}
    assert told[client.ref()][0] == "refused"
    assert told[client.ref("meta")] == ("refused", "its session was refused")
    assert ours.objects.refs(refs.SESSIONS) == {}
    assert_clean(ours.objects)


def test_session_under_a_second_id_is_rejected(tmp_path: Path, client: Client, remote: Path, ours: Store) -> None:
    """A store that has the session rejects the other id. A clone accepts one of them."""
    push(client.path, remote, *EVERYTHING)
    ours.remotes.pull("origin")
    second = refs.leaf(f"{client.sid[:8]}-{'7' * 13}")
    push(client.path, remote, f"{client.ref()}:{second}")
    [refused] = ours.remotes.pull("origin").of("refused")
    assert (refused.ref, "another session begins with the same entry" in refused.why) == (second, True)
    assert_clean(ours.objects)
    made, report = Store.clone(str(remote), tmp_path / "clone.git")
    with made:
        assert [branch.ref for branch in report.of("refused")] == [second]
        assert [row.sid for row in made.sessions()] == [client.sid]
        assert_clean(made.objects)


def test_session_under_a_second_id_is_rejected_in_another_portion(
    tmp_path: Path, client: Client, remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sessions are validated one after another. They have different newest entries."""
    monkeypatch.setattr(validate, "SESSIONS_AT_ONCE", 1)
    monkeypatch.setattr(validate, "ENTRIES_AT_ONCE", 0)
    second = refs.leaf(f"{client.sid[:8]}-{'7' * 13}")
    push(client.path, remote, *EVERYTHING, f"{client.entry(user('other'), client.leaf).oid}:{second}")
    session(client.store, client.sid).append(Message.user("more"))
    client.store.flush()
    push(client.path, remote, *EVERYTHING)
    made, report = Store.clone(str(remote), tmp_path / "clone.git")
    with made:
        assert {"another session begins with the same entry" in one.why for one in report.of("refused")} == {True}
        assert len(made.sessions()) == 1
        assert_clean(made.objects)


@pytest.mark.parametrize("ref", ["main", "side"])
def test_branch_of_a_fork_under_the_id_of_its_origin_is_rejected(
    client: Client, remote: Path, ours: Store, ref: str
) -> None:
    push(client.path, remote, *EVERYTHING)
    ours.remotes.pull("origin")
    copy = fork(session(client.store, client.sid))
    copy.append(Message.user("on a line of its own"))
    client.store.flush()
    push(client.path, remote, *EVERYTHING, f"{refs.leaf(copy.id)}:{client.ref(ref)}")
    [refused] = ours.remotes.pull("origin").of("refused")
    assert (refused.ref, f"begins session {copy.id}" in refused.why) == (client.ref(ref), True)
    assert {row.sid for row in ours.sessions()} == {client.sid, copy.id}
    assert_clean(ours.objects)


def test_meta_as_a_branch_is_rejected(tmp_path: Path, client: Client, remote: Path, ours: Store) -> None:
    push(client.path, remote, *EVERYTHING)
    ours.remotes.pull("origin")
    push(client.path, remote, f"{client.ref('meta')}:{client.ref('zzz')}")
    made, report = Store.clone(str(remote), tmp_path / "clone.git")
    with made:
        for [refused] in (ours.remotes.pull("origin").of("refused"), report.of("refused")):
            assert (refused.ref, "entries of 'meta'" in refused.why) == (client.ref("zzz"), True)
        assert_clean(made.objects)


@pytest.mark.promise("P34")
@pytest.mark.parametrize("filter", ["", "blob:limit=64k"])
def test_a_malformed_object_on_one_ref_stops_no_clone(
    tmp_path: Path, client: Client, remote: Path, faults: Faults, filter: str
) -> None:
    evil = client.entry(checkpoint(), client.on("files"), files=client.files(("100644", b"..", b"evil")))
    good = begun(client.store, "good")
    client.store.flush()
    push(client.path, remote, *EVERYTHING, f"{evil.oid}:{client.ref('files-x')}")
    made, report = Store.clone(str(remote), tmp_path / "clone.git", filter=filter)
    with made, faults.one():
        [refused] = report.of("refused")
        assert refused.ref == client.ref("files-x")
        assert "hasDotdot" in refused.why
        assert ".tmp" not in refused.why
        assert {row.sid for row in made.sessions()} == {client.sid, good.id}
        assert not made.objects.contains(evil.oid)
        assert_clean(made.objects)


def test_store_with_a_single_malformed_session_is_cloned_without_it(
    tmp_path: Path, client: Client, remote: Path
) -> None:
    evil = client.entry(checkpoint(), client.on("files"), files=client.files(("100644", b"..", b"evil")))
    push(client.path, remote, f"{create.MAIN}:{create.MAIN}", f"{evil.oid}:{client.ref('files-x')}")
    made, report = Store.clone(str(remote), tmp_path / "clone.git")
    with made:
        assert [branch.outcome for branch in report.branches] == ["refused"]
        assert list(made.sessions()) == []
