"""Common tasks in a few words: compact, build a request, write an entry, import a session again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import OPENED

from gitsession import CompactionRequest, Message, Session, Store, Summary, SummaryOptions
from gitsession.context.providers import PROVIDERS, provider
from gitsession.errors import InvalidName, NotFound, SummaryFailed
from gitsession.model.entries import Compaction

LONG = "word after word, " * 40


class Short:
    NAME = "short"

    def summarise(self, request: Any, **_: Any) -> Summary:
        return Summary(f"all in short; {request.focus}")


@pytest.fixture(params=OPENED)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with OPENED[request.param](tmp_path / "store.git") as opened:
        yield opened


@pytest.fixture
def session(store: Store) -> Session:
    made = store.new_session(agent="test")
    for number in range(5):
        made.append(Message.user(f"request {number}: {LONG}"))
        made.append(Message.assistant(f"answer {number}: {LONG}"))
    return made


def newest(session: Session) -> Compaction:
    entry = session.read("leaf")
    assert isinstance(entry, Compaction)
    return entry


def test_given_number_of_tokens_is_kept_and_the_rest_summarized_by_rule(session: Session) -> None:
    planned = session.compaction.plan(request=CompactionRequest(keep_tokens=300))
    node = session.compact(keep_tokens=300, focus="the tests")
    assert session.leaf == node
    made = newest(session)
    assert (made.method, made.instructions, made.tokens_before) == (
        "pi/extractive",
        "the tests",
        planned.tokens_before,
    )
    assert len(session.context().items) == 1 + len(planned.kept)


@pytest.mark.parametrize("strategy", ["pi", "opencode", "codex", "aider"])
def test_a_strategy_is_named(session: Session, strategy: str) -> None:
    session.compact(strategy=strategy, keep_tokens=400)
    assert newest(session).method == f"{strategy}/extractive"


def test_a_summarizer_is_an_object_or_a_name(session: Session) -> None:
    session.compact(keep_tokens=300, focus="x", summarizer=Short())
    assert (newest(session).method, newest(session).summary) == ("pi/short", "all in short; x")
    session.append(Message.user(LONG))
    session.append(Message.assistant(LONG))
    session.compact(keep_tokens=100, summarizer="extractive")
    assert newest(session).method == "pi/extractive"


def test_summarizer_command_is_read_from_the_users_configuration(session: Session) -> None:
    with pytest.raises(SummaryFailed, match="no command is set"):
        session.compact(keep_tokens=300, summarizer="command")
    words = f"{sys.executable} -c 'import sys; sys.stdin.read(); print(42)'"
    subprocess.run(["git", "config", "--global", "gitsession.summarizerCommand", words], check=True)
    session.compact(keep_tokens=300, summarizer="command")
    assert (newest(session).method, newest(session).summary) == ("pi/command", "42")


def test_plan_accepts_summary_options(session: Session) -> None:
    session.compact(session.compaction.plan(request=CompactionRequest(keep_tokens=300)), summarizer=Short(), focus="y")
    assert newest(session).summary == "all in short; y"


def test_a_writing_without_a_summarizer_is_by_rule(session: Session) -> None:
    session.compact(session.compaction.plan(request=CompactionRequest(keep_tokens=300)), SummaryOptions(max_tokens=200))
    assert newest(session).method == "pi/extractive"
    session.append(Message.user(LONG))
    session.append(Message.assistant(LONG))
    session.compaction.start(session.compaction.plan(request=CompactionRequest(keep_tokens=100))).result(10)
    assert newest(session).method == "pi/extractive"


WORDS: dict[str, dict[str, Any]] = {
    "a strategy": {"strategy": "pi"},
    "a profile": {"profile": "omp"},
    "a number of tokens": {"keep_tokens": 0},
}
HOW: dict[str, dict[str, Any]] = {"a focus": {"focus": "x"}, "a summarizer": {"summarizer": "extractive"}}


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_ineffective_options_beside_a_plan_are_rejected(session: Session, words: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="either plan, or"):
        session.compact(session.compaction.plan(), **words)


@pytest.mark.parametrize("words", HOW.values(), ids=HOW)
def test_ineffective_options_beside_summary_options_are_rejected(session: Session, words: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="either writing, or"):
        session.compact(session.compaction.plan(), SummaryOptions(), **words)


@pytest.mark.parametrize("name", ["strategy", "summarizer", "profile"])
def test_unknown_option_is_rejected_and_nothing_is_written(session: Session, name: str) -> None:
    before = session.history()
    with pytest.raises(NotFound, match="telepathic"):
        session.compact(keep_tokens=300, **{name: "telepathic"})  # type: ignore[arg-type]
    assert session.history() == before


@pytest.mark.parametrize("name", PROVIDERS)
def test_context_has_a_request_for_each_provider(session: Session, name: str) -> None:
    context = session.context()
    assert context.request(name, system="be brief") == provider(name).request(context, system="be brief")


def test_unknown_provider_is_rejected(session: Session) -> None:
    with pytest.raises(NotFound, match="telepathic"):
        session.context().request("telepathic")


def test_context_read_before_the_first_prompt_has_the_rules_of_the_agent(store: Store) -> None:
    session = store.new_session(agent="claude")
    assert session.context().profile == "claude"
    session.append(Message.user("a prompt"))
    assert session.context().profile == "claude"


def test_a_session_is_exported_by_a_part_of_its_id(store: Store, session: Session) -> None:
    assert store.export(session.id[-6:], to="jsonl").data == store.export(session.id, to="jsonl").data
    with pytest.raises(NotFound):
        store.export("no such session")


@pytest.mark.parametrize("agent", ["", " "])
def test_a_session_without_an_agent_is_rejected(store: Store, agent: str) -> None:
    with pytest.raises(InvalidName, match="agent name is empty"):
        store.new_session(agent=agent)


def test_a_search_for_an_unknown_role_is_rejected(store: Store) -> None:
    with pytest.raises(InvalidName, match="unknown role 'zz'"):
        store.search("word", role="zz")
