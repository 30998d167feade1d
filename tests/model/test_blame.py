"""Tests of ``model.blame``: the attribution of lines to changes, without a store."""

from __future__ import annotations

import time
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsession.model.blame import TextChange, attribute

HUMAN, PART, WHOLE, KNOWN = "an edit by a person", "a part", "the whole text", "two whole texts"


@st.composite
def histories(draw: st.DrawFn) -> tuple[str, list[TextChange[int]], list[int | None]]:
    """Return a text, the changes that led to it, and the expected origin of each line. Every line is unique."""
    names = (f"line number {number}" for number in count())
    lines = [(next(names), None) for _ in range(draw(st.integers(0, 6)))]
    found: list[tuple[str, int | None]] = list(lines)
    changes: list[TextChange[int]] = []
    is_known = False  # whether the earlier changes determine the text
    for number in range(draw(st.integers(1, 8))):
        how = draw(st.sampled_from([HUMAN, PART, PART, WHOLE, KNOWN]))
        origin = None if how == HUMAN else number
        before = "".join(f"{line}\n" for line, _ in found)
        start = draw(st.integers(0, len(found)))
        end = draw(st.integers(start, min(len(found), start + 4)))
        added = [(next(names), origin) for _ in range(draw(st.integers(1, 4)))]
        around = draw(st.integers(1, 2))
        first, last = max(start - around, 0), min(end + around, len(found))
        old = "\n".join(line for line, _ in found[first:last])
        new = "\n".join(line for line, _ in [*found[first:start], *added, *found[end:last]])
        found[start:end] = added
        after = "".join(f"{line}\n" for line, _ in found)
        if how == PART:
            changes.append(TextChange(number, old, new))
        elif how != HUMAN:
            changes.append(TextChange(number, None if how == WHOLE and is_known else before, after, is_whole=True))
        is_known = how in (WHOLE, KNOWN) or (is_known and how == PART)
    return "".join(f"{line}\n" for line, _ in found), changes, [origin for _, origin in found]


@given(histories())
def test_each_line_belongs_to_the_change_that_wrote_it_last(
    history: tuple[str, list[TextChange[int]], list[int | None]],
) -> None:
    text, changes, expected = history
    known = {change.origin for change in changes}
    assert attribute(text, changes) == [origin if origin in known else None for origin in expected]


_TEXTS = st.lists(st.sampled_from(["a", "bcd", "  x = 1", "", "}", "a\r"]), max_size=8).map("\n".join)
_CHANGES = st.builds(TextChange[int], st.integers(0, 9), st.none() | _TEXTS, _TEXTS, st.booleans(), st.booleans())


@given(_TEXTS, st.lists(_CHANGES, max_size=6))
def test_a_line_belongs_only_to_a_change_that_contains_text_of_it(text: str, changes: list[TextChange[int]]) -> None:
    lines = text.replace("\r\n", "\n").split("\n")
    origins = attribute(text, changes)
    assert len(origins) == len(lines) - (lines[-1] == "")
    for line, origin in zip(lines, origins, strict=False):
        parts = [change.new.replace("\r\n", "\n").split("\n") for change in changes if change.origin == origin]
        assert origin is None or any(part in line for new in parts for part in new)


def test_a_new_file_belongs_to_the_change_that_wrote_it() -> None:
    assert attribute("a\nb\n", [TextChange("w", None, "a\nb\n", is_whole=True)]) == ["w", "w"]
    assert attribute("a\nb", [TextChange("w", None, "a\r\nb\r\n", is_whole=True)]) == ["w", "w"]


def test_a_rewritten_file_keeps_the_origins_of_unchanged_lines() -> None:
    first = TextChange(1, None, "a\nb\nc\n", is_whole=True)
    edit = TextChange(2, "b", "B")
    assert attribute("a\nB\nc\nd\n", [first, edit, TextChange(3, None, "a\nB\nc\nd\n", is_whole=True)]) == [1, 2, 1, 3]


def test_an_edit_of_a_part_of_a_line() -> None:
    text = "import os\nvalue = compute(1, deep=True)\n"
    assert attribute(text, [TextChange("e", "compute(1)", "compute(1, deep=True)")]) == [None, "e"]


def test_a_replacement_of_all_occurrences() -> None:
    text = "new(1)\nkept\nnew(2)\n"
    assert attribute(text, [TextChange("e", "old", "new", everywhere=True)]) == ["e", None, "e"]
    assert attribute(text, [TextChange("e", "old", "new")]) == ["e", None, None]


def test_a_replacement_of_a_million_occurrences_ends() -> None:
    assert attribute("x" * 1_000_000, [TextChange("e", "y", "x", everywhere=True)]) == ["e"]


def test_lines_that_were_edited_later_are_not_attributed() -> None:
    change = TextChange("e", "", "def run():\n    start()\n    wait()\n    stop()\n")
    text = "def run():\n    start()\n    wait(5)  # by hand\n    stop()\n"
    assert attribute(text, [change]) == ["e", "e", None, "e"]


def test_short_lines_alone_are_not_attributed() -> None:
    assert attribute("}\n\n", [TextChange("e", "", "removed later\n}\n\n")]) == [None, None]


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_text_of_100_000_lines(is_whole: bool) -> None:
    lines = [f"line {number % 70_000}" for number in range(100_000)]
    other = [f"x{line}" if number % 3 else line for number, line in enumerate(lines)]
    changes = [TextChange(1, "\n".join(lines), "\n".join(other), is_whole=is_whole)]
    edits = [TextChange(number, f"old {number}\n", f"xline {number}\n") for number in range(2, 200)]
    began = time.process_time()
    origins = attribute("\n".join(other), [*edits, *changes])
    assert time.process_time() - began < 20
    assert origins[70_001] == 1
