"""Tests that work grows linearly for sessions of unusual shapes. They count calls instead of time.

If nothing can be counted, the input is so long that repeated reads of it would exceed the time limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from builders import bring, entry, pi_file, said
from growth import MANY, assert_in_step, calls_of

from gitsession.compaction import strategies
from gitsession.compaction.prompts import with_files, without_files
from gitsession.compaction.serialise import TranscriptItem
from gitsession.compaction.summarizers.extractive import Extractive
from gitsession.compaction.summary import Request, summarise
from gitsession.compaction.visible_entries import ShownEntry
from gitsession.context import profiles
from gitsession.context.build import context
from gitsession.context.history import ContextHistory
from gitsession.context.providers.wire import CallIds
from gitsession.context.value import Item
from gitsession.model.entries import Message
from gitsession.store.memory import MemoryStore

PI = profiles.profile("pi")


@dataclass
class Looked:
    """An object that counts how often its items are read."""

    shown: tuple[Item, ...]
    looks: int = 0

    @property
    def items(self) -> tuple[Item, ...]:
        self.looks += 1
        return self.shown


def places(*entries: Message) -> list[Any]:
    return [Looked((Item(f"{at:040}", each),)) for at, each in enumerate(entries)]


def looks_of(what: Callable[[tuple[ShownEntry, ...]], object], at: Sequence[Any]) -> int:
    what(tuple(at))
    return sum(place.looks for place in at)


def test_opencodes_tail_looks_at_each_entry_of_a_long_turn_but_a_few_times() -> None:
    def work(count: int) -> int:
        turn = places(Message.user("go"), *[Message.assistant("words, many of them") for _ in range(count)])
        return looks_of(lambda at: strategies.tail(at, 0, PI), turn)

    assert_in_step(work)


def test_aiders_header_reads_each_entry_a_few_times_only() -> None:
    def work(count: int) -> int:
        return looks_of(
            lambda at: strategies.head(at, 10, PI), places(*[Message.user("and another thing") for _ in range(count)])
        )

    assert_in_step(work)


def test_calls_that_all_have_one_id_are_named_at_once() -> None:
    def work(count: int) -> int:
        ids = CallIds(64)
        return calls_of(lambda: [ids.take("call_1") for _ in range(count)])

    assert_in_step(work)


def context_calls(profile: str, *lines: bytes) -> int:
    store = MemoryStore()
    bring(store, pi_file(*lines), agent="pi")
    [leaf] = [str(oid) for name, oid in store.refs("refs/heads/").items() if name.endswith("/main")]
    line = ContextHistory(store, leaf)
    context(line, profile)  # everything is read before the count starts
    return calls_of(lambda: context(line, profile))


def test_each_entry_is_read_once_among_many_edits() -> None:
    def work(count: int) -> int:
        lines = [said(f"m{n}", f"m{n - 1}" if n else None) for n in range(count)]
        for n in range(count):
            edit = {"targetId": f"m{n}", "replacement": None}
            lines.append(entry("context_edit", f"x{n}", f"x{n - 1}" if n else f"m{count - 1}", **edit))
        return context_calls("pi", *lines)

    assert_in_step(work)


def test_session_of_failed_answers_is_read_once() -> None:
    def work(count: int) -> int:
        lines = [
            said(f"m{n}", f"m{n - 1}" if n else None, role="assistant", stopReason="error", at=n) for n in range(count)
        ]
        return context_calls("omp", *lines)

    assert_in_step(work)


class Name(str):
    """A name that counts its comparisons."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_extractive_summary_counts_tools_in_one_pass() -> None:
    def work(count: int) -> int:
        Name.compared = 1
        talk = [
            TranscriptItem("user", "Do it all, please"),
            *(TranscriptItem("call", "{}", Name(f"tool {n}")) for n in range(count)),
        ]
        summarise(Extractive(), Request(items=tuple(talk)))
        return Name.compared

    assert work(MANY) < MANY


FOR_EVER = 1_000_000

BEFORE = {
    "line ends": "\n" * FOR_EVER,
    "lists that never end": "<read-files>\n" * (FOR_EVER // 10),
    "both lists, never ended": "<read-files>\n<modified-files>\n" * (FOR_EVER // 20),
    "a heading with a hole": f"# a{' ' * FOR_EVER}b",
    "headings": "#" * FOR_EVER,
    "stops": "." * FOR_EVER,
    "blanks behind stops": f".{' ' * FOR_EVER}x" * 3,
}


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
def test_adversarial_earlier_summary_does_not_hang(before: str) -> None:
    assert without_files(before + "words") == before + "words"
    asked = Request(
        items=(TranscriptItem("user", "Fix the login redirect, and keep the cookie. " * 3),), previous=before
    )
    assert "login" in summarise(Extractive(), asked).text


def test_file_lists_are_removed_anywhere() -> None:
    whole = with_files("one", ["a"], ["b"])
    assert without_files(whole) == "one"
    assert without_files(f"{whole}\n\ntwo") == "one\n\ntwo"
    assert without_files(f"<read-files>\n{whole}") == ""  # both lists have the same end
    assert without_files("<read-files>\nnever ended") == "<read-files>\nnever ended"
    assert without_files("<read-files>\n<modified-files>\nb\n</modified-files>") == "<read-files>"
