"""Messages that contain both tool calls and their results, as some agents store them.

Such a message stays one entry. Each result in the message becomes a block after the block of its call. ``unfold``
splits such an entry into the messages that the model receives.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from gitsession.model.blocks import Block, File, Image, OtherBlock, Text
from gitsession.model.entries import Message

TYPE = "tool_result"


def result(
    *,
    call: str,
    name: str,
    text: str,
    is_error: bool = False,
    files: Sequence[Mapping[str, Any]] = (),
    at_ms: int = 0,
    part: str | None = None,
    details: Any = None,
) -> OtherBlock:
    """Return a block for the result of a tool call.

    Args:
        call: The id of the call.
        name: The name of the tool.
        text: The output of the tool.
        is_error: Whether the tool failed.
        files: The attached files, as mappings with the keys ``mime``, ``name`` and ``url``.
        at_ms: The time of the result, Unix time in ms.
        part: The agent's id of the result.
        details: Data of the agent that the model does not receive.
    """
    value = {
        "type": TYPE, "tool_call_id": call, "tool_name": name, "is_error": is_error, "text": text,
        "files": list(files), "at_ms": at_ms, "part": part, "details": details,
    }  # fmt: skip
    return OtherBlock(value)


def result_in(block: Block) -> Message | None:
    """Return the tool message of a ``result`` block, with its ``part`` in ``extra``; ``None`` for any other block.

    A block of the same type with other fields was written by an agent, and is not a result.
    """
    value = block.value if isinstance(block, OtherBlock) else None
    if not isinstance(value, Mapping) or value.get("type") != TYPE:
        return None
    if not all(isinstance(value.get(name), kind) for name, kind in _SHAPE.items()):
        return None
    files = [
        attached(file.get("name"), file.get("mime"), file.get("url"))
        for file in value["files"]
        if isinstance(file, Mapping)
    ]
    return Message(
        role="tool",
        content=(*((Text(value["text"]),) if value["text"] or not files else ()), *files),
        tool_call_id=value["tool_call_id"],
        tool_name=value["tool_name"],
        is_error=value["is_error"],
        at_ms=value["at_ms"],
        details=value.get("details"),
        extra={"part": value["part"]} if isinstance(value.get("part"), str) else {},
    )


_SHAPE: Mapping[str, type | tuple[type, ...]] = {
    "text": str, "tool_call_id": str, "tool_name": str, "is_error": bool, "files": (list, tuple), "at_ms": int,
}  # fmt: skip


def unfold(entry: Message) -> Sequence[Message]:
    """Split ``entry`` into messages: a message with text and calls, followed by one message for each result.

    A block of the type ``step-start`` begins another message, because the agent called the model again at this point.
    An entry without results is returned unchanged.
    """
    if entry.role != "assistant" or not any(result_in(block) for block in entry.content):
        return (entry,)
    messages: list[Message] = []
    blocks: list[Block] = []
    results: list[Message] = []
    for block in (*entry.content, None):
        result = None if block is None else result_in(block)
        if block is None or (_begins_step(block) and results):
            if blocks:
                messages.append(dataclasses.replace(entry, content=tuple(blocks)))
            messages += results
            blocks, results = [], []
        if result is not None:
            results.append(result)
        elif block is not None:
            blocks.append(block)
    return messages


def _begins_step(block: Block) -> bool:
    value = block.value if isinstance(block, OtherBlock) else None
    return isinstance(value, Mapping) and value.get("type") == "step-start"


def attached(name: Any, mime: Any, url: Any) -> Block:
    """Return a block for an attached file: an ``Image`` if the URL contains the data of an image, else a ``File``."""
    name, mime = name if isinstance(name, str) else "", mime if isinstance(mime, str) else None
    url = url if isinstance(url, str) else ""
    head, _, encoded = url.partition(";base64,")
    if not head.startswith("data:") or not encoded:
        return File(name, mime, url=url)
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return File(name, mime, url=url)
    mime = mime or head[len("data:") :]
    return Image(data, mime) if mime.startswith("image/") else File(name, mime, data=data)
