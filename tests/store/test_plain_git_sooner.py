"""Tests of what plain git reads while a writer runs, and after a writer was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders import pi_file, talk

from gitsession import Message, Store
from gitsession.cli.app import run
from gitsession.store import create, journal_frames
from gitsession.store.git_store import GitStore
from gitsession.store.lock import StoreLock

APPEND = """
import os, sys, time
from gitsession import Message, Store
from gitsession.store import writing

store = Store.open(sys.argv[1])
session = store.session(sys.argv[2])
session.append(Message.user("left by the writer"))
if sys.argv[3] == "list":
    store.sessions()  # the catalog is then up to date with the journal
print("appended", flush=True)
while True:
    time.sleep(0.05)
    if sys.argv[3] == "continue":
        session.append(Message.user("more"))
"""


@pytest.fixture
def sid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Create a store with a session of three entries, and return the id of the session."""
    path = tmp_path / "store.git"
    monkeypatch.setenv("GITSESSION_DIR", str(path))
    (tmp_path / "s.jsonl").write_bytes(pi_file(*talk("a", "b")))
    with Store.create(path) as store:
        return store.import_file(tmp_path / "s.jsonl")[0].session


def subjects(path: Path, sid: str) -> list[str]:
    command = ["git", f"--git-dir={path}", "log", "--format=%s", f"refs/heads/sessions/{sid}/main"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def killed_writer(path: Path, sid: str, mode: str = "once") -> None:
    """Run a writer that appends one entry, and kill it before it flushes."""
    slow = APPEND.replace("store = ", "writing.FLUSH_SECONDS = writing.FLUSH_LATEST_SECONDS = 600\nstore = ")
    writer = subprocess.Popen([sys.executable, "-c", slow, str(path), sid, mode], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "appended\n"
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    assert len(subjects(path, sid)) == 3


def test_plain_git_reads_the_entries_of_a_writer_that_does_not_stop(tmp_path: Path, sid: str) -> None:
    path = tmp_path / "store.git"
    command = [sys.executable, "-c", APPEND, str(path), sid, "continue"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "appended\n"
            while "user: left by the writer" not in subjects(path, sid):
                assert writer.poll() is None
        finally:
            writer.kill()


def test_a_flush_begins_within_one_second() -> None:
    """The constants are read in another process, because ``conftest`` changes them for the tests."""
    show = "from gitsession.store import writing as w; print(w.FLUSH_SECONDS <= w.FLUSH_LATEST_SECONDS < 1)"
    assert subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True).stdout == "True\n"


def opened(path: Path, sid: str) -> Iterator[None]:
    with Store.open(path):
        yield


def command(*words: str) -> Callable[[Path, str], Iterator[None]]:
    def act(path: Path, sid: str) -> Iterator[None]:
        assert run([word.format(sid=sid) for word in words]) == 0
        yield

    return act


OPENS = {
    "Store.open": opened,
    "ls": command("ls"),
    "log": command("log", "{sid}"),
    "show": command("show", "{sid}@a"),
}


@pytest.mark.parametrize("mode", ["once", "list"])
@pytest.mark.parametrize("opens", OPENS.values(), ids=OPENS)
def test_the_next_program_that_opens_the_store_flushes_what_a_killed_writer_left(
    tmp_path: Path, sid: str, opens: Callable[[Path, str], Iterator[None]], mode: str
) -> None:
    path = tmp_path / "store.git"
    killed_writer(path, sid, mode)
    for _ in opens(path, sid):
        assert subjects(path, sid)[0] == "user: left by the writer"


def test_opening_does_not_wait_for_a_process_that_holds_the_lock(tmp_path: Path, sid: str) -> None:
    path = tmp_path / "store.git"
    killed_writer(path, sid)
    lock = StoreLock(path / create.LOCK)
    lock.acquire()
    try:
        with Store.open(path, flush_on_close=True) as store:
            assert len(subjects(path, sid)) == 3
            assert len(store.session(sid).history()) == 4
            lock.release()
    finally:
        lock.close()
    assert len(subjects(path, sid)) == 4


def test_a_process_that_appends_once_does_not_flush_when_it_opens_the_store(tmp_path: Path, sid: str) -> None:
    path = tmp_path / "store.git"
    killed_writer(path, sid)
    with Store.open(path, flush_on_close=False) as store:
        store.session(sid).append(Message.user("and another"))
    assert len(subjects(path, sid)) == 3


def test_opening_leaves_a_damaged_journal_in_place(tmp_path: Path, sid: str) -> None:
    """``verify`` and ``doctor`` report the damage, so a program that only opens the store must not set it aside."""
    path = tmp_path / "store.git"
    with Store.open(path, flush_on_close=False) as writer:
        for number in range(3):
            writer.session(sid).append(Message.user(f"number {number}"))
    [journal] = (path / create.JOURNAL).iterdir()
    data = bytearray(journal.read_bytes())
    data[journal_frames.HEAD_BYTES + 50] ^= 1  # in the first of three records
    journal.write_bytes(data)
    with GitStore.open(path, flush_on_close=False) as store:
        store.flush_left()
        assert store.damage()
    assert os.listdir(path / create.JOURNAL) == [journal.name]
