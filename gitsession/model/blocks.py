"""The blocks of a message's content. ``formats/`` converts them from and to the formats of agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, TypeAlias

from gitsession.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """Text of the user or of the model."""

    type: ClassVar[str] = "text"
    text: str
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class Thinking:
    """The reasoning of the model. ``signature`` is opaque and must be sent to the provider unchanged."""

    type: ClassVar[str] = "thinking"
    text: str
    signature: str | None = None
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of the model. The order of ``arguments`` is significant."""

    type: ClassVar[str] = "tool_call"
    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """An image, with its data."""

    type: ClassVar[str] = "image"
    data: bytes
    mime: str


@dataclass(frozen=True, slots=True)
class File:
    """A file that a message mentions or attaches, with its content or its location."""

    type: ClassVar[str] = "file"
    name: str
    mime: str | None = None
    data: bytes | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class OtherBlock:
    """A block of an unknown type, preserved unchanged."""

    type: ClassVar[str] = "other"
    value: Any


Block: TypeAlias = Text | Thinking | ToolCall | Image | File | OtherBlock


def text(content: str) -> Text:
    """Return a text block, as in ``Message.assistant([text("I'll read auth.py")])``."""
    return Text(content)
