"""Tests of input that is too long for a summarizer: it is split, no text is lost, and no part exceeds the limit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import Clock
from hypothesis import given
from hypothesis import strategies as st

from gitsession import CompactionRequest, Message, Session, Store, Summary, SummaryOptions
from gitsession.compaction.serialise import CHARS_PER_TOKEN, TranscriptItem, render
from gitsession.compaction.summary import Request, summarise
from gitsession.compaction.write_summary import pieces_of
from gitsession.errors import SummaryFailed

TOKENS_MAX = 20
"""80 characters."""

ALPHABET = st.sampled_from(["a", "é", "\n", "[User]", "\ud83d\ude00", "\U0001f600", "\ude00", "\ud83d", " "])
TEXTS = st.lists(ALPHABET, min_size=60, max_size=300).map("".join)
HALVES = st.lists(st.sampled_from(["\ud83d\ude00", "x"]), min_size=90, max_size=300).map("".join)


@given(st.lists(TEXTS, max_size=6))
def test_pieces_hold_all_that_was_said_and_none_is_too_long(texts: list[str]) -> None:
    said = [TranscriptItem("user", text) for text in texts]
    pieces = list(pieces_of(said, TOKENS_MAX))
    assert "".join(part.text for piece in pieces for part in piece) == "".join(texts)
    for piece in pieces:
        assert piece
        assert sum(len(str(part)) for part in piece) <= TOKENS_MAX * CHARS_PER_TOKEN


@given(HALVES)
def test_no_character_is_split(text: str) -> None:
    for piece in pieces_of([TranscriptItem("user", text)], TOKENS_MAX):
        for part in piece:
            part.text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")  # strict: fails for half of a pair


def test_splitting_ends_even_with_one_token() -> None:
    assert [part.text for [part] in pieces_of([TranscriptItem("user", "abc")], 1)] == ["a", "b", "c"]


def test_short_items_are_not_split() -> None:
    said = [TranscriptItem("user", "a" * 50), TranscriptItem("assistant", "b" * 50)]
    assert list(pieces_of(said, TOKENS_MAX)) == [(said[0],), (said[1],)]


# An update


class Grows:
    """A summarizer whose summaries grow. ``asked`` has the lengths of its inputs in characters."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def summarise(self, request: Request, **_: Any) -> Summary:
        self.asked.append(len(render(request.items)))
        return Summary(request.previous + "and something more was said, in so many words. " * 3)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        yield store.new_session(agent="test")


def test_long_message_is_split_into_parts(session: Session) -> None:
    session.append(Message.user("a long paste " * 1_000))
    session.append(Message.assistant("read"))
    session.append(Message.user("go on"))
    by = Grows()
    plan = session.compaction.plan(request=CompactionRequest(keep_tokens=1))
    assert session.compact(plan, SummaryOptions(summarizer=by, input_tokens_max=1_000)) is not None
    assert len(by.asked) == 4
    assert max(by.asked) <= 1_000 * CHARS_PER_TOKEN


def test_short_last_part_may_make_the_summary_longer(session: Session) -> None:
    session.append(Message.user("the beginning, " * 200))
    session.append(Message.assistant("so."))
    session.append(Message.user("go on"))
    by = Grows()
    plan = session.compaction.plan(request=CompactionRequest(keep_tokens=1))
    assert session.compact(plan, SummaryOptions(summarizer=by, input_tokens_max=752)) is not None
    assert by.asked[-1] < 30  # less than the growth of the summary


def test_update_without_a_source_is_limited_by_its_input() -> None:
    asked = Request(items=(TranscriptItem("user", "go on"),), kind="update", previous="a summary. " * 20)
    with pytest.raises(SummaryFailed, match="not shorter"):
        summarise(Grows(), asked)
