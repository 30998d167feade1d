"""Conversion of values to JSON."""

from __future__ import annotations

import base64
import dataclasses
from typing import Any

_EMPTY: tuple[Any, ...] = (None, (), {}, "")


def plain(value: Any) -> Any:
    """Convert ``value`` to JSON types. Empty fields and ``at_ms`` are left out, and bytes are encoded as base64.

    An empty field is present if the default of the field is not empty. ``codec.entry_json`` has the inverse.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {"type": value.type} if hasattr(value, "type") else {}
        for field in dataclasses.fields(value):
            item, default = getattr(value, field.name), field.default
            if field.name != "at_ms" and (item not in _EMPTY or default not in (dataclasses.MISSING, *_EMPTY)):
                found[field.name] = plain(item)
        return found
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value
