"""Parser of files with one JSON object per line, and of records that consist of several lines.

The result of ``parse`` determines whether a line is ``opaque``, and commit messages contain this word. So the result is
frozen under the view number, as headlines are. The lines of a large file (``StoredFile``) are read on access; only
their offsets are in memory.

Some agents log token counts, settings, and user-interface events in the session file. Most lines of such a file are not
part of the conversation. If each line were an entry, a store would need twice the disk space, and the conversation
would be hard to find. So a record (``Group``) consists of a *record line* and the lines before it that *accompany* it.
The lines are stored verbatim, with the newlines between them. The rule that selects accompanying lines determines the
entries, so it is frozen under the view number. The rule for content that is stored as separate blobs is frozen too.

The accompanying lines after the last record line are the ``tail`` of the file, until a further record line follows and
they become part of its record. The tail is stored on ``meta``, so that no entry depends on a later line
(docs/decisions/0014).
"""

from __future__ import annotations

import base64
import json
import math
import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias, overload

LF = b"\n"
_CHUNK = 1 << 20


class StoredFile:
    """The first ``size`` bytes of a file that does not change while it is read.

    ``read``: a function that returns a given number of bytes from a given offset.
    """

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self._read = read
        self._size = size
        self.newest: tuple[int, Any] = (-1, None)
        """The offset of the span that was parsed last, and the parsed value."""

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self._size)
        return self._read(max(stop - start, 0), start)

    def startswith(self, prefix: bytes) -> bool:
        return self[: len(prefix)] == prefix


Data: TypeAlias = bytes | StoredFile


class FileSpan(NamedTuple):
    """A part of a stored file."""

    data: StoredFile
    start: int
    end: int

    def read(self) -> bytes:
        return self.data[self.start : self.end]


class Lines(Sequence[bytes]):
    """The lines of a stored file without their LF. ``tail``: the bytes after the last LF."""

    def __init__(self, data: StoredFile) -> None:
        self._data = data
        self._ends = array("Q")
        for start in range(0, len(data), _CHUNK):
            chunk, at = data[start : start + _CHUNK], -1
            while (at := chunk.find(LF, at + 1)) >= 0:
                self._ends.append(start + at)

    @property
    def tail(self) -> bytes:
        return self._data[self._start(len(self._ends)) :]

    def append(self, tail: bytes) -> None:
        """Append ``tail`` as the last line."""
        self._ends.append(self._start(len(self._ends)) + len(tail))

    def joined(self, first: int, last: int) -> FileSpan:
        """Return the span from line ``first`` up to but not including line ``last``, without the last newline."""
        return FileSpan(self._data, self._start(first), self._ends[last - 1])

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        number = range(len(self))[at]
        return self._data[self._start(number) : self._ends[number]]

    def __iter__(self) -> Iterator[bytes]:
        return (self[number] for number in range(len(self)))

    def _start(self, number: int) -> int:
        return self._ends[number - 1] + 1 if number else 0


def joined(lines: Sequence[bytes], first: int, last: int) -> bytes | FileSpan:
    """Return lines ``first`` up to but not including ``last``, joined by LF. A span of a stored file is not read."""
    return lines.joined(first, last) if isinstance(lines, Lines) else LF.join(lines[first:last])


DEPTH_MAX = 200
"""Maximum nesting depth of a line. A deeper line would overflow the stack of some JSON parsers."""

Object: TypeAlias = dict[str, Any]


class LineFailure(NamedTuple):
    """The failure to parse a line. ``reason``: the reason, in a few words, for a report; "" for a blank line."""

    reason: str


class FileLines(NamedTuple):
    """The lines of a file without their LF.

    ``waiting``: the bytes after the last LF if they are not a complete line yet.
    """

    lines: list[bytes] | Lines
    waiting: bytes
    ends_with_newline: bool


def split_lines(data: Data, *, final: bool) -> FileLines:
    """Split ``data`` into lines. The bytes after the last LF are a line if they are a JSON object or ``final`` is true.

    Only LF ends a line. ``splitlines`` would also split at CR and, in a string, at U+2028 and U+0085. All of these can
    be content.
    """
    lines: list[bytes] | Lines
    if isinstance(data, StoredFile):
        lines = Lines(data)
        rest = lines.tail
    else:
        lines = data.split(LF)
        rest = lines.pop()
    if not rest or not (final or not isinstance(parse(rest), LineFailure)):
        return FileLines(lines, rest, True)
    lines.append(rest)
    return FileLines(lines, b"", False)


def parse(line: bytes) -> Object | LineFailure:
    """Return the JSON object in ``line``, or the failure if ``line`` is not a JSON object. Never raises.

    A byte order mark before the object is accepted, because some editors write one at the beginning of a file. NaN and
    Infinity are rejected, because they are not JSON. An integer with thousands of digits becomes a float.
    """
    if line.count(b"[") + line.count(b"{") > DEPTH_MAX and _deeper_than(line, DEPTH_MAX):
        return LineFailure(f"nested deeper than {DEPTH_MAX} levels")
    try:
        text = line.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        return LineFailure(f"not UTF-8: byte {error.start + 1}")
    try:
        value = _decode(text)
    except json.JSONDecodeError as error:
        return LineFailure(f"not JSON: {error.msg}, column {error.colno}") if text.strip(_BLANK) else LineFailure("")
    except _NotFinite as error:
        return LineFailure(f"not JSON: {error}")
    except RecursionError:
        return LineFailure("nested too deeply for the stack")
    return value if type(value) is dict else LineFailure("not an object")


class _NotFinite(Exception):
    pass


def _refuse(literal: str) -> NoReturn:
    raise _NotFinite(f"{literal} is not a number")


def _decode(text: str) -> Any:
    try:
        return _EXACT(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # int() rejects thousands of digits (int_max_str_digits)
        return _LENIENT(text)


def _deeper_than(line: bytes, levels: int) -> bool:
    """Return whether brackets outside of strings are nested more than ``levels`` deep. No recursion is used."""
    brackets = _STRING.sub(b"", line).translate(None, _NO_BRACKETS)
    if brackets.count(b"[") + brackets.count(b"{") <= levels:
        return False
    depth = 0
    for byte in brackets:
        depth += 1 if byte in b"[{" else -1
        if depth > levels:
            return True
    return False


_BLANK = " \t\r\n\f\v"
_EXACT = json.JSONDecoder(parse_constant=_refuse).decode
_LENIENT = json.JSONDecoder(parse_constant=_refuse, parse_int=float).decode
# Possessive quantifiers make the running time linear for any bytes. An unclosed string extends to the end.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+', re.DOTALL)
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def dumps(value: Any) -> bytes:
    """Return ``value`` as one line of JSON, formatted as pi formats JSON.

    Lone surrogates are escaped; bytes are encoded in base64.
    """
    text = json.dumps(_jsonable(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace")


def _jsonable(value: Any) -> Any:
    """Return a copy of ``value`` that JSON can represent."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    return value


class Group(NamedTuple):
    """The lines of one record. ``line``: the number of the record line; ``parsed``: its parsed object."""

    line: int
    payload: bytes
    parsed: Object | LineFailure


class StoredGroup:
    """The lines of one record of a large file. ``parsed`` is computed on access. Only its newest value is cached."""

    __slots__ = ("line", "payload")

    def __init__(self, line: int, payload: FileSpan) -> None:
        self.line = line
        self.payload = payload

    @property
    def parsed(self) -> Object | LineFailure:
        data, start = self.payload.data, self.payload.start
        if data.newest[0] != start:
            data.newest = start, parse(record_line(self.payload.read()))
        parsed: Object | LineFailure = data.newest[1]
        return parsed


def grouped(lines: Sequence[bytes], first: int, last: int, parsed: Object | LineFailure) -> Group | StoredGroup:
    """Return the group of the lines from ``first`` up to but not including ``last``.

    ``parsed``: the last of these lines, parsed.
    """
    payload = joined(lines, first, last)
    return Group(last, payload, parsed) if isinstance(payload, bytes) else StoredGroup(last, payload)


def group(
    lines: Sequence[bytes], start: int, is_attached: Callable[[Object], bool]
) -> tuple[list[Group | StoredGroup], bytes | None]:
    """Return the groups of the lines from index ``start`` on, and the tail, or ``None`` if there is no tail.

    The tail consists of the lines after the last record line. ``is_attached``: a function that returns whether a line
    accompanies the next record line. A line that is not an object is a record line and is reported as a problem.
    """
    groups: list[Group | StoredGroup] = []
    first = start
    for at in range(start, len(lines)):
        parsed = parse(lines[at])
        if isinstance(parsed, LineFailure) or not is_attached(parsed):
            groups.append(grouped(lines, first, at + 1, parsed))
            first = at + 1
    return groups, LF.join(lines[first:]) if first < len(lines) else None


def record_line(payload: bytes) -> bytes:
    """Return the record line of a record, which is its last line."""
    return payload.rpartition(LF)[2]


def attached_lines(payload: bytes) -> list[bytes]:
    """Return the lines of a record that accompany its record line."""
    return payload.split(LF)[:-1]
