"""Tests with many processes, full disks, forks and threads: every acknowledged entry is present once."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from faults.invariants import sound
from faults.invariants import texts as line
from processes import fork, together
from raw import LEAF, append, git

from gitsession.errors import MissingObject, Unavailable
from gitsession.git import objects, pack_writer, ref_files
from gitsession.store import lock, writing
from gitsession.store.create import JOURNAL, LOCK, MAIN, create
from gitsession.store.git_store import GitStore
from gitsession.store.journal import Journal

SIDE = "refs/heads/sessions/s1/side"


@pytest.fixture
def git_dir(tmp_path: Path) -> Path:
    create(tmp_path / "store.git")
    return tmp_path / "store.git"


# -- concurrency


def writer(git_dir: Path, name: str, count: int, ref: str = LEAF) -> Callable[[], None]:
    def work() -> None:
        with GitStore.open(git_dir) as store:
            for number in range(count):
                append(store, f"{name}.{number}", ref)
                if number % 40 == 39:
                    store.flush()
            assert store.renamed_branches == []

    return work


def expected(names: str, count: int) -> list[str]:
    return sorted(f"{name}.{number}" for name in names for number in range(count))


def in_order(texts: list[str], name: str) -> bool:
    numbers = [int(text.split(".")[1]) for text in texts if text.startswith(f"{name}.")]
    return numbers == sorted(numbers)


@pytest.mark.promise("P13")
def test_processes_on_one_ref_follow_each_other(git_dir):
    together(*(writer(git_dir, name, 100) for name in "abcd"))
    with GitStore.open(git_dir) as store:
        texts = line(store)
    assert sorted(texts) == expected("abcd", 100)
    assert all(in_order(texts, name) for name in "abcd")
    assert len(git(git_dir, "rev-list", LEAF).split()) == 400
    sound(git_dir)


@pytest.mark.promise("P15", "P16")
def test_readers_and_maintenance_beside_writers_read_whole_growing_histories(git_dir):
    over = fork.Event()

    def read_as_store() -> None:
        seen: list[str] = []
        with GitStore.open(git_dir, read_only=True) as store:
            while not over.is_set():
                texts = line(store)
                assert texts[: len(seen)] == seen
                seen = texts

    def read_as_git() -> None:
        while not over.is_set():
            if LEAF in git(git_dir, "for-each-ref"):
                git(git_dir, "log", "-p", "--format=%H", LEAF)

    def maintain_as_git() -> None:
        while not over.is_set():
            git(git_dir, "repack", "-a", "-d", "-q")
            git(git_dir, "pack-refs", "--all")

    others = [fork.Process(target=target) for target in (read_as_store, read_as_git, maintain_as_git)]
    for other in others:
        other.start()
    together(*(writer(git_dir, name, 150) for name in "abc"))
    over.set()
    for other in others:
        other.join()
    assert [other.exitcode for other in others] == [0, 0, 0]
    with GitStore.open(git_dir) as store:
        assert sorted(line(store)) == expected("abc", 150)
    sound(git_dir)


@pytest.mark.promise("P13")
def test_old_failure_dropped_during_a_transaction_does_not_release_the_store(git_dir):
    """The traceback of the failure refers to the failed lock request."""
    other = lock.StoreLock(git_dir / LOCK, wait_seconds=0.05)
    with GitStore.open(git_dir) as store:
        append(store, "one")
        other.acquire()
        store._writer.quietly_flush()
        other.release()
        assert isinstance(store.last_flush_error, Unavailable)
        with store.transaction() as transaction:
            store._writer.last_error = None
            with pytest.raises(Unavailable):
                other.acquire()
            transaction.put("blob", b"two")


def test_an_entry_of_another_process_is_seen_without_a_flush(git_dir):
    with GitStore.open(git_dir, flush_on_close=False) as reader:
        together(lambda: append(GitStore.open(git_dir), "one"))
        assert line(reader) == ["one"]
        assert reader.pending == 1
        together(writer(git_dir, "a", 1))
        assert line(reader) == ["one", "a.0"]
        assert reader.pending == 0


@pytest.mark.promise("P15")
def test_flush_between_two_reads_of_a_reader_hides_nothing(git_dir, monkeypatch, faults):
    with GitStore.open(git_dir, read_only=True) as reader, GitStore.open(git_dir) as other:
        for look in ("read", "list"):
            door = reader._writer.state.git.refs
            real = getattr(door, look)
            monkeypatch.setattr(door, look, lambda name, real=real: (real(name), other.flush())[0])
        oid = append(other, "one")
        with faults.one():
            assert reader.ref(LEAF) == oid
        oid = append(other, "two")
        with faults.one():
            assert reader.refs("refs/heads/sessions/") == {LEAF: oid}


@pytest.mark.promise("P15")
@pytest.mark.parametrize("flushed", [False, True])
def test_an_object_of_another_process_is_found_by_its_name_alone(git_dir, flushed):
    with GitStore.open(git_dir) as reader, GitStore.open(git_dir, flush_on_close=flushed) as other:
        assert reader.pending == 0
        read, contained = append(other, "read"), append(other, "contained")
        if flushed:
            other.flush()
        assert reader.read(read)[0] == "commit"
        with GitStore.open(git_dir, flush_on_close=False) as fresh:
            assert fresh.contains(contained)


@pytest.mark.promise("P19")
def test_threads_share_one_store(git_dir):
    with GitStore.open(git_dir) as store:
        seen: list[str] = []

        def work(name: str) -> None:
            for number in range(60):
                append(store, f"{name}.{number}")
                mine = [text for text in line(store) if text.startswith(f"{name}.")]
                assert mine == [f"{name}.{at}" for at in range(number + 1)]
                if number % 20 == 19:
                    store.flush()
            seen.append(name)

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcdef"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(seen) == list("abcdef")
        assert sorted(line(store)) == expected("abcdef", 60)
    sound(git_dir)


@pytest.mark.promise("P13")
def test_forked_child_and_its_parent_continue_as_two_processes(git_dir):
    with GitStore.open(git_dir) as store:
        append(store, "before")

        def child() -> None:
            for number in range(50):
                append(store, f"child.{number}")
            store.close()

        children = [fork.Process(target=child) for _ in range(2)]
        for each in children:
            each.start()
        for number in range(50):
            append(store, f"parent.{number}")
        for each in children:
            each.join()
        assert [each.exitcode for each in children] == [0, 0]
        assert sorted(line(store)) == sorted(["before", *expected(["child", "child", "parent"], 50)])
    sound(git_dir)


def test_forked_child_reads_packed_refs_again_only_after_a_change(git_dir, monkeypatch):
    with GitStore.open(git_dir) as store:
        append(store, "before")
        store.flush()
        git(git_dir, "pack-refs", "--all")
        os.utime(git_dir / "packed-refs", (1, 1))  # a file that was just written is always read again
        tip = store.ref(LEAF)
        monkeypatch.setattr(ref_files, "_sorted_lines", lambda _: os._exit(3))

        def exit_code() -> int:
            child = fork.Process(target=lambda: os._exit(0 if store.ref(LEAF) == tip else 1))
            child.start()
            child.join()
            return child.exitcode

        assert exit_code() == 0
        os.utime(git_dir / "packed-refs", (2, 2))
        assert exit_code() == 3


def test_threads_of_a_forked_child_close_inherited_files_once(git_dir, monkeypatch):
    closed: list[int] = []
    real = lock.StoreLock.close

    def slow(held):
        closed.append(1)
        time.sleep(0.1)
        real(held)

    with GitStore.open(git_dir) as store:
        append(store, "one")

        def child() -> None:
            monkeypatch.setattr(lock.StoreLock, "close", slow)
            found: list[object] = []
            threads = [threading.Thread(target=lambda: found.append(store.ref(LEAF))) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
            assert (len(closed), len(found), None in found) == (1, 4, False)

        process = fork.Process(target=child)
        process.start()
        process.join()
        assert process.exitcode == 0


@pytest.mark.promise("P13")
def test_a_child_forked_within_a_transaction_cannot_end_it(git_dir):
    with GitStore.open(git_dir) as store:

        def child() -> None:
            with pytest.raises(RuntimeError, match="forked"):
                transaction.__exit__(None, None, None)

        transaction = store.transaction()
        staging = transaction.__enter__()
        staging.put("blob", b"the parent's")
        together(child)
        with pytest.raises(Unavailable, match="has held"):
            lock.StoreLock(git_dir / LOCK, wait_seconds=0.05).acquire()
        transaction.__exit__(None, None, None)
        assert store.read(objects.oid_of("blob", b"the parent's")) == ("blob", b"the parent's")


@pytest.mark.promise("P18")
def test_lock_timeout_names_the_holder(git_dir):
    with GitStore.open(git_dir) as store, store.transaction():
        waiting = lock.StoreLock(git_dir / LOCK, wait_seconds=0.05)
        who = f"process {os.getpid()}" if Path("/proc/locks").exists() else "another process"
        with pytest.raises(Unavailable, match=who):
            waiting.acquire()
        waiting.close()


@pytest.mark.promise("P18")
@pytest.mark.parametrize("wait_seconds", [0.0, 0.0015, 0.05, 3.0])
def test_pauses_of_a_waiting_writer_end_with_its_deadline(git_dir, monkeypatch, wait_seconds):
    pauses = list[float]()
    monkeypatch.setattr(lock.time, "monotonic", lambda: 1000 + sum(pauses))
    monkeypatch.setattr(lock.time, "sleep", pauses.append)
    with GitStore.open(git_dir, flush_on_close=False) as store, store.transaction():
        waiting = lock.StoreLock(git_dir / LOCK, wait_seconds=wait_seconds)
        with pytest.raises(Unavailable, match="has held"):
            waiting.acquire()
        waiting.close()
    assert sum(pauses) == pytest.approx(wait_seconds)
    assert all(0 < pause <= 0.02 for pause in pauses)
    assert wait_seconds < 1 or len(pauses) > 500  # after 0.1 s, pauses are short; after 1 s, one process holds the lock


# -- flushes to git


def test_idle_writer_flushes(git_dir, monkeypatch):
    monkeypatch.setattr(writing, "FLUSH_SECONDS", 0.05)
    store = GitStore.open(git_dir)
    oid = append(store, "one")
    wait_for(lambda: (git_dir / LEAF).exists() and (git_dir / LEAF).read_text() == f"{oid}\n")
    oid = append(store, "two")
    wait_for(lambda: (git_dir / LEAF).read_text() == f"{oid}\n")
    store.close()


def test_continuous_writer_is_flushed_too(git_dir, monkeypatch):
    monkeypatch.setattr(writing, "FLUSH_LATEST_SECONDS", 0.05)
    with GitStore.open(git_dir, flush_on_close=False) as store:
        append(store, "first")

        def goes_on() -> bool:
            append(store, "more")
            return (git_dir / LEAF).exists()

        wait_for(goes_on)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_that_appends_once_leaves_the_handing_over_to_others(git_dir):
    with GitStore.open(git_dir, flush_on_close=False) as store:
        append(store, "one")
    assert not (git_dir / LEAF).exists()
    with GitStore.open(git_dir) as store:
        assert line(store) == ["one"]
    assert (git_dir / LEAF).exists()


def test_many_entries_are_flushed_automatically(git_dir):
    with GitStore.open(git_dir) as store:
        for number in range(writing.FLUSH_RECORDS + 1):
            append(store, f"a.{number}")
        assert store.pending == 1
        append(store, "x" * (writing.FLUSH_BYTES // 2 - 5000))  # twice, as blob and in the message
        assert store.pending == 2
        append(store, "y" * 6000)
        assert store.pending == 0


def test_large_transaction_is_a_separate_pack_and_survives_a_repack(git_dir):
    texts = ["large " + "z" * writing.FLUSH_BYTES, "small"]
    with GitStore.open(git_dir, flush_on_close=False) as store:
        for text in texts:
            append(store, text)
        assert sum(path.stat().st_size for path in (git_dir / JOURNAL).iterdir()) < 5 << 20
        git(git_dir, "repack", "-a", "-d", "-q")
        assert line(store) == texts
    with GitStore.open(git_dir) as store:
        assert line(store) == texts
    sound(git_dir)


@pytest.mark.promise("P6")
@pytest.mark.parametrize("durability", ["entry", "turn", "none"])
def test_number_of_fsyncs(git_dir, monkeypatch, durability):
    calls = []
    for name in ("fsync", "fdatasync"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda fd, real=real, name=name: (calls.append(name), real(fd))[1])
    with GitStore.open(git_dir, durability=durability) as store:
        append(store, "one")
        store.flush()
        calls.clear()
        for number in range(10):
            append(store, f"a.{number}")
        assert calls == (["fdatasync"] * 10 if durability == "entry" else [])
        calls.clear()
        store.flush()
        assert len(calls) == (0 if durability == "none" else 7 + 2 * 1)
    sound(git_dir)


# -- errors of the system


def test_a_failed_flush_fails_no_append_and_is_made_up_for(git_dir, monkeypatch):
    with GitStore.open(git_dir) as store:
        monkeypatch.setattr(writing, "FLUSH_RECORDS", 3)
        store._writer._due_at = (3, writing.FLUSH_BYTES)
        monkeypatch.setattr(
            pack_writer, "write_pack", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left"))
        )
        for number in range(8):
            append(store, f"a.{number}")
        assert "No space left" in str(store.last_flush_error)
        assert store.pending == 8
        with pytest.raises(Unavailable, match="No space left"):
            store.flush()
        monkeypatch.undo()
        store.flush()
        assert (store.pending, store.last_flush_error) == (0, None)
        assert line(store) == [f"a.{number}" for number in range(8)]
    sound(git_dir)


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_full_disk_refuses_the_append_and_loses_nothing_else(git_dir, monkeypatch, call):
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with GitStore.open(git_dir) as store:
        append(store, "before")
        with monkeypatch.context() as patch:
            patch.setattr(os, call, full)
            for _ in range(3):
                with pytest.raises(Unavailable, match="No space left") as caught:
                    append(store, "never")
                assert "free some space" in caught.value.hint
                assert line(store) == ["before"]
        append(store, "after")
        assert line(store) == ["before", "after"]
    sound(git_dir)


def test_an_interrupt_between_disk_and_memory_leaves_them_agreed(git_dir, monkeypatch):
    with GitStore.open(git_dir) as store:
        append(store, "before")
        memory = store._writer.state.overlay
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(memory, "add", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            append(store, "interrupted")
        append(store, "after")
        assert line(store) == ["before", "interrupted", "after"]
    sound(git_dir)


def test_read_only_store_shows_pending_entries_and_rejects_writes(git_dir):
    with GitStore.open(git_dir, flush_on_close=False) as store:
        append(store, "pending")
    with GitStore.open(git_dir, read_only=True) as store:
        assert (store.read_only, store.pending, line(store)) == (True, 1, ["pending"])
        for write in (lambda: append(store, "more"), store.flush):
            with pytest.raises(Unavailable, match="read-only"):
                write()


def test_on_a_read_only_disk_a_store_is_read_only_of_itself(git_dir, monkeypatch):
    with GitStore.open(git_dir, flush_on_close=False) as store:
        append(store, "pending")
    real = os.open

    def read_only(path, flags, *rest, **options):
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise OSError(errno.EROFS, "Read-only file system")
        return real(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", read_only)
    with GitStore.open(git_dir) as store:
        assert (store.read_only, line(store)) == (True, ["pending"])
        with pytest.raises(Unavailable, match="read-only"):
            append(store, "more")


def test_closed_store_raises(git_dir):
    store = GitStore.open(git_dir)
    append(store, "one")
    store.close()
    store.close()
    with pytest.raises(Unavailable, match="closed"):
        store.ref(LEAF)
    with pytest.raises(Unavailable, match="closed"):
        append(store, "two")


def test_missing_object_is_searched_twice_and_then_reported(git_dir):
    with GitStore.open(git_dir) as store, pytest.raises(MissingObject):
        store.read("a" * 40)


def test_store_is_closed_after_its_threads_have_finished(git_dir):
    store = GitStore.open(git_dir, flush_on_close=False)
    began, goes_on = threading.Event(), threading.Event()

    def work() -> None:
        with store.transaction() as tx:
            oid = tx.put("blob", b"slow")
            began.set()
            assert goes_on.wait(120)
            tx.move("refs/heads/blob", oid, expected=None)

    thread = threading.Thread(target=work)
    thread.start()
    assert began.wait(120)
    closing = threading.Thread(target=store.close)
    closing.start()
    goes_on.set()
    thread.join()
    closing.join()
    with GitStore.open(git_dir) as again:
        assert again.ref("refs/heads/blob") == objects.oid_of("blob", b"slow")


def test_reader_does_not_keep_deleted_journal_files(git_dir, monkeypatch):
    with GitStore.open(git_dir) as store, GitStore.open(git_dir) as looker:
        append(store, "one")
        real = Journal.drop

        def looked_at(self: Journal, numbers: Sequence[int]) -> list[str]:
            monkeypatch.undo()
            assert line(looker) == ["one"]
            return real(self, numbers)

        monkeypatch.setattr(Journal, "drop", looked_at)
        store.flush()
        git(git_dir, "update-ref", LEAF, MAIN)
        assert looker.ref(LEAF) == store.ref(LEAF) == git(git_dir, "rev-parse", MAIN).strip()
        append(looker, "two", SIDE)
        looker.flush()
        assert looker.last_flush_error is None
    sound(git_dir)
