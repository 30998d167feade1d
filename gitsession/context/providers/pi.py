"""Messages as pi's own context builder gives them: ``messages``, ``model`` and ``thinkingLevel``.

What pi or omp wrote comes back as it was written, every field of it. Our own entries, and what a policy changed, are
written as pi would write them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from gitsession.context.value import Context, Item
from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Message

_ROLES = {"tool": "toolResult", "shell": "bashExecution"}
_NULL_IS_EMPTY = {"user": [], "assistant": [], "toolResult": [], "system": ""}


def request(context: Context, *, system: str | None = None) -> dict[str, Any]:
    """``system`` becomes a message of that role before the others, in place of one that stands there."""
    messages = [_message(item, tolerant=context.profile == "pi") for item in context.items]
    if system is not None:
        first = messages and messages[0].get("role") == "system"
        messages[: 1 if first else 0] = [{"role": "system", "content": system}]
    provider, _, model = (context.model or "").partition("/")
    return {
        "messages": messages,
        "model": None if context.model is None else {"provider": provider, "modelId": model},
        "thinkingLevel": context.thinking,
    }


def _message(item: Item, *, tolerant: bool) -> dict[str, Any]:
    written = json.loads(item.payload.decode().removeprefix("\ufeff")) if item.agent in ("pi", "omp") else {}
    entry = item.entry
    if isinstance(entry, Message):
        stated = written.get("message")
        return _as_stated(stated, tolerant) if isinstance(stated, dict) else _said(entry)
    if isinstance(entry, CustomMessage):
        details = {} if entry.details is None else {"details": entry.details}
        return {
            "role": "custom",
            "customType": entry.custom_type,
            "content": _given(written, "content", _content(entry.content)),
            "display": entry.display,
            **details,
            "timestamp": entry.at_ms,
        }
    if isinstance(entry, Compaction):
        before = {} if entry.tokens_before is None else {"tokensBefore": entry.tokens_before}
        return {"role": "compactionSummary", "summary": entry.summary, **before, "timestamp": entry.at_ms}
    return _branch_summary(entry)


def _branch_summary(entry: BranchSummary) -> dict[str, Any]:
    left = {} if entry.left is None else {"fromId": entry.left}
    return {"role": "branchSummary", "summary": entry.summary, **left, "timestamp": entry.at_ms}


def _given(written: dict[str, Any], field: str, otherwise: Any) -> Any:
    found = written.get(field)
    return otherwise if found is None else found


def _as_stated(message: dict[str, Any], tolerant: bool) -> dict[str, Any]:
    """A hook's message is a custom one; ``tolerant``: since 0.87, a content that is missing is an empty one."""
    role = message.get("role")
    if role == "hookMessage":
        return {**message, "role": "custom"}
    if tolerant and role in _NULL_IS_EMPTY and message.get("content") is None:
        return {**message, "content": _NULL_IS_EMPTY[role]}
    return message


def _said(entry: Message) -> dict[str, Any]:
    fields = {
        "role": _ROLES.get(entry.role, entry.role),
        "content": None if entry.role == "shell" else _content(entry.content),
        "command": entry.command,
        "output": entry.output,
        "exitCode": entry.exit_code,
        "toolCallId": entry.tool_call_id,
        "toolName": entry.tool_name,
        "isError": entry.is_error if entry.role == "tool" else None,
        "details": entry.details,
        "provider": entry.provider,
        "model": entry.model,
        "usage": entry.usage,
        "stopReason": entry.stop,
        "errorMessage": entry.error,
        "timestamp": entry.at_ms,
    }
    return {name: value for name, value in fields.items() if value is not None} | dict(entry.extra)


def _content(blocks: Sequence[Block]) -> list[Any]:
    return [_block(block) for block in blocks]


def _block(block: Block) -> Any:
    match block:
        case Text():
            return {"type": "text", "text": block.text, **_signed("textSignature", block.signature)}
        case Thinking(redacted=True, text=""):
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
