"""Sync over real servers on loopback: a folder, smart HTTP, ssh; every object is checked there."""

from __future__ import annotations

import os
import random
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest
import servers
from builders import assert_clean, assert_git_agrees, session
from remotes import begun, git, hub, remote, said, say, shared, store_with, sync, there

from gitsession.api import Store
from gitsession.errors import GitSessionError, Unavailable
from gitsession.store.gitstore import GitStore
from gitsession.sync import remotes, syncing

WAYS = ["file", "http", "ssh"]


@pytest.fixture(params=WAYS)
def url(request, tmp_path, monkeypatch):
    """The address of an empty hub, however it is reached."""
    path = hub(tmp_path / "hub.git")
    if request.param == "file":
        opened = nullcontext(f"file://{tmp_path}")
    elif request.param == "http":
        opened = servers.http(tmp_path)
    else:
        opened = servers.ssh(tmp_path)
    with opened as where:
        if request.param == "ssh":
            where, command = where
            monkeypatch.setenv("GIT_SSH_COMMAND", command)
            where += str(tmp_path)
        yield f"{where}/{path.name}"


def three_stores(tmp_path: Path, url: str) -> list[GitStore]:
    stores = []
    for name in "abc":
        store = store_with(tmp_path / f"{name}.git")
        remotes.add(store.git_dir, "origin", url)
        stores.append(store)
    return stores


@pytest.mark.timeout(300)
def test_three_stores_in_any_order_come_to_the_same(url, tmp_path):
    chance = random.Random(7)
    stores = three_stores(tmp_path, url)
    sid = begun(stores[0], "hi").id
    for store in stores:
        sync(store)
    every = {"hi"}
    for number in range(12):
        store = chance.choice(stores)
        text = f"said {number}"
        say(store, sid, text, chance.choice(list(said(store, sid))))
        every.add(text)
        if chance.random() < 0.3:
            session(store, sid).branch(f"b{number}", at=chance.choice(session(store, sid).line()))
        if chance.random() < 0.5:
            chance.choice([syncing.sync, syncing.pull])(store, remote(store))
        if chance.random() < 0.3:
            subprocess.run(["git", f"--git-dir={store.git_dir}", "fetch", "-q"], capture_output=True, check=False)
    for _ in range(2):
        for store in stores:
            sync(store)
    for store in stores:
        assert shared(store) == there(tmp_path / "hub.git")
        assert {word for line in said(store, sid).values() for word in line} == every
        assert_git_agrees(store)
        assert_clean(store)
        store.close()
    assert git(tmp_path / "hub.git", "fsck", "--strict", "--no-dangling") == ""


def test_a_clone_has_all_of_it(url, tmp_path):
    with store_with(tmp_path / "a.git") as store:
        remotes.add(store.git_dir, "origin", url)
        for number in range(5):
            begun(store, f"session {number}")
        sync(store)
        made, report = Store.clone(url, tmp_path / "clone.git")
        with made:
            assert len(report.of("new")) == 10
            assert len(made.sessions()) == 5
            assert shared(made.objects) == shared(store)
            assert_clean(made.objects)
            assert [path.name for path in (tmp_path / "clone.git/refs/heads").iterdir()] == ["main"]  # packed


def test_who_has_no_password_is_told_so(tmp_path):
    hub(tmp_path / "hub.git")
    with servers.http(tmp_path, password="open sesame") as where, store_with(tmp_path / "a.git") as store:
        begun(store, "hi")
        remotes.add(store.git_dir, "origin", f"{where}/hub.git")
        with pytest.raises(Unavailable, match="does not let us in"):
            syncing.sync(store, remote(store))
        remotes.remove(store.git_dir, "origin")
        remotes.add(store.git_dir, "origin", f"{where.replace('://', '://me:open%20sesame@')}/hub.git")
        sync(store)
        assert there(tmp_path / "hub.git") == shared(store)


def test_a_credential_helper_of_the_users_is_asked(tmp_path):
    hub(tmp_path / "hub.git")
    helper = "!f() { echo username=me; echo password=secret; }; f"
    subprocess.run(["git", "config", "--global", "credential.helper", helper], check=True)
    with servers.http(tmp_path, password="secret") as where, store_with(tmp_path / "a.git") as store:
        begun(store, "hi")
        remotes.add(store.git_dir, "origin", f"{where}/hub.git")
        sync(store)
        assert there(tmp_path / "hub.git") == shared(store)


PROGRAMS = {
    "core.sshCommand": "ssh://nobody@127.0.0.1/x.git",
    "core.gitProxy": "git://127.0.0.1/x.git",
    "remote.origin.uploadpack": None,
    "remote.origin.receivepack": None,
    "remote.origin.vcs": None,
    "credential.helper": "http://127.0.0.1:1/x.git",
    "core.askPass": "http://127.0.0.1:1/x.git",
    "core.hooksPath": None,
    "core.fsmonitor": None,
    "core.alternateRefsCommand": None,
    "http.sslCert": "http://127.0.0.1:1/x.git",
}


@pytest.mark.parametrize("setting", PROGRAMS)
def test_a_program_that_a_stores_configuration_names_does_not_run(setting, tmp_path):
    path = hub(tmp_path / "hub.git")
    trap = tmp_path / "trap"
    trap.mkdir()
    program = trap / "pre-push"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\nexit 1\n")
    program.chmod(0o755)
    with store_with(tmp_path / "a.git") as store:
        begun(store, "hi")
        remotes.add(store.git_dir, "origin", PROGRAMS[setting] or str(path))
        value = str(trap) if setting == "core.hooksPath" else str(program)
        git(store.git_dir, "config", setting, f"!{value}" if setting == "credential.helper" else value)
        for verb in (syncing.push, syncing.sync):
            try:
                verb(store, remote(store))
            except GitSessionError:
                assert PROGRAMS[setting] is not None
    assert not os.path.exists(tmp_path / "sprung")
