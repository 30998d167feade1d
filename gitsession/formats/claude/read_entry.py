"""Reader of Claude Code's records, which contain blocks of Anthropic's Messages API.

The returned entries are views, which may change between releases. If the type of a record is unknown, or if a required
field is missing, the record becomes an ``UnknownEntry`` with the literal name of the type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gitsession.formats.base.blocks import content_reader, decoded, redacted
from gitsession.formats.base.fields import Fields, to_ms
from gitsession.formats.base.jsonl import LineFailure, Object, parse, record_line
from gitsession.formats.claude.records import SYNTHETIC, boundary_before, is_boundary, message_of, preserved_by, text
from gitsession.model import entries
from gitsession.model.blocks import Block, File, Image, Text, Thinking, ToolCall
from gitsession.model.entries import Entry, Opaque, UnknownEntry


def _text_block(block: dict[str, Any]) -> Block | None:
    return Text(block["text"]) if isinstance(block.get("text"), str) and not block.get("citations") else None


def _thinking(block: dict[str, Any]) -> Block | None:
    reasoning, signature = block.get("thinking"), block.get("signature")
    if not isinstance(reasoning, str) or not (signature is None or isinstance(signature, str)):
        return None
    return Thinking(reasoning, signature)


def _call(block: dict[str, Any]) -> Block | None:
    id_, name, arguments = block.get("id"), block.get("name"), block.get("input")
    if not isinstance(id_, str) or not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    return ToolCall(id_, name, arguments)


def _image(block: dict[str, Any]) -> Block | None:
    data, mime = _source(block)
    return Image(data, mime) if data is not None else None


def _document(block: dict[str, Any]) -> Block | None:
    data, mime = _source(block)
    title = block.get("title") or ""
    if data is None or not isinstance(title, str) or not block.keys() <= {"type", "source", "title"}:
        return None  # a ``File`` cannot represent citations and similar fields
    return File(title, mime, data)


def _source(block: dict[str, Any]) -> tuple[bytes | None, str]:
    source = block.get("source")
    data, mime = (source.get("data"), source.get("media_type")) if isinstance(source, dict) else (None, None)
    return (decoded(data), mime) if isinstance(mime, str) else (None, "")


read_content = content_reader(
    {
        "text": _text_block,
        "thinking": _thinking,
        "redacted_thinking": redacted,
        "tool_use": _call,
        "image": _image,
        "document": _document,
    }
)


PROVIDER = "anthropic"
AUTOMATIC = {"automatic": True}
"""The ``extra`` of a title that Claude Code generated. A title that the user chose takes precedence."""


def entry_of(payload: bytes) -> Entry:
    """Return the entry that a record represents. Never raises."""
    last = record_line(payload)
    line = parse(last)
    if isinstance(line, LineFailure):
        return Opaque(payload=last, problem=line.reason)
    at_ms = to_ms(line.get("timestamp")) or 0
    boundary = boundary_before(line, payload)
    if boundary is not None or is_boundary(line):
        return _compaction(at_ms, boundary or line, line if boundary else None)
    name = text(line.get("type"))
    read = _BY_TYPE.get(name) if name is not None else None
    if read is not None:
        fields = Fields(line)
        fields.drop("type", "uuid", "parentUuid")
        if to_ms(line.get("timestamp")) is not None:
            fields.drop("timestamp")
        found = read(at_ms, fields)
        if found is not None:
            return _with_log_lines(found, payload)
    return UnknownEntry(at_ms=at_ms, name=name or "unknown", body=line)


_LOGGED = {b'"permission-mode"': "permissionMode", b'"worktree-state"': "worktreeSession"}
"""Types of log lines that state a mode, with the field that has its value."""


def _with_log_lines(entry: Entry, payload: bytes) -> Entry:
    """Return ``entry`` with the modes that the log lines of its record state. Fields of the record take precedence."""
    stated: dict[str, Any] = {}
    for log_line in payload.split(b"\n")[:-1] if b"\n" in payload else ():
        for name, field in _LOGGED.items():
            line = parse(log_line) if name in log_line else LineFailure("")
            if isinstance(line, dict) and line.get("type") == name.decode().strip('"') and field in line:
                stated[field] = line[field]
    return replace(entry, extra={**stated, **entry.extra}) if stated else entry


def _compaction(at_ms: int, boundary: Object, summary: Object | None) -> Entry:
    stated = boundary.get("compactMetadata")
    metadata = Fields(stated if isinstance(stated, dict) else {})
    kept_ids = preserved_by(boundary)
    segment = metadata.left.get("preservedSegment")
    head = text(segment.get("headUuid")) if isinstance(segment, dict) else None
    fields = Fields(boundary)
    fields.drop("type", "subtype", "uuid", "parentUuid", "timestamp", "compactMetadata")
    return entries.Compaction(
        at_ms=at_ms,
        summary=_text(read_content(message_of(summary).get("content")) or ()) if summary is not None else "",
        first_kept=(kept_ids[0] if len(kept_ids) > 1 else head or kept_ids[0]) if kept_ids else None,
        tokens_before=metadata.integer("preTokens"),
        tokens_after=metadata.integer("postTokens"),
        method=metadata.text("trigger"),
        preserve=metadata.left or None,
        extra=fields.left,
    )


def preserved(stated: Any) -> frozenset[str] | None:
    """Return the ids of the messages that a compaction keeps, or ``None`` if the compaction lists no ids.

    ``stated``: the field ``preserve`` of the compaction.
    """
    messages = stated.get("preservedMessages") if isinstance(stated, Mapping) else None
    listed = messages.get("uuids") if isinstance(messages, Mapping) else None
    return frozenset(str(uuid) for uuid in listed) if isinstance(listed, list | tuple) and listed else None


def keeps_before(stated: Any, own: str | None) -> bool:
    """Return whether the messages that a compaction keeps precede the summary.

    Claude Code inserts the kept messages after the line ``anchorUuid``. So the kept messages precede the summary if
    that line is not the summary.

    ``stated``: the field ``preserve`` of the compaction. ``own``: the id of the summary.
    """
    messages = stated.get("preservedMessages") if isinstance(stated, Mapping) else None
    anchor = text(messages.get("anchorUuid")) if isinstance(messages, Mapping) else None
    return anchor is not None and own is not None and anchor != own


def result_in(block: Any, *, at_ms: int) -> entries.Message | None:
    """Return the tool result in ``block``, or ``None`` if ``block`` is not a tool result.

    ``block``: one block of a message that contains several blocks.
    """
    if not isinstance(block, Mapping) or block.get("type") != "tool_result":
        return None
    return _result(at_ms, dict(block), Fields({}), Fields({}))


def _user(at_ms: int, fields: Fields) -> Entry | None:
    message = _message(fields)
    if message is None:
        return None
    content = message.take("content")
    blocks = content if isinstance(content, list) else []
    if len(blocks) == 1 and isinstance(blocks[0], dict) and blocks[0].get("type") == "tool_result":
        return _result(at_ms, blocks[0], fields, message)
    content_blocks = read_content(content)
    if content_blocks is None:
        return None
    return entries.Message(at_ms=at_ms, role="user", content=content_blocks, extra={**fields.left, **message.left})


def _result(at_ms: int, block: Object, fields: Fields, message: Fields) -> entries.Message | None:
    result = Fields(block)
    result.drop("type")
    content = read_content(result.take("content"))
    if content is None:
        return None
    return entries.Message(
        at_ms=at_ms,
        role="tool",
        content=content,
        tool_call_id=result.text("tool_use_id"),
        is_error=result.boolean("is_error", False),
        details=fields.take("toolUseResult"),
        extra={**fields.left, **message.left, **result.left},
    )


def _assistant(at_ms: int, fields: Fields) -> Entry | None:
    message = _message(fields)
    content = read_content(message.take("content")) if message is not None else None
    if message is None or content is None:
        return None
    model = message.text("model")
    if model == SYNTHETIC:
        message.left["model"], model = model, None
    failed = fields.left.get("isApiErrorMessage") is True
    stop = message.text("stop_reason")
    return entries.Message(
        at_ms=at_ms,
        role="assistant",
        content=content,
        provider=PROVIDER if model else None,
        model=model,
        usage=message.mapping("usage"),
        stop="error" if failed else stop,
        error=_text(content) if failed else None,
        extra={**fields.left, **message.left},
    )


def _message(fields: Fields) -> Fields | None:
    stated = fields.mapping("message")
    if stated is None:
        return None
    message = Fields(stated)
    message.drop("role")
    return message


def _text(content: tuple[Block, ...]) -> str:
    return "\n".join(block.text for block in content if isinstance(block, Text))


def _attachment(at_ms: int, fields: Fields) -> Entry | None:
    stated = fields.mapping("attachment")
    if stated is None:
        return None
    name = text(stated.get("type")) or ""
    if name == "queued_command":
        parts = read_content(stated.get("prompt"))
        if parts is not None:
            return entries.Message(at_ms=at_ms, role="user", content=parts, extra={**fields.left, "attachment": stated})
    body = _ATTACHED[name](stated) if name in _ATTACHED else None
    if body is None:
        return entries.Custom(at_ms=at_ms, custom_type=name, data=stated, extra=fields.left)
    return entries.CustomMessage(
        at_ms=at_ms, custom_type=name, content=(Text(body),), display=False, details=stated, extra=fields.left
    )


def _file(attachment: Object) -> str | None:
    content = attachment.get("content")
    file = content.get("file") if isinstance(content, dict) else None
    name, body = (file.get("filePath"), file.get("content")) if isinstance(file, dict) else (None, None)
    return f"{name}:\n{body}" if isinstance(name, str) and isinstance(body, str) else None


def _edited(attachment: Object) -> str | None:
    name, snippet = attachment.get("filename"), attachment.get("snippet")
    return f"{name} was changed:\n{snippet}" if isinstance(name, str) and isinstance(snippet, str) else None


def _hook(attachment: Object) -> str | None:
    content = attachment.get("content")
    items = [item for item in content if isinstance(item, str)] if isinstance(content, list) else [content]
    return "\n".join(item for item in items if isinstance(item, str)) or None


def _invoked_skills(attachment: Object) -> str | None:
    """Return the content of the skills that the program shows again after a compaction (W6)."""
    skills = attachment.get("skills")
    items = [skill.get("content") for skill in skills if isinstance(skill, dict)] if isinstance(skills, list) else []
    return "\n\n".join(item for item in items if isinstance(item, str)) or None


_ATTACHED: dict[str, Callable[[Object], str | None]] = {
    "file": _file,
    "edited_text_file": _edited,
    "hook_additional_context": _hook,
    "invoked_skills": _invoked_skills,
}
"""The readers of attachments that Claude Code does not send again at each start, by type of attachment.

Each reader returns a shorter text than the one that Claude Code sends.
"""


def _system(at_ms: int, fields: Fields) -> Entry | None:
    name, content = fields.text("subtype") or "system", fields.left.get("content")
    if name == "local_command" and isinstance(content, str):
        fields.drop("content")
        return entries.CustomMessage(at_ms=at_ms, custom_type=name, content=(Text(content),), extra=fields.left)
    return entries.Custom(at_ms=at_ms, custom_type=name, data=fields.take("content"), extra=fields.left)


def _title(field: str, extra: Object) -> Callable[[int, Fields], Entry | None]:
    def read(at_ms: int, fields: Fields) -> Entry | None:
        title = fields.text(field)
        return entries.Title(at_ms=at_ms, title=title, extra={**fields.left, **extra})

    return read


def _named(name: str, field: str) -> Callable[[int, Fields], Entry | None]:
    def read(at_ms: int, fields: Fields) -> Entry | None:
        return entries.Custom(at_ms=at_ms, custom_type=name, data=fields.take(field), extra=fields.left)

    return read


def _replaced(at_ms: int, fields: Fields) -> Entry | None:
    """Return a context edit that replaces long tool results with shorter texts.

    Each result is identified by the id of its call.
    """
    replacements = fields.left.get("replacements")
    if not isinstance(replacements, list):
        return None
    ids = [found for each in replacements if isinstance(each, dict) and (found := text(each.get("toolUseId")))]
    return entries.ContextEdit(at_ms=at_ms, target=ids[0] if ids else "", extra=fields.left)


_BY_TYPE: dict[str, Callable[[int, Fields], Entry | None]] = {
    "user": _user,
    "assistant": _assistant,
    "attachment": _attachment,
    "system": _system,
    "progress": _named("progress", "data"),
    "summary": _title("summary", AUTOMATIC),
    "ai-title": _title("aiTitle", AUTOMATIC),
    "custom-title": _title("customTitle", {}),
    "tag": _named("tag", "tag"),
    "agent-name": _named("agent-name", "agentName"),
    "content-replacement": _replaced,
}
