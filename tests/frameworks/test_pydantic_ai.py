"""Tests of the conversation store for Pydantic AI."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from framework_items import DAMAGED_JSON, JSON_TEXT, kill_after, kill_after_each_transaction, run_programs
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.messages import (
    BinaryContent,
    BinaryImage,
    ImageUrl,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage, RunUsage

from gitsession import Image, Malformed, Message, MissingObject, Store, Text, ToolCall
from gitsession.frameworks.pydantic_ai import AGENT, GitSessionConversationStore

SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(-1e9, 1e9) | JSON_TEXT
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(JSON_TEXT, inner, max_size=2)
)
MAPS = st.dictionaries(JSON_TEXT, VALUES, max_size=2)
TIMES = st.datetimes(datetime(2025, 1, 1), datetime(2026, 1, 1), timezones=st.just(UTC))
OPTIONAL = st.none() | JSON_TEXT
IDS = st.sampled_from(["c1", "c2"])
PROMPTS = st.one_of(
    JSON_TEXT,
    st.lists(
        st.one_of(
            JSON_TEXT,
            st.just(ImageUrl("https://example.com/a.png")),
            st.just(BinaryImage(b"\x89PNG", media_type="image/png")),
            st.just(BinaryContent(b"%PDF", media_type="application/pdf", identifier="paper")),
        ),
        max_size=3,
    ),
)


REQUEST_PARTS = st.one_of(
    st.builds(SystemPromptPart, JSON_TEXT, timestamp=TIMES),
    st.builds(UserPromptPart, PROMPTS, timestamp=TIMES),
    st.builds(
        ToolReturnPart,
        JSON_TEXT,
        VALUES,
        IDS,
        metadata=VALUES,
        timestamp=TIMES,
        outcome=st.sampled_from(["success", "failed", "denied", "retried"]),
    ),
    st.builds(RetryFeedbackPart, JSON_TEXT, retry=st.just(RetryInfo("no_output")), timestamp=TIMES),
)
RESPONSE_PARTS = st.one_of(
    st.builds(TextPart, JSON_TEXT, id=OPTIONAL, provider_details=st.none() | MAPS),
    st.builds(ThinkingPart, JSON_TEXT, signature=OPTIONAL, provider_name=OPTIONAL),
    st.builds(ToolCallPart, JSON_TEXT, st.none() | MAPS | JSON_TEXT | st.just('{"a": 1}'), IDS),
)
MESSAGES = st.one_of(
    st.builds(
        ModelRequest,
        parts=st.lists(REQUEST_PARTS, max_size=3),
        instructions=OPTIONAL,
        timestamp=st.none() | TIMES,
        metadata=st.none() | MAPS,
    ),
    st.builds(
        ModelResponse,
        parts=st.lists(RESPONSE_PARTS, max_size=3),
        usage=st.builds(RequestUsage, input_tokens=st.integers(0, 99), output_tokens=st.integers(0, 99)),
        model_name=OPTIONAL,
        provider_name=OPTIONAL,
        timestamp=TIMES,
        finish_reason=st.sampled_from([None, "stop", "tool_call"]),
        metadata=st.none() | MAPS,
    ),
)


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.in_memory() as found:
        yield found


async def outcome(call: Any) -> Any:
    """Return the result of a call, or the class of its error."""
    try:
        return await call
    except ConversationConflict:
        return ConversationConflict
    except LookupError:
        return LookupError


def dumped(entries: list[ConversationEntry]) -> Any:
    return ModelMessagesTypeAdapter.dump_python([entry.message for entry in entries], mode="json")


class Twins:
    """A sequence of calls of the primitives, applied to both stores."""

    def __init__(self, theirs: ConversationStore, ours: ConversationStore, draw: Any) -> None:
        self.theirs, self.ours, self.draw = theirs, ours, draw
        self.number = 0
        self.records: dict[str, ConversationRecord] = {}
        self.parents: dict[str, str | None] = {}

    def fresh(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number}"

    async def both(self, name: str, *args: Any, **options: Any) -> Any:
        expected = await outcome(getattr(self.theirs, name)(*args, **options))
        found = await outcome(getattr(self.ours, name)(*args, **options))
        assert found == expected, name
        return found

    async def write(self) -> None:
        """Append, rewrite, branch, or change only the record of a conversation, maybe with an old revision."""
        key = self.draw(st.sampled_from(["a", "b", "c"]))
        stored = self.records.get(key)
        own = self.line(stored.head_id, *stored.branches) if stored else []
        parent = self.draw(st.sampled_from([stored.head_id, stored.head_id, None, *own])) if stored else None
        base = self.line(parent)
        new = []
        for _ in range(self.draw(st.integers(0, 2))):
            new.append(ConversationEntry(id=self.fresh("e"), parent_id=parent, message=self.draw(MESSAGES)))
            parent = new[-1].id
        left = [stored.head_id, *stored.branches] if stored else []
        record = ConversationRecord(
            conversation_id=key,
            head_id=parent,
            usage=RunUsage(requests=self.draw(st.integers(0, 3)), details={"n": 1}),
            scope=self.draw(st.sampled_from([None, "one"])),
            branches=[tip for tip in dict.fromkeys(left) if tip is not None and tip not in base],
            revision=self.fresh("r"),
            updated_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.number),
        )
        expected = self.draw(st.sampled_from([stored.revision if stored else None] * 4 + ["old", None]))
        if await self.both("write_record", record, new_entries=new, expected_revision=expected) is None:
            self.parents |= {entry.id: entry.parent_id for entry in new}
            self.records[key] = record

    async def fork(self) -> None:
        """Create a conversation that begins at an entry of another one, which may be unknown."""
        key, entries = self.fresh("fork"), [id for each in self.records.values() for id in self.line(each.head_id)]
        head = self.draw(st.sampled_from([*entries, "unknown"]))
        record = ConversationRecord(
            conversation_id=key,
            head_id=head,
            forked_from="a",
            forked_at=head,
            revision=self.fresh("r"),
            updated_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.number),
        )
        if await self.both("write_record", record, expected_revision=None) is None:
            self.records[key] = record

    async def delete(self) -> None:
        key = self.draw(st.sampled_from(["a", "b", *self.records]))
        stored = self.records.get(key)
        expected = self.draw(st.sampled_from([stored.revision if stored else "none"] * 3 + ["old"]))
        if await self.both("delete_record", key, expected_revision=expected) is None:
            del self.records[key]

    def line(self, *tips: str | None) -> list[str]:
        """Return the ids of the entries in the histories that end at ``tips``."""
        found = []
        for tip in tips:
            while tip is not None:
                found.append(tip)
                tip = self.parents[tip]
        return found

    async def compare(self) -> None:
        for key in ["a", "b", "c", *self.records]:
            await self.both("read_record", key)
        await self.both("read_records")
        await self.both("read_records", scope="one", limit=1)
        for record in self.records.values():
            for tip in [record.head_id, *record.branches]:
                entries = await self.both("read_history", tip)
                assert dumped(entries) == dumped(await self.theirs.read_history(tip))
                await self.both("read_history", tip, limit=2)
                if tip is not None:
                    await self.both("read_entry", tip)


@settings(max_examples=40, phases=[Phase.explicit, Phase.generate])  # to shrink is slow, with threads and SQLite
@given(st.data())
def test_the_primitives_do_the_same_as_the_store_in_memory(data: st.DataObject) -> None:
    async def run(store: Store) -> None:
        twins = Twins(InMemoryConversationStore(), GitSessionConversationStore(store), data.draw)
        for _ in range(data.draw(st.integers(1, 6))):
            step = data.draw(st.sampled_from([twins.write, twins.write, twins.write, twins.fork, twins.delete]))
            await step()
        await twins.compare()
        twins.ours = GitSessionConversationStore(store)  # which knows no entry yet
        await twins.compare()

    with Store.in_memory() as store:
        asyncio.run(run(store))


async def converse(conversations: ConversationStore) -> list[Any]:
    """Return what a program sees of a conversation with branches, forks and conflicts."""
    agent = Agent(TestModel(), system_prompt="Be brief")
    agent.tool_plain(look)
    seen: list[Any] = []
    result = await agent.run("Hello", conversation=Conversation(conversation_id="a"))
    seen.append(len(await conversations.save(result, scope="ada")))
    conversation = await conversations.load("a")
    old = dataclasses.replace(conversation)
    result = await agent.run("More", conversation=conversation)
    seen.append(len(await conversations.save(result)))
    seen.append(await outcome(conversations.save(old)))
    branched = await conversations.branch("a", at=4, expected_revision=result.conversation.revision)
    await conversations.save(await agent.run("Again", conversation=branched))
    forked = await conversations.fork("a", at=4, new_conversation_id="b")
    await conversations.save(await agent.run("Aside", conversation=forked))
    for id in ("a", "b"):
        loaded = await conversations.load(id)
        seen += [loaded.usage, [part.part_kind for message in loaded.messages for part in message.parts]]
        window = await conversations.load(id, limit=2)
        await conversations.save(await agent.run("Last", conversation=window))
        seen.append(len((await conversations.load(id)).messages))
    seen.append([record.conversation_id for record in await conversations.list_conversations(scope="ada")])
    record = await conversations.read_record("a")
    back = await conversations.branch("a", from_entry=record.branches[0], expected_revision=record.revision)
    seen.append([part.part_kind for part in back.messages[-2].parts])
    await conversations.delete("a", scope="other")
    await conversations.delete("b")
    seen.append([record.conversation_id for record in await conversations.list_conversations()])
    return seen


def look(path: str) -> str:
    return f"{path} is empty"


def test_a_program_sees_the_same_as_with_the_store_in_memory(store: Store) -> None:
    ours = asyncio.run(converse(GitSessionConversationStore(store)))
    assert ours == asyncio.run(converse(InMemoryConversationStore()))


def test_branches_and_forks_are_in_the_tree(store: Store) -> None:
    asyncio.run(converse(GitSessionConversationStore(store)))
    session = store.session("pydantic-ai:a")
    assert set(session.branches()) == {"main", "branch-1"}
    subjects = [node.subject for node in session.history()]
    assert subjects[1:5] == [
        "system: Be brief", "user: Hello", "assistant: look (+1 tool)", "tool look: 1 line",
    ]  # fmt: skip
    [deleted] = store.trash.list()
    store.trash.restore(deleted.sid)
    assert store.session("pydantic-ai:b").origin().session == session.id


def test_messages_become_entries_with_their_parts(store: Store) -> None:
    request = ModelRequest(
        [
            UserPromptPart(["Look", BinaryContent(b"\x89PNG", media_type="image/png")]),
            ToolReturnPart("read", {"lines": 2}, "c1"),
            ToolReturnPart("read", "gone", "c2", outcome="failed"),
        ]
    )
    answer = ModelResponse(
        [TextPart("Done"), ToolCallPart("read", '{"path": "a"}', "c3")],
        usage=RequestUsage(input_tokens=3, output_tokens=4),
        model_name="m",
        provider_name="p",
    )
    conversations = GitSessionConversationStore(store)
    asyncio.run(conversations.save(Conversation(messages=[request, answer], conversation_id="a")))
    session = store.session("pydantic-ai:a")
    user, first, second, last = [session.read(node) for node in session.history()][1:]
    assert user.content == (Text("Look"), Image(b"\x89PNG", "image/png"))
    assert (first.role, first.tool_call_id, first.text, first.is_error) == ("tool", "c1", '{"lines":2}', False)
    assert (second.tool_call_id, second.text, second.is_error) == ("c2", "gone", True)
    assert last.content == (Text("Done"), ToolCall("c3", "read", {"path": "a"}))
    assert (last.provider, last.model, last.usage["input_tokens"], last.usage["output_tokens"]) == ("p", "m", 3, 4)


def test_a_paused_run_keeps_its_deferred_calls(store: Store) -> None:
    conversations = GitSessionConversationStore(store)
    waiting = DeferredToolRequests(approvals=[ToolCallPart("remove", {"path": "a"}, "c1")])
    saved = Conversation(
        messages=[ModelRequest([UserPromptPart("Remove a")]), ModelResponse(waiting.approvals)],
        conversation_id="a",
        deferred_tool_requests=waiting,
    )
    asyncio.run(conversations.save(saved))
    assert asyncio.run(conversations.load("a")).deferred_tool_requests == waiting


def test_two_writers_conflict_and_one_of_them_wins(store: Store) -> None:
    async def run() -> list[Any]:
        first, second = GitSessionConversationStore(store), GitSessionConversationStore(store)
        await first.save(Conversation(messages=[ModelRequest([UserPromptPart("Hello")])], conversation_id="a"))
        one, two = await first.load("a"), await second.load("a")
        one.messages.append(ModelResponse([TextPart("one")]))
        two.messages.append(ModelResponse([TextPart("two")]))
        results = await asyncio.gather(first.save(one), second.save(two), return_exceptions=True)
        return [type(result) for result in results] + [len((await first.load("a")).messages)]

    assert sorted(map(str, asyncio.run(run()))) == sorted(map(str, [list, ConversationConflict, 2]))


def test_a_damaged_conversation_is_an_error_and_hides_no_other_one(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store.git") as store:
        conversations = GitSessionConversationStore(store)
        for id in ("b", "a", "c"):
            saved = Conversation(messages=[ModelRequest([UserPromptPart("Hello")])], conversation_id=id)
            asyncio.run(conversations.save(saved))
        lost, kind = store.session("pydantic-ai:a").leaf, type(store.objects)
    with Store.open(tmp_path / "store.git") as store, pytest.MonkeyPatch.context() as patch:
        read = kind.read

        def read_others(self: Any, oid: str) -> Any:
            if oid == lost.oid:
                raise MissingObject(f"missing object {oid}")
            return read(self, oid)

        patch.setattr(kind, "read", read_others)
        patch.setattr(kind, "read_all", lambda self, oids: iter(()))
        for id in ("b", "c"):
            conversations = GitSessionConversationStore(store)
            record = asyncio.run(conversations.read_record(id))
            conversations = GitSessionConversationStore(store)  # which knows no entry yet
            assert asyncio.run(conversations.read_entry(record.head_id)).id == record.head_id
        with pytest.raises(MissingObject):
            asyncio.run(conversations.load("a"))


@pytest.mark.parametrize("text", DAMAGED_JSON)
def test_a_conversation_of_somebody_else_hides_no_other_one(text: str) -> None:
    with Store.in_memory() as store:
        conversations = GitSessionConversationStore(store)
        asyncio.run(conversations.save(Conversation(messages=[ModelRequest([])], conversation_id="good")))
        message = Message(role="user", content=(), extra={AGENT: text})
        store.keyed_session("bad", agent=AGENT).append(message)
        assert [record.conversation_id for record in asyncio.run(conversations.read_records())] == ["good"]
        with contextlib.suppress(Malformed):
            assert asyncio.run(conversations.read_record("bad")) is None
        with pytest.raises((LookupError, Malformed)):
            asyncio.run(conversations.read_history("x"))


def test_a_rewind_restores_the_conversation_and_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    with Store.create(tmp_path / "store.git") as store:
        conversations = GitSessionConversationStore(store)
        hello = Conversation(
            messages=[ModelRequest([UserPromptPart("Hello")]), ModelResponse([TextPart("Hi")])], conversation_id="a"
        )
        asyncio.run(conversations.save(hello))
        session = store.session("pydantic-ai:a")
        before = session.leaf
        with session.files.checkpoint(folder, call="c1", target=before):
            (folder / "a.txt").write_text("a")
        hello.messages.append(ModelRequest([UserPromptPart("Write a.txt")]))
        asyncio.run(conversations.save(hello))
        session = store.session("pydantic-ai:a")
        session.files.rewind(session.files.plan_rewind(before))
        assert not (folder / "a.txt").exists()
        rewound = asyncio.run(conversations.load("a"))
        assert len(rewound.messages) == 2
        rewound.messages.append(ModelRequest([UserPromptPart("Write b.txt")]))
        asyncio.run(conversations.save(rewound))
        assert len(asyncio.run(conversations.load("a")).messages) == 3
        assert store.verify().problems == []


def test_a_conversation_survives_a_kill(tmp_path: Path) -> None:
    Store.create(tmp_path / "store.git").close()
    kill_after(
        "import asyncio\n"
        "from pydantic_ai.conversation import Conversation\n"
        "from pydantic_ai.messages import ModelRequest, UserPromptPart\n"
        "from gitsession import Store\n"
        "from gitsession.frameworks.pydantic_ai import GitSessionConversationStore\n"
        "saved = Conversation(messages=[ModelRequest([UserPromptPart('Hello')])], conversation_id='a')\n"
        "asyncio.run(GitSessionConversationStore(Store.open('store.git')).save(saved))",
        tmp_path,
    )
    with Store.open(tmp_path / "store.git") as store:
        loaded = asyncio.run(GitSessionConversationStore(store).load("a"))
        assert [part.content for message in loaded.messages for part in message.parts] == ["Hello"]


RESULTS_OF_TWO_CALLS = """
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolReturnPart, UserPromptPart
from gitsession.frameworks.pydantic_ai import GitSessionConversationStore

async def prepare(store):
    saved = Conversation(messages=[ModelRequest([UserPromptPart("Hello")])], conversation_id="a")
    await GitSessionConversationStore(store).save(saved)

async def change(store):
    conversations = GitSessionConversationStore(store)
    saved = await conversations.load("a")
    results = [ToolReturnPart("read", text, text) for text in ("x", "y")]
    saved.messages += [ModelRequest(results), ModelResponse([TextPart("Done")])]
    await conversations.save(saved)
"""


def test_a_save_is_one_transaction(tmp_path: Path) -> None:
    killed, complete = kill_after_each_transaction(RESULTS_OF_TWO_CALLS, tmp_path)
    for place in (killed, complete):
        with Store.open(place) as store:
            assert len(asyncio.run(GitSessionConversationStore(store).load("a")).messages) == 3
            assert len([node for node in store.session("pydantic-ai:a").history() if node.kind == "message"]) == 4


def test_program_of_the_guide_runs_unchanged(tmp_path: Path) -> None:
    output = run_programs("keep-framework-conversations.md", "import asyncio\n\nfrom pydantic_ai", folder=tmp_path)
    assert output == "4 messages\n2 branches\n"
