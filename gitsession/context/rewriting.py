"""An item with other content than it came with: what its agent wrote changes with what we say of it, and nothing else.

A message of which a block is gone still has all fields that pi or omp gave it, those included that no view of ours
knows. Of other agents the form is given up: such an item is as one of our own.
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
"""The roles whose words a context edit can replace."""

_LIKE_PI = ("pi", "omp")


def with_blocks(item: Item, blocks: Sequence[Block | None]) -> Item:
    """``item`` with each of its blocks as it is in ``blocks``, of as many, or without it where that is ``None``."""
    assert isinstance(item.entry, Message | CustomMessage)
    entry = dataclasses.replace(item.entry, content=tuple(block for block in blocks if block is not None))
    written = _written(item)
    if written is None:
        return Item(item.oid, entry)
    message = _message(written, item)
    stated = message.get("content")
    if isinstance(stated, str):
        stated = messages.content(item.content)
    if not isinstance(stated, list) or len(stated) != len(item.content):
        return Item(item.oid, entry)  # it says its words in another field
    pairs = zip(stated, item.content, blocks, strict=True)
    message["content"] = [_rewritten(raw, old, new) for raw, old, new in pairs if new is not None]
    return dataclasses.replace(item, entry=entry, payload=_payload(written))


def cleared(item: Item) -> Item:
    """A tool result without what the tool gave back; anything else as it is."""
    if not isinstance(item.entry, Message) or item.entry.role != "tool":
        return item
    entry = dataclasses.replace(item.entry, content=(Text(CLEARED),), details=None)
    written = _written(item)
    if written is None:
        return Item(item.oid, entry)
    message = _message(written, item)
    message["content"] = messages.content([Text(CLEARED)])
    message.pop("details", None)
    return dataclasses.replace(item, entry=entry, payload=_payload(written))


def edited(item: Item, content: Any) -> Item:
    """``item`` with a ``content`` in pi's own form, as a context edit states it (rule 11); some it does not touch."""
    entry = item.entry
    if not isinstance(entry, Message | CustomMessage):
        return item
    role = entry.role if isinstance(entry, Message) else "custom"
    if role not in EDITABLE or (isinstance(entry, Message) and "role" in entry.extra):
        return item
    if isinstance(content, str) and role in ("assistant", "tool"):
        content = [{"type": "text", "text": content}]
    written = _written(item)
    if written is None:
        return Item(item.oid, dataclasses.replace(entry, content=read_content(content) or ()))
    _message(written, item)["content"] = content
    payload = _payload(written)
    return dataclasses.replace(item, entry=FORMATS[item.agent].read(payload), payload=payload)  # type: ignore[arg-type]


def _rewritten(stated: Any, old: Block, new: Block) -> Any:
    """``stated``, which says ``old``, made to say ``new``: its other fields stay, unless its kind changes."""
    if old == new:
        return stated
    was, now = messages.content([old, new])
    if type(old) is not type(new) or not all(isinstance(each, dict) for each in (stated, was, now)):
        return now
    left = {name: value for name, value in stated.items() if name not in was or name in now}
    return left | {name: value for name, value in now.items() if name not in was or was[name] != value}


def _written(item: Item) -> dict[str, Any] | None:
    """What pi or omp wrote; ``None`` for what they did not, or not in this way."""
    if item.agent not in _LIKE_PI:
        return None
    written = json.loads(item.payload)
    return written if isinstance(_message(written, item), dict) else None


def _message(written: dict[str, Any], item: Item) -> dict[str, Any]:
    """Where ``content`` stands: an extension's words have no message around them."""
    found: dict[str, Any] = written if isinstance(item.entry, CustomMessage) else written["message"]
    return found


def _payload(written: dict[str, Any]) -> bytes:
    return json.dumps(written).encode()
