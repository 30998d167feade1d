"""Tests of the session service for Google's ADK."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk")

from framework_items import (
    DAMAGED_JSON,
    JSON_TEXT,
    cancel_at_once,
    kill_after,
    kill_after_each_transaction,
    run_programs,
)
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gitsession import Image, Malformed, Message, Store, Text, ToolCall
from gitsession.frameworks import google_adk
from gitsession.frameworks.google_adk import AGENT, GitSessionService
from gitsession.model.entries import Custom

SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(-1e9, 1e9) | JSON_TEXT
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(JSON_TEXT, inner, max_size=2)
)
MAPS = st.dictionaries(JSON_TEXT, VALUES, max_size=2)
STATES = st.dictionaries(st.sampled_from(["a", "b", "app:a", "user:a", "user:b", "temp:a"]), VALUES, max_size=3)
OPTIONAL = st.none() | JSON_TEXT
PARTS = st.one_of(
    st.builds(types.Part, text=JSON_TEXT),
    st.builds(types.Part, text=JSON_TEXT, thought=st.just(True), thought_signature=st.none() | st.binary(max_size=4)),
    st.builds(
        types.Part, function_call=st.builds(types.FunctionCall, name=JSON_TEXT, args=st.none() | MAPS, id=OPTIONAL)
    ),
    st.just(types.Part(inline_data=types.Blob(data=b"\x89PNG", mime_type="image/png"))),
    st.just(types.Part(file_data=types.FileData(file_uri="gs://a", mime_type="text/plain"))),
)
RESULTS = st.builds(
    types.Part,
    function_response=st.builds(
        types.FunctionResponse,
        name=JSON_TEXT,
        id=OPTIONAL,
        response=MAPS | JSON_TEXT.map(lambda text: {"result": text}) | JSON_TEXT.map(lambda text: {"error": text}),
    ),
)
CONTENT = st.builds(
    types.Content,
    role=st.sampled_from(["user", "model", None]),
    parts=st.none()
    | st.lists(PARTS, max_size=3)
    | st.lists(RESULTS, max_size=3)
    | st.lists(PARTS | RESULTS, max_size=3),
)
EVENTS = st.builds(
    Event,
    id=st.sampled_from(["e1", "e2", "e3", "e4"]),
    author=st.sampled_from(["user", "agent"]),
    invocation_id=JSON_TEXT,
    content=st.none() | CONTENT,
    actions=st.builds(EventActions, state_delta=STATES, escalate=st.none() | st.booleans()),
    timestamp=st.integers(4_000_000_000, 4_000_000_100).map(float),
    branch=OPTIONAL,
    partial=st.sampled_from([None, None, None, True]),
    long_running_tool_ids=st.none() | st.sets(JSON_TEXT, max_size=2),
    model_version=OPTIONAL,
    usage_metadata=st.none() | st.just(types.GenerateContentResponseUsageMetadata(prompt_token_count=3)),
)
USERS, IDS = st.sampled_from(["ada", "b/c"]), st.sampled_from(["s1", " s1 ", "s2"])
ERRORS = (AlreadyExistsError, SessionNotFoundError)


async def outcome(call: Any) -> Any:
    """Return the result of a call, or the class and the text of its error."""
    try:
        return await call
    except ERRORS as error:
        return type(error), str(error)


def timeless(value: Any) -> Any:
    """Return a session, or sessions, without the time at which the service created it."""
    sessions = getattr(value, "sessions", [value] if hasattr(value, "last_update_time") else None)
    if sessions is None:
        return value
    found = [each.model_dump(by_alias=False) for each in sessions]
    for each in found:
        if each["last_update_time"] < 4_000_000_000:
            del each["last_update_time"]
    return sorted(found, key=lambda each: (each["user_id"], each["id"]))


class Twins:
    """A sequence of calls, applied to both services."""

    def __init__(self, ours: BaseSessionService, draw: Any) -> None:
        self.theirs, self.ours, self.draw = InMemorySessionService(), ours, draw

    async def both(self, name: str, *args: Any, **named: Any) -> tuple[Any, Any]:
        calls = [getattr(service, name)(*args, **copy.deepcopy(named)) for service in (self.theirs, self.ours)]
        expected, found = [await outcome(call) for call in calls]
        assert timeless(found) == timeless(expected), name
        return expected, found

    def place(self) -> dict[str, str]:
        return {"app_name": "app", "user_id": self.draw(USERS)}

    async def create(self) -> None:
        await self.both("create_session", **self.place(), state=self.draw(STATES), session_id=self.draw(IDS))

    async def append(self) -> None:
        place = {**self.place(), "session_id": self.draw(IDS)}
        theirs, ours = await self.both("get_session", **place)
        for event in self.draw(st.lists(EVENTS, max_size=3)) if theirs is not None else []:
            expected = await self.theirs.append_event(theirs, event.model_copy(deep=True))
            assert await self.ours.append_event(ours, event.model_copy(deep=True)) == expected
            assert timeless(ours) == timeless(theirs)

    async def delete(self) -> None:
        await self.both("delete_session", **self.place(), session_id=self.draw(IDS))

    async def compare(self) -> None:
        recent, after = self.draw(st.none() | st.integers(0, 3)), self.draw(st.none() | st.just(4_000_000_050.0))
        config = GetSessionConfig(num_recent_events=recent, after_timestamp=after)
        for user in ("ada", "b/c"):
            for id in ("s1", "s2"):
                await self.both("get_session", app_name="app", user_id=user, session_id=id)
                await self.both("get_session", app_name="app", user_id=user, session_id=id, config=config)
            await self.both("list_sessions", app_name="app", user_id=user)
            await self.both("get_user_state", app_name="app", user_id=user)
        await self.both("list_sessions", app_name="app")
        await self.both("list_sessions", app_name="other")


@settings(max_examples=40, phases=[Phase.explicit, Phase.generate])  # to shrink is slow, with threads and SQLite
@given(st.data())
def test_the_service_does_the_same_as_the_one_in_memory(data: st.DataObject) -> None:
    async def run(store: Store) -> None:
        twins = Twins(GitSessionService(store), data.draw)
        await twins.create()
        for _ in range(data.draw(st.integers(1, 5))):
            await data.draw(st.sampled_from([twins.create, twins.append, twins.append, twins.append, twins.delete]))()
        await twins.compare()
        twins.ours = GitSessionService(store)  # which has read nothing yet
        await twins.compare()

    with Store.in_memory() as store:
        asyncio.run(run(store))


def said(author: str, *parts: types.Part, **fields: Any) -> Event:
    role = "user" if author == "user" else "model"
    return Event(author=author, content=types.Content(role=role, parts=list(parts)), **fields)


async def chat(service: BaseSessionService, *events: Event) -> Any:
    place = {"app_name": "app", "user_id": "ada", "session_id": "s1"}
    session = await service.get_session(**place) or await service.create_session(**place)
    for event in events:
        await service.append_event(session, event)
    return await service.get_session(**place)


def test_events_become_entries_with_their_parts() -> None:
    with Store.in_memory() as store:
        picture = types.Part(inline_data=types.Blob(data=b"\x89PNG", mime_type="image/png"))
        call = types.Part(function_call=types.FunctionCall(name="read", args={"path": "a"}, id="c1"))
        results = [types.Part.from_function_response(name="read", response={"result": text}) for text in ("x", "y")]
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=3, candidates_token_count=4)
        asyncio.run(
            chat(
                GitSessionService(store),
                said("user", types.Part(text="Look"), picture),
                said("agent", call, usage_metadata=usage, model_version="gemini"),
                said("agent", *results),
                Event(author="agent", actions=EventActions(state_delta={"a": 1})),
            )
        )
        session = store.session("google-adk:app/ada/s1")
        _, _, user, answer, first, second, other = [session.read(node) for node in session.history()]
        assert user.content == (Text("Look"), Image(b"\x89PNG", "image/png"))
        assert answer.content == (ToolCall("c1", "read", {"path": "a"}),) and answer.model == "gemini"
        assert (first.role, first.text, second.text, other.kind) == ("tool", "x", "y", "custom")
        row = store.catalogue().session(session.id)
        assert (row.key, row.tokens) == ("app/ada/s1", 7)


def test_an_append_to_an_old_copy_is_refused() -> None:
    async def run(service: BaseSessionService) -> None:
        session = await chat(service, said("user", types.Part(text="Hello"), timestamp=4_000_000_000.0))
        old = session.model_copy(deep=True)
        await service.append_event(session, said("agent", types.Part(text="Hi"), timestamp=4_000_000_001.0))
        with pytest.raises(StaleSessionError, match="s1 was changed since it was read"):
            await service.append_event(old, said("agent", types.Part(text="Ho"), timestamp=4_000_000_002.0))
        assert len((await chat(service)).events) == 2

    with Store.in_memory() as store:
        asyncio.run(run(GitSessionService(store)))


def test_a_rewind_restores_the_state_and_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    with Store.create(tmp_path / "store.git") as store:
        service = GitSessionService(store)
        hello = said("user", types.Part(text="Hello"))
        asyncio.run(
            chat(service, hello, said("agent", types.Part(text="Hi"), actions=EventActions(state_delta={"n": 1})))
        )
        session = store.session("google-adk:app/ada/s1")
        before = session.leaf
        with session.files.checkpoint(folder, call="c1", target=before):
            (folder / "a.txt").write_text("a")
        asyncio.run(chat(service, said("agent", types.Part(text="Done"), actions=EventActions(state_delta={"n": 2}))))
        session = store.session("google-adk:app/ada/s1")
        session.files.rewind(session.files.plan_rewind(before))
        rewound = asyncio.run(chat(service))
        assert (rewound.state, len(rewound.events), (folder / "a.txt").exists()) == ({"n": 1}, 2, False)
        assert store.verify().problems == []


def test_an_event_survives_a_kill(tmp_path: Path) -> None:
    Store.create(tmp_path / "store.git").close()
    kill_after(
        "import asyncio\n"
        "from google.adk.events.event import Event\n"
        "from gitsession import Store\n"
        "from gitsession.frameworks.google_adk import GitSessionService\n"
        "async def main(service):\n"
        "    session = await service.create_session(app_name='app', user_id='ada', session_id='s1')\n"
        "    await service.append_event(session, Event(author='user', message='Hello', id='e1'))\n"
        "asyncio.run(main(GitSessionService(Store.open('store.git'))))",
        tmp_path,
    )
    with Store.open(tmp_path / "store.git") as store:
        assert [event.id for event in asyncio.run(chat(GitSessionService(store))).events] == ["e1"]


RESULTS_OF_TWO_CALLS = """
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from gitsession.frameworks.google_adk import GitSessionService

PLACE = {"app_name": "app", "user_id": "ada", "session_id": "s1"}
parts = [types.Part.from_function_response(name="read", response={"result": text}) for text in ("x", "y")]
event = Event(author="agent", id="e2", content=types.Content(role="user", parts=parts))

async def prepare(store):
    service = GitSessionService(store)
    session = await service.create_session(**PLACE, state={"user:name": "nobody"})
    await service.append_event(session, Event(author="user", message="Hello", id="e1"))

async def change(store):
    service = GitSessionService(store)
    session = await service.get_session(**PLACE)
    await service.append_event(session, event)
"""


def test_an_event_is_one_transaction(tmp_path: Path) -> None:
    killed, complete = kill_after_each_transaction(RESULTS_OF_TWO_CALLS, tmp_path)
    for place in (killed, complete):
        with Store.open(place) as store:
            assert [event.id for event in asyncio.run(chat(GitSessionService(store))).events] == ["e1", "e2"]


def test_an_event_is_complete_or_absent_after_a_kill(tmp_path: Path) -> None:
    shared = 'event.actions = EventActions(state_delta={"user:name": "Ada", "app:n": 1, "n": 2})\n'
    seen = []
    for place in kill_after_each_transaction(RESULTS_OF_TWO_CALLS + shared, tmp_path):
        with Store.open(place) as store:
            found = asyncio.run(chat(GitSessionService(store)))
            messages = [node for node in store.session("google-adk:app/ada/s1").history() if node.kind == "message"]
            assert len(messages) == {1: 1, 2: 3}[len(found.events)]
            if len(found.events) == 2:
                assert found.state == {"user:name": "Ada", "app:n": 1, "n": 2}
            seen.append(len(found.events))
    assert len(seen) > 2 and seen[-1] == 2


def test_a_service_reads_only_new_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    original = google_adk._add
    monkeypatch.setattr(google_adk, "_add", lambda known, entry: (read.append(entry), original(known, entry))[1])
    with Store.in_memory() as store:
        service, other = GitSessionService(store), GitSessionService(store)
        asyncio.run(chat(service, *(said("user", types.Part(text=str(number))) for number in range(3))))
        asyncio.run(chat(other))
        read.clear()
        asyncio.run(chat(service, said("user", types.Part(text="3"))))
        assert len(read) == 1
        assert [event.content.parts[0].text for event in asyncio.run(chat(other)).events] == ["0", "1", "2", "3"]
        assert len(read) == 2
        asyncio.run(chat(service))
        session = store.session("google-adk:app/ada/s1")
        session.continue_at("leaf~2")
        assert [event.content.parts[0].text for event in asyncio.run(chat(service)).events] == ["0", "1"]


def test_program_of_the_guide_runs_unchanged(tmp_path: Path) -> None:
    output = run_programs("keep-framework-conversations.md", "import asyncio\n\nfrom google.adk", folder=tmp_path)
    assert output == "You are Ada.\n4 events\n"


@pytest.mark.parametrize("text", DAMAGED_JSON)
@pytest.mark.parametrize("kind", ["message", "session", "event"])
def test_a_session_of_somebody_else_hides_no_other_one(kind: str, text: str) -> None:
    with Store.in_memory() as store:
        service = GitSessionService(store)
        for id in ("bad", "good"):
            asyncio.run(service.create_session(app_name="a", user_id="u", session_id=id))
        is_message = kind == "message"
        message = Message(role="user", content=(), extra={AGENT: text})
        entry = message if is_message else Custom(custom_type=f"{AGENT}:{kind}", data=text)
        store.session(f"{AGENT}:a/u/bad").append(entry)
        found = asyncio.run(service.list_sessions(app_name="a")).sessions
        assert "good" in [session.id for session in found]
        with contextlib.suppress(Malformed):
            assert asyncio.run(service.get_session(app_name="a", user_id="u", session_id="bad")) is not None


def test_a_damaged_state_is_an_error() -> None:
    with Store.in_memory() as store:
        store.keyed_session("a/u", agent=AGENT).append(Custom(custom_type=f"{AGENT}:state", data="{"))
        with pytest.raises(Malformed, match="cannot read the state 'a/u'"):
            asyncio.run(GitSessionService(store).get_user_state(app_name="a", user_id="u"))


def test_a_cancelled_append_is_completed() -> None:
    place: dict[str, Any] = {"app_name": "app", "user_id": "ada", "session_id": "s1"}

    async def run(service: GitSessionService) -> None:
        session = await service.create_session(**place)
        await cancel_at_once(service.append_event(session, Event(id="e1", author="user")))
        stored = store.find_keyed("app/ada/s1", agent=AGENT)  # without the lock of the service, which would wait
        assert stored is not None and "e1" in repr([entry for _, entry in stored.entries()])

    with Store.in_memory() as store:
        asyncio.run(run(GitSessionService(store)))
