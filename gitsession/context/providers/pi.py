"""Messages as pi's context builder returns them: ``messages``, ``model`` and ``thinkingLevel``.

pi and omp entries are returned as they were written, with all fields, except for blocks that a policy changed.
gitsession entries are returned in pi's format.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from gitsession.context.value import Context, Item
from gitsession.formats.base.fields import to_ms
from gitsession.formats.base.jsonl import LineFailure, parse
from gitsession.formats.pi import messages as write_messages
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Compaction, CustomMessage, Message

_NULL_IS_EMPTY = {"user": [], "assistant": [], "toolResult": [], "system": ""}


def request(context: Context, *, system: str | None = None) -> dict[str, Any]:
    """Return the messages and the state.

    ``system`` replaces the leading system message. If there is none, ``system`` is inserted.
    """
    called: dict[str | None, str] = {}
    messages = []
    for item in context.items:
        called |= {block.id: block.name for block in item.content if isinstance(block, ToolCall)}
        messages.append(_message(item, called, profile=context.profile))
    if system is not None:
        first = messages and messages[0].get("role") == "system"
        messages[: 1 if first else 0] = [{"role": "system", "content": system}]
    provider, _, model = (context.model or "").partition("/")
    return {
        "messages": messages,
        "model": None if context.model is None else {"provider": provider, "modelId": model},
        "thinkingLevel": context.thinking,
    }


def _message(item: Item, called: Mapping[str | None, str], *, profile: str) -> dict[str, Any]:
    """Return the message for ``item``. ``called``: names of the tools of earlier calls, by the ids of the calls."""
    line = parse(item.payload) if item.agent in ("pi", "omp") else None
    written = {} if line is None or isinstance(line, LineFailure) else line
    entry = item.entry
    at_ms = _time(written, entry.at_ms) if written else entry.at_ms
    if isinstance(entry, Message):
        message = written.get("message")
        if isinstance(message, dict):
            return _as_stated(message, tolerant=profile == "pi")
        if entry.role == "tool" and not entry.tool_name:
            entry = dataclasses.replace(entry, tool_name=called.get(entry.tool_call_id))
        return write_messages.message(entry, omp=profile == "omp")
    if isinstance(entry, CustomMessage):
        details = {} if entry.details is None else {"details": entry.details}
        content = written.get("content")
        return {
            "role": "custom",
            "customType": entry.custom_type,
            "content": write_messages.content(entry.content) if content is None else content,
            "display": entry.display,
            **details,
            "timestamp": at_ms,
        }
    if isinstance(entry, Compaction):
        before = {} if entry.tokens_before is None else {"tokensBefore": entry.tokens_before}
        more = _omp_fields(entry) if profile == "omp" else {}
        return {"role": "compactionSummary", "summary": entry.summary, **before, **more, "timestamp": at_ms}
    left = {} if entry.left is None else {"fromId": entry.left}
    return {"role": "branchSummary", "summary": entry.summary, **left, "timestamp": at_ms}


def _omp_fields(entry: Compaction) -> dict[str, Any]:
    """Return the fields of a compaction that omp displays and pi does not have."""
    fields = {name: entry.extra.get(name) for name in ("shortSummary", "warning")}
    fields |= {"method": entry.method, "tokensAfter": entry.tokens_after}
    return {name: value for name, value in fields.items() if value is not None}


def _time(written: dict[str, Any], at_ms: int) -> int | None:
    """Return the time of a line as pi converts it; ``None`` if the field is missing or is not a valid time."""
    timestamp = written.get("timestamp", "")
    return None if isinstance(timestamp, str) and to_ms(timestamp) is None else at_ms


def _as_stated(message: dict[str, Any], *, tolerant: bool) -> dict[str, Any]:
    """Return a message as it was written. A hook's message gets the role ``custom``.

    ``tolerant``: whether missing content becomes empty content, as in pi since 0.87.
    """
    role = message.get("role")
    if role == "hookMessage":
        return {**message, "role": "custom"}
    if tolerant and isinstance(role, str) and role in _NULL_IS_EMPTY and message.get("content") is None:
        return {**message, "content": _NULL_IS_EMPTY[role]}
    return message
