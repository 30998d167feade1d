"""Attribution of the lines of a text to the changes that wrote them, without the versions between the changes.

The changes are undone one by one, the newest first. If a change cannot be undone, because its text was edited later,
only the lines of this change that are still in the text are attributed to it.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

_PRODUCT_MAX = 4_000_000
"""Maximum product of the numbers of lines of two texts that are compared exactly."""

_PLACES_MAX = 50
"""Maximum number of places at which the lines of a change are searched."""

_EVERYWHERE_MAX = 1000
"""Maximum number of occurrences that are undone. Each one copies the text, so the time grows with their product."""


class TextChange(NamedTuple, Generic[T]):
    """A change of a text.

    Attributes:
        origin: The origin of the lines that the change wrote.
        old: The replaced text; ``None`` if the change wrote the whole text and the earlier one is unknown.
        new: The new text.
        is_whole: Whether ``old`` and ``new`` are the whole text, instead of a part of it.
        everywhere: Whether all occurrences of ``old`` were replaced.
    """

    origin: T
    old: str | None
    new: str
    is_whole: bool = False
    everywhere: bool = False


def attribute(text: str, changes: Iterable[TextChange[T]]) -> list[T | None]:
    """Return the origin of each line of ``text``; ``None`` for a line that no change wrote. Never raises.

    ``changes``: the changes of the text, the oldest first.
    """
    blame = _Blame[T](_unified(text))
    for change in reversed(list(_with_earlier_text(changes))):
        if change.is_whole:
            blame.undo_whole(change)
        else:
            blame.undo_part(change)
    return blame.origins()


def _unified(text: str) -> str:
    return text.replace("\r\n", "\n")


def _with_earlier_text(changes: Iterable[TextChange[T]]) -> Iterator[TextChange[T]]:
    """Yield the changes, with the earlier text of a whole one if the changes before it determine this text."""
    text: str | None = None
    for each in changes:
        change = each._replace(old=None if each.old is None else _unified(each.old), new=_unified(each.new))
        old, new = change.old, change.new
        yield change._replace(old=text) if change.is_whole and old is None else change
        if change.is_whole:
            text = new
        elif text is not None and old and old in text:
            text = text.replace(old, new, -1 if change.everywhere else 1)
        else:
            text = None


class _Blame(Generic[T]):
    """The text before the changes that were undone so far, and the attributed lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.split("\n")
        self._places: list[int | None] = list(range(len(self._lines)))
        """The number of each line of ``_text`` in the original text; ``None`` if it is not there."""
        self._found: dict[int, T] = {}
        self._assumed: dict[int, T] = {}
        """The origins that apply to lines that no earlier change wrote."""
        self._index: dict[str, list[int]] = {}

    def origins(self) -> list[T | None]:
        found = {**self._assumed, **self._found}
        size = len(self._lines) - (self._lines[-1] == "")  # the text after the last line end is not a line
        return [found.get(number) for number in range(size)]

    def undo_whole(self, change: TextChange[T]) -> None:
        before, after = self._text.split("\n"), change.new.split("\n")
        places: list[int | None] = [None] * len(after)
        for old, new in _equal_lines(before, after):
            places[new] = self._places[old]
        self._text, self._places = change.new, places
        if change.old is None:
            self._assumed.update((place, change.origin) for place in places if place is not None)
        else:
            self._replace(change.origin, 0, len(change.new), change.old)

    def undo_part(self, change: TextChange[T]) -> None:
        positions = list(self._positions(change.new, everywhere=change.everywhere))
        for at in reversed(positions):
            self._replace(change.origin, at, at + len(change.new), change.old or "")
        if not positions:
            self._claim_runs(change)

    def _positions(self, part: str, *, everywhere: bool) -> Iterator[int]:
        """Yield the positions of ``part`` in the text: all, or the first one with lines that are not attributed."""
        if not part.strip():
            return
        first, at = -1, self._text.find(part)
        for _ in range(_EVERYWHERE_MAX if everywhere else _PLACES_MAX):
            if at < 0:
                break
            if everywhere:
                yield at
            else:
                start = self._text.count("\n", 0, at)
                places = self._places[start : start + part.count("\n") + 1]
                if any(place is not None and place not in self._found for place in places):
                    yield at
                    return
            first = at if first < 0 else first
            at = self._text.find(part, at + len(part))
        if not everywhere and first >= 0:
            yield first

    def _replace(self, origin: T, start: int, end: int, old: str) -> None:
        """Replace a part of the text with the earlier text ``old``, and attribute the lines that differ."""
        begin = self._text.rfind("\n", 0, start) + 1
        stop = self._text.find("\n", end)
        stop = len(self._text) if stop < 0 else stop
        earlier = self._text[begin:start] + old + self._text[end:stop]
        before, after = earlier.split("\n"), self._text[begin:stop].split("\n")
        first = self._text.count("\n", 0, begin)
        places: list[int | None] = [None] * len(before)
        kept = set[int]()
        for at, number in _equal_lines(before, after):
            places[at] = self._places[first + number]
            kept.add(number)
        for number in range(len(after)):
            if number not in kept:
                self._claim(self._places[first + number], origin)
        self._places[first : first + len(after)] = places
        self._text = self._text[:begin] + earlier + self._text[stop:]

    def _claim(self, place: int | None, origin: T) -> None:
        if place is not None:
            self._found.setdefault(place, origin)

    def _claim_runs(self, change: TextChange[T]) -> None:
        """Attribute the longest runs of added lines that are still in the text, but no run of only short lines."""
        if not self._index:
            for number, line in enumerate(self._lines):
                self._index.setdefault(line, []).append(number)
        after = change.new.split("\n")
        kept = {number for _, number in _equal_lines((change.old or "").split("\n"), after)}
        at = 0
        while at < len(after):
            length, place = 0, 0
            for start in self._index.get(after[at], ())[:_PLACES_MAX] if at not in kept else ():
                length, place = max((length, place), (self._run(after, at, start, kept), start))
            run = after[at : at + length]
            if any(sum(map(str.isalnum, line)) > 2 for line in run):
                for number in range(place, place + length):
                    self._claim(number, change.origin)
            at += max(length, 1)

    def _run(self, after: Sequence[str], at: int, start: int, kept: set[int]) -> int:
        """Return the number of added lines from ``at`` that are also in the original text from line ``start``."""
        length = 0
        while (
            at + length < len(after)
            and start + length < len(self._lines)
            and at + length not in kept
            and start + length not in self._found
            and after[at + length] == self._lines[start + length]
        ):
            length += 1
        return length


def _equal_lines(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield pairs of equal lines in the order of both texts. In large texts, compare only lines that occur once."""
    shorter = min(len(before), len(after))
    head = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    tail = next((at for at in range(shorter - head) if before[-1 - at] != after[-1 - at]), shorter - head)
    yield from zip(range(head), range(head), strict=True)
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if len(old) * len(new) <= _PRODUCT_MAX:
        for start, new_start, size in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
            yield from ((head + start + at, head + new_start + at) for at in range(size))
    else:
        yield from ((head + at, head + number) for at, number in _unique_lines(old, new))
    yield from ((len(before) - at, len(after) - at) for at in range(tail, 0, -1))


def _unique_lines(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
    """Return the longest sequence of pairs of equal lines that occur once in each text (as in a patience diff)."""
    once = [{line for line, count in Counter(lines).items() if count == 1} for lines in (before, after)]
    places = {line: number for number, line in enumerate(after) if line in once[1]}
    pairs = [(at, places[line]) for at, line in enumerate(before) if line in once[0] and line in places]
    ends: list[int] = []  # the smallest last line of a sequence of each length
    last: list[int] = []  # the index of the pair with this line
    previous: list[int] = []
    for index, (_, number) in enumerate(pairs):
        length = bisect_left(ends, number)
        previous.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [number]
        last[length : length + 1] = [index]
    found = []
    index = last[-1] if last else -1
    while index >= 0:
        found.append(pairs[index])
        index = previous[index]
    return found[::-1]
