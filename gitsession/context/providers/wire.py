"""Conversion to values that a provider's JSON can represent: valid Unicode, valid names, and plain data."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from gitsession.codec.cbor import valid_text
from gitsession.codec.digest import hash_of
from gitsession.context.estimates import is_image
from gitsession.model.blocks import Block, File, Image, Text, Thinking, ToolCall

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_MARK_CHARS = 8


def sendable(value: Any) -> Any:
    """Return ``value`` as JSON can represent it: bytes in base64, infinity as ``None``, and keys as strings."""
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, bytes):
        return to_base64(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {valid_text(str(key)): sendable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [sendable(item) for item in value]
    return value


def to_json(value: Any) -> str:
    """Return ``value`` as JSON on one line, without spaces."""
    return json.dumps(sendable(value), ensure_ascii=False, separators=(",", ":"))


def read_json(text: str | None, start: str) -> Any:
    """Return the value of ``text`` if it is JSON that begins with the character ``start``; otherwise ``None``."""
    if not text or not text.startswith(start):
        return None
    try:
        return sendable(json.loads(text))
    except (ValueError, RecursionError):
        return None


def known(**fields: Any) -> dict[str, Any]:
    """Return the optional fields of a request that have a value."""
    return {name: value for name, value in fields.items() if value}


def to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def data_url(data: bytes, mime: str) -> str:
    return f"data:{mime};base64,{to_base64(data)}"


def legal(name: str, chars_max: int) -> str:
    """Return ``name`` if providers accept it (letters, digits, ``_``, ``-``), else a valid name derived from it."""
    if name and len(name) <= chars_max and not _ILLEGAL.search(name):
        return name
    mark = hash_of(name.encode(errors="surrogatepass")).hex()[:_MARK_CHARS]
    return f"{_ILLEGAL.sub('_', name)[: chars_max - _MARK_CHARS - 1]}_{mark}"


class CallIds:
    """Unique ids for tool calls, in a form that a provider accepts.

    An id does not change when the conversation grows.
    """

    def __init__(self, chars_max: int) -> None:
        self._chars_max = chars_max
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}

    def take(self, id_: str) -> str:
        first = name = legal(id_, self._chars_max)
        count = self._counts.get(first, 1)
        while name in self._taken:  # some agents number the calls of each turn from one
            count += 1
            name = f"{first[: self._chars_max - len(str(count)) - 1]}_{count}"
        self._counts[first] = count
        self._taken.add(name)
        return name


# Blocks that providers accept: text, four image types, and PDF. All other blocks become text.

PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""Image types that all three APIs accept."""

PDF = "application/pdf"


def shown(blocks: Iterable[Block]) -> tuple[Text | Image | File, ...]:
    """Return the sendable blocks of a user or a tool: text that is not blank, images, and PDF files with content."""
    found = [_shown(block) for block in blocks]
    return tuple([block for block in found if block is not None])


def model_blocks(blocks: Iterable[Block], *, own: bool) -> tuple[Text | Thinking | ToolCall, ...]:
    """Return the sendable blocks of an assistant message.

    ``own``: whether the model that receives the blocks wrote them.

    Signatures are valid only for the model that wrote the blocks. Another model receives reasoning as text, but
    no redacted reasoning, which only the author can read.
    """
    found = [_model_block(block, own) for block in blocks]
    return tuple([block for block in found if block is not None])


def joined_text(blocks: Iterable[object], *, between: str = "\n") -> str:
    """Return the text of ``blocks``, joined by ``between``."""
    return between.join(block.text for block in blocks if isinstance(block, Text))


def _shown(block: Block) -> Text | Image | File | None:
    if isinstance(block, Text):
        return _text(block.text)
    if isinstance(block, Image):
        return block if block.data and block.mime in PICTURES else _note("image", block.mime)
    if isinstance(block, File):
        return _file(block)
    return _note("image") if is_image(block) else None  # the content of this image is stored elsewhere


def _model_block(block: Block, own: bool) -> Text | Thinking | ToolCall | None:
    if isinstance(block, Text):
        return _text(block.text, block.signature if own else None)
    if isinstance(block, Thinking):
        if own:
            return Thinking(valid_text(block.text), block.signature, block.redacted)
        return None if block.redacted else _text(block.text)
    if isinstance(block, ToolCall):
        return block if own else ToolCall(block.id, block.name, block.arguments)
    shown = _shown(block)
    if isinstance(shown, Image | File):  # a request must not have images in a message of the model
        return _note("file" if isinstance(shown, File) else "image", shown.mime or "")
    return shown


def _file(file: File) -> Text | Image | File:
    if not file.data:
        return _note("file", file.name, file.url or "")
    if file.mime in PICTURES:
        return Image(file.data, file.mime)
    if file.mime == PDF:
        return file
    try:
        content = file.data.decode()
    except UnicodeDecodeError:
        return _note("file", file.name, file.mime or "", f"{len(file.data)} bytes")
    return Text(valid_text(f'<file name="{file.name}">\n{content}\n</file>'))


def _text(text: str, signature: str | None = None) -> Text | None:
    return Text(valid_text(text), signature) if text.strip() else None


def _note(*parts: str) -> Text:
    return Text(valid_text(f"[{' '.join(part for part in parts if part)}]"))
