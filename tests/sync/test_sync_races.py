"""Tests of concurrent writes to a store at each step of a sync: no entry is lost."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders import assert_clean, assert_git_agrees, begun
from remotes import everywhere, hub, said, say, store_with, sync

from gitsession.git import process
from gitsession.store import published
from gitsession.store.git_store import GitStore
from gitsession.sync import syncing, tombstone_sync, transport

STEPS = {
    "flush": (GitStore, "flush"),
    "fetch": (transport, "fetch"),
    "validate": (syncing, "validate_fetched"),
    "join": (tombstone_sync, "join"),
    "move in": (transport.Quarantine, "move_in"),
    "reconcile": (syncing, "reconcile"),
    "record": (published, "record"),
    "push": (transport, "_push_chunk"),
    "forget": (published, "forget"),
}
LOCKED = ("move in", "reconcile")
"""Steps at which no other process can write. A writer waits and continues afterwards."""


class Desk:
    """Store ``a`` is to sync and has diverged from ``b``, which has published.

    ``words`` has the acknowledged texts.
    """

    def __init__(self, folder: Path) -> None:
        self.hub = hub(folder / "hub.git")
        self.stores = {name: store_with(folder / f"{name}.git", self.hub) for name in "ab"}
        self.a, self.b = self.stores.values()
        self.sids = [begun(self.a, "hi").id]
        sync(self.a)
        sync(self.b)
        say(self.b, self.sids[0], "from b")
        self.sids.append(begun(self.b, "another of b").id)
        sync(self.b)
        self.sids.append(begun(self.b, "not published").id)
        self.b.flush()
        say(self.a, self.sids[0], "from a")
        self.sids.append(begun(self.a, "another of a").id)
        self.words = {"hi", "from a", "from b", "another of a", "another of b", "not published"}

    def is_whole(self) -> None:
        for _ in range(2):
            for store in (self.b, self.a):
                sync(store)
        assert everywhere(self.stores, self.hub)
        for store in self.stores.values():
            assert {word for sid in self.sids for line in said(store, sid).values() for word in line} == self.words
            assert_git_agrees(store)
            assert_clean(store)
            assert process.fsck(store.git_dir) == []
        assert process.fsck(self.hub) == []


def append(desk: Desk) -> None:
    """Append from another process that ends before it flushes to git."""
    with GitStore.open(desk.a.git_dir, flush_on_close=False) as other:
        say(other, desk.sids[0], "meanwhile", "main")
        say(other, desk.sids[3], "and elsewhere")
        desk.words |= {"meanwhile", "and elsewhere"}


def git_fetch(desk: Desk) -> None:
    _git(desk.a, "fetch")


def git_push(desk: Desk) -> None:
    _git(desk.a, "push")


def push_into(desk: Desk) -> None:
    """Push from a store that has this store as a remote."""
    _git(desk.b, "push", str(desk.a.git_dir), "refs/heads/sessions/*:refs/heads/sessions/*")


def _git(store: GitStore, *words: str) -> None:
    """Run git. A push that is not a fast-forward is rejected."""
    subprocess.run(["git", f"--git-dir={store.git_dir}", *words], capture_output=True, check=False, timeout=60)


OTHERS = [append, git_fetch, git_push, push_into]
ALL = [(step, when, other) for step in STEPS for when in ("before", "after") for other in OTHERS]
CASES = ALL if os.environ.get("GITSESSION_SYNC_RACES") else ALL[::7]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.a.close()
    made.b.close()


@pytest.mark.promise("P13", "P16", "P42")
@pytest.mark.parametrize(("step", "when", "other"), CASES)
def test_concurrent_changes_at_any_step_are_kept(
    desk: Desk, step: str, when: str, other: Callable[[Desk], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name = STEPS[step]
    call = getattr(owner, name)
    waiting: list[threading.Thread] = []

    def meanwhile() -> None:
        monkeypatch.setattr(owner, name, call)
        thread = threading.Thread(target=other, args=(desk,))
        waiting.append(thread)
        thread.start()
        if step not in LOCKED or other is not append:
            thread.join()

    def raced(*words, **named):
        if when == "before":
            meanwhile()
        answer = call(*words, **named)
        if when == "after":
            meanwhile()
        return answer

    monkeypatch.setattr(owner, name, raced)
    sync(desk.a)
    [thread] = waiting
    thread.join(60)
    assert not thread.is_alive()
    desk.is_whole()
