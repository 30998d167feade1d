"""Tests of titles and labels: the rules alone, then through a store."""

from __future__ import annotations

import pytest
from builders import Clock, bring, header, joined, label, labels_of, named, pi_file, said, session, slot, talk, title_of

from gitsession.sessions.marks import SessionMark, labels, title
from gitsession.store.memory import MemoryStore


def theirs(what: str, value: str, line: int, at_ms: int = 0, target: str = "") -> SessionMark:
    return SessionMark(what, at_ms, line, b"", target, value)


def ours(what: str, value: str, at_ms: int, chain: bytes = b"", target: str = "") -> SessionMark:
    return SessionMark(what, at_ms, None, chain, target, value)


TITLES: dict[str, tuple[list[SessionMark], str | None]] = {
    "nothing": ([], None),
    "a header": ([theirs("header", "H", 1)], "H"),
    "a header without a title": ([theirs("header", "", 1)], None),
    "a title above the header's": ([theirs("header", "H", 1), theirs("title", "T", 5)], "T"),
    "the last title in the file": ([theirs("title", "late", 9, 1), theirs("title", "early", 5, 99)], "late"),
    "a title taken away": ([theirs("title", "T", 5), theirs("title", "", 6)], None),
    "a title taken away, a header": ([theirs("header", "H", 1), theirs("title", "", 6)], None),
    "a slot above both": ([theirs("title", "T", 5), theirs("slot", "S", 0), theirs("header", "H", 1)], "S"),
    "an empty slot": ([theirs("title", "T", 5), theirs("slot", "", 0)], None),
    "an empty slot, a header": ([theirs("header", "H", 1), theirs("slot", "", 0)], None),
    "ours older, an empty slot": ([theirs("slot", "", 0, at_ms=7), ours("title", "O", 6)], "O"),
    "ours alone": ([ours("title", "O", 5)], "O"),
    "ours newer": ([theirs("title", "T", 5, at_ms=5), ours("title", "O", 6)], "O"),
    "ours in the same moment": ([theirs("title", "T", 5, at_ms=5), ours("title", "O", 5)], "O"),
    "ours older": ([theirs("title", "T", 5, at_ms=7), ours("title", "O", 6)], "T"),
    "ours taken away": ([ours("title", "O", 5), ours("title", "", 6)], None),
    "ours newer and taken away": ([theirs("title", "T", 5, at_ms=5), ours("title", "", 6)], None),
    "the newer of ours": ([ours("title", "new", 6), ours("title", "old", 5)], "new"),
    "the higher chain of one moment": ([ours("title", "b", 5, b"b"), ours("title", "a", 5, b"a")], "b"),
}


@pytest.mark.parametrize(("marks", "expected"), TITLES.values(), ids=TITLES)
def test_a_session_is_called(marks: list[SessionMark], expected: str | None) -> None:
    assert title(marks) == title(reversed(marks)) == expected


A, B = "oid-a", "oid-b"
RESOLVE = {"a": A, "b": B, "chain-a": A}

LABELS: dict[str, tuple[list[SessionMark], dict[str, str]]] = {
    "nothing": ([], {}),
    "two targets": ([theirs("label", "x", 1, target="a"), theirs("label", "y", 2, target="b")], {A: "x", B: "y"}),
    "the last in the file": ([theirs("label", "y", 2, 1, "a"), theirs("label", "x", 1, 9, "a")], {A: "y"}),
    "taken away": ([theirs("label", "x", 1, target="a"), theirs("label", "", 2, target="a")], {}),
    "given again": ([theirs("label", "", 2, target="a"), theirs("label", "z", 3, target="a")], {A: "z"}),
    "no such target": ([theirs("label", "x", 1, target="gone")], {}),
    "ours newer, by chain": ([theirs("label", "x", 1, 5, "a"), ours("label", "o", 6, target="chain-a")], {A: "o"}),
    "ours older": ([theirs("label", "x", 1, 7, "a"), ours("label", "o", 6, target="chain-a")], {A: "x"}),
    "ours takes theirs away": ([theirs("label", "x", 1, 5, "a"), ours("label", "", 6, target="a")], {}),
    "titles are no labels": ([ours("title", "T", 5, target="a")], {}),
}


@pytest.mark.parametrize(("marks", "expected"), LABELS.values(), ids=LABELS)
def test_entries_are_labelled(marks: list[SessionMark], expected: dict[str, str]) -> None:
    assert labels(marks, RESOLVE) == labels(reversed(marks), RESOLVE) == expected


# ---- through a store


def test_titles_and_labels_are_read_from_all_branches_in_file_order() -> None:
    store = MemoryStore()
    lines = [
        *talk("a", "b"),
        named("t1", "b", "first", at=9),
        named("t2", "a", "second", at=3),
        label("l1", "t1", "a", "one", at=9),
        label("l2", "t2", "a", "two", at=3),
    ]
    sid = bring(store, pi_file(*lines)).session
    assert title_of(store, sid) == "second"
    assert labels_of(store, sid) == {"user: words of a": "two"}


def test_label_may_come_before_its_entry() -> None:
    store = MemoryStore()
    sid = bring(store, pi_file(label("l", None, "a", "early"), said("a", "l"))).session
    assert labels_of(store, sid) == {"user: words of a": "early"}


def test_a_label_names_the_later_of_two_entries_with_one_id() -> None:
    store = MemoryStore()
    sid = bring(store, pi_file(said("a", None, "one"), label("l", "a", "a", "x"), said("a", "l", "two"))).session
    assert labels_of(store, sid) == {"user: two": "x"}


def test_blank_title_removes_the_title() -> None:
    store = MemoryStore()
    sid = bring(store, pi_file(*talk("a"), named("t", "a", "T"), named("u", "t", "  "))).session
    assert title_of(store, sid) is None


def test_title_slot_comes_before_the_header() -> None:
    store = MemoryStore()
    sid = bring(store, joined(slot("slot"), header(title="header"), *talk("a"))).session
    assert title_of(store, sid) == "slot"
    bring(store, joined(slot(""), header(title="header"), *talk("a")))
    assert title_of(store, sid) is None


def test_own_title_is_used_until_the_agent_sets_a_later_one() -> None:
    store = MemoryStore()
    lines = [*talk("a"), named("t", "a", "theirs", at=10)]
    sid = bring(store, pi_file(*lines)).session
    held = session(store, sid, clock=Clock())
    held.rename("ours, too early")
    assert title_of(store, sid) == "theirs"
    for _ in range(20):
        held._clock()
    held.rename("ours")
    assert title_of(store, sid) == "ours"
    bring(store, pi_file(*lines, named("u", "t", "theirs again", at=3000)))
    assert title_of(store, sid) == "theirs again"


def test_label_of_a_rewritten_line_is_removed() -> None:
    store = MemoryStore()
    bring(store, pi_file(*talk("a"), label("l", "a", "a", "old")))
    sid = bring(store, pi_file(*talk("a"), label("l", "a", "a", "new"))).session
    assert labels_of(store, sid) == {"user: words of a": "new"}
    bring(store, pi_file(*talk("a"), said("l", "a")))
    assert labels_of(store, sid) == {}


def test_title_of_a_rewritten_line_is_removed() -> None:
    store = MemoryStore()
    bring(store, pi_file(*talk("a"), named("t", "a", "old"), named("u", "t", "new")))
    sid = bring(store, pi_file(*talk("a"), named("t", "a", "old"), said("u", "t"))).session
    assert title_of(store, sid) == "old"
