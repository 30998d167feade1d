"""JSON as text: cut into members and elements, laid out anew, no token of it changed.

opencode keeps a message as text in a database and prints it in another layout in an export. What both say is the same
record here, so a record is the text without its layout; numbers, escapes and the order of members stay as they stand.
FROZEN with view 1: what these functions give decides what the entries are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any, NamedTuple

from gitsession.formats.base.jsonl import LineFailure, parse


class Member(NamedTuple):
    """One member of an object. ``key`` and ``raw``: as they stand in the text; ``value``: what ``raw`` says."""

    key: str
    raw: str
    value: Any


def compact(text: str) -> str:
    """``text`` without the white space between its tokens."""
    return _LAYOUT.sub(r"\1", text)


def checked(text: str) -> tuple[str, LineFailure | None]:
    """``text``, compact, if it is one object that can be walked; else why it is none."""
    found = parse(text.encode("utf-8", "surrogatepass"))
    return (text, found) if isinstance(found, LineFailure) else (compact(text.removeprefix("\ufeff")), None)


def members(raw: str) -> list[Member]:
    """The members of an object that is compact and was checked; of two with one key, the later counts to readers."""
    found: list[Member] = []
    at = 1
    while raw[at] != "}":
        _, end = _scan(raw, at)
        value, after = _scan(raw, end + 1)
        found.append(Member(raw[at:end], raw[end + 1 : after], value))
        at = after + (raw[after] == ",")
    return found


def elements(raw: str) -> Iterator[tuple[str, Any]]:
    """The elements of an array that is compact and was checked: text and value."""
    at = 1
    while raw[at] != "]":
        value, end = _scan(raw, at)
        yield raw[at:end], value
        at = end + (raw[end] == ",")


def joined(kept: Iterable[Member]) -> str:
    """An object of members."""
    return "{" + ",".join(f"{member.key}:{member.raw}" for member in kept) + "}"


def quoted(value: Any) -> str:
    """A value as JavaScript writes it, but for the exponents of its numbers."""
    try:
        text = _WRITTEN(value)
    except ValueError:
        text = _WRITTEN(_finite(value))
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _finite(value: Any) -> Any:
    """The same without numbers that JSON cannot say, as 1e999 becomes one."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def laid_out(raw: str) -> str:
    """Compact JSON as ``JSON.stringify(value, null, 2)`` prints it."""
    out: list[str] = []
    depth = 0
    before = ""
    for token in _TOKEN.findall(raw):
        if token in "}]":
            depth -= 1
            if before not in "{[":
                out.append(_newline(depth))
        elif before == ":":
            out.append(" ")
        elif before and before in "{[,":
            out.append(_newline(depth))
        out.append(token)
        depth += token in "{["
        before = token
    return "".join(out)


def _newline(depth: int) -> str:
    return "\n" + "  " * depth


def _whole(text: str) -> int | float:
    """An integer of thousands of digits becomes a float: ``int`` would refuse it."""
    return int(text) if len(text) < 400 else float(text)


_WRITTEN = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_STRING = r'"(?:[^"\\]++|\\.)*+"'
_LAYOUT = re.compile(rf"({_STRING})|[ \t\r\n]+", re.DOTALL)
_TOKEN = re.compile(rf"{_STRING}|[{{}}\[\],:]|[^\s{{}}\[\],:\"]+", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_scan = json.JSONDecoder(parse_int=_whole).scan_once  # type: ignore[attr-defined]
