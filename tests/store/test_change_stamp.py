"""Tests of the change stamp: it changes with every ref and every append, and only then, and needs few imports."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gitsession.store import change_stamp
from gitsession.store.create import MAIN, create
from gitsession.store.git_store import GitStore

LEAF = "refs/heads/sessions/s1/main"


@pytest.fixture
def store(tmp_path: Path):
    create(tmp_path / "store.git")
    with GitStore.open(tmp_path / "store.git") as opened:
        with opened.transaction() as transaction:
            transaction.move(LEAF, opened.ref(MAIN), expected=None)
        opened.flush()
        yield opened


def put(store: GitStore) -> None:
    with store.transaction() as transaction:
        transaction.put("blob", b"x")


def git(*arguments: str):
    return lambda store: subprocess.run(["git", f"--git-dir={store.git_dir}", *arguments], check=True)


def symbolic(store: GitStore) -> None:
    with store.transaction() as transaction:
        transaction.move("refs/gitsession/active/s1", f"ref: {LEAF}", expected=None)
    store.flush()


CHANGES = {
    "an append": put,
    "a new session": git("update-ref", "refs/heads/sessions/s2/main", "main"),
    "a new branch": git("update-ref", "refs/heads/sessions/s1/side", "main"),
    "a deleted branch": git("update-ref", "-d", LEAF),
    "an active branch": symbolic,
    "an operation": git("update-ref", "refs/gitsession/oplog", "main"),
    "packed refs": git("pack-refs", "--all"),
}


def settle(git_dir: Path) -> None:
    """Set old modification times, as if nothing had changed for a minute."""
    for directory, _, _ in os.walk(git_dir / "refs"):
        os.utime(directory, (time.time() - 60, time.time() - 60))


@pytest.mark.parametrize("settled", [False, True], ids=["at once", "after a while"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_changes_the_fingerprint(store, change, settled):
    if settled:
        settle(store.git_dir)
    before = change_stamp.fingerprint(store.git_dir)
    assert change_stamp.fingerprint(store.git_dir) == before
    change(store)
    assert change_stamp.fingerprint(store.git_dir) != before


def test_a_ref_changed_twice_within_one_tick_of_the_clock_is_noticed(store):
    path = store.git_dir / LEAF
    times = []
    for digit in "ab":
        path.write_text(digit * 40)
        now = time.time_ns()
        os.utime(path.parent, ns=(now - now % 10**9, now - now % 10**9 + 10**9 - 1))
        times.append(change_stamp.fingerprint(store.git_dir))
    assert times[0] != times[1]


def test_a_repository_without_sessions_has_a_fingerprint(tmp_path):
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "plain.git"], check=True)
    assert change_stamp.fingerprint(tmp_path / "plain.git") == change_stamp.fingerprint(tmp_path / "plain.git")


def test_peeking_loads_nothing_heavy():
    heavy = {"cbor2", "blake3", "subprocess", "hashlib"}
    script = f"import sys, gitsession.store.change_stamp; found = {heavy} & set(sys.modules); assert not found, found"
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": os.pathsep.join(sys.path)})
