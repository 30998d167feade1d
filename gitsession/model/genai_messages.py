"""Messages as the semantic conventions of OpenTelemetry for generative AI write them (docs/reference/otlp.md).

The attributes ``gen_ai.input.messages`` and ``gen_ai.output.messages`` of a span contain messages with parts.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from typing import Any

from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Message
from gitsession.model.plain import plain

_ROLES = {"user": "user", "assistant": "assistant", "tool": "tool", "system": "system", "developer": "system"}


def to_genai(message: Message) -> dict[str, Any]:
    """Return a message with its parts. A role that the conventions lack becomes ``user``."""
    if message.role == "tool":
        response = _response(message.content)
        parts = [{"type": "tool_call_response", "id": message.tool_call_id, "response": response}]
    elif message.role == "shell":
        parts = [{"type": "text", "content": f"$ {message.command or ''}\n{message.output or ''}"}]
    else:
        parts = [_part(block) for block in message.content]
    return {"role": _ROLES.get(message.role, "user"), "parts": parts}


def from_genai(value: object) -> Iterator[Message]:
    """Yield the messages that one message of the conventions contains. Each tool result is a message of its own."""
    found = value if isinstance(value, dict) else {}
    parts = found.get("parts")
    parts = parts if isinstance(parts, list) else [{"type": "text", "content": found.get("content") or ""}]
    role = found.get("role")
    content: list[Block] = []
    for part in parts:
        if isinstance(part, dict) and part.get("type") == "tool_call_response":
            answer = part.get("response", part.get("result"))
            text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
            id = part.get("id")
            yield Message(role="tool", tool_call_id=id if isinstance(id, str) else None, content=(Text(text),))
        else:
            content.append(_block(part))
    if content or not parts:
        role = role if role in ("user", "assistant", "system", "developer") else "custom"
        yield Message(role=role, content=tuple(content))


def _part(block: Block) -> dict[str, Any]:
    match block:
        case Text():
            return {"type": "text", "content": block.text}
        case Thinking():
            return {"type": "reasoning", "content": block.text}
        case ToolCall():
            return {"type": "tool_call", "id": block.id, "name": block.name, "arguments": plain(block.arguments)}
        case Image():
            data = base64.b64encode(block.data).decode()
            return {"type": "blob", "modality": "image", "mime_type": block.mime, "content": data}
        case File(url=str(url)):
            return {"type": "uri", "modality": "file", "mime_type": block.mime, "uri": url}
        case File():
            data = base64.b64encode(block.data or b"").decode()
            return {"type": "blob", "modality": "file", "mime_type": block.mime, "content": data}
        case OtherBlock(value=dict(value)) if isinstance(value.get("type"), str):
            return value
    return {"type": "other", "content": plain(block.value)}


def _block(part: object) -> Block:
    found = part if isinstance(part, dict) else {}
    content = found.get("content")
    match found.get("type"):
        case "text" if isinstance(content, str):
            return Text(content)
        case "reasoning" if isinstance(content, str):
            return Thinking(content)
        case "tool_call" if isinstance(found.get("name"), str):
            return ToolCall(str(found.get("id") or ""), found["name"], _arguments(found.get("arguments")))
        case "blob" if found.get("modality") == "image" and isinstance(content, str):
            try:
                return Image(base64.b64decode(content, validate=True), str(found.get("mime_type") or "image/png"))
            except binascii.Error:
                pass
        case "uri" if isinstance(found.get("uri"), str):
            return File("", mime=found.get("mime_type"), url=found["uri"])
    return OtherBlock(part)


def _arguments(value: object) -> dict[str, Any]:
    if isinstance(value, str):  # several tools record the text that the model wrote
        try:
            value = json.loads(value)
        except ValueError:
            return {"input": value}
    return value if isinstance(value, dict) else {} if value is None else {"input": value}


def _response(content: Iterable[Block]) -> Any:
    blocks = list(content)
    if all(isinstance(block, Text) for block in blocks):
        return "\n".join(block.text for block in blocks if isinstance(block, Text))
    return [_part(block) for block in blocks]
