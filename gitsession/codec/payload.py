"""Payloads and headlines of entries that gitsession writes itself (docs/reference/format.md, "Payloads of our own")."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Any, NamedTuple

from gitsession.codec import cbor
from gitsession.codec.holes import (
    IMAGE_BYTES_MIN,
    STRING_BYTES_MIN,
    Encoding,
    PayloadSpan,
    holds_image,
    is_image,
)
from gitsession.errors import Malformed
from gitsession.model import entries as kinds
from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import (
    KINDS,
    ROLES,
    TODO_STATUSES,
    BranchSummary,
    Compaction,
    Entry,
    Instructions,
    Message,
    TodoItem,
    UnknownEntry,
)
from gitsession.model.headline import Headline, first_line, format_tokens, line_count
from gitsession.model.todo_lists import todo_summary

VERSION = 1
PAYLOAD_BYTES_MAX = 16 * 1024 * 1024
NONCE_BYTES = 16

BLOCKS: Mapping[str, type[Any]] = {block.type: block for block in (Text, Thinking, ToolCall, Image, File)}
_BLOCK_CLASSES = frozenset(BLOCKS.values())


def encode(entry: Entry, nonce: bytes) -> bytes:
    """Encode ``entry`` as a payload. Raises the errors of ``to_value`` and ``encode_value``."""
    return encode_value(to_value(entry, nonce))


def to_value(entry: Entry, nonce: bytes) -> dict[str, cbor.Plain]:
    """Convert ``entry`` to the value that its payload encodes.

    Raises ``Malformed``, with the path of the field, if ``decode`` would not return an equal entry.
    """
    if type(nonce) is not bytes or len(nonce) != NONCE_BYTES:
        raise Malformed(f"expected {NONCE_BYTES} bytes", where="nonce")
    if type(entry.at_ms) is not int:
        raise Malformed(f"expected an integer, found {_name_of(entry.at_ms)}", where=f"{entry.kind}.at_ms")
    try:
        version, kind, body = _unknown_to_plain(entry) if isinstance(entry, UnknownEntry) else _entry_to_plain(entry)
    except RecursionError:
        raise Malformed(f"deeper than {cbor.DEPTH_MAX} levels", where=entry.kind) from None
    return {"v": version, "kind": kind, "at": entry.at_ms, "body": body, "nonce": nonce}


def encode_value(value: dict[str, cbor.Plain]) -> bytes:
    """Encode a value that ``to_value`` returned.

    Raises ``Malformed`` if the value is outside the profile (``codec.cbor``), or if its encoding is too large.
    """
    payload = cbor.encode(value)
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise Malformed(
            f"the payload is too large: {len(payload):,} bytes (limit: {PAYLOAD_BYTES_MAX:,})", where=str(value["kind"])
        )
    return payload


def decode(payload: bytes) -> tuple[Entry, bytes]:
    """Return the entry and the nonce of ``payload``. Raises ``Malformed`` if the bytes do not follow the format.

    An entry of a later version or of an unknown kind is returned as an ``UnknownEntry``.
    """
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise Malformed(f"the payload is too large: {len(payload):,} bytes (limit: {PAYLOAD_BYTES_MAX:,})")
    value = cbor.decode(payload)
    if type(value) is not dict or list(value) != ["v", "kind", "at", "body", "nonce"]:
        raise Malformed("expected a map of v, kind, at, body and nonce, in this order")
    version, kind, at_ms, body, nonce = value.values()
    if type(version) is not int or version < 1:
        raise Malformed("expected a version number", where="v")
    if type(kind) is not str:
        raise Malformed(f"expected text, found {_name_of(kind)}", where="kind")
    if type(at_ms) is not int:
        raise Malformed(f"expected an integer, found {_name_of(at_ms)}", where="at")
    if type(nonce) is not bytes or len(nonce) != NONCE_BYTES:
        raise Malformed(f"expected {NONCE_BYTES} bytes", where="nonce")
    if version != VERSION:
        return UnknownEntry(name=kind, body=body, at_ms=at_ms, version=version), nonce
    if kind not in KINDS:
        return UnknownEntry(name=kind, body=body, at_ms=at_ms), nonce
    if type(body) is not dict:
        raise Malformed(f"expected a map, found {_name_of(body)}", where=kind)
    return from_plain(kind, at_ms, body), nonce


def spans(entry: Entry, payload: bytes) -> tuple[PayloadSpan, ...]:
    """Return the spans of ``payload``, the encoding of ``entry``, that become separate blobs. FROZEN under view 1."""
    has_summary = isinstance(entry, Compaction | BranchSummary)
    has_files = isinstance(entry, Instructions) and isinstance(entry.files, Mapping)
    may_hold_image = b"\x59" in payload and holds_image(payload)  # 0x59: the head of a byte string of 256 B to 64 KiB
    if not has_summary and not has_files and len(payload) < STRING_BYTES_MIN and not may_hold_image:
        return ()
    found: list[PayloadSpan] = []
    for path, is_text, start, end in cbor.strings(payload):
        encoding: Encoding
        if path[0] != "body" or start == end:
            continue
        if has_summary and path == ("body", "summary"):
            encoding = "summary"
        elif has_files and path in _FILE_CONTENTS:
            encoding = "raw"  # so that equal files of several sessions are one blob
        elif end - start >= STRING_BYTES_MIN or (
            not is_text and end - start >= IMAGE_BYTES_MIN and is_image(payload[start : start + 16])
        ):
            encoding = "raw"
        else:
            continue
        found.append(PayloadSpan(start, end, encoding))
    return tuple(found)


_FILE_CONTENTS = (("body", "files", "files", "content"), ("body", "files", "skills", "content"))
"""Paths of the contents of instruction files and skills in an ``instructions`` entry."""


# ---- from entries and blocks to CBOR values


def _entry_to_plain(entry: Entry) -> tuple[int, str, cbor.Plain]:
    kind = entry.kind
    if KINDS.get(kind) is not type(entry):
        raise Malformed(f"{type(entry).__name__} is not a gitsession entry type")
    body = _with_extra(entry, kind)
    if isinstance(entry, Message):
        _check_role(entry)
    return VERSION, kind, body


def _with_extra(value: Entry | TodoItem, where: str) -> dict[str, cbor.Plain]:
    body = _fields_to_plain(value, where)
    if value.extra:
        known = _by_name(type(value))[0]
        for name, item in value.extra.items():
            if name in known:
                raise Malformed(
                    "the name of the extra field is also the name of a known field", where=f"{where}.{name}"
                )
            body[name] = _to_plain(item)
    return body


def _unknown_to_plain(entry: UnknownEntry) -> tuple[int, str, cbor.Plain]:
    version = VERSION if entry.version is None else entry.version
    if type(version) is not int or version < VERSION or (version == VERSION and entry.version is not None):
        raise Malformed(
            f"expected a version number later than {VERSION}, found {entry.version}", where="unknown.version"
        )
    if type(entry.name) is not str:
        raise Malformed(f"expected text, found {_name_of(entry.name)}", where="unknown.name")
    if version == VERSION and entry.name in KINDS:
        raise Malformed(f"{entry.name!r} is a known kind", where="unknown.name")
    if entry.extra:
        raise Malformed("an unknown entry can have only a body", where="unknown.extra")
    return version, entry.name, _to_plain(entry.body)


def _fields_to_plain(value: Any, where: str) -> dict[str, cbor.Plain]:
    """Check all fields; return the fields that differ from their defaults."""
    plain: dict[str, cbor.Plain] = {}
    for field in _fields(type(value)):
        item = getattr(value, field.name)
        if item is field.default:
            continue
        if type(item) not in _SCALARS:
            path = f"{where}.{field.name}"
            if field.blocks:
                item = _blocks_to_plain(item, path)
            else:
                item = _items_to_plain(item, path) if field.todos else _to_plain(item)
        field.check(item, where)
        if field.is_default(item):
            continue
        plain[field.name] = item
    return plain


def _blocks_to_plain(content: Any, where: str) -> cbor.Plain:
    if not isinstance(content, list | tuple):
        raise Malformed("expected a list of blocks", where=where)
    return [_block_to_plain(block, f"{where}[{index}]") for index, block in enumerate(content)]


def _items_to_plain(items: Any, where: str) -> cbor.Plain:
    if not isinstance(items, list | tuple) or not all(type(item) is TodoItem for item in items):
        raise Malformed("expected a list of todo items", where=where)
    for index, item in enumerate(items):
        _check_status(item.status, f"{where}[{index}]")
    return [_with_extra(item, f"{where}[{index}]") for index, item in enumerate(items)]


def _block_to_plain(block: Any, where: str) -> cbor.Plain:
    if type(block) in _BLOCK_CLASSES:
        return {"type": block.type, **_fields_to_plain(block, where)}
    if type(block) is not OtherBlock:
        raise Malformed(f"expected a block, found {type(block).__name__}", where=where)
    plain = _to_plain(block.value)
    if type(_block(plain, where)) is not OtherBlock:
        raise Malformed("expected an unknown block type in OtherBlock", where=where)
    return plain


def _to_plain(value: Any) -> cbor.Plain:
    """Convert ``value`` to lists and maps of CBOR. Fields that can have any value may also contain blocks."""
    kind = type(value)
    if kind in _SCALARS:
        return value  # type: ignore[no-any-return]
    if isinstance(value, list | tuple):
        return [item if type(item) in _SCALARS else _to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: item if type(item) in _SCALARS else _to_plain(item) for key, item in value.items()}
    if kind is OtherBlock:
        return _to_plain(value.value)
    if kind in _BLOCK_CLASSES:
        return _block_to_plain(value, value.type)
    other: cbor.Plain = value  # a type that ``cbor`` rejects
    return other


# ---- from CBOR values to entries and blocks


def from_plain(name: str, at_ms: int, body: dict[str, Any]) -> Entry:
    """Return the entry of the kind ``name`` with the fields ``body``. Raises ``Malformed`` if a field is not valid."""
    kind = KINDS[name]
    known, extra = _known(kind, body, name)
    entry = kind(at_ms=at_ms, extra=extra, **known)
    if isinstance(entry, Message):
        _check_role(entry)
    return entry


def _block(value: Any, where: str) -> Block:
    type_ = value.get("type") if isinstance(value, dict) else None
    kind = BLOCKS.get(type_) if type(type_) is str else None
    if kind is None or not _names(kind) >= value.keys():
        return OtherBlock(value)
    return kind(**_known(kind, value, where)[0])  # type: ignore[no-any-return]


def _todo_item(value: Any, where: str) -> TodoItem:
    if type(value) is not dict:
        raise Malformed(f"expected a map, found {_name_of(value)}", where=where)
    known, extra = _known(TodoItem, value, where)
    item = TodoItem(**known, extra=extra)
    _check_status(item.status, where)
    return item


def _known(kind: type[Any], plain: dict[str, Any], where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the checked and converted fields of ``kind`` in ``plain``, and the unknown fields."""
    known: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    fields, needed = _by_name(kind)
    for name, item in plain.items():
        field = fields.get(name)
        if field is None:
            extra[name] = item
        elif type(item) in _SCALARS and type(item) in field.types:
            known[name] = item  # the usual case
        else:
            field.check(item, where)
            if field.blocks:
                known[name] = tuple(_block(part, f"{where}.{name}[{index}]") for index, part in enumerate(item))
            elif field.todos:
                known[name] = tuple(_todo_item(part, f"{where}.{name}[{index}]") for index, part in enumerate(item))
            else:
                known[name] = tuple(item) if field.part is str and type(item) is list else item
                if field.pairs:
                    known[name] = tuple(tuple(pair) for pair in item)
    for name in needed:
        if name not in known:
            raise Malformed("the field is missing", where=f"{where}.{name}")
    return known, extra


def _check_role(message: Message) -> None:
    if message.role not in ROLES:
        raise Malformed(
            f"unknown role {message.role[:40]!r} (expected one of {', '.join(ROLES)})", where="message.role"
        )


def _check_status(status: Any, where: str) -> None:
    if status not in TODO_STATUSES:
        what = f"unknown status {str(status)[:40]!r} (expected one of {', '.join(TODO_STATUSES)})"
        raise Malformed(what, where=f"{where}.status")


# ---- the allowed values of a field, from its annotation


class _Field(NamedTuple):
    """A field of an entry or block.

    ``types``: the types that the plain value may have; empty for any type. ``part``: the type of each item. ``blocks``:
    True if the items are blocks. ``pairs``: True if the items are pairs of strings. ``todos``: True if the items are
    those of a todo list.
    """

    name: str
    default: Any
    types: tuple[type, ...]
    part: type | None = None
    blocks: bool = False
    pairs: bool = False
    todos: bool = False

    def check(self, item: Any, where: str) -> None:
        if self.types and type(item) not in self.types:
            expected = " or ".join(_TYPE_NAMES[one] for one in self.types)
            raise Malformed(f"expected {expected}, found {_name_of(item)}", where=f"{where}.{self.name}")
        if self.part is not None and item is not None:
            for key, part in item.items() if type(item) is dict else enumerate(item):
                if type(part) is not self.part:
                    path = f"{where}.{self.name}" + (f"[{key}]" if type(key) is int else f".{key}")
                    raise Malformed(f"expected {_TYPE_NAMES[self.part]}, found {_name_of(part)}", where=path)
        for index, pair in enumerate(item if self.pairs else ()):
            if type(pair) is not list or [type(part) for part in pair] != [str, str]:
                raise Malformed("expected two strings", where=f"{where}.{self.name}[{index}]")

    def is_default(self, item: Any) -> bool:
        """Return whether a plain value equals the default of the field.

        The caller handles missing values and ``None``.
        """
        default = self.default
        return default is not None and default is not MISSING and item == (list(default) if default == () else default)


_NONE = type(None)
_SCALARS = frozenset({str, int, float, bool, bytes, _NONE})
_TYPE_NAMES = {
    str: "text",
    int: "an integer",
    float: "a float",
    bool: "true or false",
    bytes: "bytes",
    list: "a list",
    dict: "a map",
    _NONE: "null",
}
_ANNOTATIONS: Mapping[str, Mapping[str, Any]] = {
    "str": {"types": (str,)},
    "str | None": {"types": (str, _NONE)},
    "int": {"types": (int,)},
    "int | None": {"types": (int, _NONE)},
    "bool": {"types": (bool,)},
    "bytes": {"types": (bytes,)},
    "bytes | None": {"types": (bytes, _NONE)},
    "tuple[str, ...]": {"types": (list,), "part": str},
    "tuple[tuple[str, str], ...]": {"types": (list,), "pairs": True},
    "tuple[Block, ...]": {"types": (list,), "blocks": True},
    "tuple[TodoItem, ...]": {"types": (list,), "todos": True},
    "Mapping[str, str]": {"types": (dict,), "part": str},
    "Mapping[str, Any]": {"types": (dict,)},
    "Mapping[str, Any] | None": {"types": (dict, _NONE)},
    "Any": {"types": ()},
}

_FIELDS: dict[type[Any], tuple[_Field, ...]] = {}
_BY_NAME: dict[type[Any], tuple[dict[str, _Field], tuple[str, ...]]] = {}
_NAMES: dict[type[Any], frozenset[str]] = {}


def _fields(kind: type[Any]) -> tuple[_Field, ...]:
    """Return the fields of ``kind`` that are in the body of a payload.

    The default of a required field is ``MISSING``.
    """
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(
            _Field(field.name, _default(field), **_ANNOTATIONS[str(field.type)])
            for field in dataclasses.fields(kind)
            if field.name not in ("at_ms", "extra")
        )
    return _FIELDS[kind]


def _by_name(kind: type[Any]) -> tuple[dict[str, _Field], tuple[str, ...]]:
    """Return the fields of ``kind`` by name, and the names of the required ones."""
    found = _BY_NAME.get(kind)
    if found is None:
        fields = _fields(kind)
        needed = tuple(field.name for field in fields if field.default is MISSING)
        found = _BY_NAME[kind] = {field.name: field for field in fields}, needed
    return found


def _names(kind: type[Any]) -> frozenset[str]:
    """Return the keys that a block of ``kind`` can have."""
    if kind not in _NAMES:
        _NAMES[kind] = frozenset({"type", *(field.name for field in _fields(kind))})
    return _NAMES[kind]


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _name_of(value: Any) -> str:
    return _TYPE_NAMES.get(type(value), type(value).__name__)


# ---- the headlines of entries


def headline(entry: Entry) -> Headline:
    """Return the headline of ``entry``'s commit message. FROZEN under view 1 (see ``codec.message``)."""
    return _MAKERS.get(type(entry), _of_unknown)(entry)


def _of_message(entry: kinds.Message) -> Headline:
    text = entry.text
    fields: dict[str, Any] = {"kind": entry.kind, "role": entry.role, "label": entry.role, "at_ms": entry.at_ms}
    if entry.provider and entry.model:
        fields["model"] = f"{entry.provider}/{entry.model}"
    if entry.role == "tool":
        summary = ("error, " if entry.is_error else "") + line_count(text)
        return Headline(**fields | {"label": f"tool {entry.tool_name or ''}", "words": summary})
    if entry.role == "shell":
        return Headline(**fields, words=first_line(entry.command or ""))
    if entry.role in ("system", "developer"):
        return Headline(**fields, words=first_line(text))
    called = [block.name for block in entry.content if isinstance(block, ToolCall)]
    return Headline(**fields, words=first_line(text) or ", ".join(called), body=text, calls=len(called))


def _of_compaction(entry: kinds.Compaction) -> Headline:
    before = "" if entry.tokens_before is None else format_tokens(entry.tokens_before)
    after = "" if entry.tokens_after is None else f"{' -> ' if before else ''}{format_tokens(entry.tokens_after)}"
    summary = f"{before}{after} tokens" if before or after else ""
    return Headline(kind=entry.kind, label="compaction", words=summary, at_ms=entry.at_ms)  # see ``summary.md``


def _of_branch_summary(entry: kinds.BranchSummary) -> Headline:
    return Headline(kind=entry.kind, label="branch summary", words=first_line(entry.summary), at_ms=entry.at_ms)


def _of_custom_message(entry: kinds.CustomMessage) -> Headline:
    label, text = f"custom {entry.custom_type}", entry.text
    return Headline(kind=entry.kind, role="custom", label=label, words=first_line(text), body=text, at_ms=entry.at_ms)


def _of_tombstone(entry: kinds.Tombstone) -> Headline:
    summary = entry.was if entry.role == "session" else f"{entry.role} {entry.was}"
    return Headline(kind=entry.kind, role=entry.kind, label="purged", words=summary, at_ms=entry.at_ms)


def _of_unknown(entry: Entry) -> Headline:
    name = kinds.kind_of(entry)
    return Headline(kind=name, label=name, at_ms=entry.at_ms)


def _counts_of_files(entry: kinds.Instructions) -> str:
    """Return the numbers of files and skills, such as ``3 files, 1 skill``; "" if the entry records no set."""
    value = entry.files if isinstance(entry.files, Mapping) and "agent" in entry.files else {}
    counts = {name: len(part) for name in ("files", "skills") if isinstance(part := value.get(name), list | tuple)}
    return ", ".join(f"{count} {name if count != 1 else name[:-1]}" for name, count in counts.items() if count)


def _of_plain(label: str, words: Callable[[Any], str]) -> Callable[[Any], Headline]:
    def make(entry: Any) -> Headline:
        return Headline(kind=entry.kind, label=label, words=words(entry), at_ms=entry.at_ms)

    return make


_MAKERS: dict[type[Entry], Callable[[Any], Headline]] = {
    kinds.SessionHeader: _of_plain("session", lambda entry: entry.title or entry.cwd or entry.agent),
    kinds.Message: _of_message,
    kinds.ModelChange: _of_plain("model", lambda entry: f"{entry.provider}/{entry.model}"),
    kinds.ThinkingChange: _of_plain("thinking", lambda entry: entry.level),
    kinds.ModeChange: _of_plain("mode", lambda entry: entry.mode),
    kinds.ToolsChange: _of_plain("tools", lambda entry: ", ".join(entry.tools)),
    kinds.Instructions: _of_plain(
        "instructions", lambda entry: first_line(entry.task or entry.system_prompt or "") or _counts_of_files(entry)
    ),
    kinds.Injection: _of_plain("injection", lambda entry: ""),
    kinds.Compaction: _of_compaction,
    kinds.BranchSummary: _of_branch_summary,
    kinds.ContextEdit: _of_plain("context edit", lambda entry: entry.target),
    kinds.Prune: _of_plain("prune", lambda entry: f"{len(entry.targets)} tool results"),
    kinds.Reset: _of_plain("reset", lambda entry: ""),
    kinds.Label: _of_plain("label", lambda entry: entry.label or "removed"),
    kinds.Title: _of_plain("title", lambda entry: entry.title or "removed"),
    kinds.Custom: _of_plain("custom", lambda entry: entry.custom_type),
    kinds.CustomMessage: _of_custom_message,
    kinds.Usage: _of_plain("usage", lambda entry: entry.purpose),
    kinds.Permission: _of_plain("permission", lambda entry: f"{entry.decision} {entry.rule}"),
    kinds.Todo: _of_plain("todo", lambda entry: todo_summary(entry.items)),
    kinds.PlanChange: _of_plain("plan", lambda entry: first_line(entry.plan or "") or "removed"),
    kinds.Mark: _of_plain("mark", lambda entry: f"{entry.name} {'removed' if entry.value is None else entry.value}"),
    kinds.Checkpoint: _of_plain("checkpoint", lambda entry: entry.reason or entry.mode),
    kinds.Fork: _of_plain("fork", lambda entry: entry.title or entry.session),
    kinds.SourceFile: _of_plain("source file", lambda entry: f"{len(entry.superseded)} superseded"),
    kinds.Attachment: _of_plain("attachment", lambda entry: f"{entry.name}, {len(entry.data):,} bytes"),
    kinds.Project: _of_plain("project", lambda entry: entry.identity),
    kinds.Continuation: _of_plain("continuation", lambda entry: ""),  # as in releases without this kind
    kinds.Seal: _of_plain("seal", lambda entry: entry.branch),
    kinds.Tombstone: _of_tombstone,
}
