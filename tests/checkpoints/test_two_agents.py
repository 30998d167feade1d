"""Tests of two agents with hooks in one workspace: attribution of changes, and a rewind of one of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from figures import figure
from hooks import Agent
from promises import Faults

from gitsession import Store
from gitsession.api import Session
from gitsession.live import spool

TWO = "22222222-2222-4333-8444-555555555555"
FILES = ("a", "b", "c", "d")


@dataclass
class Desk:
    """Two agents and a user at one workspace.

    ``said`` has the contents that each of the three wrote to a file, in order; None is a deletion.
    """

    one: Agent
    two: Agent
    said: dict[str, dict[str, list[str | None]]] = field(default_factory=lambda: {"one": {}, "two": {}, "user": {}})

    def agent(self, who: str) -> Agent:
        return self.one if who == "one" else self.two

    def write(self, who: str, name: str, content: str | None) -> None:
        path = self.one.workspace / name
        if content is not None:
            path.write_text(content)
        elif path.exists():
            path.unlink()
        else:
            return
        self.said[who].setdefault(name, []).append(content)

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.one.workspace.iterdir()}

    def session(self, store: Store, who: str) -> Session:
        [row] = [row for row in store.sessions() if row.source_id == self.agent(who).session]
        return store.session(row.sid)

    def rewind(self, who: str) -> dict[str, str]:
        """Rewind this agent to its first prompt, return the files, and check that undo restores everything."""
        before = self.files()
        with Store.open(self.one.store) as store:
            session = self.session(store, who)
            asked = next(node for node in session.history() if node.role == "user")
            session.files.rewind(session.files.plan_rewind(asked, workspace=self.one.workspace))
            after = self.files()
            store.undo(self.one.workspace)
            assert self.files() == before
            store.redo(self.one.workspace)
            assert self.files() == after
        return after


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return made(tmp_path)


def made(folder: Path) -> Desk:
    one = Agent(folder)
    found = Desk(one, Agent(folder, TWO, one.workspace))
    one.fill(**dict.fromkeys(FILES, "at first"))
    one.prompt("u1", "one's work")
    found.two.prompt("u1", "two's work")
    return found


def test_successive_calls_are_rewound_separately(desk: Desk) -> None:
    for who, name in (("one", "a"), ("two", "b")):
        desk.agent(who).calls("t1")
        desk.write(who, name, who)
        desk.agent(who).called("t1")
    desk.one.drain()
    assert desk.rewind("one") == {"a": "at first", "b": "two", "c": "at first", "d": "at first"}
    assert desk.rewind("two") == dict.fromkeys(FILES, "at first")


@pytest.mark.parametrize("who", ["one", "two"])
@pytest.mark.parametrize("first", ["one", "two"])
def test_change_seen_by_two_concurrent_calls_is_kept(desk: Desk, who: str, first: str) -> None:
    desk.one.calls("t1")
    desk.two.calls("t1")
    desk.write("one", "a", "one")
    desk.write("two", "b", "two")
    desk.agent(first).called("t1")
    desk.agent("two" if first == "one" else "one").called("t1")
    desk.one.drain()
    assert desk.rewind(who) == {"a": "one", "b": "two", "c": "at first", "d": "at first"}


def test_others_change_within_a_call_is_kept_and_unseen_changes_are_undone(desk: Desk) -> None:
    desk.one.calls("t1")
    desk.two.calls("t1")
    desk.write("two", "b", "two")
    desk.two.called("t1")
    desk.write("one", "a", "one")
    desk.one.called("t1")
    desk.one.drain()
    assert desk.rewind("one") == {"a": "at first", "b": "two", "c": "at first", "d": "at first"}


def test_shared_change_is_not_undone_beyond_the_other_agent(desk: Desk) -> None:
    desk.one.calls("t1")
    desk.two.calls("t1")
    desk.write("two", "b", "two")
    desk.two.called("t1")
    desk.one.called("t1")
    desk.one.calls("t2")
    desk.write("one", "b", "two, and one")
    desk.one.called("t2")
    desk.one.drain()
    assert desk.rewind("one")["b"] == "two, and one"


def test_others_change_within_an_overwriting_call_is_not_undone(desk: Desk) -> None:
    desk.one.calls("t1")
    desk.two.calls("t1")
    desk.write("two", "b", "two")
    desk.two.called("t1")
    desk.write("one", "b", "two, and one")
    desk.one.called("t1")
    desk.one.drain()
    assert desk.rewind("one")["b"] == "two, and one"
    assert desk.rewind("two")["b"] == "two, and one"


def test_earlier_change_that_the_other_agent_reverted_does_not_block_a_rewind(desk: Desk) -> None:
    desk.two.calls("t1")
    desk.write("two", "b", "two")
    desk.two.called("t1")
    desk.one.drain()
    assert desk.rewind("two")["b"] == "at first"
    desk.one.calls("t1")
    desk.write("one", "b", "one")
    desk.one.called("t1")
    desk.one.drain()
    assert desk.rewind("one")["b"] == "at first"


@pytest.mark.promise("P41")
@pytest.mark.parametrize("seed", range(figure(12, 400)))
def test_rewind_of_one_agent_keeps_the_work_of_the_others(tmp_path: Path, faults: Faults, seed: int) -> None:
    """The user only writes while no call runs, because such changes look like those of the call."""
    chance = random.Random(seed)
    desk, running, alone = made(tmp_path), {"one": "", "two": ""}, set(FILES)
    for number in range(24):
        who = chance.choice(["one", "two", "user"])
        if who != "user" and (not running[who] or chance.random() < 0.3):
            if running[who]:
                desk.agent(who).called(running[who])
                running[who] = ""
            else:
                running[who] = f"t{number}"
                desk.agent(who).calls(running[who])
        elif who != "user" or not any(running.values()):
            name = chance.choice(FILES)
            desk.write(who, name, None if chance.random() < 0.2 else f"{who} {number}")
            if all(running.values()):
                alone.discard(name)  # the other agent captures it too
    for who, call in running.items():
        if call:
            desk.agent(who).called(call)
    desk.one.drain()
    assert spool.failures(str(desk.one.store)) == []
    rewound = chance.choice(["one", "two"])
    others = {who: said for who, said in desk.said.items() if who != rewound}
    before = desk.files()
    after = desk.rewind(rewound)
    for name in FILES:
        theirs = [said[name] for said in others.values() if name in said]
        if theirs and name in before:
            assert after.get(name) in (before[name], *(made[-1] for made in theirs)), name
        elif theirs:  # a file that was deleted while the other captured it may return, which loses no data
            assert after.get(name) in (None, *(each for made in theirs for each in made)), name
        elif name in alone:
            assert after.get(name) == "at first", name
    faults.many(1)
