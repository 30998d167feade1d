"""Tests of sync over real servers on loopback: a folder, smart HTTP and ssh. The server checks every object."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
from contextlib import nullcontext, suppress
from typing import ClassVar

import pytest
import servers
from builders import assert_clean
from remotes import begun, git, hub, remote, shared, store_with, sync, there
from simulation import PLACES, Machine, Outcome, Simulation, simulate

from gitsession.api import Store
from gitsession.errors import GitSessionError, Unavailable
from gitsession.store.git_store import GitStore
from gitsession.sync import remotes, syncing

WAYS = ["file", "http", "ssh"]


@pytest.fixture(params=WAYS)
def base(request, tmp_path, monkeypatch):
    """Yield the URL of a folder over each transport."""
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
        yield where


class Show(Simulation):
    """A simulation with real kills and real network errors.

    Each action occurs a fixed number of times, in random order.
    """

    DECK: ClassVar = {
        "say": 8, "branch": 2, "switch": 1, "rewind": 2, "label": 1, "undo": 1, "sync": 3, "pull": 2, "push": 2,
        "plain": 2, "die": 3, "go_off": 2, "talk_in_vain": 2, "flush": 1,
    }  # fmt: skip

    def run(self, steps: int) -> Outcome:
        """Run the deck of actions ``steps`` times."""
        waiting = [name for name, count in self.DECK.items() for _ in range(count * steps)]
        self.chance.shuffle(waiting)
        turns = 10 * len(waiting)
        while waiting and turns:
            turns -= 1
            machine = self.chance.choice(self.machines)
            name = waiting.pop(0)
            try:
                getattr(self, name)(machine)
                self.trace.append(f"{machine.name} {name}")
            except GitSessionError:  # nothing to undo, or no connection: retry later or in another store
                waiting.append(name)
        assert not waiting, waiting
        return self.end()

    def plain(self, machine: Machine) -> None:
        self.reached(machine)
        super().plain(machine)

    def die(self, machine: Machine) -> None:
        """Kill a separate process in the middle of a sync. The git that it started may continue."""
        self.reached(machine)
        verb = self.chance.choice([syncing.sync, syncing.pull, syncing.push])
        at = self.chance.randrange(PLACES)
        child = os.fork()
        if not child:
            with (
                suppress(BaseException),
                self.killing(at, lambda: os.kill(os.getpid(), signal.SIGKILL)),
                GitStore.open(machine.path, flush_on_close=False) as store,
            ):
                verb(store, remote(store))
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        machine.killed()
        if ended == 0:
            raise Unavailable("it was through before")

    def go_off(self, machine: Machine) -> None:
        """Disconnect a store, but never the last connected one."""
        if not machine.off and sum(not other.off for other in self.machines) == 1:
            raise Unavailable("the last one")
        super().go_off(machine)

    def talk_in_vain(self, machine: Machine) -> None:
        """Check the error of a store that is offline."""
        if not machine.off:
            raise Unavailable("it would be heard")
        nowhere = dataclasses.replace(remote(machine.store), url="http://127.0.0.1:1/hub.git", is_named=False)
        with pytest.raises(Unavailable, match="cannot be reached"):
            syncing.sync(machine.store, nowhere)

    def reached(self, machine: Machine) -> None:
        if machine.off:
            raise Unavailable("offline")


SHOWS = int(os.environ.get("GITSESSION_SHOWS", "1"))
"""Number of seeds for each server. If there are several, each run is longer."""


@pytest.mark.timeout(300 * SHOWS)
@pytest.mark.promise("P42")
def test_three_stores_in_any_order_end_equal(base, tmp_path, faults):
    for seed in range(SHOWS):
        with faults.one():
            decks = 1 if SHOWS == 1 else 3
            outcome = simulate(seed, tmp_path, decks, Show, url=f"{base}/seed-{seed}/hub.git")
            assert outcome.is_good, f"seed {seed}: {outcome}"


def test_a_clone_has_all_of_it(base, tmp_path):
    url = f"{base}/{hub(tmp_path / 'hub.git').name}"
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


def test_missing_password_is_reported(tmp_path):
    hub(tmp_path / "hub.git")
    with servers.http(tmp_path, password="open sesame") as where, store_with(tmp_path / "a.git") as store:
        begun(store, "hi")
        remotes.add(store.git_dir, "origin", f"{where}/hub.git")
        with pytest.raises(Unavailable, match="denied access"):
            syncing.sync(store, remote(store))
        remotes.remove(store.git_dir, "origin")
        remotes.add(store.git_dir, "origin", f"{where.replace('://', '://me:open%20sesame@')}/hub.git")
        sync(store)
        assert there(tmp_path / "hub.git") == shared(store)


def test_credential_helper_of_the_user_is_called(tmp_path):
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
