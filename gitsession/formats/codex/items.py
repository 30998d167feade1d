"""Response items, of which codex makes its requests, as we understand them. A view: free to get better.

One item is one entry: a thought, a call and its result each are one, as codex keeps them.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any

from gitsession.formats.base.fields import Fields
from gitsession.formats.base.jsonl import Object, parse
from gitsession.formats.codex.turns import injected
from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Custom, CustomMessage, Entry, Message

PASSED_THROUGH = "internal_chat_message_metadata_passthrough"
"""What codex keeps of an item for itself and sends to no model."""


def read_item(at_ms: int, item: Object, beside: Mapping[str, Any]) -> Entry | None:
    """The entry that ``item`` is; ``None`` for a type we do not know. ``beside``: fields of its line."""
    name = item.get("type")
    read = _BY_TYPE.get(name) if isinstance(name, str) else None
    return read(at_ms, item, Fields({**beside, **item})) if read else None


def read_blocks(content: Any) -> tuple[Block, ...]:
    """The blocks of a message or of what a tool gave back."""
    return tuple(_block(block) for block in content) if isinstance(content, list) else ()


def _message(at_ms: int, item: Object, fields: Fields) -> Entry:
    content, role, what = _content(fields), fields.text("role"), injected(item)
    fields.drop("type")
    if what is not None:
        return CustomMessage(at_ms=at_ms, custom_type=what, content=content, display=False, extra=fields.left)
    if role not in ("user", "assistant", "developer", "system"):
        fields.left |= {} if role is None else {"role": role}
        role = "custom"
    return Message(at_ms=at_ms, role=role, content=content, extra=fields.left)


def _content(fields: Fields) -> tuple[Block, ...]:
    content = fields.left.get("content")
    if isinstance(content, list):
        fields.drop("content")
    return read_blocks(content)


def _reasoning(at_ms: int, item: Object, fields: Fields) -> Entry:
    """``signature``: the whole item, encrypted content and all, as the API wants it back."""
    text = _words(item.get("summary")) or _words(item.get("content"))
    fields.drop(*item.keys() - {PASSED_THROUGH})
    sent = {name: value for name, value in item.items() if name != PASSED_THROUGH}
    signature = json.dumps(sent, ensure_ascii=False, separators=(",", ":"))
    return Message(at_ms=at_ms, role="assistant", content=(Thinking(text, signature),), extra=fields.left)


def _words(blocks: Any) -> str:
    return "\n".join(block.text for block in read_blocks(blocks) if isinstance(block, Text))


def _call(at_ms: int, item: Object, fields: Fields) -> Entry:
    id_, name = item.get("call_id"), item.get("name")
    if not isinstance(id_, str) or not isinstance(name, str):
        return _as_it_is(at_ms, item, fields)
    fields.drop("type", "call_id", "name", "arguments", "input")
    return _called(at_ms, ToolCall(id_, name, _arguments(item)), fields)


def _arguments(item: Object) -> Mapping[str, Any]:
    """What a tool is asked: an object, or a text that is given as one of a single field."""
    stated = item.get("arguments")
    if isinstance(stated, str):
        found = parse(stated.encode("utf-8", "surrogatepass"))
        return found if isinstance(found, dict) else {"arguments": stated}
    return stated if isinstance(stated, dict) else {"input": item.get("input")}


def _shell_call(at_ms: int, item: Object, fields: Fields) -> Entry:
    id_, action = item.get("call_id") or item.get("id"), item.get("action")
    if not isinstance(id_, str) or not isinstance(action, dict):
        return _as_it_is(at_ms, item, fields)
    fields.drop("type", "call_id", "action")
    return _called(at_ms, ToolCall(id_, "local_shell", action), fields)


def _search_call(at_ms: int, item: Object, fields: Fields) -> Entry:
    id_ = item.get("call_id")
    if not isinstance(id_, str):
        return _as_it_is(at_ms, item, fields)
    fields.drop("type", "call_id", "arguments")
    return _called(at_ms, ToolCall(id_, "tool_search", _arguments(item)), fields)


def _called(at_ms: int, call: ToolCall, fields: Fields) -> Entry:
    return Message(at_ms=at_ms, role="assistant", content=(call,), extra=fields.left)


def _as_it_is(at_ms: int, item: Object, fields: Fields) -> Entry:
    """What the provider did by itself, or gave to be sent back: nothing of ours says more than the item does."""
    beside = {name: value for name, value in fields.left.items() if name not in item}
    return Message(at_ms=at_ms, role="assistant", content=(OtherBlock(item),), extra=beside)


def _output(at_ms: int, item: Object, fields: Fields) -> Entry:
    output = fields.take("output")
    fields.drop("type")
    inner = output.get("content", output) if isinstance(output, dict) else output
    if isinstance(inner, str):
        content: tuple[Block, ...] = (Text(inner),)
    else:
        content = read_blocks(inner if isinstance(inner, list) else [] if inner is None else [inner])
    return Message(
        at_ms=at_ms,
        role="tool",
        content=content,
        tool_call_id=fields.text("call_id"),
        tool_name=fields.text("name"),
        is_error=isinstance(output, dict) and output.get("success") is False,
        extra=fields.left,
    )


def _found_tools(at_ms: int, item: Object, fields: Fields) -> Entry:
    fields.drop("type")
    content = (OtherBlock({"tools": fields.take("tools")}),)
    return Message(
        at_ms=at_ms, role="tool", content=content, tool_call_id=fields.text("call_id"), extra=fields.left
    )


def _agent_message(at_ms: int, item: Object, fields: Fields) -> Entry:
    content = _content(fields)
    fields.drop("type")
    return CustomMessage(at_ms=at_ms, custom_type="agent_message", content=content, details=fields.left)


def _ghost_snapshot(at_ms: int, item: Object, fields: Fields) -> Entry:
    fields.drop("type")
    return Custom(at_ms=at_ms, custom_type="ghost_snapshot", data=fields.take("ghost_commit"), extra=fields.left)


_BY_TYPE: dict[str, Callable[[int, Object, Fields], Entry]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _call,
    "custom_tool_call": _call,
    "local_shell_call": _shell_call,
    "tool_search_call": _search_call,
    "web_search_call": _as_it_is,
    "image_generation_call": _as_it_is,
    "function_call_output": _output,
    "custom_tool_call_output": _output,
    "tool_search_output": _found_tools,
    "compaction": _as_it_is,
    "compaction_summary": _as_it_is,
    "context_compaction": _as_it_is,
    "agent_message": _agent_message,
    "ghost_snapshot": _ghost_snapshot,
}


# Blocks: each is ours, or carried as it is


def _block(block: Any) -> Block:
    if not isinstance(block, dict):
        return OtherBlock(block)
    name, text = block.get("type"), block.get("text")
    if name in ("input_text", "output_text", "summary_text", "reasoning_text", "text") and isinstance(text, str):
        return Text(text)
    if name == "input_image":
        return _image(block.get("image_url")) or OtherBlock(block)
    return OtherBlock(block)


def _image(url: Any) -> Block | None:
    if not isinstance(url, str):
        return None
    if not url.startswith("data:"):
        return File(url, url=url)
    head, mark, data = url.removeprefix("data:").partition(";base64,")
    try:
        return Image(base64.b64decode(data, validate=True), head) if mark else None
    except (binascii.Error, ValueError):
        return None
