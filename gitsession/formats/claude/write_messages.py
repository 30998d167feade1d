"""Messages and blocks as Claude Code writes them, which is as the Messages API takes them. The inverse of the view.

What it refuses is changed so that it does not: ids and names of tools, pictures of other kinds, thoughts that another
model signed.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from gitsession.formats.base.portable import PDF, PICTURES
from gitsession.formats.claude.view import PROVIDER
from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Message

CALL_ID_CHARS_MAX = 64
TOOL_NAME_CHARS_MAX = 128

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_MARK_CHARS = 8
_COUNTS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cacheRead",
    "cache_creation_input_tokens": "cacheWrite",
}

Words = dict[str, Any]


def uttered(entry: Message, notes: Counter[str]) -> list[Words]:
    """The blocks of an answer. Thoughts only where the model that signed them can be the one that goes on."""
    own = entry.provider == PROVIDER
    found: list[Words] = []
    for block in entry.content:
        match block:
            case Text() if block.text.strip():
                found.append({"type": "text", "text": block.text})
            case ToolCall():
                found.append({"type": "tool_use", "id": call_id(block.id), "name": tool_name(block.name),
                              "input": dict(block.arguments)})  # fmt: skip
            case Thinking(redacted=True, signature=str(data)) if own:
                found.append({"type": "redacted_thinking", "data": data})
            case Thinking(signature=str(signature)) if own and signature:
                found.append({"type": "thinking", "thinking": block.text, "signature": signature})
            case Thinking():
                notes["thoughts of another model, which are left out"] += 1
            case OtherBlock(value=dict(value)) if own:
                found.append(value)
            case Image() | File() | OtherBlock():
                notes["pictures, files and blocks of other types in an answer, which are left out"] += 1
    return found


def told(blocks: Iterable[Block], notes: Counter[str]) -> str | list[Words]:
    """What a user or a tool said: the text alone, or blocks."""
    found = [spelt for block in blocks if (spelt := _told(block, notes)) is not None]
    if len(found) == 1 and found[0]["type"] == "text":
        return str(found[0]["text"])
    return found


def result(entry: Message, notes: Counter[str]) -> Words:
    failed = {"is_error": True} if entry.is_error else {}
    content = told(entry.content, notes)
    return {"tool_use_id": call_id(entry.tool_call_id or ""), "type": "tool_result", "content": content, **failed}


def usage(stated: Mapping[str, Any] | None) -> Words:
    """What an answer took, with zeros for what nobody counted."""
    given = stated or {}
    counts = {ours: given.get(ours, given.get(theirs)) for ours, theirs in _COUNTS.items()}
    return {name: count if type(count) is int and count >= 0 else 0 for name, count in counts.items()}


def call_id(id: str) -> str:
    return _legal(id, CALL_ID_CHARS_MAX)


def tool_name(name: str) -> str:
    return _legal(name, TOOL_NAME_CHARS_MAX)


def _legal(name: str, chars_max: int) -> str:
    """``name`` if the API takes it, else one that it does and that is its alone."""
    if name and len(name) <= chars_max and not _ILLEGAL.search(name):
        return name
    mark = sha256(name.encode(errors="surrogatepass")).hexdigest()[:_MARK_CHARS]
    return f"{_ILLEGAL.sub('_', name)[: chars_max - _MARK_CHARS - 1]}_{mark}"


def _told(block: Block, notes: Counter[str]) -> Words | None:
    match block:
        case Text():
            return {"type": "text", "text": block.text} if block.text.strip() else None
        case Image() if block.data and block.mime in PICTURES:
            return {"type": "image", "source": _source(block.data, block.mime)}
        case File(data=bytes(data)) if data and block.mime in PICTURES:
            return {"type": "image", "source": _source(data, str(block.mime))}
        case File(data=bytes(data)) if data and block.mime == PDF:
            return {"type": "document", "source": _source(data, PDF), **({"title": block.name} if block.name else {})}
        case File(data=bytes(data)) if data and (words := _decoded(data)) is not None:
            return {"type": "text", "text": f'<file name="{block.name}">\n{words}\n</file>'}
        case OtherBlock(value=dict(value)) if value.get("type") in ("tool_result", "document", "image"):
            return value
    named = block.name if isinstance(block, File) else block.mime if isinstance(block, Image) else ""
    notes["pictures, files and blocks that its model cannot be shown, of which only the name is said"] += 1
    return {"type": "text", "text": f"[{type(block).__name__.lower()} {named}]"}


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _source(data: bytes, mime: str) -> Words:
    return {"type": "base64", "media_type": mime, "data": base64.b64encode(data).decode()}
