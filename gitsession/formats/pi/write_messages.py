"""Messages and their blocks as pi and omp spell them: the inverse of ``pi.messages``, for what we say ourselves."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Message

Words = dict[str, Any]

COUNTS = ("input", "output", "cacheRead", "cacheWrite")

UNNAMED = "tool"
"""What a result says of a tool that is not known: pi and omp read the name of each."""

_ROLES = {"tool": "toolResult", "shell": "bashExecution"}


def message(entry: Message, *, omp: bool = False) -> Words:
    """The value of the field ``message``. What ``extra`` says besides rides along, and wins."""
    role = str(entry.extra.get("role") or _ROLES.get(entry.role, entry.role))
    fields = {
        "role": role,
        **_said(entry, role, omp),
        "toolCallId": entry.tool_call_id,
        "toolName": UNNAMED if entry.tool_name is None and role == "toolResult" else entry.tool_name,
        "isError": entry.is_error if entry.role == "tool" else None,
        "details": entry.details,
        "provider": entry.provider,
        "model": entry.model,
        "usage": usage(entry.usage) if entry.role == "assistant" else entry.usage,
        "stopReason": entry.stop or ("stop" if entry.role == "assistant" else None),
        "errorMessage": entry.error,
        "timestamp": entry.at_ms,
    }
    return {name: value for name, value in fields.items() if value is not None} | dict(entry.extra)


def content(blocks: Sequence[Block], *, omp: bool = False) -> list[Any]:
    """A list of blocks."""
    return [_block(block, omp) for block in blocks]


def usage(stated: Mapping[str, Any] | None) -> Words:
    """What an answer took, with zeros for what nobody counted: pi adds these up without a look."""
    nothing: Words = dict.fromkeys((*COUNTS, "totalTokens"), 0)
    if stated is None:
        return {**nothing, "cost": dict.fromkeys((*COUNTS, "total"), 0)}
    given = {**stated, **{name: 0 for name in COUNTS if name not in stated}}
    cost = given.get("cost")
    return given if isinstance(cost, Mapping) and "total" in cost else {**given, "cost": {"total": 0, **_mapping(cost)}}


def dumps(value: Any) -> bytes:
    """One line of JSON as pi writes it; half a character is its escape. Bytes become base64."""
    text = json.dumps(jsonable(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace")


def jsonable(value: Any) -> Any:
    """``value`` without what JSON has no word for."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _said(entry: Message, role: str, omp: bool) -> Words:
    if entry.role == "shell":
        command = "code" if role == "pythonExecution" else "command"
        return {command: entry.command, "output": entry.output, "exitCode": entry.exit_code}
    if role == "fileMention":
        return {"files": [_mentioned(block) for block in entry.content]}
    if "content" in entry.extra:
        return {}
    if entry.role == "system" and all(isinstance(block, Text) for block in entry.content):
        return {"content": entry.text}
    return {"content": content(entry.content, omp=omp)}


def _mentioned(block: Block) -> Any:
    if not isinstance(block, File):
        return block.value if isinstance(block, OtherBlock) else _block(block, True)
    return {"path": block.name, **({} if block.data is None else {"content": block.data.decode(errors="replace")})}


def _block(block: Block, omp: bool) -> Any:
    match block:
        case Text():
            return {"type": "text", "text": block.text, **_signed("textSignature", block.signature)}
        case Thinking(redacted=True, text="") if omp:
            return {"type": "redactedThinking", "data": block.signature or ""}
        case Thinking():
            redacted = {"redacted": True} if block.redacted else {}
            signature = _signed("thinkingSignature", block.signature)
            return {"type": "thinking", "thinking": block.text, **signature, **redacted}
        case ToolCall():
            signature = _signed("thoughtSignature", block.signature)
            return {"type": "toolCall", "id": block.id, "name": block.name, "arguments": block.arguments, **signature}
        case Image():
            return {"type": "image", "data": base64.b64encode(block.data).decode(), "mimeType": block.mime}
        case File():
            return {"type": "text", "text": f"[file {block.name}]"}
        case OtherBlock():
            return block.value


def _signed(name: str, signature: str | None) -> dict[str, str]:
    return {} if signature is None else {name: signature}
