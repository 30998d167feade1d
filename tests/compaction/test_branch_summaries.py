"""Tests of summaries of abandoned branches (rules 30 and 31), and of the need for a compaction (rule 16)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from builders import Clock, assert_clean

from gitsession.api import Session, Store
from gitsession.compaction.branch_summary import entries_since_common_ancestor
from gitsession.compaction.plan import CompactionRequest
from gitsession.compaction.summary import Request, Summary
from gitsession.compaction.trigger import is_overflow, retry_once
from gitsession.compaction.write_summary import SummaryOptions
from gitsession.errors import SummaryFailed
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import BranchSummary, Compaction, Message
from gitsession.sessions.node import Node

LONG = "x" * 400


class Short:
    def summarise(self, request: Request, **_: Any) -> Summary:
        assert request.kind == "branch"
        return Summary("tried it")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        made = store.new_session(agent="test", cwd="/work")
        for number in range(3):
            made.append(Message.user(f"u{number} {LONG}"))
            made.append(Message.assistant(f"a{number} {LONG}"))
        yield made
        assert_clean(store.objects)


def named(session: Session, words: str) -> Node:
    return next(node for node in session.history() if f": {words}" in node.subject)


def said_by(session: Session, to: Node, **how: Any) -> list[str]:
    plan = session.compaction.plan_leaving(to, **how)
    return [item.entry.text[:2] for item in plan.history if isinstance(item.entry, Message)]


def test_rule_30_messages_after_the_common_ancestor_are_summarized(session: Session) -> None:
    side = session.branch("side", at=named(session, "a0"))
    side.append(Message.user("s0"))
    assert said_by(session, side.history()[-1]) == ["u1", "a1", "u2", "a2"]
    assert said_by(side, session.history()[-1]) == ["s0"]


def test_rule_30_summary_includes_that_of_an_earlier_compaction(session: Session) -> None:
    to = named(session, "a0")
    session.append(Compaction(summary="sum"))
    session.append(Message.user("after"))
    kinds = [item.entry.kind for item in session.compaction.plan_leaving(to).history]
    assert kinds == ["message"] * 4 + ["compaction", "message"]


def test_rule_30_on_the_way_to_an_entry_ahead_nothing_is_left(session: Session) -> None:
    assert session.on("main").compaction.plan_leaving(session.history()[-1]).nothing


@pytest.mark.parametrize("seed", range(100))
def test_rule_30_wherever_two_ways_part_one_finds_the_place(seed: int) -> None:
    chance = random.Random(seed)
    parents: dict[int, int | None] = {0: None}
    for number in range(1, chance.randint(2, 30)):
        parents[number] = chance.randrange(max(0, number - 4), number)

    def back(at: int | None) -> Iterator[Any]:
        while at is not None:
            yield SimpleNamespace(oid=str(at))
            at = parents[at]

    here, there = chance.choice(list(parents)), chance.choice(list(parents))
    shared = {node.oid for node in back(there)}
    found = entries_since_common_ancestor(Ways(lambda: back(here)), Ways(lambda: back(there)))  # type: ignore[arg-type]
    assert [node.oid for node in found] == [node.oid for node in back(here) if node.oid not in shared][::-1]


class Ways(NamedTuple):
    """A history that can only be read backwards from its tip."""

    back: Callable[[], Iterator[Any]]


def test_summary_is_placed_where_the_work_continues_and_names_its_entries(session: Session) -> None:
    to, left, before = named(session, "a0"), session.history()[-1], session.history()
    node = session.compact(session.compaction.plan_leaving(to), SummaryOptions(summarizer=Short()))
    assert node is not None
    entry = session.read(node)
    assert isinstance(entry, BranchSummary)
    assert (entry.summary, node.parent, node.second_parent) == ("tried it", to.oid, left.oid)
    assert session.leaf == node
    assert session.on("main").history() == before


def test_compaction_continues_the_branch_that_ends_there(session: Session) -> None:
    session.branch("side", at=named(session, "a0")).append(Message.user(f"s0 {LONG}"))
    session.compact(session.compaction.plan_leaving("side"), SummaryOptions(summarizer=Short()))
    assert session.branch_name == "side"
    assert sorted(session.branches()) == ["main", "side"]


def test_failed_summary_does_not_move_the_branch(session: Session) -> None:
    class Fails:
        def summarise(self, request: Request, **_: Any) -> Summary:
            raise RuntimeError

    branches = session.branches()
    with pytest.raises(SummaryFailed):
        session.compact(session.compaction.plan_leaving(named(session, "a0")), SummaryOptions(summarizer=Fails()))
    assert (session.branches(), session.branch_name) == (branches, "main")


def test_rule_31_results_are_left_out_and_the_newest_that_fit_are_taken(session: Session) -> None:
    to = named(session, "a0")
    call = ToolCall("1", "read", {"path": "seen.py"})
    session.append(Message.assistant([call]))
    session.append(Message.tool(call, LONG))
    assert said_by(session, to) == ["u1", "a1", "u2", "a2", ""]
    assert said_by(session, to, window=16_384 + 250) == ["u2", "a2", ""]


def test_rule_31_a_summary_that_does_not_fit_is_taken_while_there_is_a_tenth_left(session: Session) -> None:
    to = named(session, "a0")
    session.append(BranchSummary(summary=LONG * 10))
    session.append(Message.user(f"u3 {LONG}"))
    taken = session.compaction.plan_leaving(to, window=16_384 + 250).history
    assert [item.entry.kind for item in taken] == ["branch_summary", "message"]
    taken = session.compaction.plan_leaving(to, window=16_384 + 105).history
    assert [item.entry.kind for item in taken] == ["message"]


def test_rule_31_files_of_all_summaries_and_of_summarized_calls_are_listed(
    session: Session,
) -> None:
    to = named(session, "a0")
    session.append(BranchSummary(summary="sum", read_files=("nested.py",)))
    for name in ("far.py", "at.py", "near.py"):
        call = ToolCall(name, "edit", {"path": name})
        session.append(Message.assistant([call]))
        session.append(Message.user(f"{name} {LONG}"))
    files = session.compaction.plan_leaving(to, window=16_384 + 230).files
    assert files.read == ("nested.py",)
    assert files.modified == ("at.py", "near.py")


# ---- need for a compaction


def full(session: Session, tokens: int) -> None:
    usage = {"input": tokens, "output": 0, "totalTokens": tokens}
    session.append(Message.assistant("done", usage=usage))


def test_rule_16_it_is_due_when_less_than_the_reserve_is_left(session: Session) -> None:
    full(session, 100_000 - 16_384)
    assert not session.compaction.is_due(100_000)
    full(session, 100_000 - 16_383)
    assert session.compaction.is_due(100_000)
    assert not session.compaction.is_due(100_000, reserve=0)


def test_rule_17_omp_reserves_a_share_of_a_large_window(session: Session) -> None:
    full(session, 160_000)
    assert not session.compaction.is_due(180_000)
    assert session.compaction.is_due(180_000, profile="omp")


def test_rule_16_never_twice_without_an_answer_in_between(session: Session) -> None:
    full(session, 100_000)
    session.append(Compaction(summary="x" * 400_000))
    assert not session.compaction.is_due(100_000)
    session.append(Message.user("go on"))
    session.append(Message.assistant("", stop="error"))
    assert not session.compaction.is_due(100_000)
    full(session, 100_000)
    assert session.compaction.is_due(100_000)


def test_model_that_always_reports_overflow_is_compacted_once(session: Session) -> None:
    compactions = 0
    for number in range(20):
        session.append(Message.user(f"go on, {number}"))
        full(session, 95_000)
        if session.compaction.is_due(100_000):
            plan = session.compaction.plan(request=CompactionRequest(keep_tokens=200))
            compactions += not plan.nothing
            session.compact(plan)
    assert compactions == 1


class Overflow(Exception):
    pass


@pytest.mark.parametrize(
    ("fails", "helps", "sent", "raises"),
    [(0, True, 1, False), (1, True, 2, False), (2, True, 2, True), (1, False, 1, True)],
    ids=["it fits", "compacted, it fits", "compacted, it still does not", "nothing to compact"],
)
def test_rule_16_an_overflow_is_compacted_for_and_tried_again_once(
    fails: int, helps: bool, sent: int, raises: bool
) -> None:
    tries: list[int] = []

    def send() -> str:
        tries.append(1)
        if len(tries) <= fails:
            raise Overflow("prompt is too long: 200001 tokens > 200000 maximum")
        return "ok"

    if raises:
        with pytest.raises(Overflow):
            retry_once(send, lambda: helps)
    else:
        assert retry_once(send, lambda: helps) == "ok"
    assert len(tries) == sent


@pytest.mark.parametrize(
    ("words", "is_one"),
    [
        ("prompt is too long: 200001 tokens > 200000 maximum", True),
        ("This model's maximum context length is 128000 tokens", True),
        ("Your input exceeds the context window of this model", True),
        ("rate limit reached", False),
        ("invalid api key", False),
    ],
)
def test_overflow_is_recognized_by_its_message(words: str, is_one: bool) -> None:
    assert is_overflow(RuntimeError(words)) == is_one
