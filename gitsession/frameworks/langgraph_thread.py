"""A thread of LangGraph as a session: the checkpoints and writes that its entries record.

A checkpoint is an entry below the entry of the checkpoint before it. It records what is new: the channels with a new
version, and the new items of a channel whose value is a list. A new message is an entry of its own, and the last new
message of a checkpoint carries the checkpoint, so that most steps of a graph are one commit.
"""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.types import INTERRUPT as INTERRUPT_CHANNEL

from gitsession.errors import LeafMoved
from gitsession.frameworks import langgraph_state_cache as state_cache
from gitsession.frameworks.langgraph_values import KEY, ValueCodec, state_of
from gitsession.git.types import Oid
from gitsession.model.blocks import Text
from gitsession.model.entries import Custom, CustomMessage, Entry, Message
from gitsession.sessions import graph
from gitsession.sessions.active_branch import active
from gitsession.sessions.content import entry_of
from gitsession.sessions.node import Node, load
from gitsession.sessions.session import StoredSession
from gitsession.store import refs
from gitsession.store.git_store import GitStore

CHECKPOINT, WRITES, INTERRUPT, DELETED = (f"{KEY}:{name}" for name in ("checkpoint", "writes", "interrupt", "deleted"))
"""The types of the ``custom`` entries."""

_STATES_MAX = 4
_UNCACHED_MAX = 64
"""The number of entries from which on a state is cached."""

_ENTRY = "@entry"

Held: TypeAlias = Any
"""The value of a channel: a tuple of serialized items, or plain data in a ``_Whole``."""


@dataclass(frozen=True, slots=True)
class _Whole:
    """The plain data of a channel's value that is not stored by items."""

    plain: Any


@dataclass(eq=False, slots=True)
class SavedCheckpoint:
    """A checkpoint in a session.

    Attributes:
        node: The entry that carries the checkpoint.
        base: The checkpoint before it in the history of the entry; the recorded changes refer to its channels.
        data: The checkpoint as ``LangGraphThread.put`` stored it.
        messages: The message entries of the checkpoint, the last one first, with ``node`` as number 0.
        changes: The changes of the channels with serialized items, from the time when they are first needed.
        id: The id of the checkpoint.
        greatest_id: The greatest id in the history of the checkpoint.
    """

    node: Node
    base: SavedCheckpoint | None
    data: Mapping[str, Any]
    messages: Sequence[Message]
    changes: dict[str, Any] | None = None
    id: str = field(init=False)
    greatest_id: str = field(init=False)

    def __post_init__(self) -> None:
        self.id = self.data["id"]
        self.greatest_id = self.id if self.base is None else max(self.id, self.base.greatest_id)

    @property
    def parent(self) -> str | None:
        """The id of the checkpoint of ``parent_config``."""
        return self.data.get("parent")


@dataclass(frozen=True, slots=True)
class StoredWrite:
    """A pending write: its channel, its value as plain data, and the path of its task."""

    channel: str
    plain: Any
    path: str


@dataclass(slots=True)
class _Position:
    """The state of the history at an entry: the checkpoint above it, and the message entries since then."""

    record: SavedCheckpoint | None = None
    messages: tuple[Message, ...] = ()
    at_ms: int = 0


class LangGraphThread:
    """The checkpoints of one session. Methods are called with ``lock`` held.

    The entries are read once. Later calls of ``refresh`` read only what any process has appended since. If the newest
    state is cached (``langgraph_state_cache``), only later entries are read, and the others when they are needed.
    """

    def __init__(self, objects: GitStore, stored: StoredSession, codec: ValueCodec) -> None:
        self.lock = threading.RLock()
        self.sid = stored.id
        self.records: dict[str, SavedCheckpoint] = {}
        self.writes: dict[str, dict[tuple[str, int], StoredWrite]] = {}
        self.deleted: set[str] = set()
        self._deleted_writes: dict[str, dict[tuple[str, int], StoredWrite]] = {}
        self._objects, self._stored, self._codec = objects, stored, codec
        self._positions: dict[Oid, _Position] = {}
        self._nodes: dict[Oid, Node] = {}
        self._tips: Mapping[str, Oid] = {}
        self._root: Node | None = None
        self._floor: Node | None = None
        """The entry of the cached state, if the entries before it were not read."""
        self._floor_state: dict[str, Held] = {}
        self._uncached: int | None = 0
        """The number of entries that were read after the cached state; ``None`` if it must not be cached."""
        self._states: OrderedDict[Oid, dict[str, Held]] = OrderedDict()
        self._copies: dict[str, ItemCopies] = {}

    # ---- reading

    def refresh(self) -> bool:
        """Read the entries that were appended since the last call. Return whether the session still exists."""
        tips = graph.branches(self._objects, self.sid)
        if tips != self._tips:
            if not self._positions and tips.keys() == {refs.MAIN}:
                self._begin_at(state_cache.read(self._objects, self.sid))
            new = self._unread(tips)
            if self._floor is not None and any(node.parent is None for node in new.values()):
                self._clear()  # a branch begins before the cached state, or the history was rewritten
                new = self._unread(tips)
            self._read(new.values())
            if self._uncached is not None:
                self._uncached += len(new)
            self._tips = tips
        return bool(tips)

    def _unread(self, tips: Mapping[str, Oid]) -> dict[Oid, Node]:
        """Return the entries of the branches that were not read yet, parents before children."""
        new: dict[Oid, Node] = {}
        for oid in tips.values():
            walked: list[Node] = []
            at: Oid | None = oid
            while at is not None and at not in self._positions and at not in new:
                walked.append(load(self._objects, at))
                at = walked[-1].parent
            new |= {node.oid: node for node in reversed(walked)}
        return new

    def _read(self, nodes: Iterable[Node]) -> None:
        for node, entry in self._in_order([(node, entry_of(self._objects, node)) for node in nodes]):
            self._add(node, entry)

    def _clear(self) -> None:
        self.records, self.writes, self.deleted, self._deleted_writes = {}, {}, set(), {}
        self._positions, self._nodes, self._floor = {}, {}, None

    # ---- the cached state

    def cache(self, record: SavedCheckpoint) -> None:
        """Cache the state of the newest checkpoint for other processes, if many entries were read to compute it."""
        if self._uncached is None or self._uncached < _UNCACHED_MAX or self._tips.keys() != {refs.MAIN}:
            return
        if self._active_record() is not record or record.id != record.greatest_id:
            return
        values = {
            name: {"plain": held.plain} if isinstance(held, _Whole) else [*held]
            for name, held in self._state(record).items()
        }
        writes = [
            [task, index, write.channel, write.plain, write.path]
            for (task, index), write in self.writes.get(record.id, {}).items()
        ]
        data = {**record.data, "channels": {}}
        at_ms = self._positions[record.node.oid].at_ms
        cached = state_cache.CachedState(record.node.oid, at_ms, record.greatest_id, data, values, writes)
        state_cache.write(self._objects, self.sid, cached)
        self._uncached = 0

    def _begin_at(self, cached: state_cache.CachedState | None) -> None:
        """Begin with the cached state instead of the entries before it, if it is in the history of the branch."""
        if cached is None or not self._objects.contains(cached.oid):
            return
        node = load(self._objects, cached.oid)
        record = SavedCheckpoint(node, None, cached.data, ())
        record.greatest_id = cached.greatest_id
        self.records[record.id] = record
        self.writes[record.id] = {
            (task, index): StoredWrite(channel, plain, path) for task, index, channel, plain, path in cached.writes
        }
        self._positions[node.oid], self._nodes[node.oid] = _Position(record, (), cached.at_ms), node
        self._floor = node
        self._floor_state = {
            name: _Whole(held["plain"]) if type(held) is dict else tuple(held) for name, held in cached.values.items()
        }

    def read_all(self) -> None:
        """Read the entries before the cached state. What is known of later entries is not changed."""
        floor, self._floor = self._floor, None
        if floor is None:
            return
        record = self._positions.pop(floor.oid).record
        records, writes, deleted, deleted_writes = self.records, self.writes, self.deleted, self._deleted_writes
        self.records, self.writes, self.deleted, self._deleted_writes = {}, {}, set(), {}
        self._read(self._unread({refs.MAIN: floor.oid}).values())
        assert record is not None
        earlier = self.records[record.id]
        record.base, record.data, record.messages = earlier.base, earlier.data, earlier.messages
        self._positions[floor.oid].record = record
        for id, hidden in deleted_writes.items():
            self._deleted_writes[id] = {**self.writes.pop(id, {}), **hidden}
        self.records |= records
        self.deleted = (self.deleted - records.keys()) | deleted
        for id, known in writes.items():
            self.writes[id] = {**self.writes.get(id, {}), **known}

    def _in_order(self, found: Sequence[tuple[Node, Entry]]) -> list[tuple[Node, Entry]]:
        """Return the entries in the order of their time, parents before children."""
        times: dict[Oid, int] = {}
        for node, entry in found:
            known = self._positions.get(node.parent or "")
            times[node.oid] = max(entry.at_ms, known.at_ms if known else times.get(node.parent or "", 0))
        return sorted(found, key=lambda one: times[one[0].oid])

    def _add(self, node: Node, entry: Entry) -> None:
        before = self._positions.get(node.parent or "", _Position())
        here = _Position(before.record, before.messages, max(entry.at_ms, before.at_ms))
        self._nodes[node.oid] = node
        if node.parent is None:
            self._root = node
        if isinstance(entry, Message):
            here.messages = (entry, *before.messages)
        data = _checkpoint_of(entry)
        if data is not None:
            record = SavedCheckpoint(node, before.record, data, here.messages)
            here.record, here.messages = record, ()
            self.records[record.id] = record
            self.deleted.discard(record.id)
        elif isinstance(entry, Custom | CustomMessage) and entry.custom_type in (WRITES, INTERRUPT):
            self._add_writes(entry.data if isinstance(entry, Custom) else entry.details)
        elif isinstance(entry, Custom) and entry.custom_type == DELETED:
            self.deleted.update(entry.data["checkpoints"])
            for id in entry.data["checkpoints"]:
                self._deleted_writes[id] = self.writes.pop(id, {})
        self._positions[node.oid] = here

    def _add_writes(self, data: Mapping[str, Any]) -> None:
        known = self.writes.setdefault(data["checkpoint"], {})
        for index, channel, plain in data["writes"]:
            known[(data["task"], index)] = StoredWrite(channel, plain, data.get("path", ""))

    def find(self, id: str) -> SavedCheckpoint | None:
        """Return the checkpoint with an id; ``None`` if there is none, or if it was deleted."""
        if id not in self.records:
            self.read_all()
        return None if id in self.deleted else self.records.get(id)

    def visible(self) -> list[SavedCheckpoint]:
        """Return the checkpoints that were not deleted, the newest first."""
        self.read_all()
        return [self.records[id] for id in sorted(self.records, reverse=True) if id not in self.deleted]

    def newest(self) -> SavedCheckpoint | None:
        """Return the newest checkpoint in the history of the active branch, or else in the session."""
        tip = self._active_record()
        if tip is not None and tip.id == tip.greatest_id and self.find(tip.id) is tip:
            return tip
        self.read_all()
        found: SavedCheckpoint | None = None
        for record in self._history(tip):
            if self.find(record.id) is record and (found is None or record.id > found.id):
                found = record
        return found or next(iter(self.visible()), None)

    def _active_record(self) -> SavedCheckpoint | None:
        tip = self._tips.get(active(self._objects, self.sid)) if len(self._tips) > 1 else self._tips.get(refs.MAIN)
        return self._positions[tip].record if tip else None

    @staticmethod
    def _history(record: SavedCheckpoint | None) -> Iterator[SavedCheckpoint]:
        while record is not None:
            yield record
            record = record.base

    def values(self, record: SavedCheckpoint) -> dict[str, Any]:
        """Return the values of the channels of a checkpoint, which the caller may change."""
        state = self._state(record)
        return {name: self._value(held) for name in record.data["values"] if (held := state.get(name)) is not None}

    def _value(self, held: Held) -> Any:
        return self._codec.decode(held.plain) if isinstance(held, _Whole) else self._codec.load_items(held)

    def delta_history(self, record: SavedCheckpoint, channels: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the writes to channels since their last stored value, and this value as ``seed``, if there is one.

        Deleted checkpoints before ``record`` are included, because the value of a checkpoint must not change when
        earlier ones are deleted.
        """
        found: dict[str, dict[str, Any]] = {name: {"writes": []} for name in channels}
        self.read_all()
        remaining, seen = set(channels), {record.id}
        at = self.records.get(record.parent or "")
        while at is not None and remaining and at.id not in seen:
            seen.add(at.id)
            for task, write in reversed(self.ordered_writes(at.id, self._deleted_writes.get(at.id, {}))):
                if write.channel in remaining:
                    found[write.channel]["writes"].insert(0, (task, write.channel, self._codec.decode(write.plain)))
            for name in remaining.intersection(at.data["values"]):
                held = self._state(at).get(name)
                if held is not None:
                    found[name]["seed"] = self._value(held)
                    remaining.discard(name)
            at = self.records.get(at.parent or "")
        return found

    def ordered_writes(
        self, id: str, otherwise: Mapping[tuple[str, int], StoredWrite] = MappingProxyType({})
    ) -> list[tuple[str, StoredWrite]]:
        """Return the pending writes of a checkpoint with the ids of their tasks, in the order of the tasks.

        ``otherwise``: the writes if the checkpoint has none.
        """
        found = self.writes.get(id) or otherwise
        return [(key[0], found[key]) for key in sorted(found, key=lambda key: (found[key].path, *key))]

    def _state(self, record: SavedCheckpoint) -> dict[str, Held]:
        """Return what is stored of the channels of a checkpoint. The result must not be changed."""
        cached = self._states.get(record.node.oid)
        if cached is not None:
            return self._remember(record, cached)
        chain: list[SavedCheckpoint] = []
        state: dict[str, Held] = {}
        for one in self._history(record):
            known = self._floor_state if one.node is self._floor else self._states.get(one.node.oid)
            if known is not None:
                state = {name: _thawed(held) for name, held in known.items()}
                break
            chain.append(one)
        for one in reversed(chain):
            for name, change in self._changes(one).items():
                state[name] = _applied(state.get(name), change)
        return self._remember(record, {name: _frozen(held) for name, held in state.items()})

    def _remember(self, record: SavedCheckpoint, state: dict[str, Held]) -> dict[str, Held]:
        self._states[record.node.oid] = state
        self._states.move_to_end(record.node.oid)
        while len(self._states) > _STATES_MAX:
            self._states.popitem(last=False)
        return state

    def _changes(self, record: SavedCheckpoint) -> dict[str, Any]:
        """Return the changes of the channels: a ``_Whole``, or ranges of kept items and lists of new ones."""
        if record.changes is None:
            record.changes = {
                name: _Whole(change["value"])
                if "value" in change
                else [part if type(part) is list else self._items(record, part["items"]) for part in change["list"]]
                for name, change in record.data["channels"].items()
            }
        return record.changes

    def _items(self, record: SavedCheckpoint, plain: Sequence[Any]) -> tuple[bytes, ...]:
        found = []
        for item in plain:
            if type(item) is dict and _ENTRY in item:
                value: Any = self._codec.rebuild(record.messages[item[_ENTRY]])
            else:
                value = self._codec.decode(item)
            found.append(self._codec.items([value]) or b"")
        return tuple(found)

    # ---- writing

    def put(
        self,
        checkpoint: Mapping[str, Any],
        metadata: Mapping[str, Any],
        parent_id: str | None,
        new_versions: Mapping[str, Any],
    ) -> None:
        """Append a checkpoint after its parent. If the parent has another successor, a branch begins there."""
        if parent_id is None or parent_id not in self.records:
            self.read_all()
        while True:
            parent = self.records.get(parent_id) if parent_id else None
            branch, after = self._place(parent, metadata)
            base = self._positions[after.oid].record
            draft = _Draft(self._codec, self._state(base) if base else {}, base, self._copies)
            entries, state = draft.entries(checkpoint, metadata, parent_id, new_versions)
            if self._append(entries, after, branch, self._becomes_active(branch, checkpoint["id"])):
                self._remember(self.records[checkpoint["id"]], state)
                return

    def put_writes(self, checkpoint_id: str, writes: Sequence[tuple[str, Any]], task_id: str, path: str) -> None:
        """Append the writes of a task that are not recorded yet. Writes to special channels replace earlier ones."""
        encoded = [
            (WRITES_IDX_MAP.get(channel, index), channel, self._codec.encode(value))
            for index, (channel, value) in enumerate(writes)
        ]
        if checkpoint_id not in self.records:
            self.read_all()
        while True:
            known = self.writes.get(checkpoint_id, {})
            new = [list(write) for write in encoded if write[0] < 0 or (task_id, write[0]) not in known]
            if not new:
                return
            data = {"checkpoint": checkpoint_id, "task": task_id, "writes": new} | ({"path": path} if path else {})
            entry: Entry = Custom(custom_type=WRITES, data=data)
            question = next((value for channel, value in writes if channel == INTERRUPT_CHANNEL), None)
            if question is not None:
                text = "; ".join(str(getattr(one, "value", one)) for one in _listed(question))
                entry = CustomMessage(custom_type=INTERRUPT, content=(Text(text),), details=data)
            branch, after = self._place_of_writes(self.records.get(checkpoint_id))
            if self._append([entry], after, branch, activate=False):
                return

    def delete(self, ids: Sequence[str]) -> None:
        """Hide checkpoints and their writes. The entries stay."""
        while ids:
            branch, after = self._place_of_writes(None)
            if self._append([Custom(custom_type=DELETED, data={"checkpoints": list(ids)})], after, branch, False):
                return

    def append_copies(self, source: LangGraphThread) -> None:
        """Append the entries of another thread, with its branches."""
        self.read_all()
        source.read_all()
        assert self._root is not None and source._root is not None
        copies = {source._root.oid: self._root}
        chosen = active(source._objects, source.sid)
        for name in sorted(source._tips, key=lambda name: (name == chosen, name != refs.MAIN)):
            walked: list[Node] = []
            at = source._nodes[source._tips[name]]
            while at.oid not in copies:
                walked.append(at)
                at = source._nodes[at.parent or ""]
            walked.reverse()
            branch = name if self._tips.get(name) in (None, copies[at.oid].oid) else self._free(name)
            entries = [entry_of(source._objects, node) for node in walked]
            if entries:
                nodes = self._stored.append_after(entries, after=copies[at.oid], branch=branch, activate=name == chosen)
                copies |= {node.oid: copy for node, copy in zip(walked, nodes, strict=True)}
            self.refresh()

    def _append(self, entries: Sequence[Entry], after: Node, branch: str, activate: bool) -> bool:
        """Append entries. If another process was first, read its entries and return False."""
        now = self._stored.clock()
        self._uncached = None  # from now on, the state contains originals of redacted parts
        entries = [replace(entry, at_ms=now) for entry in entries]
        try:
            nodes = self._stored.append_after(entries, after=after, branch=branch, activate=activate)
        except LeafMoved:
            self.refresh()
            return False
        for node, entry in zip(nodes, entries, strict=True):
            self._add(node, entry)
        self._tips = {**self._tips, branch: nodes[-1].oid}
        return True

    def _becomes_active(self, branch: str, id: str) -> bool:
        if self._tips.keys() <= {branch}:
            return False  # the only branch
        newest = self.newest()
        return newest is None or id >= newest.id

    def _place(self, parent: SavedCheckpoint | None, metadata: Mapping[str, Any]) -> tuple[str, Node]:
        """Return the branch on which the successor of ``parent`` is appended, and the entry before it."""
        for name in self._branches():
            if self._positions[self._tips[name]].record is parent:
                return name, self._nodes[self._tips[name]]
        source, step = metadata.get("source"), metadata.get("step")
        known = source if source in ("input", "loop", "update", "fork") else "branch"
        suffix = f"-{step}" if type(step) is int and step >= 0 else ""
        return self._free(f"{known}{suffix}"), parent.node if parent else self._root  # type: ignore[return-value]

    def _place_of_writes(self, record: SavedCheckpoint | None) -> tuple[str, Node]:
        """Return a branch of which ``record`` is the newest checkpoint, or else the active branch, and its tip."""
        names = self._branches()
        chosen = next((name for name in names if self._positions[self._tips[name]].record is record), names[0])
        return chosen, self._nodes[self._tips[chosen]]

    def _branches(self) -> list[str]:
        """Return the names of the branches, the active one first."""
        chosen = active(self._objects, self.sid) if len(self._tips) > 1 else refs.MAIN
        return sorted(self._tips, key=lambda name: name != chosen)

    def _free(self, name: str) -> str:
        names = (name if number == 1 else f"{name}-{number}" for number in range(1, len(self._tips) + 2))
        return next(one for one in names if one not in self._tips)


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _checkpoint_of(entry: Entry) -> Mapping[str, Any] | None:
    """Return the checkpoint that an entry carries."""
    if isinstance(entry, Custom) and entry.custom_type == CHECKPOINT:
        return entry.data
    kept = entry.extra.get(KEY) if isinstance(entry, Message) else None
    return kept.get("checkpoint") if isinstance(kept, Mapping) else None


def _thawed(held: Held) -> Held:
    return list(held) if type(held) is tuple else held


def _frozen(held: Held) -> Held:
    return tuple(held) if type(held) is list else held


def _applied(held: Held, change: Any) -> Held:
    """Return what a change makes of a channel. A list is extended in place if all of its items are kept."""
    if isinstance(change, _Whole):
        return change
    old: list[bytes] = held if type(held) is list else []
    if change and change[0] == [0, len(old)]:
        new, change = old, change[1:]
    else:
        new, old = [], list(old)
    for part in change:
        new.extend(old[part[0] : part[1]] if type(part) is list else part)
    return new


@dataclass(slots=True)
class ItemCopies:
    """Copies of the items of a list, by which a change in place is found without serializing the list again.

    Attributes:
        held: The serialized items.
        items: The items, each with a copy of its state; empty if an item has no state that can be compared.
    """

    held: tuple[bytes, ...]
    items: list[tuple[Any, Any]]

    @classmethod
    def of(cls, held: tuple[bytes, ...], value: list[Any], before: ItemCopies | None) -> ItemCopies:
        """Return copies of a list, which begins with the items of ``before``."""
        items = before.items if before is not None and before.items else []
        for item in value[len(items) :]:
            state = state_of(item)
            if state is None:
                return cls(held, [])
            items.append((item, copy.deepcopy(state)))
        return cls(held, items)

    def begin(self, value: list[Any]) -> bool:
        """Return whether a list begins with these items, unchanged."""
        if not self.items or len(value) < len(self.items):
            return False
        return all(item is known and state_of(item) == state for item, (known, state) in zip(value, self.items))  # noqa: B905


@dataclass(slots=True)
class _Draft:
    """The entries of a new checkpoint.

    Attributes:
        codec: The conversion of values.
        before: The channels of the checkpoint before it.
        base: That checkpoint.
        copies: Copies of the items of the lists that were stored last, by channel.
        messages: The new message entries by their serialized form, in order.
    """

    codec: ValueCodec
    before: Mapping[str, Held]
    base: SavedCheckpoint | None
    copies: dict[str, ItemCopies]
    messages: dict[bytes, Message] = field(default_factory=dict)

    def entries(
        self,
        checkpoint: Mapping[str, Any],
        metadata: Mapping[str, Any],
        parent_id: str | None,
        new_versions: Mapping[str, Any],
    ) -> tuple[list[Entry], dict[str, Held]]:
        """Return the entries of a checkpoint, and its channels."""
        values = checkpoint["channel_values"]
        versions = checkpoint["channel_versions"]
        old = self.codec.decode(self.base.data["checkpoint"])["channel_versions"] if self.base else {}
        state, changes = dict(self.before), dict[str, Any]()
        for name, value in values.items():
            is_known = name in self.before and name in self.base.data["values"]  # type: ignore[union-attr]
            if is_known and name not in new_versions and name in versions and old.get(name) == versions[name]:
                continue
            changes[name], state[name] = self._change(name, value)
        rest = {name: value for name, value in checkpoint.items() if name not in ("channel_values", "id")}
        data: dict[str, Any] = {
            "id": checkpoint["id"],
            "checkpoint": self.codec.encode(rest),
            "metadata": self.codec.encode(dict(metadata)),
            "values": list(values),
            "channels": self._numbered(changes),
        }
        if parent_id:
            data["parent"] = parent_id
        if not self.messages:
            return [Custom(custom_type=CHECKPOINT, data=data)], state
        *earlier, last = self.messages.values()
        carrying = replace(last, extra={KEY: {**last.extra[KEY], "checkpoint": data}})
        return [*earlier, carrying], state

    def _change(self, name: str, value: Any) -> tuple[Any, Held]:
        """Return the change of a channel to ``value``, and what is then stored of it."""
        held = self.before.get(name)
        old: tuple[bytes, ...] = held if type(held) is tuple else ()
        copies = self.copies.pop(name, None)
        found = None
        if type(value) is list:
            is_extended = bool(old) and copies is not None and copies.held is old and copies.begin(value)
            found = self._added(value, len(old)) if is_extended else self._compared(value, old)
        if found is None:
            plain = self.codec.encode(value)
            return {"value": plain}, _Whole(plain)
        kept, added = found
        if kept:
            parts: list[Any] = [[0, kept], *([(kept, added)] if added else [])]
        else:
            parts = _parts(old, added)
        items = (*old[:kept], *added)
        self.copies[name] = ItemCopies.of(items, value, copies if kept else None)
        return {"list": [self._stored(part, value) for part in parts]}, items

    def _added(self, value: list[Any], kept: int) -> tuple[int, list[bytes]] | None:
        """Return ``kept``, and the serialized items after it; ``None`` if an item cannot be serialized alone."""
        added = [self.codec.items([item]) for item in value[kept:]]
        return None if None in added else (kept, added)  # type: ignore[return-value]

    def _compared(self, value: list[Any], old: tuple[bytes, ...]) -> tuple[int, list[bytes]] | None:
        """Return the number of items of ``old`` with which a list begins, and its other items; 0 if not with all."""
        whole, start = self.codec.items(value), b"".join(old)
        if whole is None:
            return None
        kept = len(old) if len(value) >= len(old) and whole.startswith(start) else 0
        found = self._added(value, kept)
        return found if found and b"".join(found[1]) == whole[len(start) if kept else 0 :] else None

    def _stored(self, part: list[int] | tuple[int, list[bytes]], value: Sequence[Any]) -> Any:
        """Return a part of a change as it is stored: a range of kept items, or new items."""
        if type(part) is list:
            return part
        start, items = part
        return {"items": [self._item(value[start + index], data) for index, data in enumerate(items)]}  # type: ignore

    def _item(self, value: Any, data: bytes) -> Any:
        entry = self.messages.get(data) or self.codec.message(value, data)
        if entry is None:
            return self.codec.encode(value)
        self.messages.setdefault(data, entry)
        return {_ENTRY: data}

    def _numbered(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the changes with the number of each message entry, counted from the last one back."""
        numbers = {data: number for number, data in enumerate(reversed(self.messages))}
        for change in changes.values():
            for part in change.get("list", ()):
                if type(part) is dict:
                    part["items"] = [
                        {_ENTRY: numbers[item[_ENTRY]]} if type(item) is dict and _ENTRY in item else item
                        for item in part["items"]
                    ]
        return dict(changes)


def _parts(old: Sequence[bytes], new: Sequence[bytes]) -> list[Any]:
    """Return ``new`` as ranges of the items of ``old``, and new items with their positions."""
    places = {item: index for index, item in reversed([*enumerate(old)])}
    parts: list[Any] = []
    at = 0
    for index, item in enumerate(new):
        found = at if at < len(old) and old[at] == item else places.get(item)
        if found is not None:
            at = found + 1
            if parts and type(parts[-1]) is list and parts[-1][1] == found:
                parts[-1][1] = at
            else:
                parts.append([found, at])
        elif parts and type(parts[-1]) is tuple:
            parts[-1][1].append(item)
        else:
            parts.append((index, [item]))
    return parts
