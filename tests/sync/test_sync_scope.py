"""Tests of remotes with a scope and pushes of named sessions: redacted entries and the archive are not sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Run
from raw import git, git_bytes
from remotes import forge, hub

from gitsession import Message, Session, Store
from gitsession.index import catalogue

KEY = "AKIA" + "Z3KQ7XJ2M5TB6WPL"  # joined here, so that this file does not seem to contain a key


@pytest.fixture(params=[hub, forge], ids=["hub", "forge"])
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path: Path = request.param(tmp_path / "hub.git")
    return path


def store_with_secrets(path: Path) -> Store:
    """Create a store without redaction."""
    Store.create(path).close()
    git(path, "config", "gitsession.redact", "false")
    return Store.open(path)


def begun(store: Store, agent: str, *texts: str) -> Session:
    session = store.new_session(agent=agent, cwd="/work")
    for text in texts:
        session.append(Message.user(text))
    return session


def redacted(path: Path) -> Store:
    """Open the store with redaction, and redact every secret in it."""
    git(path, "config", "gitsession.redact", "true")
    store = Store.open(path)
    store.secrets.redact(list(store.secrets.find()))
    return store


def everything(repository: Path) -> bytes:
    return git_bytes(repository, "cat-file", "--batch-all-objects", "--batch")


def test_redaction_outside_of_the_scope_sends_no_text(tmp_path: Path, server: Path) -> None:
    path = tmp_path / "store.git"
    with store_with_secrets(path) as store:
        begun(store, "pi", f"public {KEY}")
        private = begun(store, "other", f"private {KEY}", "private too").id
    with redacted(path) as store:
        store.remotes.add("origin", str(server), agents=["pi"])
        store.remotes.sync()
        store.remotes.sync()
        assert b"public" in everything(server)
        assert b"private" not in everything(server)
        assert {branch.outcome for branch in store.remotes.sync().branches} == {"same"}
        store.purges.apply(store.purges.plan(private))
        store.remotes.sync()
        assert b"private" not in everything(server)
        assert store.verify().problems == []


def test_redaction_in_the_scope_reaches_other_stores(tmp_path: Path) -> None:
    server, path = forge(tmp_path / "forge.git"), tmp_path / "store.git"
    with store_with_secrets(path) as store:
        public = begun(store, "pi", f"public {KEY}").id
        begun(store, "other", f"private {KEY}")
    with redacted(path) as store:
        store.remotes.add("origin", str(server), agents=["pi"])
        store.remotes.sync()
        other, _ = Store.clone(str(server), tmp_path / "other.git")
        with other:
            assert [row.sid for row in other.sessions()] == [public]
            assert other.verify().problems == []
            line = other.session(public).history()
            other.purges.apply(other.purges.plan(public, at=line[-1]))
            other.session(public).append(Message.user("goes on"))
            other.remotes.sync()
            store.remotes.sync()
            other.remotes.sync()
            assert store.session(public).history() == other.session(public).history()
            assert other.verify().problems == store.verify().problems == []
        assert b"private" not in everything(server)


def test_push_of_named_sessions_leaves_out_text_and_archive_of_others(tmp_path: Path, server: Path) -> None:
    path = tmp_path / "store.git"
    with store_with_secrets(path) as store:
        public = begun(store, "pi", "public").id
        begun(store, "other", f"private {KEY}")
        archived = begun(store, "other", "private").id
        store.archive.put(archived)
    with redacted(path) as store:
        store.remotes.add("origin", str(server))
        store.remotes.push(sessions=[public])
        assert b"public" in everything(server)
        assert b"private" not in everything(server)
        store.remotes.sync()
        other, _ = Store.clone(str(server), tmp_path / "other.git")
        with other:
            assert len(other.sessions()) == 2
            assert [one.sid for one in other.archive.list()] == [archived]
            assert other.verify().problems == []


def test_bundle_of_named_sessions_leaves_out_text_of_others(tmp_path: Path) -> None:
    path, file = tmp_path / "store.git", tmp_path / "one.bundle"
    with store_with_secrets(path) as store:
        public = begun(store, "pi", f"public {KEY}").id
        begun(store, "other", f"private {KEY}")
    with redacted(path) as store:
        assert store.remotes.bundle(file, [public]) == [public]
        store.remotes.bundle(tmp_path / "all.bundle")
    mirror = forge(tmp_path / "mirror.git")
    git(mirror, "fetch", "-q", str(file), "refs/heads/*:refs/heads/*")
    assert b"public" in everything(mirror)
    assert b"private" not in everything(mirror)
    with Store.create(tmp_path / "other.git") as other:
        for bundle, sessions in ((file, 1), (tmp_path / "all.bundle", 2)):
            assert not other.remotes.unbundle(bundle).of("refused")
            assert len(other.sessions()) == sessions
            assert other.verify().problems == []


def test_the_plan_of_a_push_has_the_sessions_of_the_archive(run: Run, here: Path) -> None:
    hub(here / "hub.git")
    with Store.open() as store:
        archived = begun(store, "pi", "private").id
        store.archive.put(archived)
    run("remote", "add", "origin", "hub.git")
    assert archived in run("sync", "--dry-run")
    assert json.loads(run("sync", "--dry-run", "--json"))["archived"] == [archived]
    for command in ("sync", "push"):
        assert archived in run(command, code=4, err=True)
    assert b"private" not in everything(here / "hub.git")
    run("sync", "--yes")
    assert run("sync", "--dry-run") == "origin: nothing to send (the remote was not contacted)\n"


def test_a_push_of_named_sessions_does_not_answer_the_question_of_the_first_push(run: Run, here: Path) -> None:
    hub(here / "hub.git")
    with Store.open() as store:
        public = begun(store, "pi", "public").id
        private = begun(store, "pi", "private").id
    run("remote", "add", "origin", "hub.git")
    run("push", "origin", public)
    for command in ("sync", "push"):
        assert private in run(command, code=4, err=True)
    assert b"private" not in everything(here / "hub.git")
    run("push", "--yes")
    with Store.open() as store:
        begun(store, "pi", "later")
    run("sync")
    assert b"later" in everything(here / "hub.git")


def test_pull_does_not_confirm_the_first_push(run: Run, here: Path) -> None:
    hub(here / "hub.git")
    with Store.create(here / "other.git") as other:
        begun(other, "pi", "public")
        other.remotes.add("origin", str(here / "hub.git"))
        other.remotes.sync()
    with Store.open() as store:
        private = begun(store, "pi", "private").id
    run("remote", "add", "origin", "hub.git")
    run("pull")
    assert private in run("sync", code=4, err=True)
    run("--store", "clone.git", "clone", "hub.git", "clone.git")
    with Store.open(here / "clone.git") as clone:
        begun(clone, "pi", "of the clone")
    run("--store", "clone.git", "sync")
    assert b"of the clone" in everything(here / "hub.git")


@pytest.mark.parametrize("limit", ["--project", "--agent", "--label"])
def test_empty_scope_is_rejected(run: Run, limit: str) -> None:
    assert "is empty" in run("remote", "add", "origin", "hub.git", limit, "", code=2, err=True)
    assert "origin" not in run("remote", code=1)


def test_remote_without_a_scope_is_added_and_synced_without_the_catalog(tmp_path: Path, server: Path) -> None:
    """The first read of the catalog of a large store takes minutes."""
    path = tmp_path / "store.git"
    with Store.create(path) as store:
        begun(store, "pi", "hello")
    with Store.open(path) as store:
        remote = store.remotes.add("origin", str(server))
        assert store.remotes.unmatched_scope(remote) == []
        assert store.remotes.sync().pushed
        assert store.remotes.plan_push("origin").is_empty
    assert not (path / catalogue.FILE).exists()
