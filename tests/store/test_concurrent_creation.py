"""Tests of concurrent creation: if two processes create the same name, branch or store, one succeeds and one fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from faults.invariants import sound
from figures import figure
from processes import fork, together
from raw import append

from gitsession import Message, Store
from gitsession.cli import app as command_line
from gitsession.errors import RefMoved, Refused
from gitsession.store.create import create
from gitsession.store.git_store import GitStore

InStep = Callable[[int, Callable[[int], Any]], Callable[[], list[Any]]]


@pytest.fixture
def in_step() -> InStep:
    """Run two processes round by round at the same time, and return the results of each round."""
    barrier = fork.Barrier(2)

    def made(rounds: int, act: Callable[[int], Any]) -> Callable[[], list[Any]]:
        def work() -> list[Any]:
            answers = []
            for number in range(rounds):
                barrier.wait(120)
                answers.append(act(number))
            return answers

        return work

    return made


@pytest.mark.promise("P14")
def test_one_of_two_concurrent_processes_gets_a_name(tmp_path, in_step, faults):
    path, rounds = tmp_path / "store.git", figure(2000, 50_000)
    create(path)
    ahead = {"first": fork.Event(), "second": fork.Event()}  # rounds 1 and 2 have an order; others race

    def creator(mine: str) -> Callable[[], list[bool]]:
        opened: dict[str, GitStore] = {}

        def take(number: int) -> bool:
            store = opened.get("store") or opened.setdefault("store", GitStore.open(path, durability="none"))
            before = list(ahead)[number] if number < 2 else mine
            if before != mine:
                assert ahead[before].wait(120)
            try:
                with store.transaction() as transaction:
                    blob = transaction.put("blob", mine.encode())
                    transaction.move(f"refs/tags/t{number}", blob, expected=None)
            except RefMoved:
                return False
            if number < 2:
                ahead[mine].set()
            return True

        return in_step(rounds, take)

    first, second = together(creator("first"), creator("second"))
    assert [a + b for a, b in zip(first, second, strict=True)] == [1] * rounds
    with GitStore.open(path) as store:
        store.flush()
        for number in range(rounds):
            oid = store.ref(f"refs/tags/t{number}")
            assert oid is not None
            assert store.read(oid)[1] == (b"first" if first[number] else b"second")
    assert (first[0], first[1]) == (True, False)
    faults.many(rounds)


@pytest.mark.promise("P14")
def test_one_of_two_concurrent_processes_creates_a_branch(tmp_path, in_step, faults):
    path, rounds = tmp_path / "store.git", figure(50, 2000)
    with Store.create(path) as store:
        session = store.new_session(agent="agent")
        session.append(Message.user("begun"))
        sid = session.id
        store.catalogue()

    def creator(mine: str) -> Callable[[], list[bool]]:
        opened: dict[str, Store] = {}

        def take(number: int) -> bool:
            store = opened.get("store") or opened.setdefault("store", Store.open(path))
            try:
                store.session(sid).branch(f"b{number}").append(Message.user(f"{mine} {number}"))
            except Refused:
                return False
            return True

        return in_step(rounds, take)

    first, second = together(creator("first"), creator("second"))
    assert [a + b for a, b in zip(first, second, strict=True)] == [1] * rounds
    with Store.open(path) as store:
        for number in range(rounds):
            leaf = store.session(sid).on(f"b{number}").leaf
            assert leaf is not None
            assert leaf.subject == f"user: {'first' if first[number] else 'second'} {number}"
    sound(path)
    faults.many(rounds)


@pytest.mark.promise("P14")
def test_concurrent_creators_get_one_store(tmp_path, in_step, faults):
    """``create`` accepts an existing store, so both processes continue with the same one."""
    rounds = figure(15, 1000)

    def creator(name: str) -> Callable[[], list[str]]:
        def make(number: int) -> str:
            with Store.create(tmp_path / f"{number}.git") as store:
                session = store.new_session(agent=name)
                session.append(Message.user(name))
                return session.id

        return in_step(rounds, make)

    first, second = together(creator("first"), creator("second"))
    for number in range(rounds):
        with Store.open(tmp_path / f"{number}.git") as store:
            assert {row.sid for row in store.sessions()} == {first[number], second[number]}
        sound(tmp_path / f"{number}.git")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{number}.git" for number in range(rounds))
    faults.many(rounds)


@pytest.mark.promise("P14")
def test_two_inits_and_two_branches_by_command(tmp_path, in_step, faults, monkeypatch):
    rounds = figure(10, 300)
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "main.git"))
    with Store.create(tmp_path / "main.git") as store:
        session = store.new_session(agent="agent")
        session.append(Message.user("begun"))
        sid = session.id

    def commands(number: int) -> tuple[int, int]:
        return (
            command_line.run(["--store", str(tmp_path / f"{number}.git"), "init"]),
            command_line.run(["branch", sid, f"b{number}"]),
        )

    first, second = together(in_step(rounds, commands), in_step(rounds, commands))
    for number in range(rounds):
        inits, branches = zip(first[number], second[number], strict=True)
        assert inits == (0, 0)
        assert Counter(branches) == Counter((0, 4))
    with GitStore.open(tmp_path / "main.git") as objects:
        append(objects, "still here")
    faults.many(2 * rounds)
