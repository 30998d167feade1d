"""Tests of work that several processes share, when a process fails."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence

import pytest

from gitsession import parallel
from gitsession.git import process

ITEMS = list(range(8))
LARGE = bytes(1 << 20)  # more than fits into a pipe


@pytest.fixture(autouse=True)
def two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "ITEMS_MIN", 1)
    monkeypatch.setattr(parallel, "_AT_ONCE", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(2))
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # an earlier test may have left a thread


def shared(in_child: Callable[[], object]) -> list[list[int]]:
    """Share ``ITEMS``, and return their numbers; a child calls ``in_child`` first, and its results are large."""
    parent = os.getpid()

    def work(items: Sequence[int]) -> list[tuple[int, bytes]]:
        if os.getpid() != parent:
            in_child()
            return [(item, LARGE) for item in items]
        time.sleep(0.3)
        return [(item, b"") for item in items]

    return [[item for item, _ in part] for part in parallel.share(ITEMS, work)]


def kill_soon() -> None:
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGKILL)).start()


def fail(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    "in_child",
    [lambda: None, lambda: os.kill(os.getpid(), signal.SIGKILL), kill_soon, lambda: fail(MemoryError())],
    ids=["nothing", "killed", "killed while it sends", "out of memory"],
)
def test_work_of_a_failed_process_is_repeated(
    in_child: Callable[[], object], capfd: pytest.CaptureFixture[str]
) -> None:
    assert shared(in_child) == [ITEMS[::2], ITEMS[1::2]]
    assert capfd.readouterr() == ("", "")


def test_work_is_done_here_if_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fork", lambda: fail(BlockingIOError("too many processes")))
    assert shared(lambda: None) == [ITEMS[::2], ITEMS[1::2]]


def test_started_processes_end_if_the_start_of_another_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(3))
    fork, children = os.fork, list[int]()

    def interrupted() -> int:
        if children:
            raise KeyboardInterrupt
        child = fork()
        children.append(child)
        return child

    monkeypatch.setattr(os, "fork", interrupted)
    with pytest.raises(KeyboardInterrupt):
        shared(lambda: time.sleep(30))
    with pytest.raises(ChildProcessError):
        os.waitpid(children[0], os.WNOHANG)


def test_git_leaves_no_thread_that_would_prevent_sharing() -> None:
    before = set(threading.enumerate())
    process.run(None, "version")
    process.run_transfer(None, "version")
    assert set(threading.enumerate()) <= before
