"""Sessions of the OpenAI Agents SDK (``openai-agents``) in a gitsession store.

``GitSession`` implements the SDK's protocol ``Session``. See docs/how-to/keep-openai-agents-sessions.md.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from agents.memory.session_settings import SessionSettings, coerce_session_settings, resolve_session_limit

from gitsession.api.session import Session
from gitsession.api.store import Store
from gitsession.errors import LeafMoved
from gitsession.frameworks.keyed_sessions import session_folder, since_reset
from gitsession.frameworks.openai_items import AGENT, entry_of, items_of
from gitsession.frameworks.worker_thread import run_to_completion
from gitsession.model.entries import Entry, Message, Reset
from gitsession.sessions.graph import numbered_name
from gitsession.sessions.node import Node

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

_TRIES = 10


class GitSession:
    """A session of the OpenAI Agents SDK, kept in a gitsession store: ``Runner.run(agent, text, session=...)``.

    Several objects, threads and processes can use the same session. Methods run in threads, so they do not block the
    event loop. Items are durable when ``add_items`` returns.

    Args:
        session_id: The program's own id of the session. It is stored as the key of the session.
        store: The store. The program closes it.
        cwd: The working directory of a new session, in which its tools work. Defaults to that of the process.
        session_settings: The SDK's settings of the session, such as the default ``limit`` of ``get_items``.
    """

    session_id: str
    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        store: Store,
        *,
        cwd: str | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        """Create the object. The session is created in the store when it is first written."""
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or SessionSettings())
        self._store = store
        self._cwd = cwd
        self._sid: str | None = None
        self._lock = threading.Lock()

    @property
    def stored(self) -> Session:
        """The gitsession session, on its active branch, for example for ``stored.files.checkpoint()``.

        The session is created if it does not exist.
        """
        found = self._find()
        if found is None:
            found = self._store.keyed_session(self.session_id, agent=AGENT, cwd=session_folder(self._cwd))
            self._sid = found.id
        return found

    # ---- the protocol

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items of the active branch, the oldest first.

        Args:
            limit: Maximum number of items; the newest ones are returned. Defaults to ``session_settings.limit``.

        Returns:
            The items, equal to those that were added.
        """
        return await asyncio.to_thread(self._get, resolve_session_limit(limit, self.session_settings))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items to the active branch: all of them, or none if an error occurs."""
        if items:
            entries: list[Entry] = [entry_of(item) for item in items]
            await run_to_completion(lambda: self._append(entries))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item from the session and return it; ``None`` if there are no items.

        The session continues on a branch that ends before the item. The item stays on the branch that is left.
        """
        return await run_to_completion(self._pop)

    async def clear_session(self) -> None:
        """Remove all items from the session. They stay in its history, before an entry that resets the session."""
        await run_to_completion(self._clear)

    async def _atomic_replace_items(self, items: list[TResponseInputItem]) -> bool:
        """Replace all items in one transaction. ``OpenAIResponsesCompactionSession`` uses this method if it is there.

        Without it, the SDK would clear the session and then add the items, and a crash between the two would leave no
        items. The replaced items stay in the history, before an entry that resets the session.
        """
        entries = [Reset(), *map(entry_of, items)]
        await run_to_completion(lambda: self._append(entries))
        return True

    # ---- branches, as in the SDK's AdvancedSQLiteSession

    async def create_branch_from_turn(self, turn_number: int, branch_name: str | None = None) -> str:
        """Create a branch that ends before a user message, and switch to it. No item is copied.

        Args:
            turn_number: The number of the user message on the active branch. The first one is 1.
            branch_name: The name of the branch. By default, a name is generated.

        Returns:
            The name of the branch.

        Raises:
            ValueError: The active branch has no such user message.
            Refused: The session already has a branch with this name.
            InvalidName: The name is not a valid branch name.
        """
        return await run_to_completion(lambda: self._branch(turn_number, branch_name))

    async def switch_to_branch(self, branch_id: str) -> None:
        """Make a branch the active branch. Raises ``NotFound`` if there is no such branch."""
        await run_to_completion(lambda: self.stored.switch(branch_id))

    async def list_branches(self) -> list[dict[str, Any]]:
        """Return a dict for each branch: ``branch_id``, ``message_count``, ``user_turns`` and ``is_current``.

        The counts include the items that branches share.
        """
        return await asyncio.to_thread(self._branches)

    # ---- implementation, which runs in threads

    def _find(self) -> Session | None:
        with self._lock:
            if self._sid is None:
                found = self._store.find_keyed(self.session_id, agent=AGENT)
                self._sid = None if found is None else found.id
            return None if self._sid is None else self._store.session(self._sid)

    def _get(self, limit: int | None) -> list[Any]:
        found = self._find()
        if found is None or limit == 0:
            return []
        messages = (entry for entry in since_reset(found.contents()) if isinstance(entry, Message))
        items = (item for message in messages for item in reversed(items_of(message)))
        return list(islice(items, limit if limit is not None and limit > 0 else None))[::-1]

    def _append(self, entries: list[Entry]) -> None:
        self.stored.append_all(entries, to_active=True)

    def _pop(self) -> Any:
        for _ in range(_TRIES):
            found = self._find()
            tip = None if found is None else found.leaf
            newest = next(_items(found), None) if found is not None else None
            if found is None or newest is None:
                return None
            node, item, _ = newest
            try:
                found.continue_at(str(node.parent), expected=tip)
            except LeafMoved:
                continue
            return item
        raise LeafMoved(
            f"cannot pop an item of session {self.session_id!r}: other writers keep appending", hint="try again"
        )

    def _clear(self) -> None:
        found = self._find()
        if found is not None and next(_items(found), None) is not None:
            found.append_all([Reset()], to_active=True)

    def _branch(self, turn_number: int, branch_name: str | None) -> str:
        stored = self.stored
        turns = [node for node, _, is_turn in _items(stored) if is_turn][::-1]
        if not 1 <= turn_number <= len(turns):
            problem = f"branch {stored.branch_name!r} has {len(turns)} user messages"
            raise ValueError(f"cannot branch from turn {turn_number}: {problem}")
        name = branch_name or numbered_name(f"turn-{turn_number}", stored.branches())
        stored.branch(name, str(turns[turn_number - 1].parent))
        stored.switch(name)
        return name

    def _branches(self) -> list[dict[str, Any]]:
        stored, found = self._find(), []
        if stored is not None:
            for name in stored.branches():
                turns = [is_turn for _, _, is_turn in _items(stored.on(name))]
                row = {"branch_id": name, "message_count": len(turns), "user_turns": sum(turns)}
                found.append({**row, "is_current": name == stored.branch_name})
        return found


def _items(session: Session) -> Iterator[tuple[Node, Any, bool]]:
    """Yield the entry, the item, and whether it is a user message, back to the last reset; the newest first."""
    for node, entry in takewhile(lambda each: not isinstance(each[1], Reset), session.entries()):
        if isinstance(entry, Message):
            for item in reversed(items_of(entry)):
                yield node, item, entry.role == "user"
