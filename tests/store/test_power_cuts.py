"""Tests of power cuts: real ones of a file system in an image, and every state that a log of system calls allows."""

from __future__ import annotations

import random
import subprocess

import pytest
from faults import powercut
from faults.bench import Bench
from faults.crash import Crash, Model, Recording
from faults.invariants import assert_whole
from faults.work import REPLAYED
from raw import git

from gitsession.errors import GitSessionError
from gitsession.store.git_store import GitStore

CUTS = 10
THE_STORE_ITSELF = ""
"""Folder of ``packed-refs`` and its lock."""


CRASHES_MOST = {"ext4": 60, "posix": 280}
SHARES = {"compact": 0.2, "from": 0.2, "leave": 0.2}
"""Shares for workloads whose kinds of transactions other workloads cover completely."""

SAMPLES = 120
"""Maximum number of samples of a workload. The deep run (benchmarks/deep) has no limit."""


@pytest.mark.promise("P1")
def test_acknowledged_entries_are_present_after_a_power_cut(faults) -> None:
    if "ext4" not in powercut.available():
        pytest.skip("a power cut wants root, losetup and mkfs.ext4")
    assert sum(powercut.cuts("ext4", CUTS)) > CUTS
    faults.many(CUTS)


@pytest.mark.promise("P2", "P8", "P9")
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("model", CRASHES_MOST)
@pytest.mark.parametrize("work", REPLAYED)
def test_every_disk_that_a_power_cut_could_leave_is_whole(work: str, model: Model, part: int, bench: Bench, faults):
    found = list(bench.recording(work).crashes(model, samples=SAMPLES))
    random.Random(work).shuffle(found)
    for crash in found[: round(CRASHES_MOST[model] * SHARES.get(work, 1))][part::2]:
        with faults.one():
            bench.cut(work, crash)


@pytest.mark.promise("P2")
@pytest.mark.parametrize(
    ("work", "place"),
    [
        ("raw", "gitsession/journal"),
        ("raw", "objects/pack"),
        ("raw", "gitsession/reflocks"),
        ("raw", "refs"),
        ("undo", "refs"),
        ("undo", THE_STORE_ITSELF),
    ],
)
def test_replay_without_the_fsyncs_of_a_folder_finds_losses(work: str, place: str, bench: Bench) -> None:
    """Check that the replay detects missing fsyncs."""
    whole = bench.recording(work)
    holed = Recording(whole.base, [step for step in whole.log if not is_sync_of(step, place)])
    assert len(holed.log) < len(whole.log)
    found = list(holed.crashes("posix", samples=10))
    random.Random(place).shuffle(found)
    assert any(is_bad(bench, work, crash) for crash in found[:1500])


def is_bad(bench: Bench, work: str, crash: Crash) -> bool:
    try:
        bench.cut(work, crash)
    except (AssertionError, GitSessionError):
        return True
    return False


def is_sync_of(step: object, place: str) -> bool:
    if not isinstance(step, tuple) or step[0] != "sync":
        return False
    return step[1] == place if place == THE_STORE_ITSELF else str(step[1]).startswith(place)


@pytest.mark.promise("P3")
def test_unsynced_object_of_another_program_is_written_again(bench: Bench, faults) -> None:
    """git reports that such an object exists. After a power cut, the object is an empty file."""
    with bench.store() as git_dir:
        words = ["git", f"--git-dir={git_dir}", "hash-object", "-w", "--stdin"]
        blob = subprocess.run(words, input=b"a.0", check=True, capture_output=True).stdout.decode().strip()
        loose = git_dir / "objects" / blob[:2] / blob[2:]
        assert loose.exists()
        bench.shim.run("raw", git_dir)
        loose.chmod(0o600)
        loose.write_bytes(b"")  # an unsynced file on ext4 after a power cut
        with GitStore.open(git_dir) as store:
            assert store.read(blob) == ("blob", b"a.0")
            assert_whole(store)
            store.flush()
        assert git(git_dir, "cat-file", "blob", blob) == "a.0"
    faults.many(1)
