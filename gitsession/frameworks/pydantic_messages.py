"""Conversion of the messages of Pydantic AI, as JSON, to entries and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gitsession.context.providers.wire import read_json, to_base64, to_json
from gitsession.formats.base.blocks import image
from gitsession.model.blocks import Block, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Message

_PART = {"id": None, "provider_name": None, "provider_details": None}
_MEDIA = {"vendor_metadata": None}
_RESULT = {"tool_kind": None, "metadata": None, "outcome": "success", "retry": None}
_PROMPT = {"dynamic_ref": None, "context_id": None, "scope": "conversation", "metadata": None}
_REQUEST = dict.fromkeys(("timestamp", "instructions", "run_id", "conversation_id", "metadata"))
_RESPONSE = dict.fromkeys(
    (
        *("model_id", "provider_url", "canonical_system", "provider_details", "provider_response_id", "run_id"),
        *("conversation_id", "metadata", "workspace_ref", "history_digest", "failed_attempts"),
    )
)


def messages_of(item: Mapping[str, Any]) -> list[Message]:
    """Return the messages of a request, one for each part, or the message of a response. At least one is returned."""
    if item["kind"] == "response":
        return [
            Message(
                role="assistant",
                content=tuple(map(_answer_block, item["parts"])),
                provider=item.get("provider_name"),
                model=item.get("model_name"),
                stop=item.get("finish_reason"),
                usage=item.get("usage"),
            )
        ]
    return [_request_message(part) for part in item["parts"]] or [Message(role="custom")]


def derive_item(messages: Sequence[Message]) -> dict[str, Any]:
    """Return the JSON of a message of Pydantic AI, as far as its entries determine it. FROZEN."""
    first = messages[0]
    if first.role == "assistant":
        return {
            **_RESPONSE,
            "kind": "response",
            "parts": [_answer_part(block) for block in first.content],
            "usage": first.usage,
            "model_name": first.model,
            "provider_name": first.provider,
            "finish_reason": first.stop,
            "state": "complete",
        }
    parts = [_request_part(message) for message in messages if message.content or message.role != "custom"]
    return {**_REQUEST, "kind": "request", "parts": parts, "state": "complete"}


# ---- parts of requests


def _request_message(part: Mapping[str, Any]) -> Message:
    kind, content = part["part_kind"], part.get("content")
    if kind == "system-prompt" and isinstance(content, str):
        return Message(role="system", content=(Text(content),))
    if kind == "user-prompt" and isinstance(content, str | list):
        return Message(
            role="user", content=tuple(map(_prompt_block, [content] if isinstance(content, str) else content))
        )
    if kind == "tool-return":
        return Message(
            role="tool",
            content=(Text(content if isinstance(content, str) else to_json(content)),),
            tool_name=part.get("tool_name"),
            tool_call_id=part.get("tool_call_id"),
            is_error=part.get("outcome") != "success",
        )
    text = (Text(content),) if isinstance(content, str) else ()
    return Message(role="user" if kind == "retry-feedback" else "custom", content=(*text, OtherBlock(dict(part))))


def _request_part(message: Message) -> Any:
    last = message.content[-1] if message.content else None
    if isinstance(last, OtherBlock) and isinstance(last.value, dict) and "part_kind" in last.value:
        return last.value
    if message.role == "system":
        return {**_PROMPT, "part_kind": "system-prompt", "content": message.text}
    if message.role == "tool":
        found = {"part_kind": "tool-return", "content": message.text, "tool_call_id": message.tool_call_id}
        return {**_RESULT, **found, "tool_name": message.tool_name}
    content = [_prompt_item(block) for block in message.content]
    return {"part_kind": "user-prompt", "content": content[0] if len(content) == 1 else content}


def _prompt_block(item: Any) -> Block:
    if isinstance(item, str):
        return Text(item)
    is_image = isinstance(item, dict) and str(item.get("media_type")).startswith("image/")
    return (image(item.get("data"), item["media_type"]) if is_image else None) or OtherBlock(item)


def _prompt_item(block: Block) -> Any:
    match block:
        case Text():
            return block.text
        case Image():
            return {**_MEDIA, "data": to_base64(block.data), "media_type": block.mime}
        case OtherBlock():
            return block.value
    return None


# ---- parts of responses


def _answer_block(part: Mapping[str, Any]) -> Block:
    kind, content = part["part_kind"], part.get("content")
    if kind == "text" and isinstance(content, str):
        return Text(content)
    if kind == "thinking" and isinstance(content, str):
        return Thinking(content, part.get("signature"))
    if kind == "tool-call":
        given = part.get("args")
        arguments = given if isinstance(given, dict) else read_json(given, "{") if isinstance(given, str) else None
        return ToolCall(part["tool_call_id"], part["tool_name"], arguments or {})
    return OtherBlock(dict(part))


def _answer_part(block: Block) -> Any:
    match block:
        case Text():
            return {**_PART, "citations": None, "part_kind": "text", "content": block.text}
        case Thinking():
            fields = {"part_kind": "thinking", "content": block.text, "signature": block.signature}
            return {**_PART, **fields}
        case ToolCall():
            fields = {"part_kind": "tool-call", "tool_name": block.name, "tool_call_id": block.id, "tool_kind": None}
            return {**_PART, **fields, "args": json.dumps(block.arguments, separators=(",", ":"))}
        case OtherBlock():
            return block.value
    return None
