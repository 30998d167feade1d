"""What is too long for a summarizer goes piece by piece: nothing is lost, nothing is longer than it may be."""

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
def test_no_character_is_taken_apart(text: str) -> None:
    for piece in pieces_of([TranscriptItem("user", text)], TOKENS_MAX):
        for part in piece:
            part.text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")  # strict: fails for half of a pair


def test_where_there_is_no_room_at_all_it_still_comes_to_an_end() -> None:
    assert [part.text for [part] in pieces_of([TranscriptItem("user", "abc")], 1)] == ["a", "b", "c"]


def test_what_fits_is_not_taken_apart() -> None:
    said = [TranscriptItem("user", "a" * 50), TranscriptItem("assistant", "b" * 50)]
    assert list(pieces_of(said, TOKENS_MAX)) == [(said[0],), (said[1],)]


# An update


class Grows:
    """Says a little more each time than it said before; ``asked``: how much it was given at once, in characters."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def summarise(self, request: Request, **_: Any) -> Summary:
        self.asked.append(len(render(request.said)))
        return Summary(request.previous + "and something more was said, in so many words. " * 3)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        yield store.new_session(agent="test")


def test_a_message_longer_than_a_piece_goes_in_several(session: Session) -> None:
    session.append(Message.user("a long paste " * 1_000))
    session.append(Message.assistant("read"))
    session.append(Message.user("go on"))
    by = Grows()
    plan = session.compaction.plan(ask=CompactionRequest(keep_tokens=1))
    assert session.compact(plan, SummaryOptions(summarizer=by, input_tokens_max=1_000)) is not None
    assert len(by.asked) == 4
    assert max(by.asked) <= 1_000 * CHARS_PER_TOKEN


def test_a_tiny_last_piece_may_make_the_summary_longer_than_it_was(session: Session) -> None:
    session.append(Message.user("the beginning, " * 200))
    session.append(Message.assistant("so."))
    session.append(Message.user("go on"))
    by = Grows()
    plan = session.compaction.plan(ask=CompactionRequest(keep_tokens=1))
    assert session.compact(plan, SummaryOptions(summarizer=by, input_tokens_max=752)) is not None
    assert by.asked[-1] < 30  # less than the summary grew


def test_an_update_of_which_nobody_knows_what_it_stands_for_is_held_to_what_it_was_given() -> None:
    asked = Request(said=(TranscriptItem("user", "go on"),), kind="update", previous="a summary. " * 20)
    with pytest.raises(SummaryFailed, match="not shorter"):
        summarise(Grows(), asked)
