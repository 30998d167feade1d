"""A session of opencode's as records, wherever it was read: a database, an export, the folders of old.

A record is a message with its parts, compact, and without what opencode goes on rewriting in it for ever: the summary
of what a user's turn changed in files, and the mark on a tool's result that it is not shown any more. The message as it
stands is on ``meta`` wherever it says more than its record; marks are records of their own, in their place in time, as
they change what the model sees. A request to compact and the summary that answers it are one record. Messages behind
the last answer that is finished wait: they are still being written (docs/decisions/0015). FROZEN with view 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gitsession.formats.base.fields import object_in, storable, to_ms
from gitsession.formats.base.jsonl import Object
from gitsession.formats.base.record import WHOLE, Record, Source, SourceProblem
from gitsession.formats.base.record import quoted as named
from gitsession.formats.opencode.json_text import (
    INFO,
    PART,
    Member,
    Order,
    Orders,
    elements,
    joined,
    members,
    ordered,
    quoted,
)

AGENT = "opencode"


class OpencodeMessage(NamedTuple):
    """One message. ``full``: all of it; ``bare``: its record; ``marks``: when which part stopped being shown.

    ``orders``: in which order the members of its record stood, object by object (``json_text.ordered``).
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
    return to_ms(object_in(info, "time").get("created"))

HEADER = 0
"""The line of the session itself on ``meta``: messages are counted from 1."""


def source_of(
    info: str,
    messages: Sequence[OpencodeMessage],
    *,
    final: bool,
    whole: bytes | None = None,
    task: str = "",
    problems: Iterable[SourceProblem] = (),
) -> Source | None:
    """The session that ``info``, an object, describes; ``None`` where that has no id.

    ``messages``: in opencode's order. ``whole``: the file, where it cannot be laid out from the records. ``task``: an
    object that says which call of which session began this one.
    """
    about = object_of(members(info))
    source_id = about.get("id")
    if not isinstance(source_id, str):
        return None
    settled = len(messages) if final else _settled(messages)
    until_ms = created_ms(messages[settled].info) if settled < len(messages) else None
    orders = Orders(order for message in messages[:settled] for order in message.orders)
    records, overrides, more = _records(messages[:settled], until_ms, orders)
    waiting = ",".join(message.full for message in messages[settled:])
    header = {"info": info, "order": orders.text, "task": task}
    text = ",".join(f'"{name}":{raw}' for name, raw in header.items() if raw)
    meta = [Record(HEADER, f"{{{text}}}".encode()), *overrides]
    if whole is not None:
        meta.append(Record(WHOLE, whole))
    leaf, undone = _leaf(about.get("revert"), messages, records)
    return Source(
        agent=AGENT,
        source_id=storable(source_id),
        started_ms=created_ms(about) or 0,
        records=tuple(records),
        meta=tuple(meta),
        tail=f'{{"waiting":[{waiting}]}}'.encode() if waiting else b"",
        leaf=leaf,
        problems=(*problems, *more, *undone),
    )


def document(header: bytes, payloads: Iterable[bytes], tail: bytes) -> str:
    """What ``source_of`` took apart, as one compact object. ``payloads``: records, or what stands for them."""
    top = {member.key: member.raw for member in members(header.decode())}
    orders = Orders.of(top.get('"order"', "[]"))
    found = [text for payload in payloads for text in _inner(payload, orders)]
    if tail:
        found.append(tail.decode()[len('{"waiting":[') : -len("]}")])
    return f'{{"info":{top[_INFO]},"messages":[{",".join(found)}]}}'


def _inner(payload: bytes, orders: Orders) -> list[str]:
    """The messages that a record holds, or what stands for it: one, or two of a compaction, or none."""
    text = payload.decode()
    if text.startswith(_MARKS):
        return []
    if text.startswith(_FULL):
        return [text[len(_FULL) : -len("]}")]]
    if text.startswith(_GROUP):
        return [_as_it_stood(raw, orders) for raw, _ in elements(members(text)[0].raw)]
    return [_as_it_stood(text, orders)]


def _as_it_stood(raw: str, orders: Orders) -> str:
    """A record's message with its members in their own order."""
    if not raw.startswith(f"{{{_INFO}:{{"):
        return raw
    found = members(raw)
    if [member.key for member in found] != [_INFO, '"parts"'] or not found[1].raw.startswith("["):
        return raw
    parts = [
        orders.restored(part, PART) if part.startswith("{") else part for part, _ in elements(found[1].raw)
    ]
    return together(orders.restored(found[0].raw, INFO), parts)


_INFO = '"info"'
_FULL = '{"in full":['
_MARKS = '{"compacted":{'
_GROUP = '{"messages":['


# ---- records


class _Row(NamedTuple):
    """``is_all``: whether the file follows from the record alone."""

    full: str
    bare: str
    id: str | None
    is_all: bool
    problem: str = ""


def _records(
    messages: Sequence[OpencodeMessage], until_ms: int | None, orders: Orders
) -> tuple[list[Record], list[Record], list[SourceProblem]]:
    """The records, each below the one before it; what stands for them in the file; and what is wrong with them."""
    records: list[Record] = []
    overrides: list[Record] = []
    problems: list[SourceProblem] = []
    ids: set[str] = set()
    for line, row in enumerate(_rows(messages, until_ms, orders), 1):
        problem = row.problem
        if row.id is not None and row.id in ids:
            problem = f"a second message with the id {named(row.id)}"
        ids |= {row.id} if row.id is not None else set()
        payload = row.bare.encode()
        records.append(Record(line, payload, line - 1 or None, row.id, problem=problem))
        if not row.is_all:
            overrides.append(Record(line, row.full.encode()))
        if problem:
            problems.append(SourceProblem(line, problem))
    return records, overrides, problems


def _rows(messages: Sequence[OpencodeMessage], until_ms: int | None, orders: Orders) -> Iterator[_Row]:
    """Messages and marks in the order in which they came to be: a mark stands behind all that was there by then.

    ``until_ms``: when the first message came that waits; marks from then on wait with it.
    """
    marks: dict[int, list[str]] = {}
    for message in messages:
        for at_ms, part in message.marks:
            marks.setdefault(at_ms, []).append(part)
    due = sorted(marks.items(), reverse=True)
    at = 0
    while at < len(messages):
        created = created_ms(messages[at].info)
        while due and created is not None and due[-1][0] < created:
            yield _marked(*due.pop())
        both = at + 1 < len(messages) and _is_compaction(messages[at], messages[at + 1])
        own = messages[at : at + 1 + both]
        bare = f"{_GROUP}{own[0].bare},{own[1].bare}]}}" if both else own[0].bare
        full = f"{_FULL}{','.join(message.full for message in own)}]}}"
        is_all = all(_follows(message, orders) for message in own)
        yield _Row(full, bare, id_of(own[-1].info), is_all, own[0].problem)
        at += len(own)
    while due and (until_ms is None or due[-1][0] < until_ms):
        yield _marked(*due.pop())


def _follows(message: OpencodeMessage, orders: Orders) -> bool:
    """Whether a message says no more than its record, in the order that the session's others have."""
    as_usual = all(orders.has(order) for order in message.orders)
    return as_usual and len(message.full) == len(message.bare)


def _marked(at_ms: int, parts: list[str]) -> _Row:
    text = f"{_MARKS}{','.join(f'{quoted(part)}:{at_ms}' for part in parts)}}}}}"
    return _Row(text, text, None, True)


def _is_compaction(asked: OpencodeMessage, answer: OpencodeMessage) -> bool:
    """Whether ``answer`` is the summary that ``asked`` asks for, and was finished (rule K1)."""
    info = answer.info
    return (
        asks_to_compact(asked.info, asked.parts)
        and info.get("role") == "assistant"
        and info.get("summary") is True
        and bool(info.get("finish"))
        and not info.get("error")
        and info.get("parentID") == asked.info.get("id")
    )


def _settled(messages: Sequence[OpencodeMessage]) -> int:
    """How many messages stand up to the last answer that is finished. What does not parse never will be."""
    for at in range(len(messages), 0, -1):
        info = messages[at - 1].info
        time = info.get("time")
        done = isinstance(time, dict) and time.get("completed") is not None
        if info.get("role") == "assistant" and (done or info.get("error") is not None):
            return at
    return 0


def _leaf(
    revert: Any, messages: Sequence[OpencodeMessage], records: Sequence[Record]
) -> tuple[int | None, list[SourceProblem]]:
    """The line that opencode goes on from where the user went back: the one before the message it is to undo."""
    target = revert.get("messageID") if isinstance(revert, dict) else None
    if not isinstance(target, str):
        return None, []
    rows = {record.source_id: record.line for record in records if record.source_id is not None}
    before = 0
    for message in messages:
        own = id_of(message.info) or ""
        if own == target:
            break
        before = rows.get(own, before)
    else:
        return None, [SourceProblem(HEADER, f"the message to undo, {named(target)}, is not in the session")]
    if isinstance(revert.get("partID"), str):
        return rows.get(target), [
            SourceProblem(rows.get(target, HEADER), "undone from one of its parts on; shown whole")
        ]
    if not before:
        return None, [SourceProblem(HEADER, "undone from its first message on; shown as it was")]
    return (before if before != records[-1].line else None), []
