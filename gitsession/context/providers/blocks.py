"""Blocks of a message as providers take them: words, four kinds of picture, PDF; all else in words."""

from __future__ import annotations

from collections.abc import Iterable

from gitsession.codec.cbor import whole
from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall

PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""What every one of the three APIs accepts."""

PDF = "application/pdf"


def shown(blocks: Iterable[Block]) -> tuple[Text | Image | File, ...]:
    """What a user or a tool said: text that is not blank, pictures, and files that are PDF with their bytes."""
    found = [_shown(block) for block in blocks]
    return tuple([block for block in found if block is not None])


def uttered(blocks: Iterable[Block], *, own: bool) -> tuple[Text | Thinking | ToolCall, ...]:
    """What a model said. ``own``: the same model will read it, so that signatures still mean something to it.

    Another model gets the reasoning as text, and none that is redacted: only its writer can read that.
    """
    found = [_uttered(block, own) for block in blocks]
    return tuple([block for block in found if block is not None])


def words(blocks: Iterable[object], *, between: str = "\n") -> str:
    """The text among ``blocks``."""
    return between.join(block.text for block in blocks if isinstance(block, Text))


def _shown(block: Block) -> Text | Image | File | None:
    if isinstance(block, Text):
        return _text(block.text)
    if isinstance(block, Image):
        return block if block.data and block.mime in PICTURES else _note("image", block.mime)
    if isinstance(block, File):
        return _file(block)
    if isinstance(block, OtherBlock) and isinstance(block.value, dict) and block.value.get("type") == "image":
        return _note("image")  # its bytes are somewhere else
    return None


def _uttered(block: Block, own: bool) -> Text | Thinking | ToolCall | None:
    if isinstance(block, Text):
        return _text(block.text, block.signature if own else None)
    if isinstance(block, Thinking):
        if own:
            return Thinking(whole(block.text), block.signature, block.redacted)
        return None if block.redacted else _text(block.text)
    if isinstance(block, ToolCall):
        return block if own else ToolCall(block.id, block.name, block.arguments)
    shown = _shown(block)
    if isinstance(shown, Image | File):  # a request cannot put a picture into a model's mouth
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
    return Text(whole(f'<file name="{file.name}">\n{content}\n</file>'))


def _text(text: str, signature: str | None = None) -> Text | None:
    return Text(whole(text), signature) if text.strip() else None


def _note(*words: str) -> Text:
    return Text(whole(f"[{' '.join(word for word in words if word)}]"))
