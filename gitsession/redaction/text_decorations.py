"""Marks that programs add to a text that they show: colours, line numbers, signs of a diff, quote marks, ``%3D``.

Rules go by what stands before a value, so a secret behind such a mark is not found. ``removed`` takes the marks out,
and leads each hit back to the bytes as they are. ``bare`` is the same for a first look at bytes whose escapes are not
undone yet: no offsets, and no line marks, which ``scan`` sees through in another way.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_BACKSLASHES = rb"(?<=\\)(?<!\\\\)\\*+"
"""The rest of a run of backslashes, from its first, so that a run is read once."""
_ESC = rb"(?:(?<=\x1b)|" + _BACKSLASHES + rb"(?:u001[bB]|x1[bB]|0?33|e)|(?<=\^)\[)"
"""The rest of an escape byte, also as programming languages and ``cat -v`` write it."""
_BELL = rb"(?:\x07|\\++u0007|(?:\x1b|\\++u001[bB])\\+)"
_SEQUENCE = re.compile(
    rb"[\x00\x1b\\^E\[](?:(?<=\x00)|"
    + (_ESC + rb"(?:\[[0-9;:?<=>]*+[ -/]*+[@-~]|\][^\x07\x1b\\]{0,2000}+" + _BELL + rb"|[()][0-9A-Z])|")
    + (_BACKSLASHES + rb"u0000|(?:(?<=E)SC\[|(?<=\[))(?:\d{1,3}[;:]?){1,20}+m)")
)
"""Colours, erased lines, links, and the zeros of UTF-16 that was read as bytes. Of colours also what is left of them
when their first byte is lost. All begin with one of a few bytes, which is what makes the search quick."""

_WRITTEN = re.compile(rb"\[(?:\d{1,3}[\d;:]{0,60}|(?<=[bB3eC\[]\[))[mK]")
"""The part that every sequence for a colour, or to erase a line, has without its first byte. One without a number is
known by the end of that byte: ``[m`` begins many words."""

_NUMBER = (
    rb"[\w./@+-]{1,200}:\d{1,7}:|[\w./@+-]{1,200}-\d{1,7}-"
    rb"|\d{1,7}(?:[ \t]*+(?:\xe2\x86\x92|\xe2\x94\x82|\?|\|)|[:\t-]|(?= ))"
)
"""``?``: an arrow or a bar that was written as an escape (``escapes.decoded``)."""
_SIGN = rb"[+-](?![+-])|\+\+(?!\+)|>|\#|//|\*|\||\xe2\x94\x82"
"""``++``: a diff of a line that begins with ``+``; ``--`` stays, because options begin with it."""
_MARGIN = re.compile(rb'[\n"]((?:[ \t]*+(?:' + _NUMBER + rb"|" + _SIGN + rb")){1,6}+[ \t]?)")
"""The margin of a line, or of the first line of a string."""

_PERCENT = re.compile(rb"%([0-9a-fA-F]{2})")

_WRITTEN_BYTE = re.compile(rb"u00(?:1[bB]|00[ -~]\\++u0000)")
_SIGNS = (
    (b"\x1b", re.compile(rb"\x1b")),
    (b"\0", re.compile(rb"\0")),
    (b"[", _WRITTEN),
    (b"%", _PERCENT),
)
"""The beginnings of the marks that ``bare`` removes. Few texts have any: each is searched for as plain bytes first."""


class UnmarkedText(NamedTuple):
    """Bytes without some marks: a run, from ``starts`` in ``data``, is from ``places`` to ``ends`` in the original."""

    data: bytes
    starts: list[int]
    places: list[int]
    ends: list[int]

    def back(self, at: int) -> int:
        """Return where in the original the byte ``at`` of ``data`` begins."""
        number = bisect_right(self.starts, at) - 1
        return self.places[number] + at - self.starts[number]

    def end(self, at: int) -> int:
        """Return where in the original the byte before ``at`` ends: before the marks that follow it."""
        number = bisect_left(self.starts, at) - 1
        is_all = at == (self.starts[number + 1] if number + 1 < len(self.starts) else len(self.data))
        return self.ends[number] if is_all else self.places[number] + at - self.starts[number]


def removed(data: bytes) -> list[UnmarkedText]:
    """Return views of ``data``, each made from the one before it; the last has no marks. Empty if there are none."""
    views: list[UnmarkedText] = []
    for spans in (_sequences, _margins, _percents):
        found = list(spans(data))
        if found:
            views.append(_view(data, found))
            data = views[-1].data
    return views


def bare(data: bytes) -> bytes:
    """Return ``data``, whose escapes are not undone, without sequences and with ``%3D`` as ``=``."""
    return _PERCENT.sub(_meant, _SEQUENCE.sub(b"", data))


def places(data: bytes, *, has_escapes: bool) -> Iterator[int]:
    """Yield where in ``data`` something stands that ``bare`` may take out. ``has_escapes``: ``u00`` is in it."""
    if has_escapes:
        yield from (found.start() for found in _WRITTEN_BYTE.finditer(data))
    for sign, pattern in _SIGNS:
        if sign in data:
            yield from (found.start() for found in pattern.finditer(data))


def _meant(found: re.Match[bytes]) -> bytes:
    return bytes((int(found[1], 16),))


def _sequences(data: bytes) -> Iterable[tuple[int, int, bytes]]:
    if b"\0" in data or b"\x1b" in data or b"u00" in data or _WRITTEN.search(data):
        return ((*found.span(), b"") for found in _SEQUENCE.finditer(data))
    return ()


def _margins(data: bytes) -> Iterable[tuple[int, int, bytes]]:
    found = _MARGIN.match(b"\n" + data[:_FIRST])
    if found is not None:
        yield 0, found.end(1) - 1, b""
    for found in _MARGIN.finditer(data):
        yield (*found.span(1), b"")


_FIRST = 2000
"""The most bytes that the margin of the first line of a text may have."""


def _percents(data: bytes) -> Iterable[tuple[int, int, bytes]]:
    if b"%" in data:
        return ((*found.span(), _meant(found)) for found in _PERCENT.finditer(data))
    return ()


def _view(data: bytes, spans: Iterable[tuple[int, int, bytes]]) -> UnmarkedText:
    """Return ``data`` with each of ``spans`` replaced by the byte that it stands for, or by nothing."""
    view = UnmarkedText(b"", [], [], [])
    parts: list[bytes] = []
    size = at = 0
    for start, end, meant in (*spans, (len(data), len(data), b"")):
        for place, to, part in ((at, start, data[at:start]), (start, end, meant)):
            if part:
                view.starts.append(size)
                view.places.append(place)
                view.ends.append(to)
                parts.append(part)
                size += len(part)
        at = end
    return view._replace(data=b"".join(parts))
