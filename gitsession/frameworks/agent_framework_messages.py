"""Conversion of the messages of the Microsoft Agent Framework, as JSON, to entries and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gitsession.context.providers.wire import data_url, read_json, to_json
from gitsession.formats.base.blocks import decoded
from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Message

_ROLES = ("user", "assistant", "system", "developer", "tool")
_MORE: dict[str, Any] = {"additional_properties": {}}


def messages_of(item: Mapping[str, Any]) -> list[Message]:
    """Return the entries of a message: one for each result if it has several results of calls, otherwise one."""
    contents = item["contents"]
    results = [_result(content) for content in contents if content.get("type") == "function_result"]
    if item["role"] == "tool" and results and len(results) == len(contents):
        return results
    role = item["role"] if item["role"] in _ROLES else "custom"
    counts = [content.get("usage_details") for content in contents if content.get("type") == "usage"]
    blocks = tuple(map(_block, contents))
    return [Message(role=role, content=blocks, usage=usage_of(counts[-1]) if counts else None)]


def usage_of(details: Any) -> dict[str, Any] | None:
    """Return the token counts of an answer, with the names that gitsession reads where it has a name."""
    if not isinstance(details, Mapping):
        return None
    names = {"input_token_count": "input_tokens", "output_token_count": "output_tokens"}
    return {str(names.get(name, name)): value for name, value in details.items() if value is not None} or None


def derive_item(messages: Sequence[Message]) -> dict[str, Any]:
    """Return the JSON of a message of the framework, as far as its entries determine it. FROZEN."""
    first = messages[0]
    if first.role == "tool" and first.tool_call_id is not None:
        contents = [_result_content(message) for message in messages]
    elif first.role == "shell":
        contents = [{"type": "text", "text": f"$ {first.command}\n{first.output or ''}", **_MORE}]
    else:
        contents = [_content(block) for block in first.content]
    role = first.role if first.role in _ROLES else "user"
    return {"type": "message", "role": role, "contents": contents, **_MORE}


# ---- contents to blocks


def _result(content: Mapping[str, Any]) -> Message:
    items, result, call = content.get("items"), content.get("result"), content.get("call_id")
    if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
        items = [{"type": "text", "text": result if isinstance(result, str) else to_json(result)}]
    return Message(
        role="tool",
        content=tuple(map(_block, items)),
        tool_call_id=call if isinstance(call, str) else "",
        is_error=content.get("exception") is not None,
    )


def _block(content: Mapping[str, Any]) -> Block:
    kind, text, uri = content.get("type"), content.get("text"), content.get("uri")
    if kind == "text" and isinstance(text, str):
        return Text(text)
    if kind == "text_reasoning" and isinstance(text, str | None):
        kept = content.get("protected_data")
        return Thinking(text or "", kept if isinstance(kept, str) else None)
    if kind == "function_call" and isinstance(content.get("name"), str):
        given, call = content.get("arguments"), content.get("call_id")
        arguments = read_json(given, "{") if isinstance(given, str) else given
        return ToolCall(
            call if isinstance(call, str) else "",
            content["name"],
            arguments if isinstance(arguments, dict) else {} if given is None else {"input": given},
        )
    if kind in ("data", "uri") and isinstance(uri, str):
        return _file(uri, content.get("media_type")) or OtherBlock(dict(content))
    return OtherBlock(dict(content))


def _file(uri: str, mime: Any) -> Block | None:
    head, _, tail = uri.partition(";base64,")
    data = decoded(tail) if head.startswith("data:") else None
    if data is not None and head[5:].startswith("image/"):
        return Image(data, head[5:])
    if uri.startswith("data:") or not isinstance(mime, str):
        return None
    return File(uri.rpartition("/")[2], mime, url=uri)


# ---- blocks to contents


def _result_content(message: Message) -> dict[str, Any]:
    items = [_content(block) for block in message.content]
    text = "\n".join(block.text for block in message.content if isinstance(block, Text) and block.text)
    found = {"type": "function_result", "call_id": message.tool_call_id, "result": text, "items": items, **_MORE}
    return {**found, "exception": "Error"} if message.is_error else found


def _content(block: Block) -> dict[str, Any]:
    match block:
        case Text():
            return {"type": "text", "text": block.text, **_MORE}
        case Thinking():
            kept = {} if block.signature is None else {"protected_data": block.signature}
            return {"type": "text_reasoning", "text": block.text, **kept, **_MORE}
        case ToolCall():
            arguments = json.dumps(block.arguments, ensure_ascii=False, separators=(",", ":"))
            return {"type": "function_call", "call_id": block.id, "name": block.name, "arguments": arguments, **_MORE}
        case Image():
            return {"type": "data", "uri": data_url(block.data, block.mime), "media_type": block.mime, **_MORE}
        case File(url=str(url)):
            return {"type": "uri", "uri": url, "media_type": block.mime, **_MORE}
        case OtherBlock(dict() as value) if isinstance(value.get("type"), str):
            return value
        case OtherBlock():
            return {"type": "text", "text": to_json(block.value), **_MORE}
    return {"type": "text", "text": f"[file {block.name}]", **_MORE}
