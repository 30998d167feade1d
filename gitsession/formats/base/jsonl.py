"""Parser of files with one JSON object per line, and of records that consist of several lines.

If ``parse`` fails on a line, the commit message of the entry contains the word ``opaque``. So the result of ``parse``
is frozen under the view number, as headlines are. The lines of a large file (``StoredFile``) are read on access. Only
the offsets of the lines are in memory.

Some agents log token counts, settings, and user-interface events in the session file. Most lines of such a file are not
part of the conversation. If each line were an entry, a store would need twice the disk space, and the conversation
would be hard to find. So a record (``Group``) consists of a *record line* and the *accompanying lines* directly before
the record line. The lines are stored verbatim, with the newlines between them. The rule that selects accompanying lines
determines the entries, so this rule is frozen under the view number. The rule that selects the content of separate
blobs is frozen too.

The accompanying lines after the last record line are the ``tail`` of the file. When the agent writes another record
line, the tail becomes part of the new record. The tail is stored on ``meta``, so that no entry depends on a later line
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

    ``read``: a function that takes a number of bytes and an offset, and returns the bytes at the offset.
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
        """Return the span of the lines from index ``first`` up to but not including ``last``, without the last LF."""
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
    """Return the lines from index ``first`` up to but not including ``last``, joined by LF.

    For the lines of a stored file, the result is a ``FileSpan``, and the lines are not read.
    """
    return lines.joined(first, last) if isinstance(lines, Lines) else LF.join(lines[first:last])


DEPTH_MAX = 200
"""The maximum nesting depth of a line. Some JSON parsers overflow their stack on deeper lines."""

Object: TypeAlias = dict[str, Any]


class LineFailure(NamedTuple):
    """The failure to parse a line. ``reason``: a short reason for a report; "" for a blank line."""

    reason: str


class FileLines(NamedTuple):
    """The lines of a file without their LF.

    ``waiting``: the bytes after the last LF if these bytes are an incomplete line, otherwise empty.
    ``ends_with_newline``: whether the last of ``lines`` ends with LF in the file.
    """

    lines: list[bytes] | Lines
    waiting: bytes
    ends_with_newline: bool


def split_lines(data: Data, *, final: bool) -> FileLines:
    """Split ``data`` into lines. The bytes after the last LF are a line if they are a JSON object or ``final`` is true.

    Only LF ends a line. ``splitlines`` is not used, because it also splits at CR and, in a string, at U+2028 and
    U+0085. All of these characters can be content.
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
    """Return the JSON object in ``line``, or a ``LineFailure`` if ``line`` is not a JSON object. Never raises.

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
        value, end = _scan(text, 0)
        if end == len(text):
            return value
    except (StopIteration, ValueError):
        pass
    try:
        return _EXACT(text)  # which allows blanks around the object, and describes errors
    except json.JSONDecodeError:
        raise
    except ValueError:  # int() rejects thousands of digits (int_max_str_digits)
        return _LENIENT(text)


def _deeper_than(line: bytes, levels: int) -> bool:
    """Return whether brackets outside of strings are nested more than ``levels`` deep. Uses no recursion."""
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
_scan = json.JSONDecoder(parse_constant=_refuse).scan_once  # type: ignore[attr-defined]
_LENIENT = json.JSONDecoder(parse_constant=_refuse, parse_int=float).decode
# Possessive quantifiers make the running time linear for any bytes. An unclosed string extends to the end.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+', re.DOTALL)
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def dumps(value: Any) -> bytes:
    """Return ``value`` as one line of JSON without spaces between tokens, as pi writes JSON.

    Lone surrogates are escaped. Bytes are encoded in base64. NaN and infinity become null.
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
    """The lines of one record. ``line``: the number of the record line; ``parsed``: the parsed record line."""

    line: int
    payload: bytes
    parsed: Object | LineFailure


class StoredGroup:
    """The lines of one record of a large file.

    ``parsed`` is computed on access. For each file, only the value that was computed last is cached.
    """

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
    """Return the group of the lines from index ``first`` up to but not including ``last``.

    ``parsed``: the result of parsing the last line of the group.
    """
    payload = joined(lines, first, last)
    return Group(last, payload, parsed) if isinstance(payload, bytes) else StoredGroup(last, payload)


def group(
    lines: Sequence[bytes], start: int, is_attached: Callable[[Object], bool]
) -> tuple[list[Group | StoredGroup], bytes | None]:
    """Group the lines from index ``start`` on. Return the groups and the tail.

    The tail consists of the lines after the last record line. If there are no such lines, the tail is ``None``.
    ``is_attached``: a function that returns whether a line is an accompanying line. A line that is not a JSON object is
    a record line.
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
    """Return the accompanying lines of a record."""
    return payload.split(LF)[:-1]
