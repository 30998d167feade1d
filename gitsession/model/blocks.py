"""What the content of a message is made of. How each agent spells it is known in ``formats/``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias


@dataclass(frozen=True, slots=True)
class Text:
    """Words, of the user or of the model."""

    type: ClassVar[str] = "text"
    text: str
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class Thinking:
    """The model's reasoning. ``signature`` is opaque and goes back to the provider byte for byte."""

    type: ClassVar[str] = "thinking"
    text: str
    signature: str | None = None
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model asks for a tool. The order of ``arguments`` is data."""

    type: ClassVar[str] = "tool_call"
    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """A picture, as its own bytes."""

    type: ClassVar[str] = "image"
    data: bytes
    mime: str


@dataclass(frozen=True, slots=True)
class File:
    """A file named or attached: its bytes, or where it is."""

    type: ClassVar[str] = "file"
    name: str
    mime: str | None = None
    data: bytes | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class OtherBlock:
    """A block of a type we do not know, carried as it is."""

    type: ClassVar[str] = "other"
    value: Any


Block: TypeAlias = Text | Thinking | ToolCall | Image | File | OtherBlock


def text(words: str) -> Text:
    """A text block: ``Message.assistant([text("I'll read auth.py")])``."""
    return Text(words)
