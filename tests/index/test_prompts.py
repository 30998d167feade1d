"""Tests of the list of prompts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import Clock

from gitsession import Store
from gitsession.model.entries import Message


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as opened:
        yield opened


TIMES = itertools.count(1_000)


def asked(store: Store, *texts: str, agent: str = "mine"):  # type: ignore[no-untyped-def]
    session = store.new_session(agent=agent)
    for text in texts:
        session.append(Message.user(text, at_ms=next(TIMES)))
    return session


def test_prompts_are_listed_once_with_the_newest_first(store: Store):
    asked(store, "bake bread", "butter", " bake  bread\n")
    session = asked(store, "honey", "butter", "milk", "tea")
    found = store.prompts()
    assert [prompt.text for prompt in found] == ["tea", "milk", "butter", "honey", " bake  bread\n"]
    assert found[0].session.sid == session.id and found[0].oid == session.history()[-1].oid
    assert found[0].at_ms > found[1].at_ms
    assert [prompt.text for prompt in store.prompts(most=2)] == ["tea", "milk"]


def test_prompts_can_be_limited_to_words_and_sessions(store: Store):
    first = asked(store, "bake bread", "butter")
    asked(store, "baked bread and honey")
    assert [prompt.text for prompt in store.prompts("baking bread")] == ["baked bread and honey", "bake bread"]
    rows = [row for row in store.sessions() if row.sid == first.id]
    assert [prompt.text for prompt in store.prompts("bread", among=rows)] == ["bake bread"]
    assert store.prompts("zebra") == [] and store.prompts(among=[]) == []


def test_only_prompts_of_the_user_are_listed(store: Store):
    inserted = ("<local-command-stdout>ok</local-command-stdout>", "[Request interrupted by user]")
    session = asked(store, *inserted, "<div> is not closed")
    session.append(Message.assistant("bread"))
    assert [prompt.text for prompt in store.prompts()] == ["<div> is not closed"]


def test_prompts_that_were_undone_are_not_listed(store: Store):
    asked(store, "bread").fork(at="root")
    store.undo()
    assert [prompt.text for prompt in store.prompts()] == ["bread"]
