"""A JSON text changed in few places: all else stays byte for byte, and what comes in is laid out as the rest is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from gitsession.errors import Malformed

_SPACE = re.compile(r"[ \t\r\n]*")
_PLAIN = re.compile(r"[^\s,\]}]+")
_UNIT = "  "


@dataclass(slots=True)
class Part:
    """A value where it stands. ``begin``: of its key, where it has one."""

    begin: int
    start: int
    end: int = 0
    key: str = ""
    is_object: bool = False
    parts: list[Part] = field(default_factory=list)
    value: Any = None

    def get(self, key: str) -> Part | None:
        """The last one of that name, as every reader takes it."""
        return next((part for part in reversed(self.parts) if self.is_object and part.key == key), None)


def parse(text: str, where: str) -> Part:
    """Raises ``Malformed``, which says the line and the column."""
    try:
        json.loads(text)
        return _value(text, _skip(text, 0), "")
    except (ValueError, RecursionError, IndexError) as error:
        raise Malformed(f"not JSON: {error}", where=where) from None


def put_in(text: str, container: Part, value: Any, *, key: str | None = None) -> str:
    """``text`` with a value behind the last one of an object (by its ``key``) or of an array."""
    name = "" if key is None else json.dumps(key) + ": "
    between, inner = _layout(text, container)
    if "\n" in between:
        unit = _unit(text)
        margin = between.rpartition("\n")[2]
        told = json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", "\n" + margin)
    else:
        told = json.dumps(value, ensure_ascii=False)
    if not container.parts:
        return text[: container.start + 1] + between + name + told + inner + text[container.end - 1 :]
    at = container.parts[-1].end
    return text[:at] + "," + (between or " ") + name + told + text[at:]


def take_out(text: str, container: Part, part: Part) -> str:
    """``text`` without one value of an object or an array."""
    number = next(at for at, each in enumerate(container.parts) if each is part)
    if len(container.parts) == 1:
        return text[: container.start + 1] + text[container.end - 1 :]
    if number:
        return text[: container.parts[number - 1].end] + text[part.end :]
    return text[: part.begin] + text[container.parts[1].begin :]


def _layout(text: str, container: Part) -> tuple[str, str]:
    """What stands before a value in there, and before the closing bracket of one that has had none."""
    if container.parts:
        return text[container.start + 1 : container.parts[0].begin], ""
    line = text.rfind("\n", 0, container.start) + 1
    margin = text[line : len(text) - len(text[line:].lstrip(" \t"))]
    return f"\n{margin}{_unit(text)}", f"\n{margin}"


def _unit(text: str) -> str:
    """By how much a level is set in."""
    found = re.search(r"[{\[]\r?\n([ \t]+)", text)
    return found[1] if found else _UNIT


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, key: str, begin: int | None = None) -> Part:
    part = Part(at if begin is None else begin, at, key=key)
    opening = text[at]
    if opening in "{[":
        part.is_object = opening == "{"
        part.parts = list(_inside(text, part))
    elif opening == '"':
        part.value, part.end = scanstring(text, at + 1)
    else:
        found = _PLAIN.match(text, at)
        part.end = found.end() if found else at
    return part


def _inside(text: str, part: Part) -> Iterator[Part]:
    at = _skip(text, part.start + 1)
    while text[at] not in "}]":
        begin, key = at, ""
        if part.is_object:
            key, at = scanstring(text, at + 1)
            at = _skip(text, _skip(text, at) + 1)
        value = _value(text, at, key, begin)
        yield value
        at = _skip(text, value.end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    part.end = at + 1
