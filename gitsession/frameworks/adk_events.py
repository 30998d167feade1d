"""Conversion of the events of Google's ADK, as JSON, to messages and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gitsession.context.providers.wire import to_base64, to_json
from gitsession.formats.base.blocks import image
from gitsession.model.blocks import Block, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Message

_ACTIONS = ("stateDelta", "artifactDelta", "requestedAuthConfigs", "requestedToolConfirmations")


def messages_of(item: Mapping[str, Any]) -> list[Message]:
    """Return the messages of an event: one for each result of a call, one for other parts, none without content."""
    parts = (item.get("content") or {}).get("parts") or []
    results = [_result(part["functionResponse"]) for part in parts if set(part) == {"functionResponse"}]
    if parts and len(results) == len(parts):
        return results
    if not parts:
        return []
    is_user = item.get("author") == "user"
    return [
        Message(
            role="user" if is_user else "assistant",
            content=tuple(map(_block, parts)),
            model=item.get("modelVersion"),
            stop=item.get("finishReason"),
            error=item.get("errorMessage"),
            usage=item.get("usageMetadata"),
        )
    ]


def derive_item(messages: Sequence[Message]) -> dict[str, Any]:
    """Return the JSON of an event, as far as its messages determine it. FROZEN."""
    first = messages[0]
    item: dict[str, Any] = {"actions": {name: {} for name in _ACTIONS}, "nodeInfo": {"path": ""}}
    if first.role == "tool":
        return {**item, "content": {"role": "user", "parts": list(map(_result_part, messages))}}
    role, author = ("user", {"author": "user"}) if first.role == "user" else ("model", {})
    given = {"modelVersion": first.model, "finishReason": first.stop, "errorMessage": first.error}
    known = {name: value for name, value in {**given, "usageMetadata": first.usage}.items() if value is not None}
    return {**item, **author, **known, "content": {"role": role, "parts": list(map(_part, first.content))}}


def _result(response: Mapping[str, Any]) -> Message:
    value = response.get("response") or {}
    alone = value.get("result", value.get("error")) if len(value) == 1 else None
    return Message(
        role="tool",
        content=(Text(alone if isinstance(alone, str) else to_json(value)),),
        tool_name=response.get("name"),
        tool_call_id=response.get("id"),
        is_error="error" in value,
    )


def _result_part(message: Message) -> dict[str, Any]:
    named = {"id": message.tool_call_id, "name": message.tool_name}
    value = {"error" if message.is_error else "result": message.text}
    return {"functionResponse": {**{name: text for name, text in named.items() if text is not None}, "response": value}}


def _block(part: dict[str, Any]) -> Block:
    text, call, blob = part.get("text"), part.get("functionCall"), part.get("inlineData")
    signature = part.get("thoughtSignature")
    if isinstance(text, str):
        return Thinking(text, signature) if part.get("thought") else Text(text, signature)
    if isinstance(call, dict) and isinstance(call.get("name"), str):
        return ToolCall(call.get("id") or "", call["name"], call.get("args") or {}, signature)
    return (image(blob.get("data"), blob.get("mimeType")) if isinstance(blob, dict) else None) or OtherBlock(part)


def _part(block: Block) -> Any:
    signature = getattr(block, "signature", None)
    signed = {} if signature is None else {"thoughtSignature": signature}
    match block:
        case Text():
            return {"text": block.text, **signed}
        case Thinking():
            return {"text": block.text, "thought": True, **signed}
        case ToolCall():
            named = {"id": block.id} if block.id else {}
            return {"functionCall": {**named, "args": block.arguments, "name": block.name}, **signed}
        case Image():
            return {"inlineData": {"data": to_base64(block.data), "mimeType": block.mime}}
        case OtherBlock():
            return block.value
    return {}
