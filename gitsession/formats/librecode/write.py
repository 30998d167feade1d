"""Writer of files with one row of librecode's database per line. gitsession can import them, but librecode cannot."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import Any

from gitsession.formats.base.fields import to_iso
from gitsession.formats.base.jsonl import dumps
from gitsession.formats.base.outgoing import Outgoing, OutgoingEntry, OutgoingLine, WrittenFile, describe_kind
from gitsession.model.blocks import Image, Text
from gitsession.model.entries import (
    BranchSummary,
    Compaction,
    CustomMessage,
    Label,
    Message,
    ModelChange,
    ThinkingChange,
    Title,
)

Json = dict[str, Any]

_ROLES = {"tool": "toolResult", "shell": "bashExecution"}


def write(out: Outgoing) -> WrittenFile:
    """Write a session as a file with one row per line."""
    notes: Counter[str] = Counter()
    ids: dict[str | None, str | None] = {None: None}
    lines = [OutgoingLine(line) for line in out.head] or [OutgoingLine(_header(out))]
    for entry in out.entries:
        if entry.line is not None:
            ids[entry.key] = entry.id
            lines.append(OutgoingLine(entry.line, None if entry.is_name else entry.key, entry.id))
            continue
        fields = _row(entry, ids)
        if fields is None:
            notes[f"left out: {describe_kind(entry.entry)}"] += 1
            ids[entry.key] = ids.get(entry.parent)
            continue
        id = ids[entry.key] = _id(entry.key)
        base = {"id": id, "parent_id": ids.get(entry.parent), "created_at": to_iso(entry.entry.at_ms)}
        lines.append(
            OutgoingLine(dumps({name: value for name, value in {**base, **fields}.items() if value}), entry.key, id)
        )
    return WrittenFile(tuple(lines), notes)


def _id(key: str) -> str:
    digits = sha256(key.encode("utf-8", "backslashreplace")).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-7{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}"


def _header(out: Outgoing) -> bytes:
    session = out.session
    title = out.title.title if out.title is not None else session.title
    at = to_iso(session.at_ms)
    fields = {"id": session.source_id, "cwd": session.cwd, "name": title, "created_at": at, "updated_at": at}
    return dumps({"type": "session", **{name: value for name, value in fields.items() if value}})


def _row(outgoing: OutgoingEntry, ids: dict[str | None, str | None]) -> Json | None:
    match outgoing.entry:
        case Message() as entry:
            role = _ROLES.get(entry.role, entry.role)
            text = entry.output or "" if entry.role == "shell" else entry.text
            row = {"entry_type": "message", "role": role, "content": text, **_parts(entry)}
            status = ("error" if entry.is_error else "success") if entry.role == "tool" else None
            return {**row, "provider": entry.provider, "model": entry.model, "tool_name": entry.tool_name,
                    "tool_status": status}  # fmt: skip
        case CustomMessage() as entry:
            return {"entry_type": "custom_message", "custom_type": entry.custom_type, "content": entry.text}
        case Compaction() as entry:
            first = ids.get(entry.first_kept) if entry.first_kept else None
            return {"entry_type": "compaction", "summary": entry.summary, "compaction_first_kept_entry_id": first,
                    "compaction_tokens_before": entry.tokens_before}  # fmt: skip
        case BranchSummary() as entry:
            return {"entry_type": "branch_summary", "summary": entry.summary}
        case ModelChange() as entry:
            return {"entry_type": "model_change", "provider": entry.provider, "model": entry.model}
        case ThinkingChange() as entry:
            return {"entry_type": "thinking_level_change", "data_json": _json(thinking_level=entry.level)}
        case Label() as entry:
            return {"entry_type": "label", "data_json": _json(target_id=ids.get(entry.target), label=entry.label)}
        case Title() as entry:
            return {"entry_type": "session_info", "data_json": _json(name=entry.title)}
    return None


def _json(**fields: Any) -> str:
    return dumps({name: value for name, value in fields.items() if value is not None}).decode()


def _parts(entry: Message) -> Json:
    if not any(isinstance(block, Image) for block in entry.content):
        return {}
    found: list[Json] = []
    for block in entry.content:
        if isinstance(block, Text):
            found.append({"type": "text", "text": block.text})
        elif isinstance(block, Image):
            found.append({"type": "image", "mime_type": block.mime, "data": block.data})
    return {"parts": found}
