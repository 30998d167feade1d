"""Conversion of the items of OpenAI's Responses API, as the OpenAI Agents SDK stores them, to messages and back.

The message of an item has the part that gitsession understands. Its field ``openai-agents`` has the other fields of
the item, or the whole item as JSON. So the item that is read equals the one that was stored.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from gitsession.codec.cbor import to_profile
from gitsession.context.providers.wire import data_url
from gitsession.errors import Malformed
from gitsession.formats.base.fields import plain
from gitsession.formats.codex.read_entry import read_blocks
from gitsession.frameworks.stored_items import copied, reading
from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Message

AGENT = "openai-agents"
"""The name of the agent of the sessions, and of the field with the rest of an item."""

_ROLES = ("user", "assistant", "system", "developer")


def entry_of(item: Any) -> Message:
    """Return the message for an item.

    Raises ``TypeError`` or ``ValueError`` if JSON cannot represent the item, and ``Malformed`` if it is nested too
    deeply.
    """
    try:
        return _entry_of(item)
    except RecursionError:
        raise Malformed("cannot store an item of the OpenAI Agents SDK: it is nested too deeply") from None


def _entry_of(item: Any) -> Message:
    text = json.dumps(item)
    exact = json.loads(text)  # with text keys and lists, as from a file
    message = _message(to_profile(exact))
    base = _single(message)
    if isinstance(exact, dict) and isinstance(base, dict) and base.keys() <= exact.keys():
        rest = {name: value for name, value in exact.items() if name not in base or not _same(base[name], value)}
        if not rest:
            return message
        if _same(to_profile(rest), rest):
            return dataclasses.replace(message, extra={AGENT: rest})
    return message if _same(base, exact) else dataclasses.replace(message, extra={AGENT: text})


def items_of(message: Message) -> list[Any]:
    """Return the items of a message: one, or one for each block if another program wrote an answer with several.

    Raises ``Malformed`` if the stored item is damaged.
    """
    rest = message.extra.get(AGENT)
    if isinstance(rest, str):
        with reading("an item of the OpenAI Agents SDK"):
            return [json.loads(rest)]
    if isinstance(rest, Mapping):
        return [{**_single(message), **copied(rest)}]
    if message.role == "assistant" and any(isinstance(block, ToolCall | Thinking) for block in message.content):
        return [_single(dataclasses.replace(message, content=(block,))) for block in message.content]
    return [_single(message)]


def _same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal. Python's ``==`` does not distinguish 1, 1.0 and True."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


# ---- items to messages


def _message(item: Any) -> Message:
    if not isinstance(item, dict):
        return Message(role="custom", content=(OtherBlock(item),))
    kind, role, id_ = plain(item.get("type") or "message"), item.get("role"), item.get("call_id")
    if kind == "message" and role in _ROLES:
        return Message(role=role, content=_blocks(item.get("content")))
    if kind == "reasoning":
        texts = [*_blocks(item.get("summary")), *_blocks(item.get("content"))]
        text = "\n".join(block.text for block in texts if isinstance(block, Text))
        return Message(role="assistant", content=(Thinking(text, json.dumps(item, separators=(",", ":"))),))
    if isinstance(id_, str) and kind.endswith("_call"):
        name = plain(item.get("name")) or kind.removesuffix("_call")
        return Message(role="assistant", content=(ToolCall(id_, name, _arguments(item)),))
    if isinstance(id_, str) and kind.endswith("_output"):
        return Message(role="tool", content=_blocks(item.get("output")), tool_call_id=id_)
    return Message(role="assistant", content=(OtherBlock(item),))


def _blocks(content: Any) -> tuple[Block, ...]:
    if isinstance(content, str):
        return (Text(content),)
    return read_blocks(content if isinstance(content, list) else [] if content is None else [content])


def _arguments(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a call. If they are not a JSON object, they become the only field of an object."""
    stated = item.get("arguments", item.get("action"))
    try:
        found = to_profile(json.loads(stated)) if isinstance(stated, str) else stated
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"input": item.get("input", stated)}


# ---- messages to items


def _single(message: Message) -> Any:
    """Return the item that the blocks of a message determine."""
    match message.role, message.content:
        case "tool", content:
            call_id = message.tool_call_id or ""
            return {"call_id": call_id, "output": _content("user", content), "type": "function_call_output"}
        case _, (ToolCall() as call,):
            arguments = json.dumps(call.arguments, ensure_ascii=False, separators=(",", ":"))
            return {"arguments": arguments, "call_id": call.id, "name": call.name, "type": "function_call"}
        case _, (Thinking() as thinking,):
            return _reasoning(thinking)
        case _, (OtherBlock(value),):
            return copied(value)
        case "assistant", content:
            parts = [_part("assistant", block) for block in content]
            return {"content": parts, "role": "assistant", "status": "completed", "type": "message"}
        case role, content:
            return {"content": _content(role, content), "role": role if role in _ROLES else "user"}


def _reasoning(thinking: Thinking) -> dict[str, Any]:
    try:
        found = json.loads(thinking.signature or "")
    except ValueError:
        found = None
    own = isinstance(found, dict) and found.get("type") == "reasoning"
    return found if own else {"summary": [{"text": thinking.text, "type": "summary_text"}], "type": "reasoning"}


def _content(role: str, content: tuple[Block, ...]) -> str | list[Any]:
    if len(content) == 1 and isinstance(content[0], Text):
        return content[0].text
    return [_part(role, block) for block in content]


def _part(role: str, block: Block) -> Any:
    match block:
        case Text() | Thinking():
            if role == "assistant":
                return {"annotations": [], "logprobs": [], "text": block.text, "type": "output_text"}
            return {"text": block.text, "type": "input_text"}
        case Image():
            return {"detail": "auto", "image_url": data_url(block.data, block.mime), "type": "input_image"}
        case File(url=str(url)):
            return {"detail": "auto", "image_url": url, "type": "input_image"}
        case OtherBlock(value):
            return copied(value)
    return {"text": f"[{block.type}]", "type": "input_text"}
