"""Reader of opencode's records. The returned entries are views, which may change between releases.

In opencode, an answer and the results of its tool calls form one message, so they become one entry. In this entry, the
block of a result follows the block of the call (``model.results``). Parts that no model receives also become blocks.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from gitsession.formats.base.fields import Fields, text_of, to_ms
from gitsession.formats.base.jsonl import LineFailure, Object, parse
from gitsession.formats.opencode.json_text import quoted
from gitsession.formats.opencode.records import AGENT, created_ms, is_compaction_request
from gitsession.model import entries
from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Entry, Opaque, UnknownEntry
from gitsession.model.results import attached, result

NOT_ANSWERED = "[Tool execution was interrupted]"

Json = dict[str, Any]


def part_of(block: Block, notes: Counter[str]) -> Json | None:
    """Return the part that represents ``block``, or ``None`` if the block is omitted.

    The part of a tool call contains no result yet. ``notes``: the notes of the export, to which the counts of omitted
    blocks are added.
    """
    match block:
        case Text():
            return {"type": "text", "text": block.text} if block.text else None
        case ToolCall():
            arguments = dict(block.arguments)
            state = {"status": "error", "input": arguments, "error": NOT_ANSWERED, "time": {"start": 0, "end": 0}}
            return {"type": "tool", "callID": block.id, "tool": block.name, "state": state}
        case Image() | File(data=bytes()):
            encoded = base64.b64encode(block.data or b"").decode()
            mime = block.mime or "application/octet-stream"
            name = {"filename": block.name} if isinstance(block, File) and block.name else {}
            return {"type": "file", "mime": mime, **name, "url": f"data:{mime};base64,{encoded}"}
        case File():
            return {"type": "text", "text": block.name}
        case Thinking():
            notes["left out: reasoning"] += 1
    return None


def make_id(kind: str, at_ms: int, count: int, *named: str) -> str:
    """Return an id of a message or part, in the form that opencode uses.

    After the prefix ``kind``, the id consists of twelve hexadecimal digits, which encode ``at_ms`` and ``count``, and
    fourteen hexadecimal digits, which make the id unique. The latter are a hash of ``kind``, ``count`` and ``named``.
    """
    suffix = sha256("/".join((kind, str(count), *named)).encode("utf-8", "backslashreplace")).hexdigest()[:14]
    return f"{kind}_{(at_ms * 4096 + count) % (1 << 48):012x}{suffix}"


def tokens_of(value: Any) -> int:
    """Return ``value`` if opencode accepts it as a token count, otherwise 0."""
    return value if type(value) is int and value > 0 else 0


def id_in(header: bytes) -> str | None:
    """Return the session id in ``header``, a session description, or ``None`` if there is no session id."""
    found = parse(header)
    info = None if isinstance(found, LineFailure) else found.get("info")
    id = info.get("id") if isinstance(info, Mapping) else None
    return id if isinstance(id, str) else None


def in_full(line: bytes) -> list[tuple[str, bytes]]:
    """Return the id of the last message in ``line``, together with ``line`` itself, as a list of one item.

    ``line``: a record on ``meta``. If ``line`` is not the replacement of an incomplete record, the list is empty.
    """
    if not line.startswith(b'{"in full":'):
        return []
    found = parse(line)
    listed = [] if isinstance(found, LineFailure) else found.get("in full")
    info = listed[-1].get("info") if isinstance(listed, list) and listed and isinstance(listed[-1], dict) else None
    id = info.get("id") if isinstance(info, dict) else None
    return [(id, line)] if isinstance(id, str) else []


def mark_pruned(payload: bytes, targets: set[str], key: str, at_ms: int) -> bytes:
    """Return the record ``payload`` with completed tool results marked as removed from the context at ``at_ms``.

    ``key``: the key of the entry in ``payload``. ``targets``: keys of entries and ids of parts. If ``targets`` contains
    ``key``, all completed results are marked. Otherwise, only the completed results in the parts with these ids are
    marked.
    """
    record = parse(payload)
    if isinstance(record, LineFailure):
        return payload
    changed = False
    for message in [record, *record.get("messages", []), *record.get("in full", [])]:
        parts = message.get("parts") if isinstance(message, dict) else None
        for part in parts if isinstance(parts, list) else []:
            state = part.get("state") if isinstance(part, dict) else None
            time = state.get("time") if isinstance(state, dict) and state.get("status") == "completed" else None
            if isinstance(time, dict) and "compacted" not in time and (key in targets or part.get("id") in targets):
                time["compacted"] = at_ms
                changed = True
    return quoted(record).encode() if changed else payload


def entry_of(payload: bytes) -> Entry:
    """Return the entry that the record ``payload`` represents. Never raises."""
    record = parse(payload)
    if isinstance(record, LineFailure):
        return Opaque(payload=payload, problem=record.reason)
    return _read(record) or UnknownEntry(name="unknown", body=record)


def _read(record: Object) -> Entry | None:
    info, group, marks = record.get("info"), record.get("messages"), record.get("compacted")
    if isinstance(info, dict):
        parts = record.get("parts")
        return _message(info, parts) if isinstance(parts, list) else _session(info, record)
    if isinstance(group, list) and len(group) == 2:
        return _compaction(*group)
    if isinstance(marks, dict):
        return entries.Prune(at_ms=to_ms(next(iter(marks.values()), None)) or 0, targets=tuple(marks))
    name = next((name for name in ("waiting", "in full") if isinstance(record.get(name), list)), None)
    return UnknownEntry(name=name, body=record) if name is not None else None


def _session(info: Object, record: Object) -> Entry:
    fields = Fields(info)
    at_ms = _at_ms(info)
    task = record.get("task")
    return entries.SessionHeader(
        at_ms=at_ms,
        agent=AGENT,
        source_id=fields.text("id"),
        cwd=fields.text("directory"),
        title=fields.text("title"),
        parent=fields.text("parentID"),
        extra={**fields.left, **({"task": task} if isinstance(task, dict) else {})},
    )


def _message(info: Object, parts: list[Any]) -> Entry | None:
    if is_compaction_request(info, parts):
        return entries.Custom(at_ms=_at_ms(info), custom_type="compaction", data={"info": info, "parts": parts})
    read = _BY_ROLE.get(info.get("role", "")) if isinstance(info.get("role"), str) else None
    return read(info, parts) if read is not None else None


def _user(info: Object, parts: list[Any]) -> Entry:
    content = [block for part in parts for block in _blocks(part)]
    return entries.Message(at_ms=_at_ms(info), role="user", content=tuple(content), extra=_rest(info).left)


def _assistant(info: Object, parts: list[Any]) -> Entry:
    fields = _rest(info)
    error = fields.mapping("error")
    name = error.get("name") if error else None
    data = error.get("data") if error else None
    error_text = data.get("message") if isinstance(data, dict) else None
    stop = fields.text("finish")
    return entries.Message(
        at_ms=_at_ms(info),
        role="assistant",
        content=tuple([block for part in parts for block in _blocks(part)]),
        provider=fields.text("providerID"),
        model=fields.text("modelID"),
        usage=_usage(fields),
        stop=("aborted" if name == "MessageAbortedError" else "error") if error else stop,
        error=(error_text if isinstance(error_text, str) else str(name)) if error else None,
        extra={**fields.left, **({"error": error} if error else {})},
    )


def _compaction(request: Any, answer: Any) -> Entry | None:
    """Return the compaction that a request and the answer to it represent, or ``None`` if a message is invalid.

    The request contains the id of the first message that the compaction keeps. The answer contains the summary.
    """
    if not isinstance(request, dict) or not isinstance(answer, dict):
        return None
    info, parts, request_parts = answer.get("info"), answer.get("parts"), request.get("parts")
    if not isinstance(info, dict) or not isinstance(parts, list) or not isinstance(request_parts, list):
        return None
    part = next((part for part in request_parts if isinstance(part, dict) and part.get("type") == "compaction"), {})
    first, auto = part.get("tail_start_id"), part.get("auto")
    return entries.Compaction(
        at_ms=_at_ms(info),
        summary=text_of(parts),
        first_kept=first if isinstance(first, str) else None,
        method={True: "auto", False: "manual"}.get(auto) if isinstance(auto, bool) else None,
        extra={"messages": [request, answer]},
    )


# ---- parts


def _blocks(part: Any) -> list[Block]:
    name = part.get("type") if isinstance(part, dict) else None
    read = _BY_TYPE.get(name) if isinstance(name, str) else None
    return (read(part) if read is not None else None) or [OtherBlock(part)]


def _text(part: Object) -> list[Block] | None:
    text = part.get("text")
    return [Text(text, _signature(part))] if isinstance(text, str) and part.get("ignored") is not True else None


def _reasoning(part: Object) -> list[Block] | None:
    text = part.get("text")
    return [Thinking(text, _signature(part))] if isinstance(text, str) else None


def _file(part: Object) -> list[Block] | None:
    return [attached(part.get("filename"), part.get("mime"), url)] if isinstance(url := part.get("url"), str) else None


def _tool(part: Object) -> list[Block] | None:
    call, name, state = part.get("callID"), part.get("tool"), part.get("state")
    if not isinstance(call, str) or not isinstance(name, str) or not isinstance(state, dict):
        return None
    arguments = state.get("input")
    blocks: list[Block] = [ToolCall(call, name, arguments if isinstance(arguments, dict) else {}, _signature(part))]
    status = state.get("status")
    if status == "completed":
        blocks.append(_result(part, call, name, state, str(state.get("output", "")), is_error=False))
    elif status == "error":
        blocks.append(_result(part, call, name, state, str(state.get("error", "")), is_error=True))
    return blocks


def _result(part: Object, call: str, name: str, state: Object, text: str, *, is_error: bool) -> Block:
    fields = Fields(state)
    fields.drop("status", "input", "output" if not is_error else "error")
    time = fields.mapping("time") or {}
    stated = fields.take("attachments")
    attachments = stated if isinstance(stated, list) else []
    files = [
        {"mime": file.get("mime"), "name": file.get("filename"), "url": file.get("url")}
        for file in attachments
        if isinstance(file, dict)
    ]
    id = part.get("id")
    return result(
        call=call,
        name=name,
        text=text,
        is_error=is_error,
        files=files,
        at_ms=to_ms(time.get("end")) or to_ms(time.get("start")) or 0,
        part=id if isinstance(id, str) else None,
        details=fields.left or None,
    )


def _signature(part: Object) -> str | None:
    """Return the provider's signature in ``part``, or ``None`` if there is none.

    A signature of Anthropic is returned unchanged. For other providers, the provider's metadata is returned as JSON,
    without opencode's own metadata. A provider requires the signature together with the part.
    """
    metadata = part.get("metadata")
    if not isinstance(metadata, dict):
        return None
    anthropic = metadata.get("anthropic")
    signature = anthropic.get("signature") if isinstance(anthropic, dict) else None
    if isinstance(signature, str):
        return signature
    signatures = {name: value for name, value in metadata.items() if isinstance(value, dict)}
    return quoted(signatures) if signatures else None


_BY_TYPE: dict[str, Callable[[Object], list[Block] | None]] = {
    "text": _text,
    "reasoning": _reasoning,
    "file": _file,
    "tool": _tool,
}

_BY_ROLE: dict[str, Callable[[Object, list[Any]], Entry]] = {"user": _user, "assistant": _assistant}


# ---- fields of a message


def _rest(info: Object) -> Fields:
    fields = Fields(info)
    fields.drop("role", "id", "sessionID")
    return fields


def _at_ms(info: Object) -> int:
    return created_ms(info) or 0


def _usage(fields: Fields) -> dict[str, Any] | None:
    tokens = fields.mapping("tokens")
    if tokens is None:
        return None
    cache = tokens.get("cache")
    cached = cache if isinstance(cache, dict) else {}
    counts = {
        "input": tokens.get("input"),
        "output": tokens.get("output"),
        "reasoning": tokens.get("reasoning"),
        "cacheRead": cached.get("read"),
        "cacheWrite": cached.get("write"),
        "totalTokens": tokens.get("total"),
        "cost": fields.take("cost"),
    }
    return {name: value for name, value in counts.items() if value is not None}
