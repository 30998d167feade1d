"""Readers of agents' content blocks.

A block of a known type becomes an object of ``model.blocks``. Any other block is kept unchanged. No function in this
module raises an exception.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

from gitsession.model.blocks import Block, Image, OtherBlock, Text, Thinking


def content_reader(
    by_type: Mapping[str, Callable[[dict[str, Any]], Block | None]],
) -> Callable[[Any], tuple[Block, ...] | None]:
    """Return a function that reads the content of an agent's message.

    Args:
        by_type: the reader for each type of block. A reader returns ``None`` if a required field is missing.
    """

    def read_block(block: Any) -> Block:
        if not isinstance(block, dict):
            return OtherBlock(block)
        type_ = block.get("type")
        read = by_type.get(type_) if isinstance(type_, str) else None
        return (read(block) if read else None) or OtherBlock(block)

    def read_content(content: Any) -> tuple[Block, ...] | None:
        """Return the blocks of a string or a list, ``()`` for ``None``, and ``None`` for any other value."""
        if content is None:
            return ()
        if isinstance(content, str):
            return (Text(content),)
        return tuple([read_block(block) for block in content]) if isinstance(content, list) else None

    return read_content


def redacted(block: dict[str, Any]) -> Block | None:
    """Return the encrypted reasoning in a block, or ``None`` if the block has none."""
    data = block.get("data")
    return Thinking("", data, True) if isinstance(data, str) else None


def image(data: Any, mime: Any) -> Image | None:
    """Return an image built from the base64 string ``data``, or ``None`` if ``data`` or ``mime`` is invalid."""
    content = decoded(data)
    return Image(content, mime) if content is not None and isinstance(mime, str) else None


def decoded(data: Any) -> bytes | None:
    """Decode a base64 string. Return ``None`` if ``data`` is not base64."""
    try:
        return base64.b64decode(data, validate=True) if isinstance(data, str) else None
    except (binascii.Error, ValueError):
        return None
