"""Tests of the token counts in lists of sessions: each answer counts once, however often it is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import Clock, joined
from claude_code import SESSION, assistant, call, result, talk, user
from codex_files import NAME, Lines, event, rollout, turn
from codex_files import user as asked

from gitsession import Message
from gitsession.api import Store
from gitsession.formats import FORMATS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as opened:
        yield opened


def tokens(store: Store, agent: str, data: bytes, name: str) -> int:
    store.agents.import_data(FORMATS[agent], data, name=name)
    [row] = store.sessions()
    return row.tokens


ANSWER = [
    user("a", None),
    assistant("b", "a", {"type": "text", "text": "I'll look"}, answer="msg_1"),
    assistant("c", "b", call("c1"), answer="msg_1"),
    assistant("d", "c", call("c2"), answer="msg_1"),
    result("e", "c", "c1"),
]


def test_an_answer_of_claude_code_counts_once_for_all_its_lines(store: Store) -> None:
    assert tokens(store, "claude", joined(*ANSWER), SESSION) == 15
    assert tokens(store, "claude", joined(*ANSWER, *talk("f", "g", after="e")), SESSION) == 30


@pytest.mark.parametrize("first", [2, 3, 4])
def test_lines_imported_one_by_one_have_the_same_count(store: Store, first: int) -> None:
    assert tokens(store, "claude", joined(*ANSWER[:first]), SESSION) == 15
    assert tokens(store, "claude", joined(*ANSWER), SESSION) == 15


def counted(last: int, so_far: int | None) -> Lines:
    total = {} if so_far is None else {"total_token_usage": {"total_tokens": so_far}}
    return event("token_count", info={"last_token_usage": {"total_tokens": last}, **total})


def test_answers_of_codex_are_counted_by_its_events(store: Store) -> None:
    assert tokens(store, "codex", rollout(asked("x"), counted(40, 40), asked("y"), counted(60, 100)), NAME) == 100


def test_repeated_count_of_codex_counts_once(store: Store) -> None:
    said = [asked("x"), counted(40, 40), counted(40, 40), asked("y"), counted(40, 40), event("token_count", info=None)]
    assert tokens(store, "codex", rollout(*said), NAME) == 40


def test_estimate_of_codex_after_a_compaction_does_not_count(store: Store) -> None:
    guess = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 900}
    info = {"last_token_usage": guess, "total_token_usage": {"total_tokens": 40}}
    said = [asked("x"), counted(40, 40), event("token_count", info=info), asked("y")]
    assert tokens(store, "codex", rollout(*said), NAME) == 40


def test_waiting_count_is_counted_once(store: Store) -> None:
    begun = [asked("x"), counted(40, 40)]
    assert tokens(store, "codex", rollout(*begun), NAME) == 40
    assert tokens(store, "codex", rollout(*begun, asked("y")), NAME) == 40
    assert tokens(store, "codex", rollout(*begun, asked("y"), counted(50, 90)), NAME) == 90


def test_statistics_contain_a_waiting_count(store: Store) -> None:
    begun = [asked("x"), counted(40, 40), asked("y"), counted(50, 90)]
    for number, answers, total in ((2, 1, 40), (3, 1, 40), (4, 2, 90)):
        lines = begun[:number]
        assert tokens(store, "codex", rollout(*lines), NAME) == total
        db = store.catalogue().db
        assert db.execute("SELECT count(*), sum(tokens) FROM answers").fetchone() == (answers, total)


def test_counts_without_a_sum_all_count(store: Store) -> None:
    assert tokens(store, "codex", rollout(asked("x"), counted(40, None), asked("y"), counted(40, None)), NAME) == 80


@pytest.mark.parametrize("last", [0, -1, 2**60])
def test_invalid_count_counts_as_zero(store: Store, last: int) -> None:
    assert tokens(store, "codex", rollout(turn("t")[:2], counted(last, 5), asked("x")), NAME) == 0


@pytest.mark.parametrize(
    "usage",
    [
        {"input": 20, "output": 8, "cacheRead": 2},
        {"input_tokens": 20, "output_tokens": 10, "input_tokens_details": {"cached_tokens": 5}},
        {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30},
        {"promptTokenCount": 20, "candidatesTokenCount": 6, "thoughtsTokenCount": 4, "totalTokenCount": 30},
    ],
)
def test_usage_of_an_appended_answer_counts_in_the_form_of_every_provider(store: Store, usage: dict[str, Any]) -> None:
    session = store.new_session(agent="mine")
    session.append(Message.user("a question"))
    session.append(Message.assistant("an answer", usage=usage))
    [row] = store.sessions()
    assert row.tokens == 30
