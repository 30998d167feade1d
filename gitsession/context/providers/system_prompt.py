"""What stands before a conversation: the system prompt, and the tools whose definitions the session holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gitsession.codec.cbor import whole
from gitsession.context.profiles import profile
from gitsession.context.providers.wire import sendable
from gitsession.context.value import Context
from gitsession.model.entries import Message

_SCHEMA_NAMES = ("parameters", "input_schema", "inputSchema")


@dataclass(frozen=True, slots=True)
class Tool:
    """``schema``: JSON Schema of its arguments, an object's."""

    name: str
    description: str
    schema: dict[str, Any]


def prompt(context: Context, system: str | None) -> str:
    """The system prompt: ``system``, or what the session states; then the sections that its messages name.

    The messages of role ``system`` themselves are turns (``opening`` says how many of them belong here).
    """
    stated = context.instructions.system_prompt if context.instructions else None
    first = [stated or "", *(message.text for message in _opening(context))] if system is None else [system]
    return whole("\n\n".join(part for part in [*first, *_sections(context)] if part.strip()))


def opening(context: Context) -> int:
    """How many items at the beginning are system messages, said by ``prompt``."""
    return len(_opening(context))


def tools(context: Context) -> list[Tool]:
    """The tools in force, as far as the session says how they are called."""
    stated = context.instructions.tools if context.instructions else None
    known = {tool.name: tool for tool in _tools(stated)}
    for message in _system_messages(context):
        for gone in _list(message.extra.get("toolsRemoved")):
            if isinstance(gone, Mapping):
                known.pop(str(gone.get("name")), None)
        known |= {tool.name: tool for tool in _tools(message.extra.get("toolsAdded"))}
    return [tool for tool in known.values() if context.tools is None or tool.name in context.tools]


def _opening(context: Context) -> list[Message]:
    found = []
    for item in context.items:
        if not (isinstance(item.entry, Message) and item.entry.role == "system"):
            break
        found.append(item.entry)
    return found if _hears_system(context) else []


def _hears_system(context: Context) -> bool:
    """Whether system messages of the session go to the model at all: older agents leave them out."""
    return profile(context.profile).llm_role(Message(role="system")) == "system"


def _system_messages(context: Context) -> list[Message]:
    entries = [item.entry for item in context.items] if _hears_system(context) else []
    return [entry for entry in entries if isinstance(entry, Message) and entry.role == "system"]


def _sections(context: Context) -> Iterable[str]:
    """Named parts of the prompt: a later message replaces one by name, or takes it away."""
    known: dict[str, Any] = {}
    for message in _system_messages(context):
        sections = message.extra.get("sections")
        known |= sections if isinstance(sections, Mapping) else {}
    return [text for text in known.values() if isinstance(text, str)]


def _tools(stated: Any) -> Iterable[Tool]:
    for tool in _list(stated):
        if isinstance(tool, Mapping) and isinstance(tool.get("function"), Mapping):
            tool = tool["function"]
        if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str):
            continue  # omp names them only
        schema = next((tool[name] for name in _SCHEMA_NAMES if isinstance(tool.get(name), Mapping)), None)
        if schema is not None:
            description = tool.get("description")
            yield Tool(tool["name"], whole(description) if isinstance(description, str) else "", _object(schema))


def _object(schema: Mapping[str, Any]) -> dict[str, Any]:
    """``schema`` as one of an object, which is all that the arguments of a tool can be."""
    return {**sendable(schema), "type": "object"}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
