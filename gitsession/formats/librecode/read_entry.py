"""Reader of librecode's rows. The returned entries are views, which may change between releases.

librecode stores tool results and reasoning, but does not send them to the model again. Each kind of entry has a default
value for the column ``model_facing``. If the value of an entry differs from the default, ``extra`` contains the value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gitsession.formats.base.blocks import image
from gitsession.formats.base.fields import Fields, to_ms
from gitsession.formats.base.jsonl import LineFailure, Object, parse
from gitsession.formats.librecode.split_file import AGENT
from gitsession.model import entries
from gitsession.model.blocks import Block, OtherBlock, Text
from gitsession.model.entries import Entry, Opaque, UnknownEntry

ROLES = {"user": "user", "assistant": "assistant", "toolResult": "tool", "tool_result": "tool", "custom": "custom"}


def entry_of(payload: bytes) -> Entry:
    """Return the entry that the row ``payload`` represents. Never raises."""
    row = parse(payload)
    if isinstance(row, LineFailure):
        return Opaque(payload=payload, problem=row.reason)
    at_ms = to_ms(row.get("created_at")) or 0
    if row.get("type") == "session":
        return _session(at_ms, row)
    name = row.get("entry_type")
    read = _BY_TYPE.get(name) if isinstance(name, str) else None
    fields = Fields(row)
    fields.drop("id", "parent_id", "entry_type", "created_at")
    return (read(at_ms, fields, _data(fields)) if read is not None else None) or UnknownEntry(
        at_ms=at_ms, name=name if isinstance(name, str) and name else "unknown", body=row
    )


def _data(fields: Fields) -> Object:
    """Remove the column ``data_json`` and return its parsed value.

    If the value cannot be parsed, keep the column and return an empty object.
    """
    text = fields.left.get("data_json")
    found = parse(text.encode("utf-8", "surrogatepass")) if isinstance(text, str) else LineFailure("")
    if isinstance(found, LineFailure):
        return {}
    fields.drop("data_json")
    return found


def _session(at_ms: int, row: Object) -> Entry:
    fields = Fields(row)
    fields.drop("type", "created_at")
    return entries.SessionHeader(
        at_ms=at_ms,
        agent=AGENT,
        source_id=fields.text("id"),
        cwd=fields.text("cwd"),
        title=fields.text("name"),
        parent=fields.text("parent_session") or fields.text("parent_session_id"),
        extra=fields.left,
    )


def _message(at_ms: int, fields: Fields, data: Object) -> Entry | None:
    role = fields.text("role")
    provider, model = fields.text("provider"), fields.text("model")
    if role == "thinking":
        return entries.Custom(at_ms=at_ms, custom_type=role, data=fields.take("content"), extra=_more(fields, data))
    if role == "bashExecution":
        output = fields.text("content")
        return entries.Message(at_ms=at_ms, role="shell", output=output, extra=_more(fields, data))
    own_role = ROLES.get(role or "", "custom")
    if own_role != role and role != "toolResult":
        fields.left["role"] = role
    return entries.Message(
        at_ms=at_ms,
        role=own_role,
        content=_content(fields),
        provider=provider,
        model=model,
        usage=_usage(data.pop("usage", None)),
        tool_name=fields.text("tool_name"),
        is_error=fields.text("tool_status") == "error",
        extra=_more(fields, data),
    )


def _custom_message(at_ms: int, fields: Fields, data: Object) -> Entry:
    name = fields.text("custom_type") or ""
    is_displayed = fields.left.get("display") != 0
    content = _content(fields)
    return entries.CustomMessage(
        at_ms=at_ms, custom_type=name, content=content, display=is_displayed, extra=_more(fields, data)
    )


def _custom(at_ms: int, fields: Fields, data: Object) -> Entry:
    return entries.Custom(at_ms=at_ms, custom_type=fields.text("custom_type") or "", data=data, extra=fields.left)


def _compaction(at_ms: int, fields: Fields, data: Object) -> Entry:
    first = fields.text("compaction_first_kept_entry_id") or _first(data, "first_kept_entry_id", "firstKeptEntryId")
    before = fields.integer("compaction_tokens_before") or _first(data, "tokens_before", "tokensBefore")
    return entries.Compaction(
        at_ms=at_ms,
        summary=fields.text("summary") or "",
        first_kept=first if isinstance(first, str) else None,
        tokens_before=before if isinstance(before, int) else None,
        extra=_more(fields, data),
    )


def _branch_summary(at_ms: int, fields: Fields, data: Object) -> Entry:
    left = fields.text("branch_from_entry_id") or _first(data, "from_id", "fromId")
    return entries.BranchSummary(
        at_ms=at_ms,
        summary=fields.text("summary") or "",
        left=left if isinstance(left, str) else None,
        extra=_more(fields, data),
    )


def _label(at_ms: int, fields: Fields, data: Object) -> Entry | None:
    target, label = _first(data, "target_id", "targetId"), data.get("label")
    if not isinstance(target, str):
        return None
    return entries.Label(at_ms=at_ms, target=target, label=label if isinstance(label, str) else None)


def _title(at_ms: int, fields: Fields, data: Object) -> Entry:
    name = data.get("name")
    return entries.Title(at_ms=at_ms, title=name if isinstance(name, str) else None, extra=fields.left)


def _model_change(at_ms: int, fields: Fields, data: Object) -> Entry | None:
    provider, model = fields.text("provider"), fields.text("model")
    if model is None:
        return None
    return entries.ModelChange(at_ms=at_ms, provider=provider or "", model=model, extra=_more(fields, data))


def _thinking(at_ms: int, fields: Fields, data: Object) -> Entry | None:
    level = _first(data, "thinking_level", "thinkingLevel")
    return entries.ThinkingChange(at_ms=at_ms, level=level, extra=fields.left) if isinstance(level, str) else None


_BY_TYPE: dict[str, Callable[[int, Fields, Object], Entry | None]] = {
    "message": _message,
    "custom_message": _custom_message,
    "custom": _custom,
    "compaction": _compaction,
    "branch_summary": _branch_summary,
    "label": _label,
    "session_info": _title,
    "model_change": _model_change,
    "thinking_level_change": _thinking,
}


def _content(fields: Fields) -> tuple[Block, ...]:
    """Return the blocks of a message. If the message has no parts, the content becomes one block."""
    parts = fields.left.get("parts")
    content = fields.text("content")
    if not isinstance(parts, list):
        return (Text(content),) if content else ()
    fields.drop("parts")
    return tuple([_block(part) for part in parts])


def _block(part: Any) -> Block:
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text", ""), str):
        return Text(part.get("text", ""))
    mime, data = (part.get("mime_type"), part.get("data")) if isinstance(part, dict) else (None, None)
    return image(data, mime) or OtherBlock(part)


def _usage(stated: Any) -> dict[str, int] | None:
    """Return the token counts in ``stated``. ``contextTokens`` is the size of the last request, in tokens."""
    if not isinstance(stated, dict):
        return None
    fields = {"input": ("input_tokens", "inputTokens"), "output": ("output_tokens", "outputTokens"),
             "contextTokens": ("context_tokens", "contextTokens")}  # fmt: skip
    counts = {name: _first(stated, *names) for name, names in fields.items()}
    return {key: value for key, value in counts.items() if type(value) is int} or None


def _first(data: Object, *names: str) -> Any:
    return next((data[name] for name in names if data.get(name) not in (None, "", 0)), None)


def _more(fields: Fields, data: Object) -> dict[str, Any]:
    return {**fields.left, **({"data": data} if data else {})}
