"""Files of one JSON object a line: cutting them into lines, and parsing a line so that nothing can go wrong.

What ``parse`` accepts decides whether a line is ``opaque``, and that word stands in commit messages: changing the
verdict on any bytes is a change of view number, as with the headlines.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, NoReturn, TypeAlias

from gitsession.formats.base.lines import Data, Lines, StoredFile

DEPTH_MAX = 200
"""Levels of nesting that a line may have; deeper ones end the stack of some reader sooner or later."""

Object: TypeAlias = dict[str, Any]


class LineFailure(NamedTuple):
    """Why a line is no object. ``reason``: short words for a report, "" for a blank line."""

    reason: str


def cut(data: Data) -> tuple[list[bytes] | Lines, bytes]:
    """The lines of ``data`` without their LF, and what stands after the last LF.

    LF only: ``splitlines`` would also cut at CR, and in text at U+2028 and U+0085, which are data here.
    """
    if isinstance(data, StoredFile):
        stored = Lines(data)
        return stored, stored.tail
    lines = data.split(b"\n")
    tail = lines.pop()
    return lines, tail


def parse(line: bytes) -> Object | LineFailure:
    """The object that ``line`` holds. Never raises.

    A byte order mark before it is tolerated, as some editors put one at the head of a file. NaN and Infinity are not
    JSON. An integer of thousands of digits becomes a float.
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
    except ValueError:  # int() refuses thousands of digits: int_max_str_digits
        return _LENIENT(text)


def _deeper_than(line: bytes, levels: int) -> bool:
    """Whether brackets outside strings nest deeper than ``levels``: a scan, since a parser would recurse first."""
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
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+', re.DOTALL)  # possessive: linear on any bytes; to the end if unclosed
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
