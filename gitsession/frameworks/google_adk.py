"""Google's Agent Development Kit (ADK): a session service whose sessions are sessions of a store.

An event with content is a message entry, or one for each result of a call; another event is a ``custom`` entry. The
state of a session is computed from the events of its branch, so that a rewind restores it. The state of a user or an
app has a session of its own, whose newest entry has all values.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session as AdkSession
from google.adk.sessions.state import State
from pydantic_core import to_jsonable_python

from gitsession.dataclass import dataclass
from gitsession.errors import Malformed
from gitsession.frameworks.adk_events import derive_item, messages_of
from gitsession.frameworks.keyed_sessions import key_of, locked, names_of, session_folder
from gitsession.frameworks.stored_items import difference, patched, reading, storable, to_json
from gitsession.model.entries import Custom, Entry, Message

if TYPE_CHECKING:
    from gitsession.api.session import Session
    from gitsession.api.store import Store

AGENT = "google-adk"
_START, _EVENT, _STATE = f"{AGENT}:session", f"{AGENT}:event", f"{AGENT}:state"
_CACHED_MAX = 64
_SCOPES = (State.APP_PREFIX, State.USER_PREFIX)

Result = TypeVar("Result")
_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Known:
    """The events and the state of a session on its branch. ``tip``: the object id of the newest entry.

    ``parts``: the messages of an event whose last entry was not read yet.
    """

    tip: str = ""
    parts: list[Message] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    time: float | None = None
    """The time of the last update; ``None`` if the session has no first entry."""


class GitSessionService(BaseSessionService):
    """A session service in a gitsession store. The key of a session is ``<app>/<user>/<session id>``.

    ``delete_session`` moves a session to the trash. An append to a session that another program has changed since it
    was read raises ``StaleSessionError``. Values of the state are stored as JSON.

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
        self._cache: dict[str, _Known] = {}

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> AdkSession:
        """Create a session. Raises ``AlreadyExistsError`` if the user has a session with this id."""
        return await self._run(self._create, app_name, user_id, dict(state or {}), (session_id or "").strip())

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> AdkSession | None:
        """Return a session, with all events or those that ``config`` selects; ``None`` if there is none."""
        return await self._run(self._get, app_name, user_id, session_id.strip(), config or GetSessionConfig())

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return the sessions of a user, or of all users, without their events, the oldest first."""
        return ListSessionsResponse(sessions=await self._run(self._list, app_name, user_id))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Move a session to the trash, if there is one."""
        await self._run(self._delete, key_of(app_name, user_id, session_id.strip()))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of a user, without the prefix of its names."""
        return await self._run(self._shared, key_of(app_name, user_id))

    async def append_event(self, session: AdkSession, event: Event) -> Event:
        """Append an event, which is durable on return, to the store and to ``session``.

        An event that is stored already is not appended again.

        Raises:
            SessionNotFoundError: There is no such session.
            StaleSessionError: Another program has appended to the session since it was read.
        """
        if event.partial:
            return event
        stored = event
        if event.actions and event.actions.state_delta:
            delta = event.actions.state_delta
            kept = {name: value for name, value in delta.items() if not name.startswith(State.TEMP_PREFIX)}
            stored = event.model_copy(update={"actions": event.actions.model_copy(update={"state_delta": kept})})
        if await self._run(self._append, session, event, stored):
            await super().append_event(session=session, event=event)
            session.last_update_time = event.timestamp
        return event

    async def _run(self, method: Callable[..., Result], *args: Any) -> Result:
        """Call ``method`` in a thread, under the lock of this service in all processes."""

        def run() -> Result:
            with locked(self._store, AGENT, self._mutex):
                return method(*args)

        return await asyncio.to_thread(run)

    # ---- under the lock

    def _create(self, app: str, user: str, state: dict[str, Any], id: str) -> AdkSession:
        id = id or str(uuid.uuid4())
        key = key_of(app, user, id)
        if self._read(key) is not None:
            raise AlreadyExistsError(f"Session with id {id} already exists.")
        values = to_json(to_jsonable_python(state))
        self._share(app, user, values)
        own = {name: value for name, value in values.items() if not name.startswith((*_SCOPES, State.TEMP_PREFIX))}
        session = self._store.keyed_session(key, agent=AGENT, cwd=session_folder(self._cwd))
        session.append(Custom(custom_type=_START, data=json.dumps({"state": own, "time": time.time()})))
        return _merged(app, user, id, self._known(session), self._all_shared(app, user), [])

    def _get(self, app: str, user: str, id: str, config: GetSessionConfig) -> AdkSession | None:
        known = self._read(key_of(app, user, id))
        if known is None:
            return None
        return _merged(app, user, id, known, self._all_shared(app, user), _selected(known.events, config))

    def _list(self, app: str, user: str | None) -> list[AdkSession]:
        found = []
        shared: dict[str, dict[str, Any]] = {}
        for row in self._store.sessions():
            parts = names_of(row.key or "") if row.agent == AGENT else None
            if parts is not None and len(parts) == 3 and parts[0] == app and user in (None, parts[1]):
                try:
                    known = self._read(key_of(*parts))
                except Malformed as error:  # it does not hide the others
                    _logger.warning("%s", error)
                    continue
                if known is not None:
                    owner = parts[1]
                    if owner not in shared:
                        shared[owner] = self._all_shared(app, owner)
                    found.append(_merged(app, owner, parts[2], known, shared[owner], []))
        return sorted(found, key=lambda each: (each.last_update_time, each.user_id, each.id))

    def _delete(self, key: str) -> None:
        session = self._store.find_keyed(key, agent=AGENT)
        if session is not None:
            self._store.trash.put(session.id)
            self._cache.pop(session.id, None)

    def _append(self, given: AdkSession, event: Event, stored: Event) -> bool:
        """Append ``stored``: ``event`` without temporary state. Return False if the event is stored already."""
        session = self._store.find_keyed(key_of(given.app_name, given.user_id, given.id), agent=AGENT)
        known = None if session is None else self._known(session)
        if session is None or known is None or known.time is None:
            raise SessionNotFoundError(f"Session {given.id} not found.")
        if any(old.id == event.id and old == event for old in known.events):
            return False
        if known.time > given.last_update_time:
            raise StaleSessionError(f"Session {given.id} was changed since it was read. Get it again before appending.")
        item = to_json(stored.model_dump(mode="json", exclude_none=True, by_alias=True))
        # The shared state is stored first: an event that is there after a crash has its whole effect.
        self._share(given.app_name, given.user_id, item["actions"].get("stateDelta", {}))
        session.append_all(_entries(item))
        return True

    def _share(self, app: str, user: str, values: Mapping[str, Any]) -> None:
        """Store the values of a state that belong to the app or to the user."""
        for prefix, key in zip(_SCOPES, (key_of(app), key_of(app, user)), strict=True):
            named = {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
            if named:
                data = json.dumps(self._shared(key) | named)
                self._store.keyed_session(key, agent=AGENT).append(Custom(custom_type=_STATE, data=data))

    def _shared(self, key: str) -> dict[str, Any]:
        session = self._store.find_keyed(key, agent=AGENT)
        entries = () if session is None else session.entries()
        newest = next((entry for _, entry in entries if isinstance(entry, Custom)), None)
        with reading(f"the state {key!r} of ADK"):
            return {} if newest is None else dict(json.loads(newest.data))

    def _all_shared(self, app: str, user: str) -> dict[str, Any]:
        """Return the state of an app and of a user, with the prefixes of its names."""
        keys = zip(_SCOPES, (key_of(app), key_of(app, user)), strict=True)
        return {prefix + name: value for prefix, key in keys for name, value in self._shared(key).items()}

    def _read(self, key: str) -> _Known | None:
        session = self._store.find_keyed(key, agent=AGENT)
        known = None if session is None else self._known(session)
        return known if known is not None and known.time is not None else None

    def _known(self, session: Session) -> _Known:
        """Return the events and the state of the session's branch."""
        tip = session.resolve("leaf")
        known = self._cache.pop(session.id, None)
        if known is None or known.tip != tip.oid:
            new: list[Entry] = []
            for node, entry in session.entries(tip):
                if known is not None and node.oid == known.tip:
                    break
                new.append(entry)
            else:
                known = _Known()
            with reading(f"session {session.id} of ADK"):
                for entry in reversed(new):
                    _add(known, entry)
            known.tip = tip.oid
        self._cache[session.id] = known
        if len(self._cache) > _CACHED_MAX:
            self._cache.pop(next(iter(self._cache)))
        return known


def _merged(app: str, user: str, id: str, known: _Known, shared: Mapping[str, Any], events: list[Event]) -> AdkSession:
    """Return a session that the program may change."""
    state = {**known.state, **shared}
    found = AdkSession(id=id, app_name=app, user_id=user, state=state, last_update_time=known.time or 0.0)
    found.events = events
    return copy.deepcopy(found)


def _add(known: _Known, entry: Entry) -> None:
    """Add the next entry of the branch."""
    if isinstance(entry, Custom) and entry.custom_type == _START:
        start = json.loads(entry.data)
        known.state, known.time = dict(start["state"]), float(start["time"])
        return
    kept = entry.extra.get(AGENT) if isinstance(entry, Message) else None
    item = None
    if isinstance(entry, Custom) and entry.custom_type == _EVENT:
        item = json.loads(entry.data)
    elif isinstance(entry, Message) and isinstance(kept, str):
        known.parts.append(entry)
        beside = json.loads(kept)
        if "number" in beside:
            item = patched(derive_item(known.parts[-beside["number"] :]), beside["change"] or {})
            known.parts.clear()
    if item is not None:
        delta = item["actions"].get("stateDelta", {})
        event, time_s = Event.model_validate(item), float(item["timestamp"])
        known.state |= {name: value for name, value in delta.items() if not name.startswith(_SCOPES)}
        known.events.append(event)
        known.time = time_s


def _entries(item: dict[str, Any]) -> list[Entry]:
    """Return the entries of an event. The last one has what the entries do not determine."""
    messages = [storable(message) for message in messages_of(item)]
    if not messages:
        return [Custom(custom_type=_EVENT, data=json.dumps(item))]
    beside = {"number": len(messages), "change": difference(derive_item(messages), item)}
    extras: list[dict[str, Any]] = [{}] * (len(messages) - 1) + [beside]
    return [replace(message, extra={AGENT: json.dumps(extra)}) for message, extra in zip(messages, extras, strict=True)]


def _selected(events: list[Event], config: GetSessionConfig) -> list[Event]:
    if config.num_recent_events is not None:
        events = events[-config.num_recent_events :] if config.num_recent_events else []
    if config.after_timestamp is not None:
        early = [at for at, event in enumerate(events) if event.timestamp < config.after_timestamp]
        events = events[early[-1] + 1 :] if early else events
    return events
