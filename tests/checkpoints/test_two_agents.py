"""Two agents at work in one workspace, each with hooks: who has made which change, and what a rewind of one leaves."""

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
    """``said``: what each of the three made of a file, one after the other; None: took it away."""

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
        """To what this agent was first asked; the files then. Undone, everything is as it was."""
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


def test_calls_one_after_the_other_are_each_taken_back_alone(desk: Desk) -> None:
    for who, name in (("one", "a"), ("two", "b")):
        desk.agent(who).calls("t1")
        desk.write(who, name, who)
        desk.agent(who).called("t1")
    desk.one.drain()
    assert desk.rewind("one") == {"a": "at first", "b": "two", "c": "at first", "d": "at first"}
    assert desk.rewind("two") == dict.fromkeys(FILES, "at first")


@pytest.mark.parametrize("who", ["one", "two"])
@pytest.mark.parametrize("first", ["one", "two"])
def test_what_both_saw_in_calls_at_one_time_stays_whoever_is_rewound(desk: Desk, who: str, first: str) -> None:
    desk.one.calls("t1")
    desk.two.calls("t1")
    desk.write("one", "a", "one")
    desk.write("two", "b", "two")
    desk.agent(first).called("t1")
    desk.agent("two" if first == "one" else "one").called("t1")
    desk.one.drain()
    assert desk.rewind(who) == {"a": "one", "b": "two", "c": "at first", "d": "at first"}


def test_what_the_other_wrote_within_a_call_stays_and_what_it_did_not_see_goes_back(desk: Desk) -> None:
    desk.one.calls("t1")
    desk.two.calls("t1")
    desk.write("two", "b", "two")
    desk.two.called("t1")
    desk.write("one", "a", "one")
    desk.one.called("t1")
    desk.one.drain()
    assert desk.rewind("one") == {"a": "at first", "b": "two", "c": "at first", "d": "at first"}


def test_what_one_went_on_with_after_both_had_seen_it_is_not_taken_back_beyond_the_other(desk: Desk) -> None:
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


def test_what_the_other_wrote_within_a_call_that_then_wrote_over_it_is_not_taken_back(desk: Desk) -> None:
    desk.one.calls("t1")
    desk.two.calls("t1")
    desk.write("two", "b", "two")
    desk.two.called("t1")
    desk.write("one", "b", "two, and one")
    desk.one.called("t1")
    desk.one.drain()
    assert desk.rewind("one")["b"] == "two, and one"
    assert desk.rewind("two")["b"] == "two, and one"


def test_what_the_other_wrote_and_took_back_before_is_in_nobodys_way(desk: Desk) -> None:
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
def test_whatever_two_agents_and_the_user_do_a_rewind_of_one_loses_nobody_elses_work(
    tmp_path: Path, faults: Faults, seed: int
) -> None:
    """The user writes where no call runs: what is written while one does cannot be told from what it wrote."""
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
                alone.discard(name)  # the other sees it too
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
        elif theirs:  # what somebody took away while the other looked may come back: nothing is lost by that
            assert after.get(name) in (None, *(each for made in theirs for each in made)), name
        elif name in alone:
            assert after.get(name) == "at first", name
    faults.many(1)
