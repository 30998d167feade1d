"""Convert the blocks that a message of the target agent cannot hold into text, and count them."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeVar

from gitsession.model.blocks import Block, File, Image, OtherBlock, Text
from gitsession.model.entries import CustomMessage, Message

PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")
PDF = "application/pdf"

_FILES: Mapping[str, tuple[str, ...] | None] = {"claude": (*PICTURES, PDF), "opencode": None}
"""Agents whose messages can hold files, and of which types; ``None`` for any."""

_OPAQUE = ("encrypted_content", "signature", "data", "result", "b64_json")
"""Fields that no one can read but the program that they are for."""

_ABOUT = ("type", "id", "status", "tool_use_id")
_CHARS_MAX = 20_000

Spoken = TypeVar("Spoken", bound=Message | CustomMessage)


def portable(entry: Spoken, agent: str, notes: Counter[str]) -> Spoken:
    """Return ``entry`` with text in place of each block that a message of ``agent`` cannot hold."""
    if entry.extra.get("role") == "fileMention" and agent == "omp":
        return entry
    is_answer = isinstance(entry, Message) and entry.role == "assistant"
    content = tuple(_block(block, agent, is_answer, notes) for block in entry.content)
    return entry if content == entry.content else dataclasses.replace(entry, content=content)


def file_words(file: File) -> str:
    """Return a file of text in full, and of any other file its name and type."""
    try:
        content = file.data.decode() if file.data and file.mime != PDF else None
    except UnicodeDecodeError:
        content = None
    if content is not None:
        return f'<file name="{file.name}">\n{content}\n</file>'
    return f"[{' '.join(filter(None, ('file', file.name or file.url, file.mime)))}]"


def _block(block: Block, agent: str, is_answer: bool, notes: Counter[str]) -> Block:
    match block:
        case Image() if is_answer or not block.data or block.mime not in PICTURES:
            notes["pictures that its model cannot be shown, of which only the type is said"] += 1
            return Text(f"[image {block.mime}]")
        case File() if not _holds(agent, block) or is_answer:
            words = file_words(block)
            how = "of which only the name is said" if words.startswith("[") else "told as text"
            notes[f"files, {how}"] += 1
            return Text(words)
        case OtherBlock():
            return Text(_words(block.value, notes))
    return block


def _holds(agent: str, file: File) -> bool:
    if agent == "codex":
        return (file.url or "").startswith(("http://", "https://"))
    types = _FILES.get(agent, ())
    return types is None or (bool(file.data) and file.mime in types)


def _words(value: Any, notes: Counter[str]) -> str:
    """Return what a block of an unknown type says, without what only its own program can read."""
    name = value.get("type") if isinstance(value, Mapping) else None
    name = name if isinstance(name, str) and name else "block"
    said = _readable(value)
    if isinstance(said, dict) and not said.keys() - set(_ABOUT):
        notes[f"blocks of type {name[:40]}, which only their own provider can read"] += 1
        return f"[{name}: only its own provider can read it]"
    notes[f"blocks of type {name[:40]}, told in words"] += 1
    if isinstance(said, dict):
        said.pop("type", None)
    text = json.dumps(said, ensure_ascii=False, default=str)
    return f"[{name}] {text if len(text) <= _CHARS_MAX else text[:_CHARS_MAX] + '…'}"


def _readable(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {str(key): item for key, item in value.items() if not (key in _OPAQUE and isinstance(item, str))}
        return {key: _readable(item) for key, item in kept.items()}
    if isinstance(value, list | tuple):
        return [_readable(item) for item in value]
    return value
