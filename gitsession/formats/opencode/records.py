"""Conversion of opencode's messages to records, and of records to an export.

The database, an export, and the folders of older versions result in the same records. A record contains a message and
its parts as compact JSON. A record omits two values that opencode may add to a message later: the summary of file
changes in a user message, and the mark that removes a tool result from the context. A record is incomplete if the
whole message cannot be rebuilt from the record. In this case, the whole message is stored on the session's ``meta``
ref, as the replacement of the record. Marks form separate records, ordered by time, because they change the context. A
compaction request and the answer with the summary form one record. Messages after the last finished answer are not
imported yet, because opencode may still change them (docs/decisions/0015). The content of records is FROZEN under
view 1.
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
    member_of,
    members,
    ordered,
    quoted,
)

AGENT = "opencode"


class OpencodeMessage(NamedTuple):
    """A message in several forms.

    ``full``: the whole message as compact JSON. ``bare``: the record of the message. ``info`` and ``parts``: the parsed
    message. ``marks``: for each tool result that was removed from the context, the time of the removal and the id of
    the part. ``orders``: the original orders of members in the record (``json_text.ordered``). ``problem``: a
    description of the problem with the message; "" if there is none.
    """

    full: str
    bare: str
    info: Object
    parts: Sequence[Any]
    marks: Sequence[tuple[int, str]] = ()
    orders: Sequence[Order] = ()
    problem: str = ""


def build_message(info: Sequence[Member], parts: Iterable[Sequence[Member] | str]) -> OpencodeMessage:
    """Return a message with the given ``info`` and ``parts``. A part is an object, or compact JSON of another type."""
    found = info
    stated = object_of(found)
    orders: list[Order] = []
    if stated.get("role") == "user" and isinstance(stated.get("summary"), dict):
        found = [member for member in found if member.key != '"summary"']
    bare = ordered(found, INFO, orders)
    full_parts, bare_parts, values = [], [], []
    marks: list[tuple[int, str]] = []
    for own in parts:
        if isinstance(own, str):
            full_parts.append(own)
            bare_parts.append(own)
            continue
        full_parts.append(joined(own))
        value = object_of(own)
        mark = _mark(value)
        if mark is not None:
            marks.append(mark)
            own = _remove_member(own, ("state", "time", "compacted"))
        bare_parts.append(ordered(own, PART, orders))
        values.append(value)
    return OpencodeMessage(
        message_text(joined(info), full_parts), message_text(bare, bare_parts), stated, values, marks, orders
    )


def with_ids(found: Iterable[Member], ids: Mapping[str, str]) -> list[Member]:
    """Return the members ``found`` of a row's object with the members ``ids``, which replace those with the same names.

    ``ids``: the ids in other columns of the row, as JSON text.
    """
    own = [member_of(name, raw) for name, raw in ids.items()]
    keys = {each.key for each in own}
    return [*(each for each in found if each.key not in keys), *own]


def message_of(raw: str, value: Any) -> OpencodeMessage:
    """Return the message in ``raw``, an element of an export's list of messages. ``value``: the parsed element."""
    if isinstance(value, dict) and isinstance(value.get("info"), dict) and isinstance(value.get("parts"), list):
        by_key = {member.key: member.raw for member in members(raw)}
        if len(by_key) == len(value) == 2 and by_key.keys() == {'"info"', '"parts"'}:
            parts = [part for part, _ in elements(by_key['"parts"'])]
            own = (members(part) if part.startswith("{") else part for part in parts)
            return build_message(members(by_key['"info"']), own)
    return OpencodeMessage(raw, raw, {}, (), problem="not a message with its parts")


def is_compaction_request(info: Object, parts: Any) -> bool:
    """Return whether a message is a compaction request rather than a prompt."""
    parts = parts if isinstance(parts, list | tuple) else ()
    return info.get("role") == "user" and any(isinstance(p, dict) and p.get("type") == "compaction" for p in parts)


def object_of(found: Iterable[Member]) -> Object:
    """Return an object with the members ``found``."""
    return {member.key[1:-1]: member.value for member in found}


def message_text(info: str, parts: Sequence[str]) -> str:
    """Return a message with the given ``info`` and ``parts`` as compact JSON."""
    return f'{{"info":{info},"parts":[{",".join(parts)}]}}'


def _mark(part: Object) -> tuple[int, str] | None:
    """Return the time at which the tool result in ``part`` was removed from the context, and the id of the part.

    If ``part`` is not a tool result that was removed from the context, return ``None``.
    """
    state = part.get("state")
    time = state.get("time") if isinstance(state, dict) else None
    at_ms = time.get("compacted") if isinstance(time, dict) else None
    id = part.get("id")
    if part.get("type") == "tool" and type(at_ms) is int and at_ms >= 0 and isinstance(id, str):
        return at_ms, id
    return None


def _remove_member(found: Sequence[Member], keys: Sequence[str]) -> list[Member]:
    key = f'"{keys[0]}"'
    if len(keys) == 1:
        return [member for member in found if member.key != key]
    return [
        Member(member.key, joined(_remove_member(members(member.raw), keys[1:])), None) if member.key == key else member
        for member in found
    ]


def id_of(info: Object) -> str | None:
    """Return the id of a message, or ``None`` if the id is not a string."""
    id = info.get("id")
    return id if isinstance(id, str) else None


def created_ms(info: Object) -> int | None:
    """Return the time at which a message or a session was created, as Unix time in ms."""
    return to_ms(object_in(info, "time").get("created"))


HEADER = 0
"""The line number of the session description on ``meta``. The line numbers of records begin at 1."""


def source_of(
    info: str,
    messages: Sequence[OpencodeMessage],
    *,
    final: bool,
    original: bytes | None = None,
    task: str = "",
    problems: Iterable[SourceProblem] = (),
) -> Source | None:
    """Return the session that the JSON object ``info`` describes, or ``None`` if the session has no id.

    Args:
        messages: the messages, in opencode's order.
        final: whether to include unfinished messages.
        original: the bytes of the session file if the file cannot be rebuilt from the records; otherwise ``None``.
        task: a JSON object with the ids of the tool call that started this session, and of the session that contains
            the call; "" if no such call is known.
        problems: problems that were found earlier.
    """
    description = object_of(members(info))
    source_id = description.get("id")
    if not isinstance(source_id, str):
        return None
    settled_count = len(messages) if final else _settled(messages)
    until_ms = created_ms(messages[settled_count].info) if settled_count < len(messages) else None
    orders = Orders(order for message in messages[:settled_count] for order in message.orders)
    records, overrides, row_problems = _records(messages[:settled_count], until_ms, orders)
    waiting = ",".join(message.full for message in messages[settled_count:])
    header = {"info": info, "order": orders.text, "task": task}
    text = ",".join(f'"{name}":{raw}' for name, raw in header.items() if raw)
    meta = [Record(HEADER, f"{{{text}}}".encode()), *overrides]
    if original is not None:
        meta.append(Record(WHOLE, original))
    leaf, leaf_problems = _leaf(description.get("revert"), messages, records)
    return Source(
        agent=AGENT,
        source_id=storable(source_id),
        started_ms=created_ms(description) or 0,
        records=tuple(records),
        meta=tuple(meta),
        tail=f'{{"waiting":[{waiting}]}}'.encode() if waiting else b"",
        leaf=leaf,
        problems=(*problems, *row_problems, *leaf_problems),
    )


def document(header: bytes, payloads: Iterable[bytes], tail: bytes) -> str:
    """Return a session as one object in compact JSON. This function is the inverse of ``source_of``.

    ``header``: the session description, as stored on ``meta``. ``payloads``: the records; the replacement in place of
    an incomplete record. ``tail``: the messages that are not imported yet.
    """
    top = {member.key: member.raw for member in members(header.decode())}
    orders = Orders.of(top.get('"order"', "[]"))
    found = [text for payload in payloads for text in _inner(payload, orders)]
    if tail:
        found.append(tail.decode()[len('{"waiting":[') : -len("]}")])
    return f'{{"info":{top[_INFO]},"messages":[{",".join(found)}]}}'


def _inner(payload: bytes, orders: Orders) -> list[str]:
    """Return the messages in ``payload``, which is a record or the replacement of a record, as compact JSON.

    A compaction contains two messages, a record of marks contains no message, and any other record contains one. The
    messages in a replacement are returned as a single string in which commas separate them.
    """
    text = payload.decode()
    if text.startswith(_MARKS):
        return []
    if text.startswith(_FULL):
        return [text[len(_FULL) : -len("]}")]]
    if text.startswith(_GROUP):
        return [_restore_order(raw, orders) for raw, _ in elements(members(text)[0].raw)]
    return [_restore_order(text, orders)]


def _restore_order(raw: str, orders: Orders) -> str:
    """Return ``raw``, the message in a record, with its members in their original order."""
    if not raw.startswith(f"{{{_INFO}:{{"):
        return raw
    found = members(raw)
    if [member.key for member in found] != [_INFO, '"parts"'] or not found[1].raw.startswith("["):
        return raw
    parts = [orders.restored(part, PART) if part.startswith("{") else part for part, _ in elements(found[1].raw)]
    return message_text(orders.restored(found[0].raw, INFO), parts)


_INFO = '"info"'
_FULL = '{"in full":['
_MARKS = '{"compacted":{'
_GROUP = '{"messages":['


# ---- records


class _Row(NamedTuple):
    """The values of one record. ``full``: the replacement of the record; ``bare``: the payload of the record.

    ``is_all``: whether the whole message can be rebuilt from the record.
    """

    full: str
    bare: str
    id: str | None
    is_all: bool
    problem: str = ""


def _records(
    messages: Sequence[OpencodeMessage], until_ms: int | None, orders: Orders
) -> tuple[list[Record], list[Record], list[SourceProblem]]:
    """Return the records, the replacements of incomplete records, and the problems.

    Each record is a child of the previous record.
    """
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
    """Yield the rows of messages and marks, ordered by time.

    Marks with the same time form one row, which precedes the first message that was created after this time.
    ``until_ms``: the creation time of the first message that is not imported yet. Marks at or after this time are not
    imported yet either.
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
    """Return whether a message can be rebuilt from its record and ``orders``, the orders of members in the session."""
    as_usual = all(orders.has(order) for order in message.orders)
    return as_usual and len(message.full) == len(message.bare)


def _marked(at_ms: int, parts: list[str]) -> _Row:
    text = f"{_MARKS}{','.join(f'{quoted(part)}:{at_ms}' for part in parts)}}}}}"
    return _Row(text, text, None, True)


def _is_compaction(request: OpencodeMessage, answer: OpencodeMessage) -> bool:
    """Return whether ``request`` is a compaction request, and ``answer`` the finished answer with the summary."""
    info = answer.info
    return (
        is_compaction_request(request.info, request.parts)
        and info.get("role") == "assistant"
        and info.get("summary") is True
        and bool(info.get("finish"))
        and not info.get("error")
        and info.get("parentID") == request.info.get("id")
    )


def _settled(messages: Sequence[OpencodeMessage]) -> int:
    """Return the number of messages up to and including the last finished answer.

    A message that cannot be parsed is not a finished answer.
    """
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
    """Return the line number of the record after which opencode continues, and the problems.

    If messages were reverted, this record precedes the first reverted message. If only some parts of that message were
    reverted, the record contains that message. The line number is ``None`` for the last record.
    """
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
        return None, [SourceProblem(HEADER, f"the reverted message {named(target)} is not in the session")]
    if isinstance(revert.get("partID"), str):
        what = "the session was reverted to a point in this message: the whole message is shown"
        return rows.get(target), [SourceProblem(rows.get(target, HEADER), what)]
    if not before:
        what = "the session was reverted to before its first message: it is shown as before the revert"
        return None, [SourceProblem(HEADER, what)]
    return (before if before != records[-1].line else None), []
