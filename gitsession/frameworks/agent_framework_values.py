"""The values of a workflow's checkpoint as JSON, without pickle.

A store can have been cloned from another machine, and unpickling runs code that the file names. So a value is stored as
JSON. An object is stored by the name of its class and its state, and is only restored if its class is a plain value of
Python, a data class of the framework, or a class that the program lists. FROZEN: stored checkpoints depend on it.

JSON values stand for themselves. Any other value is an object with the key ``$``, which names its kind.
"""

from __future__ import annotations

import base64
import copyreg
import dataclasses
import sys
import types
import typing
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from agent_framework import (
    AgentResponse,
    AgentResponseUpdate,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    Message,
    WorkflowEvent,
)

_KIND = "$"
_FRAMEWORK = ("agent_framework.", "agent_framework_orchestrations.")
_DATA = (AgentResponse, AgentResponseUpdate, ChatResponse, ChatResponseUpdate, Content, Message, WorkflowEvent)
_TIMES: tuple[Any, ...] = (datetime, date, time)
_NAMED = (object, bool, int, float, str, bytes, bytearray, list, tuple, dict, set, frozenset, type(None), *_TIMES)
_BUILT = (complex, range, timedelta, timezone, Decimal, UUID, Counter, OrderedDict, defaultdict, deque)
_DROPPED = ("raw_representation", "__orig_class__")
"""Fields that are not stored: the provider's own object of an answer, and the type arguments of a generic class."""


def key_of(cls: Any) -> str:
    """Return the name of a class, as in the framework's ``allowed_checkpoint_types``."""
    return f"{cls.__module__}:{cls.__qualname__}"


class CheckpointCodec:
    """The conversion of the values of checkpoints to JSON and back.

    Args:
        types: The program's own classes whose objects are stored.
    """

    def __init__(self, types: Iterable[type[Any]] = ()) -> None:
        own = tuple(types)
        self._callable = frozenset((*_BUILT, *own))
        self._known = {key_of(cls): cls for cls in (*_NAMED, *_BUILT, *own)}

    # ---- to JSON

    def encode(self, value: Any) -> Any:
        """Return ``value`` as JSON. Raises ``TypeError`` if it has an object of a class that is not allowed."""
        kind = type(value)
        if kind in (str, int, float, bool, type(None)):
            return value
        if kind is list:
            return [self.encode(item) for item in value]
        if kind is dict:
            if all(type(name) is str for name in value) and _KIND not in value:
                return {name: self.encode(item) for name, item in value.items()}
            return {_KIND: "dict", "pairs": self._pairs(value.items())}
        if value is ...:
            return {_KIND: "..."}
        if kind in (bytes, bytearray):
            return {_KIND: kind.__name__, "base64": base64.b64encode(value).decode()}
        if kind is tuple:
            return {_KIND: "tuple", "items": [self.encode(item) for item in value]}
        if kind in (set, frozenset):
            items = sorted((self.encode(item) for item in value), key=repr)
            return {_KIND: kind.__name__, "items": items}
        if kind in _TIMES:
            return {_KIND: kind.__name__, "text": value.isoformat()} | (
                {"fold": 1} if getattr(value, "fold", 0) else {}
            )
        return self._encode_type(value) if _is_type(value) else self._encode_object(value)

    def _pairs(self, pairs: Iterable[Any]) -> list[Any]:
        return [[self.encode(name), self.encode(item)] for name, item in pairs]

    def _encode_type(self, value: Any) -> dict[str, Any]:
        origin = typing.get_origin(value)
        if origin is None:
            return {_KIND: "class", "class": self._key(value)}
        args = [self.encode(each) for each in typing.get_args(value)]
        if origin in (types.UnionType, typing.Union):
            return {_KIND: "union", "args": args}
        return {_KIND: "generic", "class": self._key(origin), "args": args}

    def _encode_object(self, value: Any) -> dict[str, Any]:
        key = self._key(type(value))
        if isinstance(value, Enum):
            return {_KIND: "enum", "class": key, "name": value.name}
        reduced = value.__reduce_ex__(4)
        if isinstance(reduced, str) or type(value) in _NAMED:
            raise TypeError(f"objects of class '{key}' have no state")
        build, args, state, items, pairs = (*reduced, None, None, None)[:5]
        is_new = build is copyreg.__newobj__ and args[0] is type(value)  # type: ignore[attr-defined]
        if not is_new and not (build is type(value) and build in self._callable):
            raise TypeError(f"class '{key}' has a method of its own for pickle")
        found: dict[str, Any] = {_KIND: "new" if is_new else "call", "class": key}
        parts = {
            "args": [self.encode(each) for each in (args[1:] if is_new else args)],
            "state": None if state is None else self.encode(_kept(state)),
            "items": None if items is None else [self.encode(item) for item in items],
            "pairs": None if pairs is None else self._pairs(pairs),
        }
        return found | {name: part for name, part in parts.items() if part}

    # ---- from JSON

    def decode(self, value: Any) -> Any:
        """Return the value that ``encode`` converted.

        Raises ``TypeError`` if it has a class that is not allowed. Other errors are possible if the JSON is not from
        ``encode``.
        """
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        if _KIND not in value:
            return {name: self.decode(item) for name, item in value.items()}
        read = _READERS.get(value[_KIND])
        if read is None:
            raise TypeError(f"the kind {value[_KIND]!r} of a value is unknown")
        return read(self, value)

    def decode_all(self, values: Any) -> list[Any]:
        """Return the values of a list."""
        return [self.decode(each) for each in values]

    def decode_class(self, value: Mapping[str, Any]) -> Any:
        """Return the class that a value names. Raises ``TypeError`` if it is not allowed."""
        return self._class(value["class"])

    def decode_object(self, value: Mapping[str, Any]) -> Any:
        """Return the object that a value describes, of a class that is allowed."""
        cls, args = self.decode_class(value), self.decode_all(value.get("args", ()))
        if cls in _NAMED or (value[_KIND] == "call" and cls not in self._callable):
            raise TypeError(f"objects of class '{value['class']}' are not stored like this")
        if cls in _BUILT and any(isinstance(each, range) for each in args):
            raise TypeError("a range is not an argument")  # a short text can stand for a range of a trillion items
        made = cls(*args) if value[_KIND] == "call" else cls.__new__(cls, *args)
        for item in value.get("items", ()):
            made.append(self.decode(item))
        for name, item in value.get("pairs", ()):
            made[self.decode(name)] = self.decode(item)
        if "state" in value:
            _restore(made, self.decode(value["state"]))
        return made

    # ---- classes

    def _key(self, cls: type[Any]) -> str:
        key = key_of(cls)
        if self._class(key) is not cls:
            raise TypeError(f"class '{key}' is not the one of this name")
        return key

    def _class(self, key: Any) -> Any:
        """Return the class of this name. Only modules that are imported already are searched."""
        found = self._known.get(key)
        module, _, name = key.partition(":")
        if found is None and f"{module}.".startswith(_FRAMEWORK):
            candidate = getattr(sys.modules.get(module), name, None)
            is_data = dataclasses.is_dataclass(candidate) or candidate in _DATA
            found = candidate if isinstance(candidate, type) and (is_data or issubclass(candidate, Enum)) else None
        if found is None:
            raise TypeError(f"class '{key}' is not allowed")
        return found


def _is_type(value: Any) -> bool:
    return isinstance(value, type) or typing.get_origin(value) is not None


def _kept(state: Any) -> Any:
    """Return a state without the fields that are not stored."""
    if isinstance(state, tuple):
        return tuple(_kept(each) for each in state)
    if not isinstance(state, dict):
        return state
    dropped = {"raw_representation": None} if "raw_representation" in state else {}
    return {name: item for name, item in state.items() if name not in _DROPPED} | dropped


def _restore(made: Any, state: Any) -> None:
    """Set the state of an object, as unpickling does."""
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
        return
    fields, slots = state if isinstance(state, tuple) else (state, None)
    if fields:
        vars(made).update(fields)
    for name, item in (slots or {}).items():
        if name.startswith("__"):
            raise TypeError(f"{name!r} is not a field")
        object.__setattr__(made, name, item)


def _union(args: list[Any]) -> Any:
    found = args[0]
    for each in args[1:]:
        found = found | each
    return found


def _time(codec: CheckpointCodec, value: Mapping[str, Any]) -> Any:
    found = {cls.__name__: cls for cls in _TIMES}[value[_KIND]].fromisoformat(value["text"])
    return found.replace(fold=1) if value.get("fold") else found


_READERS: Mapping[Any, Callable[[CheckpointCodec, Mapping[str, Any]], Any]] = {
    "dict": lambda codec, value: {codec.decode(name): codec.decode(item) for name, item in value["pairs"]},
    "bytes": lambda codec, value: base64.b64decode(value["base64"], validate=True),
    "bytearray": lambda codec, value: bytearray(base64.b64decode(value["base64"], validate=True)),
    "...": lambda codec, value: ...,
    "tuple": lambda codec, value: tuple(codec.decode_all(value["items"])),
    "set": lambda codec, value: set(codec.decode_all(value["items"])),
    "frozenset": lambda codec, value: frozenset(codec.decode_all(value["items"])),
    **dict.fromkeys(("datetime", "date", "time"), _time),
    "class": lambda codec, value: codec.decode_class(value),
    "union": lambda codec, value: _union(codec.decode_all(value["args"])),
    "generic": lambda codec, value: codec.decode_class(value)[tuple(codec.decode_all(value["args"]))],
    "enum": lambda codec, value: codec.decode_class(value)[value["name"]],
    "new": lambda codec, value: codec.decode_object(value),
    "call": lambda codec, value: codec.decode_object(value),
}
