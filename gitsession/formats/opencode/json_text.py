"""JSON as text: cut into members and elements, laid out anew and ordered, no token of it changed. FROZEN with view 1.

opencode keeps a message as text in a database and prints it in another layout in an export. What both say is the same
record here, so a record is the text without its layout; numbers and escapes stay as they stand.

Nor does opencode keep the order of members: a message that went through ``opencode export`` and ``opencode import``
says the same with its members elsewhere. So in a record they stand sorted, in the objects whose members are opencode's
own; what a tool was asked and what it gave back is data, and stays as it is. The order that each kind of object had is
kept once for a session.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import Any, NamedTuple

from gitsession.formats.base.jsonl import LineFailure, parse

INFO, PART = "info", "part"

_WITHIN = {
    INFO: ("time", "tokens", "path", "model"),
    PART: ("time", "tokens", "state"),
    "info.tokens": ("cache",),
    "part.tokens": ("cache",),
    "part.state": ("time",),
}
"""The members that are objects of opencode's own, too."""


class Order(NamedTuple):
    """The order of an object's members. ``level``: which object it is; ``keys``: as they stand in the text."""

    level: str
    keys: tuple[str, ...]


def ordered(found: Sequence[Member], level: str, orders: list[Order]) -> str:
    """The object of the members ``found``, sorted; ``orders`` gets the order in which they stood, and those within."""
    orders.append(Order(level, tuple([member.key for member in found])))
    within = _WITHIN.get(level, ())
    kept = [
        Member(member.key, ordered(members(member.raw), f"{level}.{member.key[1:-1]}", orders), None)
        if member.key[1:-1] in within and member.raw.startswith("{")
        else member
        for member in found
    ]
    return joined(sorted(kept, key=lambda member: member.key))


class Orders:
    """The first order that the members of each kind of object had in a session."""

    def __init__(self, found: Iterable[Order]) -> None:
        self._known: dict[tuple[str, frozenset[str]], Order] = {}
        for order in found:
            if len(set(order.keys)) == len(order.keys):
                self._known.setdefault((order.level, frozenset(order.keys)), order)

    @classmethod
    def of(cls, raw: str) -> Orders:
        """The inverse of ``text``."""
        found = []
        for listed, _ in elements(raw):
            (_, level), *keys = elements(listed)
            found.append(Order(level, tuple([key for key, _ in keys])))
        return cls(found)

    @property
    def text(self) -> str:
        """A list of lists: level, and keys in their order; "" for an empty one. What is sorted anyway is left out."""
        told = [order for order in self._known.values() if list(order.keys) != sorted(order.keys)]
        rows = (",".join((f'"{order.level}"', *order.keys)) for order in told)
        return f"[{','.join(f'[{row}]' for row in rows)}]" if told else ""

    def has(self, order: Order) -> bool:
        """Whether members in this order come back in it."""
        return self._known.get((order.level, frozenset(order.keys))) == order

    def restored(self, raw: str, level: str) -> str:
        """An object of a record, its members in their order."""
        found = members(raw)
        within = _WITHIN.get(level, ())
        by_key = {
            member.key: Member(member.key, self.restored(member.raw, f"{level}.{member.key[1:-1]}"), None)
            if member.key[1:-1] in within and member.raw.startswith("{")
            else member
            for member in found
        }
        order = self._known.get((level, frozenset(by_key)))
        return joined([by_key[key] for key in order.keys] if order is not None else by_key.values())


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
