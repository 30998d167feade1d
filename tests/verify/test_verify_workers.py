"""Tests of parallel verification: it has the same findings as one process, even if workers fail."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from builders import Clock, begun

from gitsession import parallel
from gitsession.api import Store

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="one process elsewhere")

ALONE = """
import os, signal, sys
from gitsession import parallel
parallel.ITEMS_MIN, parallel._AT_ONCE = 10, 3
os.sched_getaffinity = lambda _: range(3)
"""
"""A process with one thread, which the test process may not be."""


def said(program: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", ALONE + program, *arguments], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@LINUX
def test_every_thing_is_worked_on_once_and_by_several() -> None:
    told = said(
        """
found = parallel.share(range(100), lambda part: (os.getpid(), list(part)))
assert sorted(thing for _, part in found for thing in part) == list(range(100))
print(len({pid for pid, _ in found}))
"""
    )
    assert told == ["3"]


@LINUX
@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "raise SystemExit(1)"])
def test_unfinished_work_of_a_worker_is_done_by_the_main_process(end: str) -> None:
    told = said(
        f"""
here = os.getpid()
def work(part):
    if os.getpid() != here:
        {end}
    return list(part)
found = parallel.share(range(100), work)
assert sorted(thing for part in found for thing in part) == list(range(100))
print("all")
"""
    )
    assert told == ["all"]


@LINUX
def test_finished_worker_is_terminated_silently() -> None:
    """The main process terminates its workers. Signal handlers of the program must not run in them."""
    told = said(
        """
signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))
for how in parallel.share(range(100), lambda part: signal.getsignal(signal.SIGTERM) == signal.SIG_DFL):
    print(how)
"""
    )
    assert told == ["False", "True", "True"]


@LINUX
def test_check_with_workers_has_the_same_result(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        held = begun(store.objects, *(f"words {number}" for number in range(80)))
        store.flush()
        lost = [node.tree for node in held.history()[10:60:10]]
    program = """
from gitsession import Store
from gitsession.git.repository import VerifiedRepository
from gitsession.errors import Corrupt
read, together = VerifiedRepository.read, VerifiedRepository.read_all
def broken(door, oid):
    if oid in sys.argv[2:]:
        raise Corrupt(f"object {oid} is damaged")
    return read(door, oid)
VerifiedRepository.read = broken
VerifiedRepository.read_all = lambda door, oids: together(door, [oid for oid in oids if oid not in sys.argv[2:]])
several = parallel._in_processes
shared = []
parallel._in_processes = lambda *given: shared.append(1) or several(*given)
with Store.open(sys.argv[1]) as store:
    one = store.verify()
    parallel.ITEMS_MIN = 10**6
    other = store.verify()
key = lambda found: (found.where, found.what)
assert sorted(one.problems, key=key) == sorted(other.problems, key=key)
assert (one.checked, len(shared)) == (other.checked, 1)
print(len(one.problems))
"""
    assert said(program, str(tmp_path / "store.git"), *lost) == ["5"]


def test_a_process_with_several_threads_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> list[object]:
        raise AssertionError("a copy of a process with several threads")

    monkeypatch.setattr(parallel, "_in_processes", refuse)
    monkeypatch.setattr(parallel, "ITEMS_MIN", 1)
    wait = threading.Event()
    thread = threading.Thread(target=wait.wait)
    thread.start()
    try:
        assert parallel.share(range(100), _count) == [100]
    finally:
        wait.set()
        thread.join()


def _count(part: Sequence[int]) -> int:
    return len(part)
