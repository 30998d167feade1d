"""Generated titles: the first sentence of the first prompt, or the answer of a summarizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from gitsession import Message, NotFound, Refused, Store
from gitsession.compaction.summary import Progress, Request, Summary
from gitsession.compaction.titles import first_sentence

LONG = "Please move the login code to its own module, and keep the old import path working until the next release"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Fix the login redirect. It loops when the cookie is old.", "Fix the login redirect"),
        ("# Plan\n\nDo it", "Plan"),
        ("```py\nprint(1)\n```\n\nWhy does `this` print **one**?", "Why does this print one?"),
        ("```py\nprint(1)", "py"),
        ("> quoted\nanswer", "quoted"),
        ("\n \n", ""),
        ("\n" * 200_000 + "Fix it", "Fix it"),
        (" " * 200_000 + "```\n" + "\n" * 200_000, ""),
        ("Größe ändern. Danach testen.", "Größe ändern"),
        ("word " * 40, "word word word word word word word word word word word word…"),
    ],
)
def test_the_first_sentence_of_a_prompt_is_its_title(text: str, title: str) -> None:
    assert first_sentence(text) == title


class TitleWriter:
    """A summarizer that keeps its requests."""

    def __init__(self, answer: Callable[[Request], str]) -> None:
        self.answer, self.asked = answer, list[Request]()

    def summarise(self, request: Request, *, progress: Progress, cancelled: Event) -> Summary:
        self.asked.append(request)
        return Summary(self.answer(request))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store.git")


def test_without_a_summarizer_the_title_is_a_sentence(store: Store) -> None:
    session = store.new_session(agent="mine")
    session.append(Message.user("<system-reminder>Today is Monday</system-reminder>"))
    session.append(Message.user(f"{LONG}. Thanks"))
    assert session.generate_title() == "Please move the login code to its own module, and keep the…"
    assert session.names().title == session.generate_title(force=True)


def test_a_summarizer_receives_the_first_turn_only(store: Store) -> None:
    session = store.new_session(agent="mine")
    for text in (LONG, "Second"):
        session.append(Message.user(text))
        session.append(Message.assistant(f"I did: {text}"))
    writer = TitleWriter(lambda _: '"Move the login module."\n')
    assert session.generate_title(writer) == "Move the login module"
    (request,) = writer.asked
    assert (request.kind, [item.text for item in request.items]) == ("title", [LONG, f"I did: {LONG}"])


def test_a_short_prompt_is_the_title(store: Store) -> None:
    session = store.new_session(agent="mine")
    session.append(Message.user("Fix it"))
    writer = TitleWriter(lambda _: "never used")
    assert (session.generate_title(writer), writer.asked) == ("Fix it", [])


def test_a_session_without_text_has_no_title(store: Store) -> None:
    session = store.new_session(agent="mine")
    session.append(Message.user("  "))
    with pytest.raises(NotFound, match="no prompt with text"):
        session.generate_title()


def test_a_title_is_replaced_only_on_request(store: Store) -> None:
    session = store.new_session(agent="mine")
    session.append(Message.user("Fix it"))
    session.rename("My title")
    writer = TitleWriter(lambda _: "never used")
    with pytest.raises(Refused, match=f"cannot generate a title: session {session.id} has the title 'My title'"):
        session.generate_title(writer)
    assert (session.names().title, writer.asked) == ("My title", [])
    session.generate_title(writer, force=True)
    assert session.names().title == "Fix it"
    session.rename("")
    assert session.generate_title(writer) == "Fix it"
