"""Tests of the message history for LangChain."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_core")

from framework_items import JSON_TEXT, WILD_JSON, kill_after, run_programs
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from gitsession import Image, Malformed, Message, Store, Thinking
from gitsession.frameworks.langchain import GitSessionChatMessageHistory, from_langchain, to_langchain

pytestmark = pytest.mark.filterwarnings("ignore:The class `InMemoryChatMessageHistory` was deprecated")

DATA = base64.b64encode(b"\x89PNG").decode()
OPTIONAL = st.none() | JSON_TEXT
KWARGS = st.dictionaries(JSON_TEXT, WILD_JSON, max_size=2)
PARTS = st.one_of(
    JSON_TEXT,
    st.builds(lambda text, more: {**more, "type": "text", "text": text}, JSON_TEXT, KWARGS),
    st.builds(lambda text: {"type": "reasoning", "reasoning": text}, JSON_TEXT),
    st.builds(lambda text, sign: {"type": "thinking", "thinking": text, "signature": sign}, JSON_TEXT, JSON_TEXT),
    st.builds(lambda data: {"type": "redacted_thinking", "data": data}, JSON_TEXT),
    st.just({"type": "image", "base64": DATA, "mime_type": "image/png"}),
    st.just({"type": "image", "base64": "not base64", "mime_type": "image/png"}),
    st.just({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}", "detail": "low"}}),
    st.just({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}),
    st.just({"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}),
    st.just({"type": "file", "base64": DATA, "mime_type": "application/pdf"}),
    st.builds(lambda value: {"type": "other", "value": value}, WILD_JSON),
)
CONTENT = JSON_TEXT | st.lists(PARTS, max_size=3)
CALLS = st.lists(
    st.builds(
        lambda name, args, id: {"name": name, "args": args, "id": id, "type": "tool_call"},
        JSON_TEXT,
        st.dictionaries(JSON_TEXT, WILD_JSON, max_size=2),
        st.none() | st.sampled_from(["c1", "c2"]),
    ),
    max_size=2,
)
USAGE = st.none() | st.builds(
    lambda a, b, details: {"input_tokens": a, "output_tokens": b, "total_tokens": a + b, **details},
    st.integers(0, 9999),
    st.integers(0, 9999),
    st.sampled_from([{}, {"input_token_details": {"cache_read": 3}}]),
)
COMMON: dict[str, Any] = {
    "content": CONTENT,
    "additional_kwargs": KWARGS,
    "response_metadata": KWARGS | st.just({"model_name": "m", "model_provider": "p", "finish_reason": "stop"}),
    "name": OPTIONAL,
    "id": OPTIONAL,
}
MESSAGES = st.one_of(
    st.builds(HumanMessage, **COMMON),
    st.builds(SystemMessage, **COMMON),
    st.builds(AIMessage, **COMMON, tool_calls=CALLS, usage_metadata=USAGE),
    st.builds(AIMessageChunk, **COMMON, usage_metadata=USAGE),
    st.builds(HumanMessageChunk, **COMMON),
    st.builds(
        ToolMessage, **COMMON, tool_call_id=JSON_TEXT, status=st.sampled_from(["success", "error"]), artifact=WILD_JSON
    ),
    st.builds(ChatMessage, **COMMON, role=JSON_TEXT),
    st.builds(FunctionMessage, **{**COMMON, "name": JSON_TEXT}),
    JSON_TEXT.map(lambda id: RemoveMessage(id=id)),
)
OPERATIONS = st.lists(st.none() | st.lists(MESSAGES, max_size=3), max_size=4)
"""Sequences of calls: lists of messages to add, and ``None`` for ``clear``."""


def assert_same(found: list[BaseMessage], expected: list[BaseMessage]) -> None:
    assert [type(message) for message in found] == [type(message) for message in expected]
    assert found == expected


@given(OPERATIONS)
def test_the_history_is_that_of_the_one_in_memory(operations: list[list[BaseMessage] | None]) -> None:
    theirs = InMemoryChatMessageHistory()
    with Store.in_memory() as store:
        ours = GitSessionChatMessageHistory("chat", store)
        for messages in operations:
            for history in (theirs, ours):
                if messages is None:
                    history.clear()
                else:
                    history.add_messages(messages)
            assert_same(ours.messages, theirs.messages)
        assert_same(GitSessionChatMessageHistory("chat", store).messages, theirs.messages)


@given(OPERATIONS)
def test_the_async_methods_do_the_same(operations: list[list[BaseMessage] | None]) -> None:
    async def run(history: Any) -> list[BaseMessage]:
        for messages in operations:
            await (history.aclear() if messages is None else history.aadd_messages(messages))
        return await history.aget_messages()

    with Store.in_memory() as store:
        ours = GitSessionChatMessageHistory("chat", store)
        assert_same(asyncio.run(run(ours)), asyncio.run(run(InMemoryChatMessageHistory())))


def test_messages_become_entries_with_their_parts() -> None:
    answer = from_langchain(
        AIMessage(
            [{"type": "reasoning", "reasoning": "Hm"}, {"type": "text", "text": "I'll look"}],
            tool_calls=[{"name": "read", "args": {"path": "a.py"}, "id": "c1"}],
            response_metadata={"model_name": "gpt", "model_provider": "openai", "finish_reason": "tool_calls"},
            usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
        )
    )
    assert [block.type for block in answer.content] == ["thinking", "text", "tool_call"]
    assert (answer.provider, answer.model, answer.stop) == ("openai", "gpt", "tool_calls")
    assert answer.usage == {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    result = from_langchain(ToolMessage("gone", tool_call_id="c1", name="read", status="error"))
    assert (result.role, result.tool_call_id, result.tool_name, result.is_error) == ("tool", "c1", "read", True)
    shown = from_langchain(HumanMessage([{"type": "image", "base64": DATA, "mime_type": "image/png"}]))
    assert shown.content == (Image(b"\x89PNG", "image/png"),)


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage("Hello"),
        SystemMessage("Be brief"),
        ToolMessage("done", tool_call_id="c1", name="f", status="error"),
        AIMessage("", tool_calls=[{"name": "f", "args": {"a": [1, None]}, "id": "c1"}]),
        HumanMessage([{"type": "text", "text": "a"}, {"type": "image", "base64": DATA, "mime_type": "image/png"}]),
    ],
)
def test_nothing_is_stored_twice_if_the_entry_determines_the_message(message: BaseMessage) -> None:
    entry = from_langchain(message)
    assert entry.extra == {} and to_langchain(entry) == message


def test_entries_of_other_programs_are_messages_too() -> None:
    assert to_langchain(Message.user("Hello")) == HumanMessage("Hello")
    shell = Message(role="shell", command="ls", output="a.py")
    assert to_langchain(shell) == HumanMessage("$ ls\na.py")
    assert to_langchain(Message.assistant([Thinking("Hm", "sig")])).content == [
        {"type": "thinking", "thinking": "Hm", "signature": "sig"}
    ]


def test_a_message_that_is_not_json_is_refused_and_nothing_is_stored() -> None:
    with Store.in_memory() as store:
        history = GitSessionChatMessageHistory("chat", store)
        with pytest.raises(Malformed, match="Object of type set"):
            history.add_messages([HumanMessage("Hello"), HumanMessage("a", additional_kwargs={"tags": {1}})])
        assert history.messages == []


def test_a_program_may_change_the_messages_that_it_receives() -> None:
    added = [
        HumanMessage([{"type": "other", "value": {"a": [1]}}], additional_kwargs={"more": {"b": [2]}}),
        AIMessage("", tool_calls=[{"name": "f", "args": {"x": {"y": 1}}, "id": "1", "type": "tool_call"}]),
    ]
    with Store.in_memory() as store:
        history = GitSessionChatMessageHistory("chat", store)
        history.add_messages(added)
        [question, answer] = history.messages
        question.content[0]["value"]["a"].append(3)
        question.additional_kwargs["more"]["b"].append(3)
        answer.tool_calls[0]["args"]["x"]["y"] = 2
        assert history.messages == added


def test_a_cleared_history_stays_in_the_session(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store.git") as store:
        history = GitSessionChatMessageHistory("chat", store)
        history.add_user_message("My name is Ada")
        history.clear()
        history.add_user_message("Hello")
        assert [message.content for message in history.messages] == ["Hello"]
        assert len(store.search("Ada")) == 1
        assert [item.entry.text for item in history.session.context().items] == ["Hello"]


def test_a_history_follows_a_branch() -> None:
    with Store.in_memory() as store:
        history = GitSessionChatMessageHistory("chat", store)
        history.add_messages([HumanMessage("Hello"), AIMessage("Hi")])
        session = store.session("langchain:chat")
        session.branch("again", at="user")
        session.switch("again")
        again = GitSessionChatMessageHistory("chat", store)
        again.add_ai_message("Bonjour")
        assert [message.content for message in again.messages] == ["Hello", "Bonjour"]
        assert [message.content for message in history.messages] == ["Hello", "Hi"]


def test_a_rewind_restores_the_messages_and_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    with Store.create(tmp_path / "store.git") as store:
        history = GitSessionChatMessageHistory("chat", store, cwd=str(folder))
        history.add_user_message("Write a.txt")
        with history.session.files.checkpoint(folder, call="c1", target=history.session.leaf):
            (folder / "a.txt").write_text("a")
        history.add_messages([AIMessage("Done")])
        session = store.session("langchain:chat")
        session.files.rewind(session.files.plan_rewind("user"))
        assert not (folder / "a.txt").exists()
        assert GitSessionChatMessageHistory("chat", store).messages == []


def test_messages_survive_a_kill(tmp_path: Path) -> None:
    Store.create(tmp_path / "store.git").close()
    kill_after(
        "from langchain_core.messages import AIMessage\n"
        "from gitsession import Store\n"
        "from gitsession.frameworks.langchain import GitSessionChatMessageHistory as History\n"
        "History('chat', Store.open('store.git')).add_messages([AIMessage('Hello', id='1')])",
        tmp_path,
    )
    with Store.open(tmp_path / "store.git") as store:
        assert GitSessionChatMessageHistory("chat", store).messages == [AIMessage("Hello", id="1")]
        assert store.verify().problems == []


def test_program_of_the_guide_runs_unchanged(tmp_path: Path) -> None:
    output = run_programs("keep-framework-conversations.md", "from langchain_core", folder=tmp_path)
    assert output == "You are Ada.\n4 messages\n"
