"""Tests of git's own maintenance beside writers and readers: no data is lost and no ref moves back."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from itertools import count
from pathlib import Path
from time import sleep

import pytest
from faults.invariants import sound
from figures import figure
from processes import after, beside, fork, looping, together
from raw import LEAF, append, git

from gitsession import Message, Store
from gitsession.errors import GitSessionError
from gitsession.git import objects
from gitsession.git.ref_files import RefReader
from gitsession.git.ref_writer import RefWriter
from gitsession.store.create import MAIN, PROOFS, create
from gitsession.store.git_store import GitStore

GC = ("gc", "-q")
REPACK = ("repack", "-a", "-d", "-q")
PACK_REFS = ("pack-refs", "--all")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create(tmp_path / "store.git")
    return tmp_path / "store.git"


def number_of(subject: bytes) -> int:
    return int(subject.rsplit(b".", 1)[1])


def read_as_store(path: Path) -> Callable[[Callable[[], bool]], int]:
    """Return a reader of the tip's commit, tree and payload, and at times of its history.

    It returns the number of reads.
    """

    def read(over: Callable[[], bool]) -> int:
        reads = highest = 0
        with GitStore.open(path, read_only=True) as store:
            while not over():
                oid: str | None = store.ref(LEAF)
                reads += 1
                assert oid is not None
                for depth in range(1 + 50 * (reads % 20 == 0)):
                    commit = objects.parse_commit(store.read(oid)[1])
                    [(_, _, blob)] = objects.parse_tree(store.read(commit.tree)[1])
                    assert store.read(blob)[1] == commit.message
                    reads += 3
                    if depth == 0:
                        assert number_of(commit.message) >= highest, "the leaf went back"
                        highest = number_of(commit.message)
                    if not commit.parents:
                        break
                    oid = commit.parents[0]
        return reads

    return read


class CatFile:
    """One `git cat-file --batch` process that keeps running inside the ``with`` block."""

    def __init__(self, path: Path) -> None:
        words = ["git", f"--git-dir={path}", "cat-file", "--batch"]
        self._child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> CatFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.communicate()

    def ask(self, names: list[str]) -> list[bytes]:
        """Return the contents of the object for each name."""
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write("".join(f"{name}\n" for name in names).encode())
        self._child.stdin.flush()
        found = []
        for name in names:
            head = self._child.stdout.readline().split()
            assert len(head) == 3, f"git finds no {name}: {head}"
            found.append(self._child.stdout.read(int(head[2]) + 1)[:-1])
        return found


def read_as_git(path: Path) -> Callable[[Callable[[], bool]], int]:
    """Return a reader that starts one `git cat-file` for all names, checks each object, and counts its reads.

    The objects must be complete. The tip that git reads when it starts must never move back. The tips that it reads
    later may come from a ``packed-refs`` that was replaced (``test_git_itself_serves_a_packed_ref_...``).
    """
    asked = [LEAF, f"{LEAF}:entry.cbor", f"{LEAF}^{{tree}}", f"{LEAF}~1"] * 25
    highest = 0

    def read(over: Callable[[], bool]) -> int:
        nonlocal highest
        reads = 0
        with CatFile(path) as child:
            while not over():
                leaves = [number_of(objects.parse_commit(data).message) for data in child.ask(asked)[::4]]
                assert reads or leaves[0] >= highest, "the leaf went back"
                highest = max(highest, *leaves)
                reads += len(asked)
        return reads

    return read


def test_git_itself_serves_a_packed_ref_that_was_replaced_within_a_second(path):
    """Show that git alone can return an old tip in a long-running `git cat-file`. gitsession does not write here.

    git keeps a ``packed-refs`` of up to 32 KiB in memory while its size, inode and times in whole seconds are the same.
    A file that is replaced twice within a second can have the same values again.
    """
    with GitStore.open(path) as store:
        oids = [append(store, f"a.{number}") for number in range(3)]
    ref = "refs/heads/alone"

    def pack(oid: str) -> tuple[int, int, int]:
        replacement = path / "packed-refs.new"
        replacement.write_text(f"# pack-refs with: peeled fully-peeled sorted \n{oid} {ref}\n")
        replacement.rename(path / "packed-refs")
        found = (path / "packed-refs").stat()
        return found.st_ino, int(found.st_mtime), int(found.st_ctime)

    for _ in range(50):
        first = pack(oids[0])
        with CatFile(path) as child:
            [before] = child.ask([ref])
            pack(oids[1])
            looks_the_same = pack(oids[2]) == first
            [after_both] = child.ask([ref])
        assert git(path, "rev-parse", ref) == oids[2]
        if looks_the_same and after_both == before:
            return
    pytest.skip("inodes are not used again here, or this git tells such files apart")


@pytest.mark.promise("P15", "P16")
def test_tip_reaches_whole_objects_and_never_moves_back(path, faults):
    wanted = figure(100_000, 10_000_000)

    def write(over: Callable[[], bool]) -> int:
        with GitStore.open(path) as store:
            for number in count(2):
                if over():
                    return number
                append(store, f"a.{number}")
                if number % 16 == 0:
                    store.flush()
        raise AssertionError

    def read_enough(read: Callable[[Callable[[], bool]], int], share: int) -> Callable[[], int]:
        def work() -> int:
            reads = 0
            while reads < share:
                reads += read(after(0.5))
            return reads

        return work

    with GitStore.open(path) as store:
        append(store, "a.0")
        append(store, "a.1")
    with beside(write, looping(path, GC, REPACK, PACK_REFS)) as done:
        reads = together(read_enough(read_as_store(path), wanted * 2 // 3), read_enough(read_as_git(path), wanted // 3))
    assert sum(reads) >= wanted
    sound(path)
    written, commands = done
    print(f"{sum(reads):,} reads beside {written:,} entries and {commands} commands of git")
    faults.many(commands)


@pytest.mark.promise("P16")
@pytest.mark.parametrize(
    "command", [GC, REPACK, PACK_REFS, ("gc", "-q", "--prune=now")], ids=lambda words: " ".join(words[:2] + words[-1:])
)
def test_git_commands_of_the_user_beside_writers_lose_nothing(path, faults, command):
    """The commands include `git gc --prune=now`.

    Unreachable objects are in the journal, or in a pack that a ``.keep`` file protects.
    """
    with Store.open(path) as store:
        session = store.new_session(agent="agent")
        session.append(Message.user("begun"))
        sid = session.id

    def write(name: str) -> Callable[[], int]:
        def work() -> int:
            over = after(figure(1, 20))
            with Store.open(path) as store:
                session = store.session(sid).on("main")  # otherwise a branch that the other process made may be active
                for number in count():
                    if over():
                        return number
                    text = f"{name}.{number}"
                    session.append(Message.user(text + " " * (1 << 20 if number % 100 == 50 else 0)))
                    if number % 30 == 29:
                        session.branch(f"{name}{number}", "leaf~5")
                        session.on(f"{name}{number}").append(Message.user("beside"))
                    if number % 10 == 9:
                        store.flush()
            raise AssertionError

        return work

    with beside(looping(path, command)) as done:
        entries = together(write("a"), write("b"))
    with Store.open(path) as store:
        line = [node.subject.removeprefix("user: ") for node in store.session(sid).on("main").history()]
        wanted = [f"{name}.{number}" for name, each in zip("ab", entries, strict=True) for number in range(each)]
        assert sorted(text for text in line if "." in text) == sorted(wanted)
        report = store.verify()
        assert (report.problems, report.whole) == ([], True)
    sound(path)
    print(f"{sum(entries):,} entries beside {done[0]} times git {' '.join(command)}")
    faults.many(done[0])


@pytest.mark.promise("P16")
def test_undone_entries_can_be_redone_after_git_deleted_unreachable_objects(path, faults):
    with Store.open(path) as store:
        session = store.new_session(agent="agent")
        session.append(Message.user("begun"))
        session.branch("side")
        session.on("side").append(Message.user("only here"))
        session.rename("Named")
        store.flush()
        before = git(path, "rev-parse", LEAF.replace("s1", session.id).replace("main", "meta"))
        store.undo()
        store.flush()
        with faults.one():
            git(path, "-c", "gc.reflogExpire=now", "gc", "-q", "--prune=now")
            store.redo()
            store.flush()
            assert git(path, "rev-parse", LEAF.replace("s1", session.id).replace("main", "meta")) == before
    sound(path)


@pytest.mark.promise("P17")
def test_deletion_of_branches_moves_no_other_ref_back(path, faults):
    """One process moves refs, one deletes its own by undo, and git deletes others and packs the rest."""
    watched, other = [f"refs/heads/sessions/s{number}/main" for number in range(12)], "refs/heads/other"
    has_undone = fork.Event()

    def move() -> int:
        over = after(figure(2, 20))
        reader = RefReader(path)
        ends: dict[str, str] = {}
        with GitStore.open(path) as store:
            for number in count():
                if number and over() and has_undone.is_set():
                    return number
                for name in watched[number % 4 :: 4]:
                    ends[name] = append(store, f"a.{number}", name)
                store.flush()
                found = reader.list("refs/heads/sessions/s")
                assert {name: found.get(name) for name in ends} == ends, "a ref went back"
                assert store.renamed_branches == []
        raise AssertionError

    def make_and_undo(over: Callable[[], bool]) -> int:
        reader = RefReader(path)
        with Store.open(path) as store:
            session = store.new_session(agent="agent")
            session.append(Message.user("begun"))
            gone = LEAF.replace("s1", session.id).replace("main", "gone")
            for number in count():
                assert reader.read(gone) is None, "a branch that was taken away is back"
                if over():
                    return number
                # A new value: git may lose a ref that gets its old value again while git packs refs (reliability.md).
                session.append(Message.user(str(number)))
                session.branch("gone")
                store.flush()
                store.undo()
                store.flush()
                while store.objects.last_flush_error is not None:  # git was packing refs
                    store.flush()
                has_undone.set()
        raise AssertionError

    delete_as_git = looping(path, ("update-ref", other, MAIN), ("update-ref", "-d", other), may_fail=True)
    with beside(make_and_undo, delete_as_git, looping(path, PACK_REFS, may_fail=True)) as done:
        [moved] = together(move)
    assert min(done[0], moved) > 0
    sound(path)
    print(f"{moved} rounds of moves beside {done[0]} undone branches and {done[1] // 2} deleted by git")
    faults.many(done[0] + done[1] // 2)


@pytest.mark.promise("P17")
def test_deleted_ref_stays_deleted_while_git_packs_refs(path, faults):
    """Create and delete a ref within the time of one `git pack-refs`, which sometimes has read it in between."""

    def make_and_delete() -> tuple[int, int]:
        over, reader = after(figure(3, 60)), RefReader(path)
        writer, oid = RefWriter(path, path / PROOFS, reader), reader.read(MAIN)
        assert oid is not None
        held_up = 0
        for number in count():
            if number and over():
                return number, held_up
            assert writer.move(LEAF, oid, expected={None})
            sleep(number % 7 / 500)
            while writer.delete({LEAF: {oid}}) != {}:
                held_up += 1
            sleep(0.02 * (number % 3 == 0))  # enough time for the git that has read the ref to write it
            assert reader.read(LEAF) is None, f"the {number}th is back"
        raise AssertionError

    with beside(looping(path, PACK_REFS, may_fail=True)) as done:
        [(deleted, held_up)] = together(make_and_delete)
    sound(path)
    print(f"{deleted:,} refs deleted beside {done[0]:,} times git pack-refs, which held up {held_up}")
    faults.many(deleted)


def test_a_reader_that_stumbles_is_noticed(path):
    """Check that the readers of the tests above detect errors."""
    with GitStore.open(path) as store:
        _, before, _ = [append(store, f"a.{number}") for number in range(3)]
    read = read_as_git(path)
    read(iter([False, True]).__next__)
    git(path, "update-ref", LEAF, before)
    with pytest.raises(AssertionError, match="went back"):
        read(iter([False, True]).__next__)
    with pytest.raises(GitSessionError), GitStore.open(path) as store:
        store.read("1" * 40)
