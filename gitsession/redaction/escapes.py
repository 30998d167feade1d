"""Escapes of JSON (and of most languages) undone, and the way back: where in the bytes each decoded byte stands."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

_SHORT = {b"n": b"\n", b'"': b'"', b"t": b"\t", b"r": b"\r", b"/": b"/", b"'": b"'", b"b": b" ", b"f": b" "}
"""What one letter behind a backslash stands for. Backspace and form feed are spaces to who looks for words."""

_UNICODE = re.compile(rb"\\u([0-9a-fA-F]{4})")
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)


def decoded(data: bytes) -> bytes:
    """``data`` with each escape undone once. A character that is no ASCII becomes ``?``."""
    if b"\\" not in data:
        return data
    pieces = data.split(b"\\\\")
    for number, piece in enumerate(pieces):
        if b"\\" in piece:
            for letter, meant in _SHORT.items():
                piece = piece.replace(b"\\" + letter, meant)
                if b"\\" not in piece:
                    break
            pieces[number] = _UNICODE.sub(_character, piece) if b"\\u" in piece else piece
    return b"\\".join(pieces)


def _character(found: re.Match[bytes]) -> bytes:
    code = int(found[1], 16)
    return bytes((code,)) if code < 128 else b"?"


class Way(NamedTuple):
    """From places in decoded bytes to those in the bytes: ``places[i]`` is where the run from ``starts[i]`` begins."""

    starts: list[int]
    places: list[int]

    def back(self, at: int) -> int:
        """Where the decoded byte ``at`` begins; of the end, the end."""
        number = bisect_right(self.starts, at) - 1
        return self.places[number] + at - self.starts[number]

    def end(self, at: int) -> int:
        """Return where the byte before ``at`` ends, which is where the next one begins."""
        return self.back(at)


def way(data: bytes) -> Way:
    """The way back from ``decoded(data)``."""
    starts, places = [0], [0]
    at = shorter = 0
    while (found := _ESCAPE.search(data, at)) is not None:
        at = found.end()
        letter = found[2]
        if letter is None or letter in _SHORT or letter == b"\\":
            start = found.start() - shorter
            shorter += at - found.start() - 1
            starts += [start, start + 1] if starts[-1] != start else [start + 1]
            places += [found.start(), at] if places[-1] != found.start() else [at]
    return Way(starts, places)
