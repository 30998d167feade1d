"""Tests of a provider's token count from before a compaction: it is reported as outdated and causes no loop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import Clock

from gitsession.api import Session, Store
from gitsession.cli import app as command_line
from gitsession.compaction.plan import CompactionRequest
from gitsession.model.blocks import Text, ToolCall
from gitsession.model.entries import Message, Prune

OLD_RULE = ["omp", "pi-0.73"]
"""Profiles that count the entries a compaction kept as the size of the context."""

WINDOW = 200_000
FULL = 199_000
USAGE = {"totalTokens": FULL, "contextTokens": FULL}
LONG = "Some words about what was to be done. " * 30


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Create a long session, full by its provider's count, with a later compaction."""
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        begun = store.new_session(agent="mine")
        for number in range(8):
            begun.append(Message.user(f"request {number}: {LONG}"))
            begun.append(Message.assistant(f"answer {number}: {LONG}", usage=USAGE))
        yield begun


def compact(session: Session, profile: str) -> None:
    plan = session.compaction.plan(profile=profile, request=CompactionRequest(keep_tokens=1_000))
    assert session.compact(plan) is not None


@pytest.mark.parametrize("profile", ["pi", *OLD_RULE])
def test_a_count_of_this_very_context_is_exact(session: Session, profile: str) -> None:
    found = session.context(profile=profile).tokens
    assert (found.used, found.source, found.exact, found.stale) == (FULL, "usage", True, False)


@pytest.mark.parametrize("profile", OLD_RULE)
def test_agents_count_before_a_compaction_is_outdated(session: Session, profile: str) -> None:
    compact(session, profile)
    found = session.context(profile=profile).tokens
    assert (found.used, found.source, found.exact, found.stale) == (FULL, "usage", False, True)
    session.append(Message.user("go on"))
    session.append(Message.assistant("so it is", usage={"totalTokens": 900}))
    found = session.context(profile=profile).tokens
    assert (found.used, found.exact, found.stale) == (900, True, False)


@pytest.mark.parametrize("profile", [*OLD_RULE, "librecode", "opencode"])
def test_a_count_from_before_a_prune_is_not_exact_either(session: Session, profile: str) -> None:
    session.append(Prune(targets=()))
    found = session.context(profile=profile).tokens
    assert found.used >= FULL
    assert (found.source, found.exact, found.stale) == ("usage", False, True)


@pytest.mark.parametrize("profile", ["pi", *OLD_RULE])
def test_a_provider_that_counts_nothing_is_no_loop_of_compactions(session: Session, profile: str) -> None:
    assert session.compaction.is_due(WINDOW, profile=profile)
    compact(session, profile)
    for _ in range(3):
        assert not session.compaction.is_due(WINDOW, profile=profile)
        session.append(Message.user("go on"))
        session.append(Message.assistant("so it is"))  # an answer without a token count


def test_k6_a_model_that_always_reports_a_full_window_is_compacted_once_for_each_answer(session: Session) -> None:
    for _ in range(3):
        assert session.compaction.is_due(WINDOW, profile="opencode")
        compact(session, "opencode")
        session.append(Message.user(LONG * 4))
        assert not session.compaction.is_due(WINDOW, profile="opencode")
        session.append(Message.assistant(LONG, usage=USAGE))


def test_p1_nothing_is_pruned_unless_somebody_asks(session: Session) -> None:
    for number in range(3):
        session.append(Message.assistant([ToolCall(f"c{number}", "bash", {})]))
        session.append(Message(role="tool", tool_call_id=f"c{number}", content=(Text("x" * 400_000),)))
        session.append(Message.user("go on"))
    results = [said for said in session.context(profile="opencode").messages if getattr(said, "role", "") == "tool"]
    assert [len(said.text) for said in results if isinstance(said, Message)] == [400_000] * 3


def test_command_reports_an_older_count(
    tmp_path: Path, session: Session, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    def said(*words: str) -> str:
        assert command_line.run(["--store", str(tmp_path / "store.git"), "context", session.id, *words]) == 0
        return capfdbinary.readouterr()[0].decode()

    compact(session, "omp")
    assert f"{FULL:,} (the provider's count, older than the newest entry)" in said("--profile", "omp")
    told = json.loads(said("--profile", "omp", "--json"))["tokens"]
    assert (told["used"], told["exact"], told["stale"]) == (FULL, False, True)
    assert "older" not in said()
