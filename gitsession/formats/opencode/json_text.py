"""Functions that split, reformat and sort JSON text without changing its tokens. This module is FROZEN under view 1.

opencode stores a message as JSON text in a database, and prints the message with different whitespace in an export. The
database and the export must result in the same record, so a record is JSON text without whitespace between tokens
(compact JSON). Numbers and escapes are not changed.

opencode does not preserve the order of members either. After ``opencode export`` and ``opencode import``, a message
contains its members in a different order. So in a record, the members of the objects that opencode defines are sorted.
The members of tool arguments and tool results are not sorted. For each kind of object and each set of keys, the
original order of the members is stored once per session.
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
"""The members whose values are objects that opencode defines, for each kind of object."""


class Order(NamedTuple):
    """The order of an object's members. ``level``: the kind of object; ``keys``: the keys as JSON text, in order."""

    level: str
    keys: tuple[str, ...]


def ordered(found: Sequence[Member], level: str, orders: list[Order]) -> str:
    """Return the JSON text of an object with the members ``found``, sorted by key. ``level``: the kind of the object.

    The original orders of the members of this object and of nested objects are appended to ``orders``.
    """
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
    """The orders of members in a session. For each kind of object and set of keys, the first order is used."""

    def __init__(self, found: Iterable[Order]) -> None:
        self._known: dict[tuple[str, frozenset[str]], Order] = {}
        for order in found:
            if len(set(order.keys)) == len(order.keys):
                self._known.setdefault((order.level, frozenset(order.keys)), order)

    @classmethod
    def of(cls, raw: str) -> Orders:
        """Return the orders in ``raw``, which has the form of the property ``text``."""
        found = []
        for listed, _ in elements(raw):
            (_, level), *keys = elements(listed)
            found.append(Order(level, tuple([key for key, _ in keys])))
        return cls(found)

    @property
    def text(self) -> str:
        """The orders as a JSON list. Each item is a list that contains the kind of object and the keys in order.

        An order that sorts the members by key is omitted. If all orders are omitted, the text is "".
        """
        unsorted = [order for order in self._known.values() if list(order.keys) != sorted(order.keys)]
        rows = (",".join((f'"{order.level}"', *order.keys)) for order in unsorted)
        return f"[{','.join(f'[{row}]' for row in rows)}]" if unsorted else ""

    def has(self, order: Order) -> bool:
        """Return whether ``order`` is the order in which ``restored`` returns the members of such an object."""
        return self._known.get((order.level, frozenset(order.keys))) == order

    def restored(self, raw: str, level: str) -> str:
        """Return ``raw``, an object of the kind ``level`` in a record, with the members in their original order."""
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
    """A member of an object. ``key`` and ``raw``: its key and value as JSON text; ``value``: the parsed value."""

    key: str
    raw: str
    value: Any


def compact(text: str) -> str:
    """Return ``text`` without the whitespace between its tokens."""
    return "".join(_VISIBLE.findall(text))


def checked(text: str) -> tuple[str, LineFailure | None]:
    """Return ``text`` as compact JSON and ``None``, or ``text`` and the reason why ``text`` is not a JSON object."""
    found = parse(text.encode("utf-8", "surrogatepass"))
    return (text, found) if isinstance(found, LineFailure) else (compact(text.removeprefix("\ufeff")), None)


def member_of(name: str, raw: str) -> Member:
    """Return the member ``name`` of an object, with the value ``raw`` as JSON text."""
    return Member(f'"{name}"', raw, _scan(raw, 0)[0])


def members(raw: str) -> list[Member]:
    """Return the members of ``raw``, a valid object as compact JSON. Two members can have the same key."""
    found: list[Member] = []
    at = 1
    while raw[at] != "}":
        _, end = _scan(raw, at)
        value, after = _scan(raw, end + 1)
        found.append(Member(raw[at:end], raw[end + 1 : after], value))
        at = after + (raw[after] == ",")
    return found


def elements(raw: str) -> Iterator[tuple[str, Any]]:
    """Yield the JSON text and the value of each element of ``raw``, a valid array as compact JSON."""
    at = 1
    while raw[at] != "]":
        value, end = _scan(raw, at)
        yield raw[at:end], value
        at = end + (raw[end] == ",")


def joined(kept: Iterable[Member]) -> str:
    """Return the JSON text of an object with the members ``kept``."""
    return "{" + ",".join(f"{member.key}:{member.raw}" for member in kept) + "}"


def quoted(value: Any) -> str:
    """Return ``value`` as compact JSON.

    As in JavaScript, lone surrogates are escaped, and numbers that JSON cannot represent become ``null``.
    """
    try:
        text = _WRITTEN(value)
    except ValueError:
        text = _WRITTEN(_finite(value))
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _finite(value: Any) -> Any:
    """Return ``value`` with ``None`` in place of each number that JSON cannot represent, such as infinity."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def laid_out(raw: str) -> str:
    """Return ``raw``, compact JSON, with the whitespace that ``JSON.stringify(value, null, 2)`` writes."""
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


def _parse_int(text: str) -> int | float:
    """Return ``text`` as an integer, or as a float if ``text`` has 400 characters or more.

    ``int`` rejects very long numbers.
    """
    return int(text) if len(text) < 400 else float(text)


_WRITTEN = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_STRING = r'"(?:[^"\\]++|\\.)*+"'
_VISIBLE = re.compile(rf'{_STRING}|[^" \t\r\n]++|"', re.DOTALL)
_TOKEN = re.compile(rf"{_STRING}|[{{}}\[\],:]|[^\s{{}}\[\],:\"]+", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_scan = json.JSONDecoder(parse_int=_parse_int).scan_once  # type: ignore[attr-defined]
