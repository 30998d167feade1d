"""Headlines of the commit messages for librecode's rows. This module is FROZEN under view 1 (see ``pi.headline``)."""

from __future__ import annotations

from typing import Any

from gitsession.formats.base.fields import to_ms
from gitsession.formats.base.jsonl import LineFailure, Object, parse
from gitsession.model.headline import Headline, first_line, format_tokens, line_count

_ROLES = {"user": "user", "assistant": "assistant", "toolResult": "tool", "tool_result": "tool",
          "bashExecution": "shell", "custom": "custom"}  # fmt: skip


def headline_of(payload: bytes, parsed: Object | LineFailure | None = None) -> Headline:
    """Return the headline of a row. Never raises. ``parsed``: the parsed row, if it is known."""
    row = parse(payload) if parsed is None else parsed
    if isinstance(row, LineFailure):
        words = f"{len(payload)} bytes that do not parse" if row.reason else "blank line"
        return Headline(kind="opaque", label="opaque", words=words)
    at_ms = to_ms(row.get("created_at"))
    if row.get("type") == "session":
        return Headline(kind="session", label="session", words=_text(row, "cwd"), at_ms=at_ms)
    name = _text(row, "entry_type")
    if name == "message":
        return _message(row, at_ms)
    content, summary = _text(row, "content"), _text(row, "summary")
    model = "/".join(filter(None, (_text(row, "provider"), _text(row, "model"))))
    data = parse(_text(row, "data_json").encode("utf-8", "surrogatepass"))
    fields = {} if isinstance(data, LineFailure) else data
    match name:
        case "compaction":
            before = row.get("compaction_tokens_before")
            words = f"{format_tokens(before)} tokens" if type(before) is int and 0 < before < 2**53 else ""
            return Headline(kind=name, label=name, words=words, body=summary, at_ms=at_ms)
        case "branch_summary":
            words = first_line(summary)
            return Headline(kind=name, label="branch summary", words=words, body=summary, at_ms=at_ms)
        case "custom_message":
            label = f"custom {_text(row, 'custom_type')}".strip()
            words = first_line(content)
            return Headline(kind=name, role="custom", label=label, words=words, body=content, at_ms=at_ms)
        case "custom":
            return Headline(kind=name, label=f"custom {_text(row, 'custom_type')}".strip(), at_ms=at_ms)
        case "model_change":
            return Headline(kind=name, label="model", words=model, at_ms=at_ms)
        case "thinking_level_change":
            words = _text(fields, "thinking_level") or _text(fields, "thinkingLevel")
            return Headline(kind="thinking_change", label="thinking", words=words, at_ms=at_ms)
        case "label":
            return Headline(kind=name, label=name, words=_text(fields, "label") or "removed", at_ms=at_ms)
        case "session_info":
            return Headline(kind="title", label="title", words=_text(fields, "name"), at_ms=at_ms)
    return Headline(kind=name or "unknown", label=name or "unknown", at_ms=at_ms)


def _message(row: Object, at_ms: int | None) -> Headline:
    own_role, content = _text(row, "role"), _text(row, "content")
    role = _ROLES.get(own_role, "other")
    label = own_role or "message"
    if role == "tool":
        label = f"tool {_text(row, 'tool_name')}".strip()
        words = f"error, {line_count(content)}" if row.get("tool_status") == "error" else line_count(content)
        return Headline(kind="message", role=role, label=label, words=words, at_ms=at_ms)
    model = "/".join((_text(row, "provider"), _text(row, "model"))) if role == "assistant" and row.get("model") else ""
    body = content if role in ("user", "assistant", "custom") else ""
    words = first_line(content)
    return Headline(kind="message", role=role, label=label, words=words, body=body, model=model, at_ms=at_ms)


def _text(row: Object, name: str) -> str:
    value: Any = row.get(name)
    return value if isinstance(value, str) else ""
