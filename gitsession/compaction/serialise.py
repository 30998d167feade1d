"""Conversion of entries to text for a summarizer: paragraphs with tags. Results are shortened, reasoning is omitted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from gitsession.dataclass import dataclass
from gitsession.model.blocks import File, Image, Text, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Entry, Message
from gitsession.model.file_edits import PATHS, first_text

RESULT_CHARS_MAX = 2000
CHARS_PER_TOKEN = 4

Speaker: TypeAlias = Literal["user", "assistant", "call", "result", "shell", "summary", "note"]

_TAGS: dict[Speaker, str] = {
    "user": "User",
    "assistant": "Assistant",
    "call": "Tool call",
    "result": "Tool result",
    "shell": "Shell",
    "summary": "Earlier summary",
    "note": "Note",
}
_HEAD = re.compile(rf"^(?=\[(?:{'|'.join(_TAGS.values())})\b)", re.M)
"""The beginning of a line that looks like a tag. A tool result must not contain text that looks like a user message."""

_ROLES: dict[str, Speaker] = {"user": "user", "custom": "user", "assistant": "assistant"}


@dataclass(frozen=True, slots=True)
class TranscriptItem:
    """A paragraph of the text for a summarizer.

    Attributes:
        by: Author of the paragraph.
        text: Text of the paragraph.
        name: Name of the tool.
        path: Path of the file in the arguments of a call.
        failed: Whether a result is an error.
    """

    by: Speaker
    text: str
    name: str = ""
    path: str = ""
    failed: bool = False

    def __str__(self) -> str:
        name = f" {self.name}" if self.name else ""
        failed = ", an error" if self.failed else ""
        return f"[{_TAGS[self.by]}{name}{failed}]\n{_HEAD.sub(' ', self.text)}"


def serialise(entries: Iterable[Entry], *, tokens_max: int | None = None) -> tuple[TranscriptItem, ...]:
    """Return the paragraphs of ``entries``, in order, without system messages.

    If ``tokens_max`` is set, only the newest paragraphs that fit are returned, with a note about the number of omitted
    paragraphs. The newest paragraph is always included. If it is too long, its middle is left out.
    """
    paragraphs = [paragraph for entry in entries for paragraph in _paragraphs_of(entry)]
    return tuple(paragraphs if tokens_max is None else _newest(paragraphs, tokens_max * CHARS_PER_TOKEN))


def render(paragraphs: Iterable[TranscriptItem]) -> str:
    return "\n\n".join(map(str, paragraphs))


def cut(text: str, chars_max: int) -> str:
    """Return the beginning of ``text``, followed by a note about the number of omitted characters."""
    return text if len(text) <= chars_max else f"{text[:chars_max]}\n[... {len(text) - chars_max} more characters]"


def _newest(paragraphs: Sequence[TranscriptItem], chars_max: int) -> list[TranscriptItem]:
    kept: list[TranscriptItem] = []
    room = chars_max
    for paragraph in reversed(paragraphs):
        size = len(str(paragraph)) + 2
        if size > room:
            if not kept:
                kept.append(replace(paragraph, text=_without_middle(paragraph.text, max(room, 0))))
            break
        kept.append(paragraph)
        room -= size
    missing = len(paragraphs) - len(kept)
    if missing:
        kept.append(TranscriptItem("note", f"{missing} earlier messages are not shown here."))
    return kept[::-1]


def _without_middle(text: str, chars_max: int) -> str:
    half = chars_max // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters ...]\n{text[len(text) - half :]}"


def _paragraphs_of(entry: Entry) -> Iterable[TranscriptItem]:
    if isinstance(entry, Compaction | BranchSummary):
        if entry.summary.strip():
            yield TranscriptItem("summary", entry.summary)
    elif isinstance(entry, CustomMessage):
        yield from _paragraph("user", _text(entry.content))
    elif isinstance(entry, Message) and entry.role == "shell":
        if not entry.is_excluded:
            yield TranscriptItem(
                "shell", cut(f"$ {entry.command or ''}\n{entry.output or ''}".rstrip(), RESULT_CHARS_MAX)
            )
    elif isinstance(entry, Message) and entry.role == "tool":
        text = cut(_text(entry.content), RESULT_CHARS_MAX) or "(no output)"
        yield TranscriptItem("result", text, entry.tool_name or "", failed=entry.is_error)
    elif isinstance(entry, Message) and entry.role in _ROLES:
        yield from _paragraph(_ROLES[entry.role], _text(entry.content))
        for block in entry.content:
            if isinstance(block, ToolCall):
                arguments = json.dumps(block.arguments, ensure_ascii=False, default=_encode_value)
                path = first_text(block.arguments, PATHS) or ""
                yield TranscriptItem("call", cut(arguments, RESULT_CHARS_MAX), block.name, path)


def _paragraph(by: Speaker, text: str) -> Iterable[TranscriptItem]:
    if text.strip():
        yield TranscriptItem(by, text)


def _text(blocks: Iterable[object]) -> str:
    parts = []
    for block in blocks:
        match block:
            case Text():
                parts.append(block.text)
            case Image():
                parts.append("[image]")
            case File():
                parts.append(f"[file {block.name}]")
    return "\n".join(parts)


def _encode_value(value: Any) -> str:
    return f"<{len(value)} bytes>" if isinstance(value, bytes) else str(value)
