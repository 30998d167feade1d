"""Changes to the content of items.

In pi and omp items, both the view and the payload are changed. The payload keeps all other fields, including fields
that are not in the view. Other agents' items lose their payload, and are then handled like gitsession items.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from gitsession.context.value import Item
from gitsession.formats import FORMATS
from gitsession.formats.pi import messages
from gitsession.formats.pi.messages import read_content
from gitsession.model.blocks import Block, Text
from gitsession.model.entries import CLEARED, CustomMessage, Message

EDITABLE = ("user", "assistant", "tool", "custom")
"""Roles of messages whose content a context edit can replace."""

_PI_AGENTS = ("pi", "omp")


def with_blocks(item: Item, blocks: Sequence[Block | None]) -> Item:
    """Return ``item`` with each block replaced by the one at its index in ``blocks``. ``None`` removes a block."""
    assert isinstance(item.entry, Message | CustomMessage)
    entry = dataclasses.replace(item.entry, content=tuple(block for block in blocks if block is not None))
    record, message = _parsed(item)
    if message is None:
        return Item(item.oid, entry)
    values = message.get("content")
    if isinstance(values, str):
        values = messages.content(item.content)
    if not isinstance(values, list) or len(values) != len(item.content):
        return Item(item.oid, entry)  # the text is in a field other than ``content``
    pairs = zip(values, item.content, blocks, strict=True)
    message["content"] = [_rewrite_block(raw, old, new) for raw, old, new in pairs if new is not None]
    return dataclasses.replace(item, entry=entry, payload=json.dumps(record).encode())


def cleared(item: Item) -> Item:
    """Return a tool result without its output; return other items unchanged."""
    if not isinstance(item.entry, Message) or item.entry.role != "tool":
        return item
    entry = dataclasses.replace(item.entry, content=(Text(CLEARED),), details=None)
    record, message = _parsed(item)
    if message is None:
        return Item(item.oid, entry)
    message["content"] = messages.content([Text(CLEARED)])
    message.pop("details", None)
    return dataclasses.replace(item, entry=entry, payload=json.dumps(record).encode())


def edited(item: Item, content: Any) -> Item:
    """Return ``item`` with its content replaced by ``content`` of a context edit, in pi's format (rule 11).

    An item that cannot be edited is returned unchanged.
    """
    entry = item.entry
    if not isinstance(entry, Message | CustomMessage):
        return item
    role = entry.role if isinstance(entry, Message) else "custom"
    if role not in EDITABLE or (isinstance(entry, Message) and "role" in entry.extra):
        return item
    if isinstance(content, str) and role in ("assistant", "tool"):
        content = [{"type": "text", "text": content}]
    record, message = _parsed(item)
    if message is None:
        return Item(item.oid, dataclasses.replace(entry, content=read_content(content) or ()))
    message["content"] = content
    payload = json.dumps(record).encode()
    return dataclasses.replace(item, entry=FORMATS[item.agent].read(payload), payload=payload)  # type: ignore[arg-type]


def _rewrite_block(raw: Any, old: Block, new: Block) -> Any:
    """Return ``raw``, the JSON of the block ``old``, changed to ``new``.

    Fields that are not in the view are kept, unless ``new`` is a different kind of block.
    """
    if old == new:
        return raw
    old_json, new_json = messages.content([old, new])
    if type(old) is not type(new) or not all(isinstance(each, dict) for each in (raw, old_json, new_json)):
        return new_json
    kept = {name: value for name, value in raw.items() if name not in old_json or name in new_json}
    return kept | {name: value for name, value in new_json.items() if name not in old_json or old_json[name] != value}


def _parsed(item: Item) -> tuple[Any, dict[str, Any] | None]:
    """Return the payload of a pi or omp item as JSON values, and the object in the payload that has ``content``.

    This object is the payload itself for an extension message, and ``None`` for other agents and unknown formats.
    """
    if item.agent not in _PI_AGENTS:
        return None, None
    record = json.loads(item.payload)
    message = record if isinstance(item.entry, CustomMessage) else record["message"]
    return record, message if isinstance(message, dict) else None
