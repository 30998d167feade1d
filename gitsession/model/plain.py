"""Conversion of values to JSON."""

from __future__ import annotations

import base64
import dataclasses
from typing import Any


def plain(value: Any) -> Any:
    """Convert ``value`` to JSON types. Empty fields and ``at_ms`` are left out, and bytes are encoded as base64."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        tag = {"type": value.type} if hasattr(value, "type") else {}
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        present = {name: item for name, item in fields.items() if name != "at_ms" and item not in (None, (), {}, "")}
        return {**tag, **{name: plain(item) for name, item in present.items()}}
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value
