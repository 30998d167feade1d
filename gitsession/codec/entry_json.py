"""Conversion of entries from JSON: the inverse of ``model.plain`` (docs/reference/json.md, "Entries as JSON").

The fields, their types and their errors are those of payloads (``codec.payload``). JSON has no bytes, and ``plain``
leaves out empty fields, so three forms are added: ``{"base64": ...}`` in a field of bytes, an omitted field in place of
an empty one, and a string in place of a list with one text block.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from typing import Any

from gitsession.codec import payload
from gitsession.errors import Malformed
from gitsession.model import entries as kinds
from gitsession.model.blocks import OtherBlock, Text
from gitsession.model.entries import KINDS, Entry, TodoItem

INTERNAL = frozenset(
    kind.kind
    for kind in (
        kinds.Attachment,
        kinds.Checkpoint,
        kinds.Continuation,
        kinds.Fork,
        kinds.Project,
        kinds.Seal,
        kinds.SessionHeader,
        kinds.SourceFile,
        kinds.Tombstone,
    )
)
"""Kinds of entries that only gitsession itself writes."""

_EMPTY: dict[str, Any] = {"str": "", "bytes": b"", "tuple[str, ...]": [], "tuple[Block, ...]": []}
"""Empty values of required fields, by annotation."""


def appended_entry(value: object) -> Entry:
    """Return the entry of a JSON object that a program appends: its ``kind``, its ``body``, and its time ``at``.

    Other keys are ignored. Raises ``Malformed``, with the path of the field.
    """
    if not isinstance(value, dict):
        raise Malformed("expected an object with the keys kind and body", where="entry")
    kind = value.get("kind")
    if isinstance(kind, str) and kind in INTERNAL:
        raise Malformed(f"only gitsession itself writes entries of kind {kind!r}", where="kind")
    try:
        return from_json(kind, value.get("at", 0), value.get("body", {}))
    except Malformed as error:
        if not error.hint and isinstance(kind, str) and kind in KINDS:
            fields = {field.name for field in dataclasses.fields(KINDS[kind])}
            outside = sorted(fields & value.keys())
            error.hint = f"move {' and '.join(outside)} into body" if outside else ""
        raise


def from_json(kind: object, at_ms: object, body: object) -> Entry:
    """Return the entry of a known kind. Raises ``Malformed``, with the path of the field."""
    if type(kind) is not str or kind not in KINDS:
        hint = f"use one of {', '.join(sorted(KINDS.keys() - INTERNAL))}; for other data, use custom"
        raise Malformed(f"unknown kind {str(kind)[:40]!r}", where="kind", hint=hint)
    if type(at_ms) is not int:
        raise Malformed("expected a Unix time in ms", where="at")
    if not isinstance(body, dict):
        raise Malformed("expected an object", where="body")
    return payload.from_plain(kind, at_ms, _with_extra(KINDS[kind], body, kind))


def bytes_of(value: Any, where: str) -> bytes:
    """Return the bytes that an object with ``base64`` describes. Raises ``Malformed``."""
    text = value.get("base64") if isinstance(value, dict) and len(value) == 1 else None
    try:
        if isinstance(text, str):
            return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        pass
    raise Malformed('expected bytes, as {"base64": "..."}', where=where)


def _with_extra(kind: type[Any], value: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the plain form of an object whose unknown fields are in its field ``extra``."""
    fields = dict(value)
    extra = fields.pop("extra", {})
    if not isinstance(extra, dict):
        raise Malformed("expected an object", where=f"{where}.extra")
    return {**extra, **_fields(kind, fields, where)}


def _fields(kind: type[Any], value: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the plain form of an object's fields: with bytes, blocks, and the required fields that are empty."""
    plain = dict(value)
    for field in dataclasses.fields(kind):
        name, annotation = field.name, str(field.type)
        if name not in plain:
            if field.default is field.default_factory is dataclasses.MISSING and annotation in _EMPTY:
                plain[name] = _EMPTY[annotation]
        elif annotation.startswith("bytes") and plain[name] is not None:
            plain[name] = bytes_of(plain[name], f"{where}.{name}")
        elif annotation == "tuple[Block, ...]":
            plain[name] = _blocks(plain[name], f"{where}.{name}")
        elif annotation == "tuple[TodoItem, ...]" and isinstance(plain[name], list):
            plain[name] = [_todo_item(item, f"{where}.{name}[{at}]") for at, item in enumerate(plain[name])]
    return plain


def _blocks(content: Any, where: str) -> Any:
    if isinstance(content, str):
        return [{"type": Text.type, "text": content}]
    if not isinstance(content, list):
        return content  # the caller reports the error
    return [_block(block, f"{where}[{index}]") for index, block in enumerate(content)]


def _todo_item(value: Any, where: str) -> Any:
    return _with_extra(TodoItem, value, where) if isinstance(value, dict) else value  # the caller reports the error


def _block(value: Any, where: str) -> Any:
    type_ = value.get("type") if isinstance(value, dict) else None
    if type_ == OtherBlock.type and value.keys() <= {"type", "value"}:
        return value.get("value")
    kind = payload.BLOCKS.get(type_) if type(type_) is str else None
    return value if kind is None else _fields(kind, value, where)
