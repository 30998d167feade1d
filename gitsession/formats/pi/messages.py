"""Reader and writer of the messages of pi and omp.

The messages that the reader returns are views, which may change between releases.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gitsession.formats.base.blocks import content_reader, image, redacted
from gitsession.formats.base.fields import Fields
from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Message


def read_message(at_ms: int, message: dict[str, Any], entry: Fields) -> Message:
    """Return the entry for the object ``message`` in a line. ``entry``: the fields of the line.

    Fields without an equivalent in ``Message`` become part of ``extra``. If both objects contain such a field, the
    value in ``message`` is used. ``extra`` contains the ``timestamp`` of the message, because the timestamp is part of
    the agent's context. If the writer cannot derive the agent's role from the returned role, ``extra`` also contains
    the agent's ``role``.
    """
    fields = Fields(message)
    role = fields.text("role")
    read = _BY_ROLE.get(role) if role is not None else None
    values = read(fields) if read else _other(role, fields)
    return Message(at_ms=at_ms, extra={**entry.left, **fields.left}, **values)


def take_content(fields: Fields) -> tuple[Block, ...]:
    """Remove the field ``content`` and return its blocks.

    If the value is not valid content, keep the field and return no blocks.
    """
    content = read_content(fields.left.get("content"))
    if content is None:
        return ()
    fields.drop("content")
    return content


# Readers by role: each function returns the values for the fields of a Message


def _speaker(role: str) -> Callable[[Fields], dict[str, Any]]:
    return lambda fields: {"role": role, "content": take_content(fields)}


def _assistant(fields: Fields) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": take_content(fields),
        "provider": fields.text("provider"),
        "model": fields.text("model"),
        "usage": fields.mapping("usage"),
        "stop": fields.text("stopReason"),
        "error": fields.text("errorMessage"),
    }


def _tool(fields: Fields) -> dict[str, Any]:
    return {
        "role": "tool",
        "content": take_content(fields),
        "tool_call_id": fields.text("toolCallId"),
        "tool_name": fields.text("toolName"),
        "is_error": fields.boolean("isError", False),
        "details": fields.take("details"),
        "usage": fields.mapping("usage"),
    }


def _bash(fields: Fields) -> dict[str, Any]:
    return {
        "role": "shell",
        "command": fields.text("command"),
        "output": fields.text("output"),
        "exit_code": fields.integer("exitCode"),
    }


def _python(fields: Fields) -> dict[str, Any]:
    fields.left["role"] = "pythonExecution"
    return {
        "role": "shell",
        "command": fields.text("code"),
        "output": fields.text("output"),
        "exit_code": fields.integer("exitCode"),
    }


def _custom(fields: Fields) -> dict[str, Any]:
    return {"role": "custom", "content": take_content(fields), "details": fields.take("details")}


def _file_mention(fields: Fields) -> dict[str, Any]:
    fields.left["role"] = "fileMention"
    files = fields.left.get("files")
    if not isinstance(files, list):
        return {"role": "custom", "content": take_content(fields)}
    fields.drop("files")
    return {"role": "custom", "content": tuple([_mentioned(file) for file in files])}


def _other(role: str | None, fields: Fields) -> dict[str, Any]:
    if role is not None:
        fields.left["role"] = role
    return _custom(fields)


_BY_ROLE: dict[str, Callable[[Fields], dict[str, Any]]] = {
    "user": _speaker("user"),
    "assistant": _assistant,
    "toolResult": _tool,
    "bashExecution": _bash,
    "pythonExecution": _python,
    "system": _speaker("system"),
    "developer": _speaker("developer"),
    "custom": _custom,
    "fileMention": _file_mention,
}


# Readers by block type: each function returns a block of ``model.blocks``, or None if a value has the wrong type


def _text(block: dict[str, Any]) -> Block | None:
    text, signature = block.get("text"), block.get("textSignature")
    if not isinstance(text, str) or not _text_or_none(signature):
        return None
    return Text(text, signature)


def _thinking(block: dict[str, Any]) -> Block | None:
    text, signature = block.get("thinking"), block.get("thinkingSignature")
    if not isinstance(text, str) or not _text_or_none(signature):
        return None
    return Thinking(text, signature, block.get("redacted") is True)


def _call(block: dict[str, Any]) -> Block | None:
    id_, name, arguments, signature = (block.get(key) for key in ("id", "name", "arguments", "thoughtSignature"))
    if not isinstance(id_, str) or not isinstance(name, str) or not _text_or_none(signature):
        return None
    if arguments is None:
        arguments = {}
    return ToolCall(id_, name, arguments, signature) if isinstance(arguments, dict) else None


def _image(block: dict[str, Any]) -> Block | None:
    # If an image is stored in another file, the data is "blob:sha256:...", which is not base64.
    return image(block.get("data"), block.get("mimeType"))


def _mentioned(file: Any) -> Block:
    path = file.get("path") if isinstance(file, dict) else None
    if not isinstance(path, str):
        return OtherBlock(file)
    content = file.get("content")
    return File(path, data=content.encode(errors="surrogatepass") if isinstance(content, str) else None)


def _text_or_none(value: Any) -> bool:
    return value is None or isinstance(value, str)


read_content = content_reader(
    {
        "text": _text,
        "thinking": _thinking,
        "redactedThinking": redacted,
        "toolCall": _call,
        "image": _image,
    }
)


Json = dict[str, Any]

COUNTS = ("input", "output", "cacheRead", "cacheWrite")

UNNAMED = "tool"
"""The tool name that is written to a result if the tool is unknown. pi and omp require a name in each result."""

_ROLES = {"tool": "toolResult", "shell": "bashExecution"}


def message(entry: Message, *, omp: bool = False) -> Json:
    """Return the object that represents ``entry`` in the field ``message`` of a line.

    The values in ``entry.extra`` are added and take precedence.
    """
    role = str(entry.extra.get("role") or _ROLES.get(entry.role, entry.role))
    fields = {
        "role": role,
        **_content_fields(entry, role, omp),
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
    """Return ``blocks`` as a list of JSON values."""
    return [_block_value(block, omp) for block in blocks]


def usage(stated: Mapping[str, Any] | None) -> Json:
    """Return the token counts of an answer. ``stated``: the known counts.

    Missing counts are set to zero, because pi adds up the counts without checking that they exist.
    """
    zeros: Json = dict.fromkeys((*COUNTS, "totalTokens"), 0)
    if stated is None:
        return {**zeros, "cost": dict.fromkeys((*COUNTS, "total"), 0)}
    known = {**stated, **{name: 0 for name in COUNTS if name not in stated}}
    cost = known.get("cost")
    cost = cost if isinstance(cost, Mapping) else {}
    return known if "total" in cost else {**known, "cost": {"total": 0, **cost}}


def _content_fields(entry: Message, role: str, omp: bool) -> Json:
    if entry.role == "shell":
        command = "code" if role == "pythonExecution" else "command"
        return {command: entry.command, "output": entry.output, "exitCode": entry.exit_code}
    if role == "fileMention":
        return {"files": [_mention_value(block) for block in entry.content]}
    if "content" in entry.extra:
        return {}
    if entry.role == "system" and all(isinstance(block, Text) for block in entry.content):
        return {"content": entry.text}
    return {"content": content(entry.content, omp=omp)}


def _mention_value(block: Block) -> Any:
    if not isinstance(block, File):
        return block.value if isinstance(block, OtherBlock) else _block_value(block, True)
    return {"path": block.name, **({} if block.data is None else {"content": block.data.decode(errors="replace")})}


def _block_value(block: Block, omp: bool) -> Any:
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
