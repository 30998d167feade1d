"""Tests of a failing disk, at any system call, once or permanently: nothing that was acknowledged is lost."""

from __future__ import annotations

import errno
import os

import pytest
from faults.bench import Bench
from faults.invariants import assert_nothing_left, texts
from faults.shim import Fault
from faults.work import SHARES, TRIED_AGAIN, WORKLOADS
from raw import LEAF, append

from gitsession.api import Store
from gitsession.errors import Unavailable
from gitsession.model.entries import Message
from gitsession.store.create import create
from gitsession.store.git_store import GitStore


@pytest.mark.promise("P4")
@pytest.mark.parametrize("mode", SHARES)
@pytest.mark.parametrize("work", WORKLOADS)
def test_a_call_that_fails_is_an_error_or_does_no_harm(work: str, mode: str, bench: Bench, faults) -> None:
    for at in bench.points(work, mode, SHARES[mode]):
        with faults.one():
            bench.fail(work, Fault(mode, at))


@pytest.mark.promise("P4")
def test_a_full_disk_refuses_every_append(bench: Bench, faults) -> None:
    """Fail all writes from the first append on. No further entry is acknowledged."""
    for mode in ("eio-on", "enospc-on", "edquot-on"):
        with bench.store() as git_dir, faults.one():
            ran = bench.shim.run("raw", git_dir, Fault(mode, 2))  # opening needs the lock file
            assert (list(ran.done), sorted(ran.failed)) == ([0], list(range(1, len(WORKLOADS["raw"]) + 1)))


@pytest.mark.promise("P5")
@pytest.mark.parametrize("work", ["append", "branch", "undo", "leave", "raw"])
def test_a_failed_fsync_is_never_tried_again_on_the_same_file(work: str, bench: Bench, faults) -> None:
    """Check files only, because the system may have dropped their bytes. Names are kept by the file system."""
    calls = bench.calls(work)
    directories = {os.path.dirname(call.path) for call in calls}
    for at, call in enumerate(calls, 1):
        if call.name in ("fsync", "fdatasync") and "index.db" not in call.path and call.path not in directories:
            with faults.one():
                assert_not_tried_again(bench, work, at)


def assert_not_tried_again(bench: Bench, work: str, at: int) -> None:
    with bench.store() as git_dir:
        ran = bench.shim.run(work, git_dir, Fault("eio", at), log=True)
        calls = [call for call in bench.shim.calls() if call.name != "ack"]
    failed, later = calls[at - 1], calls[at:]
    assert (ran.code, failed.error) == (0, errno.EIO), ran.stderr
    for call in later:
        if call.inode == failed.inode:
            assert call.name not in ("fsync", "fdatasync"), f"{failed.path}: fsync failed and is tried again"
            if call.name in ("create", "unlink", "write"):  # another file, no file, or the overwritten record
                return


@pytest.mark.promise("P6")
def test_system_calls_for_fsyncs_of_an_append_and_a_flush(bench: Bench, faults) -> None:
    counts = {}
    with bench.store() as git_dir:
        bench.shim.run("raw", git_dir, log=True, bytes_too=True)
        count = 0
        for call in bench.shim.calls():
            if call.name == "ack":
                counts[int(call.data.split()[1])] = count
                count = 0
            count += call.name in ("fsync", "fdatasync")
    refs_prepared, refs_raw = 3, 2
    new_directories = 0
    faults.many(sum(counts.values()))
    assert counts[1] == 1 + 1, "the first append to a journal that another process began makes sure of its name"
    assert [counts[n] for n in (2, 4, 5, 7)] == [1, 1, 1, 1]
    assert counts[3] == 7 + 2 * (refs_prepared - 1 + refs_raw - 1) + new_directories
    assert counts[6] == 7 + 2 * refs_raw


# -- retries


@pytest.mark.promise("P10")
@pytest.mark.parametrize("work", TRIED_AGAIN)
def test_failed_command_can_be_retried_without_a_duplicate(work: str, bench: Bench, faults) -> None:
    for length in (1, 2):
        for at in bench.points(work, "eio", 0.2, seed=length):
            with faults.one():
                bench.retry(work, Fault("eio", at, length=length))


@pytest.mark.promise("P10")
def test_no_reader_relies_on_an_unrevoked_record(tmp_path, monkeypatch, faults):
    """An import that finds its entries in such a record would report success, and the next write removes them."""
    create(tmp_path / "store.git")
    with GitStore.open(tmp_path / "store.git") as store:
        append(store, "before")
        with faults.one(), monkeypatch.context() as patch:
            failing(patch, after=1, length=2)
            with pytest.raises(Unavailable):
                append(store, "failed")
        assert texts(store, LEAF) == ["before"]
        append(store, "after")
        assert texts(store, LEAF) == ["before", "after"]


@pytest.mark.promise("P10")
@pytest.mark.parametrize("length", range(2, 8))
def test_append_with_an_unrevoked_record_is_present_once(length, tmp_path, monkeypatch, faults):
    """The record is written, its fsync fails, and so does overwriting it.

    Other processes may have read the entry.
    """
    create(tmp_path / "store.git")
    with GitStore.open(tmp_path / "store.git") as store:
        append(store, "before")
        with monkeypatch.context() as patch:
            failing(patch, after=1, length=length)
            with pytest.raises(Unavailable):
                append(store, "tried again")
        append(store, "tried again")
        append(store, "after")
        assert texts(store, LEAF) == ["before", "tried again", "after"]
        with GitStore.open(tmp_path / "store.git", flush_on_close=False) as other:
            assert texts(other, LEAF) == ["before", "tried again", "after"]
        store.flush()
        assert texts(store, LEAF) == ["before", "tried again", "after"]
    assert_nothing_left(tmp_path / "store.git")
    faults.many(length)


@pytest.mark.promise("P10")
def test_failed_entry_that_others_continued_is_kept(tmp_path, monkeypatch):
    create(tmp_path / "store.git")
    with GitStore.open(tmp_path / "store.git") as store:
        append(store, "before")
        with monkeypatch.context() as patch:
            failing(patch, after=1, length=9)
            with pytest.raises(Unavailable):
                append(store, "refused")
        with GitStore.open(tmp_path / "store.git") as other:
            append(other, "from another process")
        append(store, "after")
        assert texts(store, LEAF) == ["before", "refused", "from another process", "after"]


@pytest.mark.promise("P10")
def test_first_prompt_of_a_session_can_be_retried(tmp_path, monkeypatch):
    with Store.create(tmp_path / "store.git") as store:
        session = store.new_session(agent="agent")
        session.append(Message.assistant("before the first words"))
        with monkeypatch.context() as patch:
            failing(patch, after=0, length=9)
            with pytest.raises(Unavailable):
                session.append(Message.user("first words"))
        session.append(Message.user("first words"))
        assert [session.read(node).kind for node in session.history()] == ["session", "message", "message"]


@pytest.mark.promise("P10")
def test_failed_fork_can_be_retried(tmp_path, monkeypatch):
    """The branch was never created, so the handle must not be on it."""
    with Store.create(tmp_path / "store.git") as store:
        session = store.new_session(agent="agent")
        seen = session.append(Message.user("before"))
        store.session(session.id).append(Message.user("somebody else's"))
        with monkeypatch.context() as patch:
            failing(patch, after=0, length=9)
            with pytest.raises(Unavailable):
                session.append(Message.user("mine"), expected=seen, on_moved="fork")
        assert session.branch_name == "main"
        session.append(Message.user("mine"), expected=seen, on_moved="fork")
        assert [session.read(node).text for node in session.history()[1:]] == ["before", "mine"]
        assert len(session.branches()) == 2


def failing(patch: pytest.MonkeyPatch, *, after: int, length: int) -> None:
    """Let the first ``after`` calls that change the disk succeed, the next ``length`` fail, and the others succeed."""
    count = 0

    def wrapped(real):
        def call(*given, **named):
            nonlocal count
            count += 1
            if after < count <= after + length:
                raise OSError(errno.EIO, "Input/output error")
            return real(*given, **named)

        return call

    for name in ("pwrite", "fdatasync", "fsync", "ftruncate", "rename", "unlink", "link"):
        patch.setattr(os, name, wrapped(getattr(os, name)))
