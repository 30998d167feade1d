"""A value as JSON can hold it, and its one way of being written: what the digest of a context is taken over."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from gitsession.codec.digest import hash_of


def plain(value: Any) -> Any:
    """``value`` as lists, mappings, texts and numbers. Bytes are their BLAKE3 in hex.

    A field that says what it says by default is left out: one that a later release adds changes nothing where it is
    not used.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        named = {"type": value.type} if hasattr(value, "type") else {}
        said = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
        return named | {field.name: plain(item) for field, item in said if item != _default(field)}
    if isinstance(value, bytes):
        return {"blake3": hash_of(value).hex()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return value


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def canonical(value: Any) -> bytes:
    """One way to write ``value``: compact JSON in ASCII, the order of keys as it is, since it can be data."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode()
