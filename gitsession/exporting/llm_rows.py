"""Rows of the log database of llm (https://llm.datasette.io) and their messages (docs/reference/llm.md).

The message of a row is a message of gitsession. The last message of a row has the row in its field ``llm``, as JSON in
which a text that is also in the message is a reference to it. FROZEN: a row that is stored depends on ``texts_of``.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import CustomMessage, Entry, Message

AGENT = "llm"
ROWS = "llm:rows"
"""The type of a custom entry with rows that belong to no message."""

Value: TypeAlias = Any
DatabaseRow: TypeAlias = dict[str, Value]
Rows: TypeAlias = dict[str, list[DatabaseRow]]
"""Rows by the name of their table."""

KEYS: Mapping[str, tuple[str, ...]] = {
    "conversations": ("id",),
    "attachments": ("id",),
    "schemas": ("id",),
    "responses": ("id",),
    "prompt_attachments": ("response_id", "attachment_id"),
    "fragments": ("id",),
    "fragment_aliases": ("alias",),
    "prompt_fragments": ("response_id", "fragment_id", "order"),
    "system_fragments": ("response_id", "fragment_id", "order"),
    "tools": ("id",),
    "tool_responses": ("tool_id", "response_id"),
    "tool_calls": ("id",),
    "tool_instances": ("id",),
    "tool_results": ("id",),
    "tool_results_attachments": ("tool_result_id", "attachment_id"),
    "messages": ("hash",),
    "parts": ("id",),
    "part_attachments": ("part_id", "attachment_id", "order"),
    "part_fragments": ("part_id", "fragment_id", "order"),
    "threads": ("id",),
    "turns": ("id",),
    "turn_tools": ("turn_id", "tool_id"),
    "turn_fragments": ("turn_id", "fragment_id", "kind", "order"),
    "tool_instantiations": ("turn_id", "tool_call_id"),
}
"""The columns that identify a row of each table that is read and written."""

DAMAGE = (LookupError, TypeError, ValueError, AttributeError, RecursionError)
"""The errors that rows cause if they are not what llm or gitsession has written."""

_REFERRED_CHARS = 24
_ROLES = ("user", "assistant", "system", "tool")


# ---- rows in entries


def texts_of(entries: Sequence[Entry]) -> tuple[list[str], list[str]]:
    """Return the texts of the blocks of messages, and the data of the blocks in base64. FROZEN."""
    blocks = [block for entry in entries for block in (entry.content if isinstance(entry, Message) else ())]
    texts = [block.text for block in blocks if isinstance(block, Text | Thinking)]
    data = [to_base64(block.data) for block in blocks if isinstance(block, Image | File) and block.data is not None]
    return texts, data


def marked(entries: Sequence[Message], rows: Rows, **facts: Any) -> list[Entry]:
    """Return messages, of which the last one has the rows. ``facts``: other facts about the row."""
    texts, data = ({text: at for at, text in reversed(list(enumerate(each)))} for each in texts_of(entries))
    mark = json.dumps({**facts, "entries": len(entries), "rows": packed_rows(rows, texts, data)})
    return [*entries[:-1], dataclasses.replace(entries[-1], extra={AGENT: mark})]


def packed_rows(rows: Rows, texts: Mapping[str, int] = {}, data: Mapping[str, int] = {}) -> dict[str, Any]:
    """Return rows as JSON. ``texts``, ``data``: the indexes of the texts and data that become references."""
    return {
        table: [{column: _packed(value, texts, data) for column, value in row.items()} for row in found]
        for table, found in rows.items()
        if found
    }


def mark_of(entry: Entry) -> dict[str, Any] | None:
    """Return the mark that ``marked`` added to an entry; ``None`` if it has none. Raises ``ValueError``."""
    stated = entry.extra.get(AGENT)
    if not isinstance(stated, str):
        return None
    found = json.loads(stated)
    if not isinstance(found, dict) or not isinstance(found.get("rows"), dict):
        raise ValueError("not a mark of rows")
    return found


def rows_of_mark(mark: Mapping[str, Any], entries: Sequence[Entry]) -> Rows:
    """Return the rows of a mark. ``entries``: the messages of which it is the mark."""
    texts, data = texts_of(entries)
    return {
        table: [{column: _unpacked(value, texts, data) for column, value in row.items()} for row in rows]
        for table, rows in mark["rows"].items()
        if table in KEYS
    }


def _packed(value: Value, texts: Mapping[str, int], data: Mapping[str, int]) -> Any:
    if isinstance(value, bytes):
        text = to_base64(value)
        return {"$data": data[text]} if text in data else {"$bytes": text}
    if not isinstance(value, str) or len(value) < _REFERRED_CHARS:
        return value
    if value in texts:
        return {"$text": texts[value]}
    parsed = _parsed_exactly(value)
    return value if parsed is None else {"$json": _replaced(parsed, lambda text: _packed(text, texts, {}))}


def _parsed_exactly(text: str) -> Any:
    """Return the value of JSON as Python writes it, if the text is such JSON."""
    if text[0] not in "{[" or '"$' in text:
        return None
    try:
        found = json.loads(text)
        return found if json.dumps(found) == text else None
    except (ValueError, RecursionError):
        return None


def _replaced(value: Any, change: Callable[[str], Any]) -> Any:
    """Return a JSON value with other texts. Texts with JSON in a text are not parsed."""
    if isinstance(value, dict):
        return {name: _replaced(item, change) for name, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, change) for item in value]
    if not isinstance(value, str) or value[:1] in ("{", "["):
        return value
    return change(value)


def _unpacked(value: Any, texts: Sequence[str], data: Sequence[str]) -> Value:
    if not isinstance(value, dict):
        return value
    [(kind, item)] = value.items()
    match kind:
        case "$text":
            return texts[item]
        case "$data":
            return base64.b64decode(data[item])
        case "$bytes":
            return base64.b64decode(item)
        case "$json":
            return json.dumps(_with_texts(item, texts))
    raise ValueError(f"unknown reference {kind!r}")


def _with_texts(value: Any, texts: Sequence[str]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"$text"}:
            return texts[value["$text"]]
        return {name: _with_texts(item, texts) for name, item in value.items()}
    return [_with_texts(item, texts) for item in value] if isinstance(value, list) else value


def to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


# ---- llm's messages


def hash_of(role: str, parts: Sequence[Mapping[str, Any]], metadata: Any, parent: str | None) -> str:
    """Return llm's hash of a message (llm/logs.py). ``parts``: as ``canonical`` returns them."""
    message = {"role": role, "parts": list(parts)} | ({"provider_metadata": metadata} if metadata else {})
    text = json.dumps({"parent": parent, "message": message}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"b2:{hashlib.blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


def attachment_id(row: Mapping[str, Any]) -> str:
    """Return the id of an attachment with content or an address."""
    content = row.get("content")
    data = content if isinstance(content, bytes) else json.dumps({"url": row.get("url")}).encode()
    return hashlib.sha256(data).hexdigest()


def canonical(part: Mapping[str, Any], attachments: Mapping[str, DatabaseRow]) -> dict[str, Any]:
    """Return a part as llm hashes it. Raises ``LookupError`` if an attachment is only a path of a file."""
    found = dict(part)
    for name in ("attachment", "attachments"):
        if name in found:
            stated = found[name] if name == "attachments" else [found[name]]
            rows = [attachments[each["id"]] for each in stated]
            if any(row.get("path") and not row.get("content") for row in rows):
                raise LookupError("the content of an attachment is not in the database")
            each = [{"id": attachment_id(row), "type": row.get("type")} for row in rows]
            found[name] = each if name == "attachments" else each[0]
    return found


def part_of(row: DatabaseRow, fragments: Mapping[int, str]) -> dict[str, Any]:
    """Return the part of a row, with its whole text. Raises one of ``DAMAGE``."""
    part = json.loads(row["payload"]) if row.get("payload") else {}
    part["type"] = row["type"]
    if row.get("text") is not None:
        part["text"] = row["text"]
    pieces = part.pop("text_ref", None)
    if pieces is not None:
        part["text"] = "".join(
            [each["literal"] if "literal" in each else fragments.get(each["fragment"], "") for each in pieces]
        )
    return part


def messages_of(
    role: str, parts: Sequence[Mapping[str, Any]], attachments: Mapping[str, DatabaseRow], **fields: Any
) -> list[Message]:
    """Return a message of llm as messages: one, or one for each tool result. ``fields``: of each answer."""
    if role != "tool":
        content = tuple([_block(part, attachments) for part in parts])
        known = role if role in _ROLES else "custom"
        return [Message(role=known, content=content, **(fields if role == "assistant" else {}))]
    results = [part for part in parts if part["type"] == "tool_result"]
    others = tuple([_block(part, attachments) for part in parts if part["type"] != "tool_result"])
    found = [_result(part, attachments) for part in results]
    return [*found, Message(role="tool", content=others)] if others or not found else found


def _result(part: Mapping[str, Any], attachments: Mapping[str, DatabaseRow]) -> Message:
    files = [_file(attachments[each["id"]]) for each in part.get("attachments", ())]
    return Message(
        role="tool",
        content=(Text(str(part["output"])), *files),
        tool_call_id=part.get("tool_call_id"),
        tool_name=part.get("name"),
        is_error=part.get("exception") is not None,
    )


def _block(part: Mapping[str, Any], attachments: Mapping[str, DatabaseRow]) -> Block:
    match part:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "reasoning", "text": str(text)}:
            return Thinking(text, redacted=part.get("redacted") is True)
        case {"type": "tool_call", "name": str(name), "arguments": dict(arguments)}:
            return ToolCall(part.get("tool_call_id") or "", name, arguments)
        case {"type": "attachment", "attachment": {"id": str(id)}} if id in attachments:
            return _file(attachments[id])
    return OtherBlock(dict(part))


def _file(row: DatabaseRow) -> Block:
    mime, content, url = row.get("type"), row.get("content"), row.get("url")
    if isinstance(content, bytes) and isinstance(mime, str) and mime.startswith("image/"):
        return Image(content, mime)
    name = str(row.get("path") or url or row.get("id")).rpartition("/")[2]
    return File(name, mime if isinstance(mime, str) else None, content if isinstance(content, bytes) else None, url)


# ---- messages of gitsession as those of llm


def parts_of(entry: Message | CustomMessage) -> tuple[str, list[dict[str, Any]], dict[str, DatabaseRow]]:
    """Return the role, the parts and the attachments of a message that llm did not write."""
    attachments: dict[str, DatabaseRow] = {}
    if isinstance(entry, CustomMessage):
        return "user", [part for block in entry.content for part in _parts(block, attachments)], attachments
    if entry.role == "shell":
        return "user", [{"type": "text", "text": f"$ {entry.command}\n{entry.output or ''}"}], attachments
    if entry.role == "tool":
        part: dict[str, Any] = {"type": "tool_result", "name": entry.tool_name or "", "output": entry.text}
        part |= {"tool_call_id": entry.tool_call_id} if entry.tool_call_id else {}
        part |= {"exception": "Error"} if entry.is_error else {}
        files = [each for block in entry.content if isinstance(block, Image) for each in _parts(block, attachments)]
        part |= {"attachments": [each["attachment"] for each in files]} if files else {}
        return "tool", [part], attachments
    role = {"developer": "system", "custom": "user"}.get(entry.role, entry.role)
    return role, [part for block in entry.content for part in _parts(block, attachments)], attachments


def _parts(block: Block, attachments: dict[str, DatabaseRow]) -> list[dict[str, Any]]:
    match block:
        case Text():
            return [{"type": "text", "text": block.text}]
        case Thinking():
            return [{"type": "reasoning", "text": block.text} | ({"redacted": True} if block.redacted else {})]
        case ToolCall():
            part = {"type": "tool_call", "name": block.name, "arguments": plain_json(block.arguments)}
            return [part | ({"tool_call_id": block.id} if block.id else {})]
        case Image() if block.data:
            return [_attached({"type": block.mime, "content": block.data, "url": None}, attachments)]
        case File() if block.data or block.url:
            return [_attached({"type": block.mime, "content": block.data, "url": block.url}, attachments)]
        case OtherBlock():
            return [{"type": "text", "text": json.dumps(plain_json(block.value))}]
    return []


def _attached(row: DatabaseRow, attachments: dict[str, DatabaseRow]) -> dict[str, Any]:
    id = attachment_id(row)
    attachments[id] = {"id": id, "type": row["type"], "path": None, "url": row["url"], "content": row["content"]}
    return {"type": "attachment", "attachment": {"id": id}}


def plain_json(value: Any) -> Any:
    """Return a value as it is after it was stored as JSON, with text in place of what JSON cannot represent."""
    return json.loads(json.dumps(value, default=str))
