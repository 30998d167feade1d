"""Contents as the Messages API of Anthropic spells them, which is how Claude Code keeps them. A view."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall


def read_content(content: Any) -> tuple[Block, ...] | None:
    """Blocks of a text, a list of blocks, or nothing at all; ``None`` for what is no content."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(content),)
    return tuple([_block(block) for block in content]) if isinstance(content, list) else None


def _block(block: Any) -> Block:
    if not isinstance(block, dict):
        return OtherBlock(block)
    type_ = block.get("type")
    read = _BY_TYPE.get(type_) if isinstance(type_, str) else None
    return (read(block) if read else None) or OtherBlock(block)


def _text(block: dict[str, Any]) -> Block | None:
    return Text(block["text"]) if isinstance(block.get("text"), str) and not block.get("citations") else None


def _thinking(block: dict[str, Any]) -> Block | None:
    said, signature = block.get("thinking"), block.get("signature")
    if not isinstance(said, str) or not (signature is None or isinstance(signature, str)):
        return None
    return Thinking(said, signature)


def _redacted(block: dict[str, Any]) -> Block | None:
    data = block.get("data")
    return Thinking("", data, True) if isinstance(data, str) else None


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
        return None  # citations and the like have no place in a file
    return File(title, mime, data)


def _source(block: dict[str, Any]) -> tuple[bytes | None, str]:
    source = block.get("source")
    data, mime = (source.get("data"), source.get("media_type")) if isinstance(source, dict) else (None, None)
    if not isinstance(data, str) or not isinstance(mime, str):
        return None, ""
    try:
        return base64.b64decode(data, validate=True), mime
    except (binascii.Error, ValueError):
        return None, ""


_BY_TYPE: dict[str, Callable[[dict[str, Any]], Block | None]] = {
    "text": _text,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
    "tool_use": _call,
    "image": _image,
    "document": _document,
}
