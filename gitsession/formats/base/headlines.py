"""What commit messages of several agents' records have in common. FROZEN under view 1, as ``pi.headline`` is."""

from __future__ import annotations

from typing import Any

from gitsession.formats.base.jsonl import LineFailure
from gitsession.model.headline import Headline


def plain(value: Any) -> str:
    """A text, or nothing."""
    return value if isinstance(value, str) else ""


def text_of(content: Any) -> str:
    """The words of a message: the text itself, or its text blocks, one a line."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [block.get("text") for block in content if isinstance(block, dict) and block.get("type") == "text"]
    return "\n".join([text for text in texts if isinstance(text, str)])


def count(value: Any) -> int | None:
    """A whole number that a message names, or ``None``."""
    return value if type(value) is int and 0 <= value < 2**53 else None


def opaque(failure: LineFailure, size_bytes: int) -> Headline:
    """Of a line that is no object."""
    if not failure.reason:
        return Headline(kind="opaque", label="opaque", words="blank line")
    words = "1 byte that does not parse" if size_bytes == 1 else f"{size_bytes} bytes that do not parse"
    return Headline(kind="opaque", label="opaque", words=words)
