"""The values of LangGraph as entries and as plain data.

A message of LangChain becomes a ``Message``. Other values become plain data if they can be rebuilt from it exactly, and
the serializer's bytes otherwise. Plain data is preferred because it can be read, searched, and redacted.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from gitsession.model.blocks import Block, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Message

KEY = "langgraph"
"""The key under which ``extra`` of an entry contains what only LangGraph needs."""

_MESSAGE, _TYPED = "@message", "@typed"
_DEPTH_MAX = 32
_CLASSES: Mapping[str, type[BaseMessage]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
}
_ROLES = {kind: role for role, kind in _CLASSES.items()}
_DEFAULTS: Mapping[str, Any] = {
    "additional_kwargs": {},
    "response_metadata": {},
    "name": None,
    "id": None,
    "tool_calls": [],
    "invalid_tool_calls": [],
    "usage_metadata": None,
    "artifact": None,
    "status": "success",
}


def serializer(types: Iterable[type[Any]] = ()) -> JsonPlusSerializer:
    """Return LangGraph's serializer, which restores only objects of LangGraph's own list of classes and of ``types``.

    By default, LangGraph imports and calls what the data names. But a store can have been cloned from another machine.
    """
    return JsonPlusSerializer(allowed_msgpack_modules=tuple(types) or None)


class ValueCodec:
    """The conversion of values with one serializer.

    If the serializer is not LangGraph's own, for example because it encrypts, every value is stored as its bytes.
    """

    def __init__(self, serde: SerializerProtocol) -> None:
        self._serde = serde
        self.is_readable = isinstance(serde, JsonPlusSerializer)

    # ---- values

    def encode(self, value: Any) -> Any:
        """Return ``value`` as plain data from which ``decode`` rebuilds it exactly."""
        if self.is_readable:
            try:
                plain = self._plain(value, 0)
                if self._serde.dumps_typed(self.decode(plain)) == self._serde.dumps_typed(value):
                    return plain
            except (TypeError, ValueError, KeyError):
                pass  # not rebuilt from plain data
        return self._typed(value)

    def decode(self, plain: Any) -> Any:
        """Return the value of plain data that ``encode`` returned."""
        if type(plain) is list:
            return [self.decode(item) for item in plain]
        if type(plain) is not dict:
            return plain
        if len(plain) == 1:
            if _TYPED in plain:
                kind, data = plain[_TYPED]
                if self.is_readable and kind == "json":  # which can name classes, and is never written
                    raise ValueError("a value of the kind 'json' is not read")
                return self._serde.loads_typed((kind, data))
            if _MESSAGE in plain:
                fields = plain[_MESSAGE]
                return _CLASSES[fields["role"]](**self.decode(fields["fields"]))
        return {key: self.decode(item) for key, item in plain.items()}

    def _typed(self, value: Any) -> Any:
        return {_TYPED: list(self._serde.dumps_typed(value))}

    def _plain(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in (str, bool, type(None)):
            return value
        if kind is int and -(2**63) <= value < 2**63:
            return value
        if kind is float and math.isfinite(value):
            return value
        if depth < _DEPTH_MAX:
            if kind is list:
                return [self._plain(item, depth + 1) for item in value]
            if kind is dict and all(type(key) is str and not key.startswith("@") for key in value):
                return {key: self._plain(item, depth + 1) for key, item in value.items()}
            if kind in _ROLES:
                fields = {key: self._plain(item, depth + 2) for key, item in changed_fields(value).items()}
                return {_MESSAGE: {"role": _ROLES[kind], "fields": fields}}
        return self._typed(value)

    # ---- items of lists

    def items(self, values: Sequence[Any]) -> bytes | None:
        """Return the serialized items of a list, one after the other; ``None`` if the serializer has no such form."""
        if not self.is_readable:
            return None
        try:
            kind, data = self._serde.dumps_typed(values)
        except (TypeError, ValueError):
            return None
        return data[len(_head(len(values))) :] if kind == "msgpack" else None

    def load_items(self, items: Sequence[bytes]) -> list[Any]:
        """Return the list of serialized items."""
        found: list[Any] = self._serde.loads_typed(("msgpack", _head(len(items)) + b"".join(items)))
        return found

    # ---- messages

    def message(self, value: Any, data: bytes) -> Message | None:
        """Return the entry of a message; ``None`` if an entry does not determine the message.

        Args:
            value: The message, or any other value.
            data: The message as ``items`` serializes it.
        """
        if type(value) not in _ROLES:
            return None
        try:
            entry = self._entry(value)
            return entry if self.items([self.rebuild(entry)]) == data else None
        except (TypeError, ValueError, KeyError):
            return None

    def _entry(self, message: BaseMessage) -> Message:
        """Return the entry of a message. Its ``extra`` has the fields that the rest of the entry does not determine.

        Raises ``TypeError``, ``ValueError`` or ``KeyError`` if the format cannot represent the message.
        """
        found, content = changed_fields(message), message.content
        calls = [self._call(call) for call in found.get("tool_calls", ())]
        blocks: list[Block] = [Text(content)] if isinstance(content, str) and content else []
        forms: dict[str, str] = {}
        for number, part in enumerate(content if isinstance(content, list) else ()):
            form, block = _block_of(self._checked(part))
            if block in calls:
                calls.remove(block)
            blocks.append(block)
            forms |= {str(number): form} if form else {}
        metadata = getattr(message, "response_metadata", {})
        entry = Message(
            role=_ROLES[type(message)],
            content=(*blocks, *calls),
            provider=_text_or_none(metadata.get("model_provider")),
            model=_text_or_none(metadata.get("model_name") or metadata.get("model")),
            usage=_usage(found.get("usage_metadata")),
            tool_call_id=found.get("tool_call_id"),
            tool_name=found.get("name") if isinstance(message, ToolMessage) else None,
            is_error=found.get("status") == "error",
        )
        is_list = isinstance(content, list)
        known = _determined(entry, is_list, forms)
        rest = {name: value for name, value in found.items() if known.get(name, _DEFAULTS.get(name)) != value}
        kept = {"fields": self._plain(rest, 0), "list": is_list, "forms": forms}
        return dataclasses.replace(entry, extra={KEY: {"message": {name: one for name, one in kept.items() if one}}})

    def _call(self, call: Mapping[str, Any]) -> ToolCall:
        if type(call["id"]) is not str:
            raise TypeError("a tool call without an id")
        return ToolCall(call["id"], call["name"], self._checked(call["args"]))

    def _checked(self, value: Any) -> Any:
        """Return ``value`` if the format can represent it as it is; raise ``TypeError`` otherwise."""
        if self._plain(value, 0) != value:
            raise TypeError(f"not plain data: {type(value).__name__}")
        return value

    def rebuild(self, entry: Message) -> BaseMessage:
        """Return the message from which ``message`` made ``entry``."""
        kept = entry.extra[KEY]["message"]
        fields = _determined(entry, kept.get("list", False), kept.get("forms", {}))
        return _CLASSES[entry.role](**(fields | self.decode(kept.get("fields", {}))))


def _head(count: int) -> bytes:
    """Return the head of a list in MessagePack."""
    if count < 16:
        return bytes((0x90 | count,))
    return b"\xdc" + count.to_bytes(2, "big") if count < 65536 else b"\xdd" + count.to_bytes(4, "big")


def state_of(item: Any) -> Any:
    """Return the state of a message or a dict, which changes if the item is changed in place; ``None`` for others."""
    if type(item) in _ROLES:
        return item.__dict__ if not item.__pydantic_extra__ else (item.__dict__, item.__pydantic_extra__)
    return item if type(item) is dict else None


def changed_fields(message: BaseMessage) -> dict[str, Any]:
    """Return the fields of a message that differ from their defaults."""
    return {
        name: value
        for name, value in message.model_dump().items()
        if name != "type" and not (name in _DEFAULTS and value == _DEFAULTS[name])
    }


def _determined(entry: Message, is_list: bool, forms: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a message that its entry determines."""
    calls = [block for block in entry.content if isinstance(block, ToolCall)]
    inside = [
        (forms.get(str(index), ""), block)
        for index, block in enumerate(entry.content)
        if not isinstance(block, ToolCall) or str(index) in forms
    ]
    fields: dict[str, Any] = {
        "content": [_part_of(form, block) for form, block in inside] if is_list else entry.text,
    }
    if calls:
        fields["tool_calls"] = [
            {"name": call.name, "args": dict(call.arguments), "id": call.id, "type": "tool_call"} for call in calls
        ]
    if entry.role == "tool":
        fields |= {"tool_call_id": entry.tool_call_id, "name": entry.tool_name}
        fields["status"] = "error" if entry.is_error else "success"
    return fields


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _usage(found: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the token counts in the names that gitsession uses."""
    if not found:
        return None
    details = found.get("input_token_details") or {}
    read, write = details.get("cache_read", 0), details.get("cache_creation", 0)
    counts = {"input": found["input_tokens"] - read - write, "output": found["output_tokens"]}
    return counts | {"cacheRead": read, "cacheWrite": write}


# ---- parts of a content


class _Form(NamedTuple):
    """A form in which a part of a content denotes a block. ``block`` raises an error for a part of another form."""

    block: Callable[[Mapping[str, Any]], Block]
    part: Callable[[Any], Mapping[str, Any]]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _image_of_url(part: Mapping[str, Any]) -> Image:
    head, _, data = part["image_url"]["url"].partition(";base64,")
    return Image(base64.b64decode(data, validate=True), head.removeprefix("data:"))


_FORMS: Mapping[str, _Form] = {
    "text": _Form(lambda part: Text(part["text"]), lambda block: {"type": "text", "text": block.text}),
    "thinking": _Form(
        lambda part: Thinking(part["thinking"], part["signature"]),
        lambda block: {"type": "thinking", "thinking": block.text, "signature": block.signature},
    ),
    "tool_use": _Form(
        lambda part: ToolCall(part["id"], part["name"], part["input"]),
        lambda block: {"type": "tool_use", "id": block.id, "name": block.name, "input": dict(block.arguments)},
    ),
    "image": _Form(
        lambda part: Image(base64.b64decode(part["base64"], validate=True), part["mime_type"]),
        lambda block: {"type": "image", "base64": _base64(block.data), "mime_type": block.mime},
    ),
    "image_url": _Form(
        _image_of_url,
        lambda block: {"type": "image_url", "image_url": {"url": f"data:{block.mime};base64,{_base64(block.data)}"}},
    ),
    "image_source": _Form(
        lambda part: Image(base64.b64decode(part["source"]["data"], validate=True), part["source"]["media_type"]),
        lambda block: {
            "type": "image",
            "source": {"type": "base64", "media_type": block.mime, "data": _base64(block.data)},
        },
    ),
}


def _block_of(part: Any) -> tuple[str, Block]:
    """Return the block of a part, and its form; "" if the part is stored unchanged."""
    for name, form in _FORMS.items():
        try:
            block = form.block(part)
            if form.part(block) == part:
                return name, block
        except (KeyError, TypeError, ValueError, AttributeError):
            pass  # another form
    return "", OtherBlock(part)


def _part_of(form: str, block: Block) -> Any:
    return _FORMS[form].part(block) if form else block.value if isinstance(block, OtherBlock) else block
