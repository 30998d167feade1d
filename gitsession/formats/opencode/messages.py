"""One message of opencode's with its parts, as its record has it (``opencode.records``). FROZEN with view 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gitsession.formats.base.jsonl import Object
from gitsession.formats.base.times import to_ms
from gitsession.formats.opencode.json_text import Member, elements, joined, members
from gitsession.formats.opencode.member_order import INFO, PART, Order, ordered

AGENT = "opencode"


class OpencodeMessage(NamedTuple):
    """One message. ``full``: all of it; ``bare``: its record; ``marks``: when which part stopped being shown.

    ``orders``: in which order the members of its record stood, object by object (``opencode_order``).
    """

    full: str
    bare: str
    info: Object
    parts: Sequence[Any]
    marks: Sequence[tuple[int, str]] = ()
    orders: Sequence[Order] = ()
    problem: str = ""


def said(info: str, parts: Iterable[str]) -> OpencodeMessage:
    """A message of its objects, which are compact and were checked."""
    found = members(info)
    stated = object_of(found)
    orders: list[Order] = []
    if stated.get("role") == "user" and isinstance(stated.get("summary"), dict):
        bare = ordered([member for member in found if member.key != '"summary"'], INFO, orders)
    else:
        bare = ordered(found, INFO, orders)
    full_parts, bare_parts, values = [], [], []
    marks: list[tuple[int, str]] = []
    for part in parts:
        full_parts.append(part)
        if not part.startswith("{"):
            bare_parts.append(part)
            continue
        own = members(part)
        value = object_of(own)
        mark = _mark(value)
        bare_parts.append(ordered(_unmarked(own) if mark is not None else own, PART, orders))
        values.append(value)
        marks += [mark] if mark is not None else []
    return OpencodeMessage(together(info, full_parts), together(bare, bare_parts), stated, values, marks, orders)


def with_ids(raw: str, ids: Mapping[str, str]) -> str:
    """An object, compact and checked, with the ids that a row says beside it: those in it do not count."""
    keys = {f'"{name}"': value for name, value in ids.items()}
    rest = [member for member in members(raw) if member.key not in keys]
    return joined([*rest, *(Member(key, value, None) for key, value in keys.items())])


def message_of(raw: str, value: Any) -> OpencodeMessage:
    """An element of an export's list of messages, compact and checked."""
    if isinstance(value, dict) and isinstance(value.get("info"), dict) and isinstance(value.get("parts"), list):
        by_key = {member.key: member.raw for member in members(raw)}
        if len(by_key) == len(value) == 2 and by_key.keys() == {'"info"', '"parts"'}:
            return said(by_key['"info"'], [part for part, _ in elements(by_key['"parts"'])])
    return OpencodeMessage(raw, raw, {}, (), problem="no message with its parts")


def asks_to_compact(info: Object, parts: Any) -> bool:
    """Whether a message is no words of the user's but a request to compact."""
    parts = parts if isinstance(parts, list | tuple) else ()
    return info.get("role") == "user" and any(isinstance(p, dict) and p.get("type") == "compaction" for p in parts)


def object_of(found: Iterable[Member]) -> Object:
    """An object of its members."""
    return {member.key[1:-1]: member.value for member in found}


def together(info: str, parts: Sequence[str]) -> str:
    """A message of its objects, compact."""
    return f'{{"info":{info},"parts":[{",".join(parts)}]}}'


def _mark(part: Object) -> tuple[int, str] | None:
    """When a part of a tool's stopped being shown, and its id."""
    state = part.get("state")
    time = state.get("time") if isinstance(state, dict) else None
    at_ms = time.get("compacted") if isinstance(time, dict) else None
    id = part.get("id")
    is_mark = part.get("type") == "tool" and type(at_ms) is int and at_ms >= 0 and isinstance(id, str)
    return (at_ms, id) if is_mark and type(at_ms) is int and isinstance(id, str) else None


def _unmarked(part: list[Member]) -> list[Member]:
    return _without(part, ("state", "time", "compacted"))


def _without(found: list[Member], way: Sequence[str]) -> list[Member]:
    key = f'"{way[0]}"'
    if len(way) == 1:
        return [member for member in found if member.key != key]
    return [
        Member(member.key, joined(_without(members(member.raw), way[1:])), None) if member.key == key else member
        for member in found
    ]


def id_of(info: Object) -> str | None:
    """What a message is called."""
    id = info.get("id")
    return id if isinstance(id, str) else None


def created_ms(info: Object) -> int | None:
    """When a message, or a session, came to be."""
    time = info.get("time")
    return to_ms(time.get("created")) if isinstance(time, dict) else None
