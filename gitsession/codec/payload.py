"""Our own payloads: entry <-> CBOR (docs/format.md, "Payloads of our own")."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field
from typing import Any, TypeAlias

from gitsession.codec import cbor
from gitsession.codec.holes import Encoding, Span
from gitsession.codec.lift import IMAGE_BYTES_MIN, STRING_BYTES_MIN, holds_image, is_image
from gitsession.errors import Malformed
from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import KINDS, ROLES, BranchSummary, Compaction, Entry, Message, Unknown, kind_of

VERSION = 1
PAYLOAD_BYTES_MAX = 16 * 1024 * 1024
NONCE_BYTES = 16

_BLOCKS: Mapping[str, type[Any]] = {block.type: block for block in (Text, Thinking, ToolCall, Image, File)}


def encode(entry: Entry, nonce: bytes) -> bytes:
    """The payload of ``entry``. Raises ``Malformed``, with the way to the field, for what the format cannot hold."""
    if len(nonce) != NONCE_BYTES:
        raise Malformed(f"expected {NONCE_BYTES} bytes, found {len(nonce)}", where="nonce")
    body = entry.body if isinstance(entry, Unknown) else _fields_to_plain(entry, entry.kind)
    payload = cbor.encode({"v": VERSION, "kind": kind_of(entry), "at": entry.at_ms, "body": body, "nonce": nonce})
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise Malformed(f"{len(payload):,} bytes; a payload holds at most {PAYLOAD_BYTES_MAX:,}", where=entry.kind)
    return payload


def decode(payload: bytes) -> tuple[Entry, bytes]:
    """The entry and the nonce of ``payload``. Raises ``Malformed`` for bytes that ``encode`` could not have written.

    A kind, or a version, from later on is ``Unknown``.
    """
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise Malformed(f"{len(payload):,} bytes; a payload holds at most {PAYLOAD_BYTES_MAX:,}")
    value = cbor.decode(payload)
    if type(value) is not dict or list(value) != ["v", "kind", "at", "body", "nonce"]:
        raise Malformed("expected a map of v, kind, at, body and nonce, in this order")
    kind, at_ms, body, nonce = value["kind"], value["at"], value["body"], value["nonce"]
    if type(kind) is not str:
        raise Malformed(f"expected text, found {type(kind).__name__}", where="kind")
    if type(at_ms) is not int:
        raise Malformed(f"expected an integer, found {type(at_ms).__name__}", where="at")
    if type(nonce) is not bytes or len(nonce) != NONCE_BYTES:
        raise Malformed(f"expected {NONCE_BYTES} bytes", where="nonce")
    if value["v"] != VERSION or kind not in KINDS:
        return Unknown(name=kind, body=body, at_ms=at_ms), nonce
    if type(body) is not dict:
        raise Malformed(f"expected a map, found {type(body).__name__}", where=kind)
    return _entry_from_plain(KINDS[kind], body, at_ms), nonce


def spans(entry: Entry, payload: bytes) -> tuple[Span, ...]:
    """What of ``payload``, the encoding of ``entry``, is kept in blobs of its own. FROZEN under view 1."""
    summary = entry.summary if isinstance(entry, Compaction | BranchSummary) else None
    may_hold_image = b"\x59" in payload and holds_image(payload)  # 0x59: the head of a byte string of 256 B to 64 KiB
    if not summary and len(payload) < STRING_BYTES_MIN and not may_hold_image:
        return ()
    found: list[Span] = []
    at = 0
    for value in _strings(entry.body if isinstance(entry, Unknown) else _fields_to_plain(entry, entry.kind)):
        data = value.encode() if isinstance(value, str) else value
        encoding: Encoding
        if value is summary and data:
            encoding = "summary"
        elif len(data) >= STRING_BYTES_MIN or (isinstance(value, bytes) and _is_big_image(value)):
            encoding = "raw"
        else:
            continue
        # Searching cannot go wrong: whatever place it finds holds exactly these bytes.
        start = payload.index(data, at)
        at = start + len(data)
        found.append(Span(start, at, encoding))
    return tuple(found)


def _is_big_image(data: bytes) -> bool:
    return len(data) >= IMAGE_BYTES_MIN and is_image(data)


def _strings(value: Any) -> list[str | bytes]:
    """Every text and byte string in ``value``, in the order in which CBOR writes them; keys are left out."""
    if isinstance(value, str | bytes):
        return [value]
    if isinstance(value, dict):
        return [string for item in value.values() for string in _strings(item)]
    if isinstance(value, list):
        return [string for item in value for string in _strings(item)]
    return []


# ---- values -> plain


def _fields_to_plain(value: Any, where: str) -> dict[str, cbor.Plain]:
    plain: dict[str, cbor.Plain] = {}
    for name, default, check, _ in _fields(type(value)):
        item = getattr(value, name)
        if default is not MISSING and item == default:
            continue
        item = _to_plain(item, f"{where}.{name}")
        check(item, f"{where}.{name}")
        plain[name] = item
    for name, item in getattr(value, "extra", {}).items():
        if name in plain:
            raise Malformed("an extra field with the name of a known one", where=f"{where}.{name}")
        plain[name] = _to_plain(item, f"{where}.{name}")
    return plain


def _to_plain(value: Any, where: str) -> cbor.Plain:
    if isinstance(value, list | tuple):
        return [_to_plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {key: _to_plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, OtherBlock):
        return _to_plain(value.value, where)
    if type(value) in _BLOCK_CLASSES:
        return {"type": value.type, **_fields_to_plain(value, where)}
    return value  # type: ignore[no-any-return]


# ---- plain -> values


def _entry_from_plain(kind: type[Entry], body: dict[str, Any], at_ms: int) -> Entry:
    known: dict[str, Any] = {}
    extra = dict(body)
    for name, default, check, build in _fields(kind):
        where = f"{kind.kind}.{name}"
        if name in extra:
            item = extra.pop(name)
            check(item, where)
            known[name] = build(item, where)
        elif default is MISSING:
            raise Malformed("is missing", where=where)
    entry = kind(at_ms=at_ms, extra=extra, **known)
    if isinstance(entry, Message) and entry.role not in ROLES:
        raise Malformed(f"no such role: {entry.role[:40]!r}", where="message.role")
    return entry


def _block(value: Any, where: str) -> Block:
    kind = _BLOCKS.get(value.get("type", "")) if isinstance(value, dict) else None
    if kind is None:
        return OtherBlock(value)
    names = {name for name, *_ in _fields(kind)}
    if not names.issuperset(value.keys() - {"type"}):
        return OtherBlock(value)
    known: dict[str, Any] = {}
    for name, default, check, build in _fields(kind):
        if name in value:
            check(value[name], f"{where}.{name}")
            known[name] = build(value[name], f"{where}.{name}")
        elif default is MISSING:
            raise Malformed("is missing", where=f"{where}.{name}")
    return kind(**known)  # type: ignore[no-any-return]


# ---- what a field may hold, by the annotation it has

_Check = Callable[[Any, str], None]
_Build = Callable[[Any, str], Any]


def _is(*types: type, item: type | None = None) -> _Check:
    names = " or ".join("null" if one is type(None) else _TYPE_NAMES[one] for one in types)

    def check(value: Any, where: str) -> None:
        if type(value) not in types:
            raise Malformed(f"expected {names}, found {_TYPE_NAMES.get(type(value), 'null')}", where=where)
        if item is not None and value is not None:
            parts = value.values() if type(value) is dict else value
            if any(type(part) is not item for part in parts):
                raise Malformed(f"expected only {_TYPE_NAMES[item]} inside", where=where)

    return check


def _same(value: Any, where: str) -> Any:
    return value


def _tuple(value: Any, where: str) -> tuple[Any, ...]:
    return tuple(value)


def _blocks(value: Any, where: str) -> tuple[Block, ...]:
    return tuple(_block(item, f"{where}[{index}]") for index, item in enumerate(value))


_NONE = type(None)
_TYPE_NAMES = {
    str: "text",
    int: "an integer",
    float: "a float",
    bool: "true or false",
    bytes: "bytes",
    list: "a list",
    dict: "a map",
}
_ANNOTATIONS: Mapping[str, tuple[_Check, _Build]] = {
    "str": (_is(str), _same),
    "str | None": (_is(str, _NONE), _same),
    "int | None": (_is(int, _NONE), _same),
    "bool": (_is(bool), _same),
    "bytes": (_is(bytes), _same),
    "bytes | None": (_is(bytes, _NONE), _same),
    "tuple[str, ...]": (_is(list, item=str), _tuple),
    "tuple[Block, ...]": (_is(list), _blocks),
    "Mapping[str, str]": (_is(dict, item=str), _same),
    "Mapping[str, Any]": (_is(dict), _same),
    "Mapping[str, Any] | None": (_is(dict, _NONE), _same),
    "Any": (lambda value, where: None, _same),
}
_BLOCK_CLASSES = frozenset(_BLOCKS.values())


_Field: TypeAlias = tuple[str, Any, _Check, _Build]
_FIELDS: dict[type[Any], tuple[_Field, ...]] = {}


def _fields(kind: type[Any]) -> tuple[_Field, ...]:
    """Name, default (``MISSING`` if there is none), check and builder of each field that stands in a body."""
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(
            (field.name, _default(field), *_ANNOTATIONS[str(field.type)])
            for field in dataclasses.fields(kind)
            if field.name not in ("at_ms", "extra")
        )
    return _FIELDS[kind]


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default
