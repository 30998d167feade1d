"""A namespace of LangGraph's long-term memory as a session: the items that its entries record."""

from __future__ import annotations

import json
import logging
from array import array
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from langgraph.store.base import Item, PutOp, get_text_at_path

from gitsession.api.session import Session
from gitsession.dataclass import dataclass
from gitsession.frameworks.langgraph_values import ValueCodec
from gitsession.model.blocks import Text
from gitsession.model.entries import Custom, CustomMessage, Entry
from gitsession.sessions.active_branch import active
from gitsession.sessions.graph import branches
from gitsession.store.git_store import GitStore

AGENT = "langgraph-memory"
PUT, DELETED, RENEWED = (f"{AGENT}:{name}" for name in ("put", "deleted", "renewed"))
"""The types of the entries."""

_DAMAGE = (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)
"""The errors that stored data causes if it is not what this adapter has written."""

_logger = logging.getLogger(__name__)

_MINUTE_MS = 60_000
_UNRECORDED_PART = 100
"""A renewal of the time to live is recorded if more than this part of it has passed since the last one."""

Namespace: TypeAlias = tuple[str, ...]
Fields: TypeAlias = Sequence[str] | Literal[False] | None
"""The fields of a value that are searched: paths, none, or those of the store."""


@dataclass(slots=True)
class MemoryItem:
    """An item of a namespace.

    Attributes:
        item: The item, with its value. It must not be changed.
        fields: The fields that are searched.
        vectors: The vectors of the fields, by path.
        ttl_ms: The time to live since the last renewal; ``None`` if the item does not expire.
        renewed_ms: The time of the last renewal, Unix time in ms.
    """

    item: Item
    fields: Fields
    vectors: Mapping[str, Sequence[float]]
    ttl_ms: int | None
    renewed_ms: int

    def is_expired(self, now_ms: int) -> bool:
        """Return whether the time to live has passed."""
        return self.ttl_ms is not None and now_ms >= self.renewed_ms + self.ttl_ms

    def needs_renewal(self, now_ms: int) -> bool:
        """Return whether a read at this time is recorded."""
        return self.ttl_ms is not None and now_ms - self.renewed_ms > self.ttl_ms // _UNRECORDED_PART


class MemoryNamespace:
    """The items of the active branch of one session. They are read once; ``refresh`` reads only later entries.

    ``tip``: the object id of the newest entry that was read.
    """

    def __init__(self, objects: GitStore, session: Session, namespace: Namespace, codec: ValueCodec) -> None:
        self.session = session
        self._objects, self._namespace, self._codec = objects, namespace, codec
        self.tip = ""
        self._items: dict[str, MemoryItem] = {}

    def refresh(self) -> bool:
        """Read the entries that any process has appended. Return whether the session still exists."""
        tips = branches(self._objects, self.session.id)
        if not tips:
            return False
        branch = active(self._objects, self.session.id)
        if tips.get(branch) != self.tip:
            new: list[Entry] = []
            tip = ""
            for node, entry in self.session.on(branch).entries():
                if node.oid == self.tip:
                    break
                tip = tip or node.oid
                new.append(entry)
            else:
                self._items.clear()
            for entry in reversed(new):
                self._try_to_add(entry)
            self.tip = tip or self.tip
        return True

    def live(self, now_ms: int) -> dict[str, MemoryItem]:
        """Return the items that have not expired, in the order of their first ``put``."""
        return {key: item for key, item in self._items.items() if not item.is_expired(now_ms)}

    def find(self, key: str, now_ms: int) -> MemoryItem | None:
        """Return an item; ``None`` if there is none, or if it has expired."""
        found = self._items.get(key)
        return None if found is None or found.is_expired(now_ms) else found

    def _try_to_add(self, entry: Entry) -> None:
        """Add an entry. One that this adapter cannot have written is left out, so that it does not hide the others."""
        try:
            self._add(entry)
        except _DAMAGE as error:
            if not self._codec.is_readable:  # for example, the key is not the one with which the value was encrypted
                raise
            _logger.warning("cannot read an entry of session %s: %s", self.session.id, error)

    def _add(self, entry: Entry) -> None:
        if isinstance(entry, CustomMessage | Custom) and entry.custom_type == PUT:
            self._put(entry.details if isinstance(entry, CustomMessage) else entry.data, entry.at_ms)
        elif isinstance(entry, Custom) and entry.custom_type == DELETED:
            self._items.pop(_text(entry.data), None)
        elif isinstance(entry, Custom) and entry.custom_type == RENEWED:
            for key in entry.data:
                item = self.find(_text(key), entry.at_ms)
                if item is not None:
                    item.renewed_ms = entry.at_ms

    def _put(self, data: Mapping[str, Any], at_ms: int) -> None:
        key, now = _text(data["item"]), datetime.fromtimestamp(at_ms / 1000, UTC)
        value, fields, ttl_ms = self._codec.decode(data["value"]), data.get("fields"), data.get("ttl_ms")
        if not isinstance(value, dict) or not isinstance(ttl_ms, int | None):
            raise TypeError("not an item")
        old = self.find(key, at_ms)
        new = MemoryItem(
            item=Item(
                value=value,
                key=key,
                namespace=self._namespace,
                created_at=now if old is None else old.item.created_at,
                updated_at=now,
            ),
            fields=fields and [*map(_text, fields)],
            vectors={path: array("f", vector) for path, vector in data.get("vectors", {}).items()},
            ttl_ms=ttl_ms,
            renewed_ms=at_ms,
        )
        if old is None:
            self._items.pop(key, None)  # an expired item: the new one is not at its position
        self._items[key] = new


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {type(value).__name__}")
    return value


# ---- entries


def put_entry(op: PutOp, codec: ValueCodec, vectors: Mapping[str, Sequence[float]]) -> Entry:
    """Return the entry that stores an item. If the serializer encrypts, it has no readable text."""
    value = dict(op.value or {})
    data: dict[str, Any] = {"item": op.key, "value": codec.encode(value)}
    if op.index is not None:
        data["fields"] = op.index and list(op.index)
    if op.ttl is not None:
        data["ttl_ms"] = int(op.ttl * _MINUTE_MS)
    if vectors:
        data["vectors"] = {path: array("f", vector).tobytes() for path, vector in vectors.items()}
    if not codec.is_readable:
        return Custom(custom_type=PUT, data=data)
    return CustomMessage(custom_type=PUT, content=(Text(f"{op.key}: {_shown(value)}"),), details=data)


def texts_of(value: Mapping[str, Any], fields: Sequence[str]) -> dict[str, str]:
    """Return the searched texts of a value by path, as ``InMemoryStore`` names them."""
    found: dict[str, str] = {}
    for path in fields:
        try:
            texts = get_text_at_path(value, path)
        except TypeError:  # no JSON
            texts = [_shown(value)]
        found |= {path if len(texts) == 1 else f"{path}.{number}": text for number, text in enumerate(texts)}
    return found


def _shown(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)
