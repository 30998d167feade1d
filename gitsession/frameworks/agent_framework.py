"""Microsoft Agent Framework: the history of a chat, and the checkpoints of workflows.

``GitSessionHistoryProvider`` keeps the messages of agents, and ``GitSessionCheckpointStorage`` the checkpoints of
workflows. See docs/how-to/keep-agent-framework-sessions.md.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from agent_framework import HistoryProvider
from agent_framework import Message as FrameworkMessage

from gitsession.errors import Malformed
from gitsession.frameworks.agent_framework_checkpoints import GitSessionCheckpointStorage
from gitsession.frameworks.agent_framework_messages import derive_item, messages_of, usage_of
from gitsession.frameworks.keyed_sessions import find_session, open_session, since_reset
from gitsession.frameworks.stored_items import difference, patched, storable, to_json
from gitsession.frameworks.worker_thread import run_to_completion
from gitsession.model.entries import Entry, Message

try:
    from agent_framework._sessions import filter_new_messages
except ImportError:  # in older releases, the framework's own providers store all messages

    def filter_new_messages(existing: Any, incoming: Any) -> Any:
        """Return all messages."""
        return incoming


if TYPE_CHECKING:
    from agent_framework import SessionContext

    from gitsession.api.session import Session
    from gitsession.api.store import Store

__all__ = ["GitSessionCheckpointStorage", "GitSessionHistoryProvider"]

AGENT = "agent-framework"
_PART = f"{AGENT}:part"
_DEFAULT = "default"

_response: ContextVar[Any] = ContextVar("gitsession_agent_framework_response", default=None)


class GitSessionHistoryProvider(HistoryProvider):
    """The history of an agent's sessions, each in a session of a store: ``Agent(context_providers=[provider])``.

    The id of an ``AgentSession`` is the key of the gitsession session. It may also be the id of a gitsession session of
    this framework, such as that of a fork. The history is that of the active branch. Several threads and processes can
    use the same session. Methods run in threads. Messages are durable when ``save_messages`` returns.
    """

    DEFAULT_SOURCE_ID = "gitsession"

    def __init__(
        self,
        store: Store,
        *,
        source_id: str | None = None,
        cwd: str | None = None,
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
        skip_excluded: bool = False,
    ) -> None:
        """Wrap an open store. The other arguments are those of the framework's ``InMemoryHistoryProvider``.

        Args:
            store: The store. The program closes it.
            source_id: The id of this provider among those of an agent.
            cwd: The working directory of new sessions, in which the tools work. Defaults to that of the process.
            load_messages: Whether the agent receives the stored messages.
            store_inputs: Whether to store the messages to the agent.
            store_context_messages: Whether to store the messages that other providers add.
            store_context_from: The ids of the providers whose messages are stored. By default, those of all.
            store_outputs: Whether to store the messages of the agent.
            skip_excluded: Whether to leave out messages that the framework's compaction marked as excluded.
        """
        super().__init__(
            source_id=source_id or self.DEFAULT_SOURCE_ID,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        self.skip_excluded = skip_excluded
        self._store = store
        self._cwd = cwd

    def stored(self, session_id: str | None) -> Session:
        """Return the gitsession session of an ``AgentSession``, on its active branch. It is created if necessary."""
        return open_session(self._store, session_id or _DEFAULT, agent=AGENT, cwd=self._cwd)

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[FrameworkMessage]:
        """Return the messages of the active branch, the oldest first."""
        found = await asyncio.to_thread(self._load, session_id)
        return [each for each in found if not (self.skip_excluded and each.additional_properties.get("_excluded"))]

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[FrameworkMessage],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Append messages to the active branch: all of them, or none if an error occurs.

        Like the framework's own providers, this leaves out messages that repeat the stored ones.

        Raises:
            Malformed: JSON cannot represent a message, or a message is too large.
        """
        if messages:
            kept, response = list(messages), _response.get()
            await run_to_completion(lambda: self._save(session_id, kept, response))

    async def after_run(self, *, context: SessionContext, **arguments: Any) -> None:
        """Store the messages of a run, and the model and the token counts beside the last message of the answer."""
        token = _response.set(context.response)
        try:
            await super().after_run(context=context, **arguments)
        finally:
            _response.reset(token)

    # ---- implementation, which runs in threads

    def _load(self, session_id: str | None) -> list[FrameworkMessage]:
        found = find_session(self._store, session_id or _DEFAULT, agent=AGENT)
        return [] if found is None else _messages(found)

    def _save(self, session_id: str | None, messages: list[FrameworkMessage], response: Any) -> None:
        entries: list[Entry] = []
        last = response.messages[-1] if response is not None and response.messages else None
        for message in filter_new_messages(self._load(session_id), messages):
            parts = _entries_of(message)
            if message is last:
                usage, model = usage_of(response.usage_details), getattr(response.raw_representation, "model", None)
                model = model if isinstance(model, str) else None
                parts[-1] = storable(dataclasses.replace(parts[-1], usage=usage or parts[-1].usage, model=model))
            entries += parts
        if entries:
            self.stored(session_id).append_all(entries, to_active=True)


def _entries_of(message: FrameworkMessage) -> list[Message]:
    """Return the entries of a message. What they do not determine is stored beside the last one."""
    item = to_json(message.to_dict())
    parts = [storable(part) for part in messages_of(item)]
    change, count = difference(derive_item(parts), item), len(parts)
    beside: list[dict[str, Any]] = [{_PART: [at, count]} if count > 1 else {} for at in range(count)]
    beside[-1] |= {} if change is None else {AGENT: json.dumps(change)}
    return [dataclasses.replace(part, extra=extra) for part, extra in zip(parts, beside, strict=True)]


def _messages(session: Session) -> list[FrameworkMessage]:
    """Return the messages since the last reset, the oldest first."""
    found = [entry for entry in since_reset(session.contents()) if isinstance(entry, Message)][::-1]
    messages, at = [], 0
    while at < len(found):
        count = _count(found, at)
        messages.append(_to_framework(found[at : at + count]))
        at += count
    return messages


def _count(entries: Sequence[Message], at: int) -> int:
    """Return the number of entries of the message that begins at ``at``; 1 if some of its entries are missing."""
    for number in range(len(entries) - at):
        place = entries[at + number].extra.get(_PART)
        if not isinstance(place, list | tuple) or len(place) != 2 or place[0] != number or type(place[1]) is not int:
            break
        if number + 1 == place[1]:
            return place[1]
    return 1


def _to_framework(entries: Sequence[Message]) -> FrameworkMessage:
    kept = entries[-1].extra.get(AGENT)
    is_whole = len(entries) > 1 or _PART not in entries[0].extra
    try:
        item = derive_item(entries)
        item = patched(item, json.loads(kept)) if is_whole and isinstance(kept, str) else item
        return FrameworkMessage.from_dict(item)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as error:
        problem = f"cannot read a message of the Agent Framework: {error}"
        raise Malformed(
            problem, hint="its version of agent-framework-core may be newer than the installed one"
        ) from error
