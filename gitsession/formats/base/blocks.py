"""Readers of agents' content blocks. A known block becomes one of ``model.blocks``, any other is kept as it is.

Nothing here raises.
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
    """Return a function that reads an agent's content.

    Args:
        by_type: the reader for each type of block. It returns ``None`` if a required field is missing.
    """

    def read_block(block: Any) -> Block:
        if not isinstance(block, dict):
            return OtherBlock(block)
        type_ = block.get("type")
        read = by_type.get(type_) if isinstance(type_, str) else None
        return (read(block) if read else None) or OtherBlock(block)

    def read_content(content: Any) -> tuple[Block, ...] | None:
        """Return the blocks of a text or a list, ``()`` for ``None``, and ``None`` if ``content`` is anything else."""
        if content is None:
            return ()
        if isinstance(content, str):
            return (Text(content),)
        return tuple([read_block(block) for block in content]) if isinstance(content, list) else None

    return read_content


def redacted(block: dict[str, Any]) -> Block | None:
    """Return the reasoning in a block that only its provider can read."""
    data = block.get("data")
    return Thinking("", data, True) if isinstance(data, str) else None


def image(data: Any, mime: Any) -> Image | None:
    """Return the image whose bytes are ``data`` in base64, or ``None``."""
    content = decoded(data)
    return Image(content, mime) if content is not None and isinstance(mime, str) else None


def decoded(data: Any) -> bytes | None:
    """Return the bytes of a base64 text, or ``None`` if it is not base64."""
    try:
        return base64.b64decode(data, validate=True) if isinstance(data, str) else None
    except (binascii.Error, ValueError):
        return None
