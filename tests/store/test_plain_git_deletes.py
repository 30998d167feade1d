"""Tests of P16: writers are killed beside plain git that fetches, prunes, pushes, deletes, resets and collects.

``GITSESSION_PLAIN_GIT=<kills>`` runs more rounds, and ``GITSESSION_PLAIN_GIT_SEED=<number>`` changes the seed.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from builders import Clock
from promises import Faults
from raw import git
from remotes import hub, remote, store_with

from gitsession.api import Store
from gitsession.model.entries import Message
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.sync import syncing

KILLS = int(os.environ.get("GITSESSION_PLAIN_GIT", "12"))
SEED = int(os.environ.get("GITSESSION_PLAIN_GIT_SEED", "0"))
PARTS = 2
KILLS_OF_A_STORE = 50

LOSE_NOTHING = (
    ("fetch", "-q"),
    ("fetch", "-q", "--prune"),
    ("remote", "prune", "origin"),
    ("remote", "update", "--prune"),
    ("push", "-q"),
    ("push", "-q", "--prune"),
    ("pack-refs", "--all"),
    ("repack", "-q", "-d"),
    ("gc", "-q", "--prune=now"),
)
"""Commands that do not change any branch of the store."""


class Campaign:
    """A store, its writers in sequence, and a hub that accepts deletions.

    ``acknowledged`` has the oids of the entries whose append has returned.
    """

    def __init__(self, seed: str, folder: Path) -> None:
        self.chance = random.Random(seed)
        self.hub, self.path, self.folder = hub(folder / "hub.git"), folder / "store.git", folder
        git(self.hub, "config", "receive.denyDeletes", "false")
        store_with(self.path, self.hub).close()
        self.acknowledged: set[str] = set()
        self.named = self.restored = 0

    def round(self, number: int) -> None:
        """Kill one writer beside a few commands, and check that all acknowledged entries are kept."""
        said = self.folder / f"said-{number}"
        child = self.writer(said, self.chance.randrange(1 << 30))
        while not said.exists():
            assert os.waitpid(child, os.WNOHANG) == (0, 0), "the writer ended before it was killed"
            time.sleep(0.005)
        for _ in range(self.chance.randrange(3)):
            self.plain(*self.chance.choice(LOSE_NOTHING))
        harm = self.chance.random() < 0.5
        if harm and self.chance.random() < 0.5:
            self.harm()
        time.sleep(self.chance.random() / 5)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        self.acknowledged |= {line for line in said.read_text().split("\n") if len(line) == 40}
        if harm:
            self.harm()
        elif self.chance.random() < 0.5:
            self.plain(*self.chance.choice(LOSE_NOTHING))
        self.look(harm=harm)
        if self.chance.random() < 0.3:
            with GitStore.open(self.path) as store:
                syncing.sync(store, remote(store))
            self.look(harm=False)

    def writer(self, said: Path, seed: int) -> int:
        """Start a process that appends until it is killed, and logs each entry after its append has returned."""
        child = os.fork()
        if child:
            return child
        try:
            chance = random.Random(seed)
            with Store.open(self.path, clock=Clock(1_770_000_000_000 + seed)) as store, said.open("w") as told:
                known = [row.sid for row in store.sessions()]
                session = store.new_session(agent="test")
                while True:
                    if known and chance.random() < 0.05:
                        session = store.session(chance.choice(known))
                    told.write(session.append(Message.user(f"{seed} {chance.random()}")).oid + "\n")
                    told.flush()
                    if chance.random() < 0.1:
                        store.flush()
        finally:
            os._exit(1)

    def plain(self, *words: str) -> None:
        """Run a git command that may fail, for example because a ref is locked or a push is rejected."""
        config = ("-c", "fetch.prune=true", "-c", "gc.auto=0")
        subprocess.run(["git", f"--git-dir={self.path}", *config, *words], capture_output=True, check=False)

    def harm(self) -> None:
        """Delete a branch or set it back by plain git."""
        there = git(self.path, "for-each-ref", "--format=%(refname)", refs.SESSIONS).split()
        if not there:
            return
        name = self.chance.choice(there)
        how = self.chance.randrange(3)
        if how == 0:
            self.plain("branch", "-q", "-D", name.removeprefix("refs/heads/"))
        elif how == 1:
            self.plain("update-ref", "-d", name)
        else:
            self.plain("update-ref", name, f"{name}~{self.chance.randrange(1, 5)}")

    def unreached(self) -> set[str]:
        """Return the acknowledged entries that plain git reaches from no branch."""
        with GitStore.open(self.path) as store:
            store.flush()
        return self.acknowledged - set(git(self.path, "rev-list", f"--glob={refs.SESSIONS}*").split())

    def look(self, *, harm: bool) -> None:
        """Check that nothing is lost.

        After ``harm``, check that verify names the missing entries and repair restores them.
        """
        missing = self.unreached()
        with Store.open(self.path) as store:
            problems = store.verify(quick=True).problems
            if not harm:
                assert not missing
                assert problems == []
                return
            assert problems or not missing, f"{len(missing)} entries are on no branch, and verify names none"
            self.named += len(problems)
            self.restored += len(missing)
            assert store.repair().is_whole
        assert self.unreached() == set()
        with Store.open(self.path) as store:
            assert store.verify(quick=True).problems == []


@pytest.mark.timeout(300 + 20 * KILLS)
@pytest.mark.promise("P16")
@pytest.mark.parametrize("part", range(PARTS))
def test_killed_writers_beside_deletions_by_plain_git_lose_nothing(tmp_path: Path, faults: Faults, part: int):
    acknowledged = restored = 0
    for first in range(0, KILLS // PARTS, KILLS_OF_A_STORE):
        folder = tmp_path / str(first)
        folder.mkdir()
        campaign = Campaign(f"{SEED} {part} {first}", folder)
        for number in range(min(KILLS_OF_A_STORE, KILLS // PARTS - first)):
            with faults.one():
                campaign.round(number)
        with Store.open(campaign.path) as store:
            assert store.verify().problems == []
        acknowledged, restored = acknowledged + len(campaign.acknowledged), restored + campaign.restored
        shutil.rmtree(folder)
    print(
        f"{acknowledged:,} entries acknowledged; {restored:,} of them taken off their branches by plain git, "
        f"named by verify and restored"
    )
