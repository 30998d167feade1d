"""Tests of the sessions of the OpenAI Agents SDK, against the SDK's own SQLite sessions."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

agents = pytest.importorskip("agents")

from agents.extensions.memory import AdvancedSQLiteSession  # noqa: E402
from agents.memory import OpenAIResponsesCompactionSession, Session, SQLiteSession  # noqa: E402

from gitsession import LeafMoved, Malformed, Message, NotFound, Store, ToolCall, text  # noqa: E402
from gitsession.frameworks.openai_agents import GitSession  # noqa: E402
from gitsession.frameworks.openai_items import AGENT, entry_of, items_of  # noqa: E402
from gitsession.sessions.session import StoredSession  # noqa: E402

PIXEL = "data:image/png;base64,iVBORw0KGgo="

texts = st.text(st.characters(codec=None), max_size=12)  # with lone surrogates
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(scalars, lambda each: st.lists(each, max_size=3) | st.dictionaries(texts, each, max_size=3))
others = st.dictionaries(st.sampled_from(["id", "status", "namespace", "x"]), values, max_size=2)


def fixed(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda item, rest: {**rest, **item}, st.fixed_dictionaries({"type": st.just(kind), **fields}), others
    )


parts = st.one_of(
    fixed("input_text", text=texts),
    fixed("output_text", text=texts, annotations=st.just([]), logprobs=st.just([])),
    fixed("input_image", image_url=st.sampled_from([PIXEL, "https://example.org/a.png"]), detail=st.just("auto")),
    fixed("input_file", filename=texts, file_data=texts),
    values,
)
roles = st.sampled_from(["user", "assistant", "system", "developer", "critic"])
contents = texts | st.lists(parts, max_size=3)
items = st.one_of(
    st.fixed_dictionaries({"role": roles, "content": contents}),
    fixed("message", role=roles, content=contents),
    fixed("function_call", call_id=texts, name=texts, arguments=texts | values.map(json.dumps)),
    fixed("custom_tool_call", call_id=texts, name=texts, input=texts),
    fixed("shell_call", call_id=texts, action=values),
    fixed("function_call_output", call_id=texts, output=contents | values),
    fixed("reasoning", summary=st.lists(fixed("summary_text", text=texts), max_size=2), encrypted_content=texts),
    fixed("web_search_call", action=values),
    fixed("compaction", encrypted_content=texts),
    values,
)
steps = st.one_of(
    st.tuples(st.just("add"), st.lists(items, max_size=4)),
    st.tuples(st.just("get"), st.none() | st.integers(-2, 6)),
    st.tuples(st.just("pop"), st.none()),
    st.tuples(st.just("clear"), st.none()),
    st.tuples(st.just("reopen"), st.none()),
)
random_steps = settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))


def exact(value: Any) -> str:
    """Return JSON, which distinguishes 1, 1.0 and True, and equals itself for NaN."""
    return json.dumps(value, sort_keys=True)


async def perform(session: Any, action: str, argument: Any) -> Any:
    match action:
        case "add":
            return await session.add_items(argument)
        case "get":
            return await session.get_items(argument)
        case "pop":
            return await session.pop_item()
        case "clear":
            return await session.clear_session()


@random_steps
@given(st.lists(steps, max_size=12))
def test_every_sequence_of_calls_returns_what_the_sqlite_session_returns(sequence: list[tuple[str, Any]]) -> None:
    async def compare(store: Store, peer: SQLiteSession) -> int:
        mine, added = GitSession("s", store), 0
        for action, argument in sequence:
            if action == "reopen":
                mine = GitSession("s", store)
                continue
            added += len(argument) if action == "add" else 0
            assert exact(await perform(mine, action, argument)) == exact(await perform(peer, action, argument))
        assert exact(await mine.get_items()) == exact(await peer.get_items())
        return added

    peer = SQLiteSession("s")
    with Store.in_memory() as store:
        added = asyncio.run(compare(store, peer))
        found = store.find_keyed("s", agent=AGENT)
        kept = [] if found is None else [node for node in found.tree().nodes.values() if node.kind == "message"]
        assert len(kept) == added, "an item was lost"
    peer.close()


@settings(deadline=None, max_examples=300)
@given(items)
def test_an_item_is_read_as_it_was_stored(item: Any) -> None:
    [found] = items_of(entry_of(item))
    assert exact(found) == exact(json.loads(json.dumps(item)))


ANSWER = {
    "id": "msg_1",
    "content": [{"annotations": [], "text": "Sunny.", "type": "output_text", "logprobs": []}],
    "role": "assistant",
    "status": "completed",
    "type": "message",
}
CALL = {"arguments": '{"city":"Rome"}', "call_id": "call_1", "name": "weather", "type": "function_call", "id": "fc_1"}
OUTPUT = {"call_id": "call_1", "output": "sunny", "type": "function_call_output"}
IMAGE = {"role": "user", "content": [{"type": "input_image", "detail": "auto", "image_url": PIXEL}]}


@pytest.mark.parametrize(
    ("item", "rest"),
    [
        ({"content": "Hello", "role": "user"}, {}),
        (IMAGE, {}),
        (OUTPUT, {}),
        (CALL, {"id": "fc_1"}),
        (ANSWER, {"id": "msg_1"}),
        ({"type": "item_reference", "id": "x"}, {}),
    ],
)
def test_only_the_rest_of_a_usual_item_is_stored_beside_its_message(item: Any, rest: Any) -> None:
    assert entry_of(item).extra.get(AGENT, {}) == rest


def test_items_are_messages_for_every_other_reader() -> None:
    async def run(store: Store) -> None:
        session = GitSession("thread", store)
        await session.add_items([{"content": "Weather?", "role": "user"}, CALL, OUTPUT, ANSWER])
        subjects = [node.subject for node in session.stored.history()[1:]]
        assert subjects == ["user: Weather?", "assistant: weather (+1 tool)", "tool: 1 line", "assistant: Sunny."]
        request = session.stored.context().request("openai-responses")["input"]
        assert [each.get("type") for each in request] == ["message", "function_call", "function_call_output", "message"]
        assert store.session("openai-agents:thread").id == session.stored.id
        assert {hit.session.sid for hit in store.search("Sunny")} == {session.stored.id}

    with Store.in_memory() as store:
        asyncio.run(run(store))


def test_an_answer_with_several_blocks_becomes_several_items() -> None:
    calls = [text("Both."), ToolCall("a", "read", {"path": "x"}), ToolCall("b", "read", {"path": "y"})]
    found = items_of(Message.assistant(calls))
    assert [each["type"] for each in found] == ["message", "function_call", "function_call"]


@pytest.mark.parametrize("kept", ["{", "[" * 99_999])
def test_a_damaged_item_is_an_error(kept: str) -> None:
    with pytest.raises(Malformed, match="cannot read an item"):
        items_of(Message(role="user", content=(), extra={AGENT: kept}))


def test_an_item_that_is_nested_too_deeply_is_refused_and_nothing_is_stored() -> None:
    item: Any = []
    for _ in range(5000):
        item = [item]
    with Store.in_memory() as store:
        with pytest.raises(Malformed, match="cannot store"):
            asyncio.run(GitSession("ada", store).add_items([{"role": "user", "content": item}]))
        assert store.sessions() == []


def test_the_class_implements_the_protocol() -> None:
    with Store.in_memory() as store:
        session = GitSession("s", store, session_settings={"limit": 1})
        assert isinstance(session, Session)
        asyncio.run(session.add_items([ANSWER, OUTPUT]))
        assert asyncio.run(session.get_items()) == [OUTPUT]
        assert asyncio.run(session.get_items(5)) == [ANSWER, OUTPUT]
        assert OpenAIResponsesCompactionSession("s", session).underlying_session is session


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.sampled_from([{"content": "Hello", "role": "user"}, CALL, OUTPUT, ANSWER]), min_size=1, max_size=8),
    st.integers(0, 4),
)
def test_branches_have_the_items_that_the_advanced_sqlite_session_copies(added: list[Any], turn: int) -> None:
    async def branched(session: Any) -> list[Any]:
        await session.add_items(added)
        try:
            name = await session.create_branch_from_turn(turn, "side")
        except ValueError:
            return ["ValueError", await session.get_items()]
        before = await session.get_items()
        await session.add_items([{"content": "Again", "role": "user"}])
        side = await session.get_items()
        rows = [(row["branch_id"], row["is_current"], row["user_turns"]) for row in await session.list_branches()]
        await session.switch_to_branch("main")
        return [name, before, side, sorted(rows), await session.get_items()]

    async def compare(store: Store) -> None:
        peer = AdvancedSQLiteSession(session_id="s", create_tables=True)
        assert await branched(GitSession("s", store)) == await branched(peer)
        peer.close()

    with Store.in_memory() as store:
        asyncio.run(compare(store))


def changed(value: Any) -> None:
    """Change a JSON value and all that is in it."""
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        changed(inner)
    if isinstance(value, dict):
        value["changed"] = True
    if isinstance(value, list):
        value.append("changed")


@random_steps
@given(st.lists(items, max_size=4))
def test_a_program_may_change_the_items_that_it_receives(added: list[Any]) -> None:
    async def run(session: GitSession) -> None:
        await session.add_items(added)
        before = exact(await session.get_items())
        changed(await session.get_items())
        assert exact(await session.get_items()) == before

    with Store.in_memory() as store:
        asyncio.run(run(GitSession("s", store)))


@pytest.mark.parametrize("limit", [None, 3])
def test_a_session_is_read_in_bulk_without_its_commits(tmp_path: Path, limit: int | None) -> None:
    added = [{"content": f"{number}", "role": "user"} for number in range(40)]
    with Store.create(tmp_path / "s.git") as store:
        asyncio.run(GitSession("s", store).add_items(added))
        store.catalogue()
    with Store.open(tmp_path / "s.git") as store:
        session, read, kind = GitSession("s", store), [], type(store.objects)
        original = kind.read
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kind, "read", lambda self, oid: read.append(oid) or original(self, oid))
            assert asyncio.run(session.get_items(limit)) == added[-limit if limit else None :]
            first = len(read)
            assert asyncio.run(session.get_items(limit)) == added[-limit if limit else None :]
        assert first < 10 and len(read) - first < 10


class Compactor:
    """The part of OpenAI's client that the SDK's compaction uses."""

    def __init__(self) -> None:
        self.responses = self
        self.output: list[Any] = [{"type": "compaction", "id": "c", "encrypted_content": "x"}]

    async def compact(self, **_: Any) -> Any:
        return SimpleNamespace(output=self.output, usage=None)


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from([{"content": "Hello", "role": "user"}, ANSWER]), max_size=4), st.integers(0, 3))
def test_the_compaction_of_the_sdk_replaces_what_it_replaces_in_the_sqlite_session(added: list[Any], more: int) -> None:
    async def compacted(session: Any) -> list[Any]:
        outer = OpenAIResponsesCompactionSession("s", session, client=Compactor())  # type: ignore[arg-type]
        await outer.add_items(added)
        await outer.run_compaction({"force": True, "compaction_mode": "input"})
        await outer.add_items([ANSWER] * more)
        return [await session.get_items(), await session.pop_item(), await session.get_items()]

    peer = SQLiteSession("s")
    with Store.in_memory() as store:
        assert asyncio.run(compacted(GitSession("s", store))) == asyncio.run(compacted(peer))
        tree = store.session("openai-agents:s").tree().nodes.values()
        kept = [node for node in tree if node.kind == "message"]
        assert len(kept) == len(added) + 1 + more, "an item was lost"
    peer.close()


def test_a_compaction_of_the_sdk_is_one_append() -> None:
    """A crash between two appends would leave a session without items."""

    async def run(session: GitSession) -> None:
        await session.add_items([ANSWER, OUTPUT])
        outer, appended = OpenAIResponsesCompactionSession("s", session, client=Compactor()), []  # type: ignore[arg-type]
        original = StoredSession.append_all
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                StoredSession,
                "append_all",
                lambda self, entries, **how: appended.append(list(entries)) or original(self, entries, **how),
            )
            await outer.run_compaction({"force": True, "compaction_mode": "input"})
        assert [[entry.kind for entry in entries] for entries in appended] == [["reset", "message"]]

    with Store.in_memory() as store:
        asyncio.run(run(GitSession("s", store)))


def test_two_programs_share_a_session(tmp_path: Path) -> None:
    async def run(one: Store, two: Store) -> None:
        first, second = GitSession("s", one), GitSession("s", two)
        await first.add_items([ANSWER])
        assert await second.get_items() == [ANSWER]
        assert await first.pop_item() == ANSWER
        await second.add_items([OUTPUT])  # on the branch to which the other program has moved
        assert await first.get_items() == await second.get_items() == [OUTPUT]
        with pytest.raises(NotFound):
            await first.switch_to_branch("nowhere")

    with Store.create(tmp_path / "s.git") as one, Store.open(tmp_path / "s.git") as two:
        asyncio.run(run(one, two))
        assert one.verify().problems == []


def test_a_pop_while_another_writer_appends_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.in_memory() as store:
        session = GitSession("s", store)
        asyncio.run(session.add_items([ANSWER]))
        leaf, stored = session.stored.leaf, session.stored
        stored.append(entry_of(OUTPUT))
        with pytest.raises(LeafMoved):
            stored.continue_at("root", expected=leaf)
        assert asyncio.run(session.pop_item()) == OUTPUT


def test_a_cancelled_call_is_completed() -> None:
    async def run(session: GitSession) -> None:
        task = asyncio.ensure_future(session.add_items([ANSWER]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await session.get_items() == [ANSWER]

    with Store.in_memory() as store:
        asyncio.run(run(GitSession("s", store)))


def test_a_secret_is_redacted_in_the_store_and_returned_to_the_program(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    item = {"content": f"My token is {secret}", "role": "user"}
    with Store.create(tmp_path / "s.git") as store:
        session = GitSession("s", store)
        asyncio.run(session.add_items([item, ANSWER]))
        [message] = [node for node in session.stored.history() if node.subject.startswith("user")]
        assert secret not in message.subject and secret not in repr(session.stored.read(message))
        assert asyncio.run(session.get_items()) == [item, ANSWER]
