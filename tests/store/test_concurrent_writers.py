"""Tests with many writers of one session: every acknowledged entry is present once, in an order that all have seen."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from faults.invariants import sound
from figures import figure
from processes import beside, fork, together
from raw import LEAF, append, git

from gitsession import Message, Store
from gitsession.errors import LeafMoved
from gitsession.git.objects import oid_of
from gitsession.store import state
from gitsession.store.create import create
from gitsession.store.git_store import GitStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.git"


@pytest.fixture
def sid(path: Path) -> str:
    """Create a store with a started session, and return the session id."""
    with Store.create(path) as store:
        session = store.new_session(agent="agent")
        session.append(Message.user("begun"))
        store.catalogue()
        return session.id


def said(path: Path, sid: str) -> Counter[str]:
    """Return how often each entry is on any branch of the session, by its text."""
    with Store.open(path) as store:
        tree = store.session(sid).tree()
        assert not tree.gaps
        return Counter(node.subject.removeprefix("user: ") for node in tree.nodes.values())


def on_main(path: Path, sid: str) -> list[str]:
    with Store.open(path) as store:
        return [node.subject.removeprefix("user: ") for node in store.session(sid).history()]


def writer(path: Path, sid: str, name: str, entries: int) -> Callable[[], float]:
    """Return a function that appends and returns the duration of the longest append in seconds."""

    def work() -> float:
        longest = 0.0
        with Store.open(path) as store:
            session = store.session(sid)
            for number in range(entries):
                began = time.monotonic()
                session.append(Message.user(f"{name}.{number}"))
                longest = max(longest, time.monotonic() - began)
        return longest

    return work


def test_ids_of_objects_that_others_wrote_are_computed_when_one_is_needed(path, monkeypatch):
    create(path)
    computed = []
    with GitStore.open(path) as other, GitStore.open(path) as store:
        oids = [append(other, str(number)) for number in range(5)]
        monkeypatch.setattr(state, "oid_of", lambda kind, data: computed.append(kind) or oid_of(kind, data))
        assert store.ref(LEAF) == oids[-1]
        assert computed == []
        assert store.read(oids[-1])[0] == "commit"
        newest = len(computed)
        assert store.contains(oids[0])
        assert len(computed) == 5 * newest
        monkeypatch.undo()
        store.flush()
        assert not store.pending
    assert list(git(path, "rev-list", "--reverse", LEAF).split()) == oids


def test_object_is_found_while_another_thread_searches(path, monkeypatch):
    create(path)
    with GitStore.open(path) as other, GitStore.open(path) as store:
        oids = [append(other, str(number)) for number in range(2)]
        seen = []

        def look(kind, data):
            if not seen:
                seen.append(threading.Thread(target=lambda: seen.append(store.read(oids[-1])[0])))
                seen[0].start()
                time.sleep(0.01)
            return oid_of(kind, data)

        store.ref(LEAF)
        monkeypatch.setattr(state, "oid_of", look)
        assert store.read(oids[0])[0] == "commit"
        seen[0].join()
        assert seen[1] == "commit"


@pytest.mark.promise("P13", "P18")
@pytest.mark.parametrize(("writers", "entries"), [(2, 1000), (8, 500)])
def test_every_acknowledged_entry_is_present_and_no_writer_starves(
    path, sid, faults, record_property, writers, entries
):
    longest = together(*(writer(path, sid, str(name), entries) for name in range(writers)))
    texts = on_main(path, sid)
    for name in range(writers):
        of_one = [text for text in texts if text.startswith(f"{name}.")]
        assert of_one == [f"{name}.{number}" for number in range(entries)]
    assert len(texts) == writers * entries + texts.index("begun") + 1
    sound(path)
    faults.many(writers * entries)
    record_property("longest append of each writer in ms", sorted(round(1000 * each) for each in longest))
    print(f"{writers} writers of {entries}: the longest append took {1000 * max(longest):.0f} ms")


@pytest.mark.promise("P13")
def test_branch_that_git_moves_too_keeps_entries_of_both(path, faults):
    """Both sides compare and swap.

    If git moves the branch first, the store's branch continues under another name.
    """
    create(path)
    with GitStore.open(path) as store:
        append(store, "begun")
    entries = figure(300, 3000)
    git_was_first, both = fork.Event(), fork.Barrier(2)

    def ours(name: str) -> Callable[[], int]:
        def work() -> int:
            with GitStore.open(path) as store:
                for number in range(entries):
                    append(store, f"{name}.{number}")
                    if number == entries // 2 + 5:  # not flushed yet, and no flush runs until git has moved the ref
                        both.wait(120)
                        git_was_first.clear()
                        both.wait(120)
                        assert git_was_first.wait(120)
                    if number % 10 == 9:
                        store.flush()
                return len(store.renamed_branches)

        return work

    def theirs(over: Callable[[], bool]) -> list[str]:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        acknowledged = []
        for number in count():
            if over():
                return acknowledged
            seen = git(path, "rev-parse", LEAF)
            made = git(path, *who, "commit-tree", "-p", seen, "-m", f"git.{number}", f"{seen}^{{tree}}")
            swap = ["git", f"--git-dir={path}", "update-ref", LEAF, made, seen]
            if subprocess.run(swap, capture_output=True, check=False).returncode == 0:
                acknowledged.append(f"git.{number}")
                git_was_first.set()
        raise AssertionError

    with beside(theirs) as swapped:
        aside = together(ours("a"), ours("b"))
    wanted = [f"{name}.{number}" for name in "ab" for number in range(entries)] + swapped[0] + ["begun"]
    with GitStore.open(path) as store:
        tips = list(store.refs("refs/heads/sessions/").values())
    log = git(path, "log", "--format=%s", *tips).splitlines()
    assert Counter(log) == Counter(wanted)
    assert sum(aside) > 0, "git never came first"
    sound(path)
    faults.many(len(swapped[0]))


@pytest.mark.promise("P13")
@pytest.mark.parametrize("on_moved", ["fork", "refuse"])
def test_writer_with_an_outdated_tip_forks_or_fails(path, sid, faults, on_moved):
    rounds = figure(50, 1000)
    all_saw_it = fork.Barrier(4)

    def racer(name: str) -> Callable[[], list[str]]:
        def work() -> list[str]:
            acknowledged = []
            with Store.open(path) as store:
                for number in range(rounds):
                    session = store.session(sid)
                    leaf = session.on("main").leaf
                    all_saw_it.wait(120)
                    try:
                        session.on("main").append(Message.user(f"{name}.{number}"), expected=leaf, on_moved=on_moved)
                    except LeafMoved:
                        continue
                    acknowledged.append(f"{name}.{number}")
            return acknowledged

        return work

    acknowledged = [text for texts in together(*(racer(name) for name in "abcd")) for text in texts]
    there = said(path, sid)
    assert {text: times for text, times in there.items() if "." in text} == dict.fromkeys(acknowledged, 1)
    with Store.open(path) as store:
        branches = len(store.session(sid).branches())
    if on_moved == "fork":
        assert len(acknowledged) == 4 * rounds
        assert branches > 1
        faults.many(branches - 1)
    else:
        assert branches == 1
        assert len(acknowledged) == rounds
        faults.many(3 * rounds)
    sound(path)


@pytest.mark.promise("P19")
def test_threads_share_one_store_and_its_sessions(path, sid, faults):
    going = figure(60, 2000)
    failed: list[BaseException] = []
    with Store.open(path) as store:
        shared = store.session(sid)

        def work(name: str) -> None:
            try:
                session = shared if name in "abcd" else store.session(sid)
                for number in range(going):
                    node = session.append(Message.user(f"{name}.{number}"))
                    assert store.objects.contains(node.oid)
                    assert session.read(node).text == f"{name}.{number}"
                    if number % 20 == 19:
                        store.flush()
                    if number % 50 == 49:
                        assert node.oid in {each.oid for each in session.history()}
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcdefgh"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == []
    there = [text for text in on_main(path, sid) if "." in text]
    assert Counter(there) == Counter(f"{name}.{number}" for name in "abcdefgh" for number in range(going))
    sound(path)
    faults.many(8 * going)


@pytest.mark.promise("P16")
def test_processes_that_open_the_catalogue_for_the_first_time_wait_for_each_other(path, faults):
    rounds = figure(25, 500)
    for number in range(rounds):
        create(path.with_name(f"{number}.git"))
    barrier = fork.Barrier(4)

    def look() -> None:
        for number in range(rounds):
            barrier.wait(120)
            with Store.open(path.with_name(f"{number}.git")) as store:
                assert store.sessions() == []

    together(look, look, look, look)
    faults.many(rounds)


@pytest.mark.promise("P20")
def test_the_history_of_a_session_is_linearizable(path, sid, faults):
    """Check that one order of all appends and reads explains every result and does not contradict the clocks.

    Reading the tip identifies the whole history, because its oid is computed from every entry before it.
    """
    operations = figure(500, 5000)

    def client(name: str) -> Callable[[], list[tuple[str, int, int, str]]]:
        def work() -> list[tuple[str, int, int, str]]:
            history = []
            with Store.open(path) as store:
                session = store.session(sid)
                for number in range(operations):
                    kind = "read" if number % 3 == 2 else "append"
                    invoked = time.monotonic_ns()
                    if kind == "append":
                        oid = session.append(Message.user(f"{name}.{number}")).oid
                    else:
                        leaf = session.leaf
                        assert leaf is not None
                        oid = leaf.oid
                    history.append((kind, invoked, time.monotonic_ns(), oid))
                    if number % 50 == 49:
                        store.flush()
            return history

        return work

    history = [row for rows in together(*(client(name) for name in "abcd")) for row in rows]
    with Store.open(path) as store:
        place = {node.oid: at for at, node in enumerate(store.session(sid).history())}
    appended = [oid for kind, _, _, oid in history if kind == "append"]
    assert len(set(appended)) == len(appended)
    assert set(appended) <= set(place)
    assert len(place) == len(appended) + 2  # the root, and the first entry of the session
    assert anomalies(history, place) == []
    sound(path)
    faults.many(len(history))


def anomalies(history: list[tuple[str, int, int, str]], place: dict[str, int]) -> list[str]:
    """Return the operations with an outdated result, or with one that is not in the history.

    A result is outdated if an operation that ended before this one began has a newer result.
    """
    found = []
    ended = sorted((ok, place.get(oid, -1)) for _, _, ok, oid in history)
    highest, next_ended = -1, 0
    for kind, invoked, _, oid in sorted(history, key=lambda row: row[1]):
        while next_ended < len(ended) and ended[next_ended][0] < invoked:
            highest = max(highest, ended[next_ended][1])
            next_ended += 1
        at = place.get(oid, -1)
        if at < highest or (kind == "append" and at == highest):
            found.append(f"{kind} at {invoked} answered {at}, when {highest} had been answered before")
    return found


def test_an_order_that_a_clock_contradicts_is_found():
    place = {"a": 0, "b": 1}
    assert anomalies([("append", 0, 1, "a"), ("append", 2, 3, "b"), ("read", 4, 5, "b")], place) == []
    assert len(anomalies([("append", 0, 1, "b"), ("append", 2, 3, "a")], place)) == 1
    assert len(anomalies([("append", 0, 1, "a"), ("append", 2, 3, "b"), ("read", 4, 5, "a")], place)) == 1
    assert len(anomalies([("append", 0, 1, "a"), ("read", 2, 3, "lost")], place)) == 1
