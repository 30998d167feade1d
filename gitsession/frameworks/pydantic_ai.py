"""Pydantic AI: a conversation store whose conversations are sessions, with their branches and forks.

A ``ModelMessage`` is one entry, or one entry for each part of a request, such as the results of several calls. The last
of them has the id of the conversation's entry, and, if the conversation ends there, the record. A record that changes
without a new message is a ``custom`` entry. So one append commits a write, and the record in force is the newest one on
the active branch: ``gitsession rewind`` and ``switch`` change the conversation that the program loads.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessagesTypeAdapter

from gitsession.errors import Corrupt, Malformed, MissingObject, NotFound
from gitsession.frameworks.keyed_sessions import locked, session_folder
from gitsession.frameworks.pydantic_messages import derive_item, messages_of
from gitsession.frameworks.stored_items import copied, difference, patched, reading, storable, to_json
from gitsession.model.entries import Custom, Entry, Message
from gitsession.sessions.graph import numbered_name
from gitsession.sessions.node import Node

if TYPE_CHECKING:
    from gitsession.api.session import Session
    from gitsession.api.store import Store

AGENT = "pydantic-ai"
_RECORD = f"{AGENT}:record"
_logger = logging.getLogger(__name__)
_UNREADABLE = (Corrupt, Malformed, MissingObject, NotFound)
"""Errors of a damaged session, in which an entry of another session is not searched."""
_RECORDS: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)


class _Place(NamedTuple):
    """A conversation's entry in a session: its last node, its messages, and what is stored beside the last one."""

    node: Node
    messages: tuple[Message, ...]
    beside: Mapping[str, Any]


class GitSessionConversationStore(ConversationStore):
    """A store of conversations in a gitsession store. The id of a conversation is the key of its session.

    A branch of a conversation is a branch of its session, and a fork is a fork. ``delete`` moves the session to the
    trash. Messages that other programs append to a session are not part of the conversation.

    The methods run in threads. Several processes can share the store.
    """

    def __init__(self, store: Store, *, cwd: str | None = None) -> None:
        """Wrap a store.

        Args:
            store: The open store. The caller closes it.
            cwd: The working directory of a new session. Defaults to that of the process.
        """
        self._store = store
        self._cwd = cwd
        self._mutex = threading.Lock()
        self._homes: dict[str, tuple[str, str]] = {}
        """The session and the object id of each entry that was read or written, so that it is found by its id."""

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation; ``None`` if there is none."""
        return await asyncio.to_thread(self._record, conversation_id)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """Return the records, or those of a scope, the newest first."""
        return await asyncio.to_thread(self._records, scope, limit)

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and new entries. Raises ``ConversationConflict`` if the record changed since it was read."""
        await asyncio.to_thread(self._write, record, tuple(new_entries), expected_revision)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Move the session of a conversation to the trash.

        Raises ``ConversationConflict`` if the record changed since it was read.
        """
        await asyncio.to_thread(self._delete, conversation_id, expected_revision)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry of any conversation. Raises ``LookupError`` if there is none."""
        [entry] = await self.read_history(entry_id, limit=1)
        return entry

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """Return the entries up to ``head_id``, or the last ``limit`` of them. Raises ``LookupError``."""
        return await asyncio.to_thread(self._history, head_id, limit)

    # ---- reading

    def _record(self, conversation_id: str) -> ConversationRecord | None:
        session = self._store.find_keyed(conversation_id, agent=AGENT)
        return None if session is None else self._record_of(session, conversation_id)

    def _record_of(self, session: Session, conversation_id: str) -> ConversationRecord | None:
        for node, entry in session.entries():
            value = entry.data if isinstance(entry, Custom) and entry.custom_type == _RECORD else None
            with reading(f"the record of conversation {conversation_id!r}"):
                value = json.loads(value) if isinstance(value, str) else _beside(entry).get("record")
                record = None if value is None else _RECORDS.validate_python(value)
            if record is not None:
                if "id" in _beside(entry):
                    self._homes[_beside(entry)["id"]] = session.id, node.oid
                return record if record.conversation_id == conversation_id else None
        return None

    def _records(self, scope: str | None, limit: int | None) -> list[ConversationRecord]:
        keys = [row.key for row in self._store.sessions() if row.agent == AGENT and row.key is not None]
        records = []
        for key in keys:
            try:
                records.append(self._record(key))
            except _UNREADABLE as error:  # it does not hide the others
                _logger.warning("%s", error)
        found = [record for record in records if record is not None and scope in (None, record.scope)]
        return sorted(found, key=lambda record: record.updated_at, reverse=True)[:limit]

    def _history(self, head_id: str | None, limit: int | None) -> list[ConversationEntry]:
        found: list[ConversationEntry] = []
        if head_id is None or limit == 0:
            return found
        session, start = self._find(head_id)
        wanted: str | None = head_id
        for place in _places(session.entries(start)):
            self._homes[place.beside["id"]] = session.id, place.node.oid
            if place.beside["id"] == wanted:
                found.append(_to_entry(place))
                wanted = found[-1].parent_id
                if wanted is None or len(found) == limit:
                    return found[::-1]
        raise LookupError(wanted)

    def _find(self, entry_id: str) -> tuple[Session, Node]:
        """Return the session and the node of a conversation's entry. Raises ``LookupError``."""
        known = self._homes.get(entry_id)
        if known is not None:
            with contextlib.suppress(NotFound):  # the session may be in the trash now
                session = self._store.session(known[0])
                return session, session.resolve(known[1])
        for row in self._store.sessions():
            if row.agent == AGENT:
                session = self._store.session(row.sid)
                for tip in session.branches().values():
                    with contextlib.suppress(*_UNREADABLE):
                        for place in _places(session.entries(tip)):
                            self._homes[place.beside["id"]] = session.id, place.node.oid
                            if place.beside["id"] == entry_id:
                                return session, place.node
        raise LookupError(entry_id)

    # ---- writing

    def _write(self, record: ConversationRecord, new: tuple[ConversationEntry, ...], expected: str | None) -> None:
        key, saved = record.conversation_id, to_json(_RECORDS.dump_python(record, mode="json"))
        groups = [_from_entry(entry) for entry in new]
        with locked(self._store, AGENT, self._mutex):
            session = self._store.find_keyed(key, agent=AGENT)
            stored = None if session is None else self._record_of(session, key)
            if (stored.revision if stored is not None else None) != expected:
                raise ConversationConflict(key)
            try:
                if record.head_id not in {None, *(entry.id for entry in new)}:
                    self._find(record.head_id)
                handle = self._open(session, stored, key, new[0].parent_id if new else record.head_id)
                at_head = bool(new) and new[-1].id == record.head_id
                self._append(handle, new, groups, {"record": saved} if at_head else {})
                if not at_head:
                    if new:
                        handle = self._open(handle, None, key, record.head_id)
                    handle.append(Custom(custom_type=_RECORD, data=json.dumps(saved)))
            except LookupError:
                raise ConversationConflict(key) from None
            if session is not None and handle.branch_name != session.branch_name:
                handle.switch(handle.branch_name)  # last: until then, the record in force is the old one

    def _append(
        self,
        handle: Session,
        new: tuple[ConversationEntry, ...],
        groups: list[tuple[list[Message], Any]],
        more: dict[str, Any],
    ) -> None:
        """Append entries together. ``more``: what is stored beside the last message."""
        messages: list[Message] = []
        ends: list[int] = []
        for entry, (parts, change) in zip(new, groups, strict=True):
            messages += [_with_beside(message, {"of": entry.id}) for message in parts[:-1]]
            beside = {"id": entry.id, "parent": entry.parent_id, "change": change}
            ends.append(len(messages))
            messages.append(_with_beside(parts[-1], beside | (more if entry is new[-1] else {})))
        nodes = handle.append_all(messages)
        self._homes |= {entry.id: (handle.id, nodes[end].oid) for entry, end in zip(new, ends, strict=True)}

    def _open(
        self, session: Session | None, record: ConversationRecord | None, key: str, entry_id: str | None
    ) -> Session:
        """Return a handle on a branch on which ``entry_id`` is the newest entry. A new branch is not active yet."""
        if session is None:
            if entry_id is None:
                return self._store.keyed_session(key, agent=AGENT, cwd=session_folder(self._cwd))
            other, node = self._find(entry_id)
            return other.fork(node, key=key)
        if record is None and entry_id is None:
            return session
        if record is not None and record.head_id == entry_id:
            return session
        node = session.resolve("root") if entry_id is None else self._find(entry_id)[1]
        branches = session.branches()
        for name, tip in branches.items():
            newest = next(_places(session.entries(tip)), None)
            if (newest.beside["id"] if newest is not None else None) == entry_id:
                return session.on(name)
        return session.branch(numbered_name("branch", branches), at=node)

    def _delete(self, conversation_id: str, expected: str) -> None:
        with locked(self._store, AGENT, self._mutex):
            session = self._store.find_keyed(conversation_id, agent=AGENT)
            stored = None if session is None else self._record_of(session, conversation_id)
            if session is None or stored is None or stored.revision != expected:
                raise ConversationConflict(conversation_id)
            self._store.trash.put(session.id)
            self._homes = {id: home for id, home in self._homes.items() if home[0] != session.id}


def _places(entries: Iterator[tuple[Node, Entry]]) -> Iterator[_Place]:
    """Yield the conversation's entries in a history, the newest first."""
    last: tuple[Node, Mapping[str, Any]] | None = None
    parts: list[Message] = []
    for node, entry in entries:
        beside = _beside(entry)
        if "id" in beside:
            if last is not None:
                yield _Place(last[0], tuple(parts[::-1]), last[1])
            last, parts = (node, beside), [entry]  # type: ignore[list-item]
        elif last is not None and beside.get("of") == last[1]["id"]:
            parts.append(entry)  # type: ignore[arg-type]
    if last is not None:
        yield _Place(last[0], tuple(parts[::-1]), last[1])


def _beside(entry: Entry) -> Mapping[str, Any]:
    kept = entry.extra.get(AGENT) if isinstance(entry, Message) else None
    if not isinstance(kept, str):
        return {}
    with reading("a message of Pydantic AI"):
        found = json.loads(kept)
        if not isinstance(found, dict) or not isinstance(found.get("id", ""), str):
            raise TypeError("the data beside it is damaged")
        return found


def _with_beside(message: Message, beside: Mapping[str, Any]) -> Message:
    return dataclasses.replace(message, extra={AGENT: json.dumps(beside)})


def _from_entry(entry: ConversationEntry) -> tuple[list[Message], Any]:
    """Return the messages of a conversation's entry, and the change from the derived item to the real one."""
    item = to_json(ModelMessagesTypeAdapter.dump_python([entry.message], mode="json")[0])
    messages = [storable(message) for message in messages_of(item)]
    return messages, difference(derive_item(messages), item)


def _to_entry(place: _Place) -> ConversationEntry:
    with reading(f"the entry {place.beside['id']!r} of a conversation"):
        change = place.beside["change"]
        item = copied(derive_item(place.messages))
        [message] = ModelMessagesTypeAdapter.validate_python([item if change is None else patched(item, change)])
        return ConversationEntry(id=place.beside["id"], parent_id=place.beside["parent"], message=message)
