"""Tests of the checkpointer for LangGraph: the conformance suite of LangGraph, and what a store adds to it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import operator
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph.checkpoint.base", reason="the extra langgraph is not installed")

import langgraph.checkpoint.base
import ormsgpack
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT

from benchmarks import data
from gitsession import Message, Store, Text
from gitsession.frameworks.langgraph import GitSessionSaver
from gitsession.frameworks.langgraph_thread import LangGraphThread
from gitsession.frameworks.langgraph_values import ValueCodec

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git") as store:
        yield store


def at(thread: str = "t", id: str | None = None, namespace: str = "") -> Any:
    found = {"thread_id": thread, "checkpoint_ns": namespace}
    return {"configurable": found | ({"checkpoint_id": id} if id else {})}


def put(saver: Any, config: Any, values: dict[str, Any], versions: dict[str, int], step: int, id: str = "") -> Any:
    """Store a checkpoint with all channels in ``versions`` as new ones."""
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"], checkpoint["channel_versions"] = values, dict(versions)
    if id:
        checkpoint |= {"id": id, "ts": "2026-01-01T00:00:00+00:00"}
    return saver.put(config, checkpoint, {"source": "loop", "step": step, "parents": {}}, versions)


def grown(saver: Any, messages: list[Any], thread: str = "t") -> Any:
    """Store a checkpoint for each message, with all messages so far."""
    config = at(thread)
    for step in range(1, len(messages) + 1):
        config = put(saver, config, {"messages": messages[:step]}, {"messages": step}, step)
    return config


def messages_of(found: CheckpointTuple | None) -> list[Any]:
    assert found is not None
    return found.checkpoint["channel_values"]["messages"]


# ---- LangGraph's own tests


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open a thread anew for each operation, with the state that the last reader cached."""
    monkeypatch.setattr("gitsession.frameworks.langgraph._THREADS_MAX", 0)
    monkeypatch.setattr("gitsession.frameworks.langgraph_thread._UNCACHED_MAX", 1)


@pytest.mark.parametrize("fixture", [None, "cold"])
def test_the_conformance_suite_passes_with_all_capabilities(
    tmp_path: Path, request: pytest.FixtureRequest, fixture: str | None
) -> None:
    if fixture:
        request.getfixturevalue(fixture)
    conformance = pytest.importorskip("langgraph.checkpoint.conformance")

    @conformance.checkpointer_test(name="GitSessionSaver")
    async def saver() -> Any:
        with Store.create(tmp_path / "store.git") as store:
            yield GitSessionSaver(store)

    report = asyncio.run(conformance.validate(saver))
    passed = {name: result.tests_passed for name, result in report.results.items()}
    assert [failure for result in report.results.values() for failure in result.failures or ()] == []
    assert all(result.detected for result in report.results.values()) and report.passed_all()
    assert passed == {
        "put": 17,
        "put_writes": 10,
        "get_tuple": 10,
        "list": 16,
        "delete_thread": 5,
        "delete_for_runs": 7,
        "copy_thread": 8,
        "prune": 8,
    }
    assert sum(passed.values()) == 81


# ---- what is stored

MESSAGES = [
    SystemMessage("Answer in one word."),
    HumanMessage("What is the capital of France?", id="1", name="ada"),
    AIMessage(
        "Let me look.",
        id="2",
        tool_calls=[{"name": "look_up", "args": {"word": "France", "deep": [1, 2.5, None]}, "id": "c1"}],
        usage_metadata={"input_tokens": 9, "output_tokens": 4, "total_tokens": 13},
        response_metadata={"model_name": "scripted-1", "model_provider": "none"},
    ),
    ToolMessage("Paris", tool_call_id="c1", name="look_up", artifact={"rows": [1]}),
    ToolMessage("failed", tool_call_id="c2", status="error"),
    AIMessage([{"type": "thinking", "thinking": "Paris?", "signature": "s"}, {"type": "text", "text": "Paris"}]),
    AIMessage(
        [{"type": "text", "text": "again"}, {"type": "tool_use", "id": "c3", "name": "f", "input": {"x": 1}}],
        tool_calls=[{"name": "f", "args": {"x": 1}, "id": "c3"}],
    ),
    HumanMessage([{"type": "image", "base64": "aGFsbG8=", "mime_type": "image/png"}, "and text"]),
    HumanMessage([{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGFsbG8="}}]),
    HumanMessage([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGFsbG8="}}]),
    HumanMessage([{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, {"type": "new", "a": 1}]),
]
UNUSUAL = [
    AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": None}]),
    AIMessage("x", additional_kwargs={"set": {1, 2}, "tuple": (1, 2), "@typed": 1}),
    AIMessage("x", tool_calls=[{"name": "f", "args": {"huge": 2**63, "nan": [float("inf")]}, "id": "c"}]),
    AIMessageChunk("part", id="7"),
    RemoveMessage(id="2"),
    {"role": "user", "content": "a plain dict"},
    ("user", "a tuple"),
    None,
    b"bytes",
    [1, [2, {"three": 3.0}]],
]


@pytest.mark.parametrize("message", MESSAGES + UNUSUAL, ids=lambda message: type(message).__name__)
def test_a_value_in_a_list_is_returned_as_it_was(tmp_path: Path, message: Any) -> None:
    memory = InMemorySaver()
    with Store.create(tmp_path / "store.git") as store:
        saver = GitSessionSaver(store)
        for one in (saver, memory):
            put(one, at(), {"messages": ["before", message, message]}, {"messages": 1}, 1)
    with Store.open(tmp_path / "store.git") as store:
        found, expected = messages_of(GitSessionSaver(store).get_tuple(at())), messages_of(memory.get_tuple(at()))
    assert repr(found) == repr(expected)  # with the types: 1, 1.0 and True are equal


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_an_entry(store: Store, message: Any) -> None:
    grown(GitSessionSaver(store), [message])
    session = store.session("langgraph:t")
    entry = session.read(session.leaf)
    assert isinstance(entry, Message)
    role = {"human": "user", "ai": "assistant"}.get(message.type, message.type)
    texts = [message.content] if isinstance(message.content, str) else []
    texts += [part["text"] for part in message.content if isinstance(part, dict) and "text" in part]
    assert entry.role == role and [block.text for block in entry.content if isinstance(block, Text)] == texts
    assert "content" not in entry.extra["langgraph"]["message"].get("fields", {})


def test_messages_can_be_read_and_searched(store: Store) -> None:
    grown(GitSessionSaver(store), MESSAGES[1:4])
    session = store.session("langgraph:t")
    assert [node.subject for node in session.history()][1:] == [
        "user: What is the capital of France?",
        "assistant: Let me look. (+1 tool)",
        "tool look_up: 1 line",
    ]
    assert [hit.session.sid for hit in store.search("capital")] == [session.id]
    request = session.context().request("anthropic")
    assert [message["role"] for message in request["messages"]] == ["user", "assistant", "user"]
    assert store.sessions()[0].tokens == 13


def test_only_new_messages_are_stored(store: Store) -> None:
    saver, config = GitSessionSaver(store), at()
    versions = range(1, 100)
    states = [["a", "b"], ["a", "b", "c"], ["b", "c", "d"], ["b", "X", "c", "d"], ["d", "b"], [], ["a"]]
    for version, state in zip(versions, states, strict=False):
        messages = [HumanMessage(text, id=text) for text in state]
        config = put(saver, config, {"messages": messages}, {"messages": version}, version)
    subjects = [node.subject for node in store.session("langgraph:t").history()]
    said = [subject for subject in subjects if subject.startswith("user")]
    assert said == [f"user: {text}" for text in ["a", "b", "c", "d", "X", "a"]]
    found = [[message.content for message in messages_of(one)] for one in GitSessionSaver(store).list(at())]
    assert found == states[::-1]


def test_800_steps_of_a_growing_list_take_one_megabyte(store: Store) -> None:
    texts = [f"{n} {said.plain['content']}" for n, said in zip(range(800), itertools.cycle(data.messages()))]
    assert sum(map(len, texts)) > 300_000
    saver = GitSessionSaver(store)
    grown(saver, [(HumanMessage, AIMessage)[n % 2](text, id=str(n)) for n, text in enumerate(texts)])
    store.flush()
    store.maintain()
    packs = [path.stat().st_size for path in (store.objects.git_dir / "objects" / "pack").iterdir()]
    assert sum(packs) <= 1_000_000
    assert [message.content for message in messages_of(GitSessionSaver(store).get_tuple(at()))] == texts


def _change_text(message: Any) -> None:
    message.content = "changed"


def _change_inside(message: Any) -> None:
    message.additional_kwargs["deep"]["list"].append(2)


def _change_extra(message: Any) -> None:
    message.unknown_field = "new"


@pytest.mark.parametrize("change", [_change_text, _change_inside, _change_extra])
@pytest.mark.parametrize("which", [0, 1])
def test_a_change_of_a_message_in_place_is_stored(store: Store, change: Any, which: int) -> None:
    ours, theirs = GitSessionSaver(store), InMemorySaver()
    ids = [f"{number:08}" for number in range(4)]
    for saver in (ours, theirs):
        config, messages = at(), [HumanMessage("one", id="1", additional_kwargs={"deep": {"list": [1]}})]
        for step, id in enumerate(ids):
            messages = [*messages, AIMessage("two", id=f"{step}", additional_kwargs={"deep": {"list": [1]}})]
            config = put(saver, config, {"messages": messages}, {"messages": step}, step, id=id)
            if step == 1:
                change(messages[which])
    for saver in (ours, GitSessionSaver(store)):
        found = [repr(messages_of(one)) for one in saver.list(at())]
        assert found == [repr(messages_of(one)) for one in theirs.list(at())]


def test_a_value_that_was_returned_can_be_changed(store: Store) -> None:
    saver = GitSessionSaver(store)
    put(saver, at(), {"plain": {"a": [1]}, "messages": [HumanMessage("x")]}, {"plain": 1, "messages": 1}, 1)
    for _ in range(2):
        found = saver.get_tuple(at()).checkpoint["channel_values"]
        assert found["plain"] == {"a": [1]} and len(found["messages"]) == 1
        found["plain"]["a"].append(2)
        found["messages"].clear()


def test_secrets_are_redacted(store: Store) -> None:
    token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    saver = GitSessionSaver(store)
    config = put(saver, at(), {"messages": [HumanMessage(f"use {token}")]}, {"messages": 1}, 1)
    saver.put_writes(config, [("messages", [AIMessage(f"used {token}")])], "task")
    assert token in messages_of(saver.get_tuple(at()))[0].content
    with Store.open(store.objects.git_dir) as other:
        found = GitSessionSaver(other).get_tuple(at())
    assert token not in repr(found) and messages_of(found)[0].content.startswith("use ")


def test_an_encrypting_serializer_encrypts_everything(store: Store) -> None:
    from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    class Reversing:
        def encrypt(self, plain: bytes) -> tuple[str, bytes]:
            return "reversed", plain[::-1]

        def decrypt(self, name: str, data: bytes) -> bytes:
            return data[::-1]

    serde = EncryptedSerializer(Reversing(), JsonPlusSerializer())
    grown(GitSessionSaver(store, serde=serde), MESSAGES[:3])
    assert messages_of(GitSessionSaver(store, serde=serde).get_tuple(at())) == MESSAGES[:3]
    session = store.session("langgraph:t")
    assert {node.kind for node in session.history()[1:]} == {"custom"}
    assert "France" not in repr([session.read(node) for node in session.history()])


# ---- forks, and what LangGraph deletes


def test_a_fork_is_a_branch_with_a_readable_name(store: Store) -> None:
    saver = GitSessionSaver(store)
    first = grown(saver, MESSAGES[:1])
    put(saver, first, {"messages": MESSAGES[:2]}, {"messages": 2}, 2)
    other = put(saver, first, {"messages": [MESSAGES[0], MESSAGES[7]]}, {"messages": 3}, 2)
    put(saver, first, {"messages": []}, {"messages": 4}, 2)
    session = store.session("langgraph:t")
    assert list(session.branches()) == ["main", "loop-2", "loop-2-2"]
    assert messages_of(saver.get_tuple(other)) == [MESSAGES[0], MESSAGES[7]]
    assert [one.parent_config for one in saver.list(at())] == [first, first, first, None]
    assert session.branch_name == "loop-2-2" and messages_of(saver.get_tuple(at())) == []


def test_the_newest_checkpoint_is_on_the_branch_that_the_user_selects(store: Store) -> None:
    saver = GitSessionSaver(store)
    second = grown(saver, MESSAGES[:2])
    grown(saver, MESSAGES[:2] + MESSAGES[5:7], thread="t")
    session = store.session("langgraph:t")
    session.switch("main")
    assert saver.get_tuple(at()).config == second
    session.branch("earlier", at="leaf~1")
    session.switch("earlier")
    assert messages_of(saver.get_tuple(at())) == MESSAGES[:1]
    put(saver, saver.get_tuple(at()).config, {"messages": [MESSAGES[0], MESSAGES[7]]}, {"messages": 2}, 2)
    assert messages_of(saver.get_tuple(at())) == [MESSAGES[0], MESSAGES[7]]
    assert store.session("langgraph:t").branch_name == "earlier"


def test_deleted_checkpoints_stay_in_the_tree(store: Store) -> None:
    saver = GitSessionSaver(store)
    grown(saver, MESSAGES[:5])
    entries = len(store.session("langgraph:t").tree().nodes)
    saver.prune(["t"])
    assert len([*saver.list(at())]) == 1 and messages_of(saver.get_tuple(at())) == MESSAGES[:5]
    assert [messages_of(one) for one in GitSessionSaver(store).list(at())] == [MESSAGES[:5]]
    assert len(store.session("langgraph:t").tree().nodes) == entries + 1
    saver.delete_thread("t")
    assert saver.get_tuple(at()) is None and [*saver.list(None)] == []
    [removed] = store.trash.list()
    store.trash.restore(removed.sid)
    assert messages_of(saver.get_tuple(at())) == MESSAGES[:5]


def test_an_unknown_strategy_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="keep_latest"):
        GitSessionSaver(store).prune(["t"], strategy="all")


def test_a_copy_has_the_branches(store: Store) -> None:
    saver = GitSessionSaver(store)
    first = grown(saver, MESSAGES[:3])
    put(saver, at(id=[*saver.list(at())][1].config["configurable"]["checkpoint_id"]), {}, {}, 9)
    saver.put_writes(first, [("messages", [1]), (ERROR, "no")], "task")
    saver.copy_thread("t", "u")
    assert list(store.session("langgraph:u").branches()) == ["main", "loop-9"]
    expected = [one._replace(config=None, parent_config=None) for one in saver.list(at())]
    for one in (saver, GitSessionSaver(store)):
        assert [found._replace(config=None, parent_config=None) for found in one.list(at("u"))] == expected


@pytest.mark.parametrize("thread", ["a#b", "a%23b", "a", "ä/ö 1"])
@pytest.mark.parametrize("namespace", ["", "child:1", "a#b|c"])
def test_threads_and_namespaces_are_distinct(store: Store, thread: str, namespace: str) -> None:
    saver = GitSessionSaver(store)
    put(saver, at("a"), {"x": 0}, {"x": 1}, 1)
    put(saver, at(thread, namespace=namespace), {"x": 1}, {"x": 1}, 2)
    found = [one.config["configurable"] for one in GitSessionSaver(store).list({"configurable": {"thread_id": thread}})]
    assert {"thread_id": thread, "checkpoint_ns": namespace} in [
        {name: value for name, value in one.items() if name != "checkpoint_id"} for one in found
    ]
    assert all(one["thread_id"] == thread for one in found)


# ---- comparison with LangGraph's saver in memory


@pytest.mark.parametrize("fixture", [None, "cold"])
def test_random_operations_give_the_results_of_the_saver_in_memory(
    tmp_path: Path, request: pytest.FixtureRequest, fixture: str | None
) -> None:
    if fixture:
        request.getfixturevalue(fixture)
    numbers = itertools.count()
    hypothesis = pytest.importorskip("hypothesis")
    st = hypothesis.strategies
    plain = st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
        max_leaves=4,
    )
    message = st.sampled_from(MESSAGES + UNUSUAL)
    step = st.tuples(
        st.sampled_from(["append", "append", "edit", "other", "writes", "writes", "reopen"]),
        st.integers(0, 30),
        st.lists(message | plain, max_size=3),
        st.sampled_from(["messages", "other", ERROR, INTERRUPT]),
    )

    @hypothesis.settings(
        max_examples=30 if fixture else 60,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        derandomize=True,
    )
    @hypothesis.given(st.lists(step, max_size=12))
    def compare(steps: list[Any]) -> None:
        with Store.create(tmp_path / f"{next(numbers)}.git") if fixture else Store.in_memory() as store:
            _compare(store, steps)

    compare()


def _compare(store: Store, steps: list[Any]) -> None:
    ours, theirs = GitSessionSaver(store), InMemorySaver()
    known: list[Any] = [at()]
    states: list[Any] = [({}, {})]
    version = 0
    for number, (action, where, values, channel) in enumerate(steps):
        at_index = where % len(known)
        config, (state, versions) = known[at_index], states[at_index]
        if action == "reopen":
            ours = GitSessionSaver(store)
        elif action == "writes":
            if at_index:
                for saver in (ours, theirs):
                    saver.put_writes(
                        config, [(channel, value) for value in values], f"task{where % 3}", f"p{where % 2}"
                    )
        else:
            version += 1
            old = state.get("messages", [])
            name = "other" if action == "other" else "messages"
            new = {"append": [*old, *values], "edit": [*values, *old[where % 2 :: 2], *old[:1]], "other": values[:1]}
            state = {**state, name: new[action]}
            if action == "other" and where % 5 == 0:
                state.pop("messages", None)
            versions = {key: versions.get(key) for key in state} | {name: version}
            checkpoint = empty_checkpoint()
            checkpoint |= {"id": f"{number:08}", "channel_values": state, "channel_versions": versions}
            metadata: Any = {"source": "loop", "step": number, "kind": action}
            stored = [saver.put(config, checkpoint, metadata, {name: version}) for saver in (ours, theirs)]
            assert stored[0] == stored[1]
            known.append(stored[0])
            states.append((state, versions))
    for saver in (ours, GitSessionSaver(store)):
        assert shown(saver.list(at())) == shown(theirs.list(at()))
        for config in known:
            assert shown([saver.get_tuple(config)]) == shown([theirs.get_tuple(config)])
        for wanted in ({"kind": "append"}, {"step": 3}):
            assert shown(saver.list(at(), filter=wanted, limit=2)) == shown(theirs.list(at(), filter=wanted, limit=2))


def shown(found: Iterable[CheckpointTuple | None]) -> list[str]:
    """Return checkpoints as text, with the types of the values: ``1``, ``1.0`` and ``True`` are equal."""
    if not hasattr(langgraph.checkpoint.base, "writes_sort_key"):  # before 4.3, writes had no defined order
        found = [one and one._replace(pending_writes=sorted(one.pending_writes or (), key=repr)) for one in found]
    return [repr(one and one._replace(checkpoint=sorted(one.checkpoint.items()))) for one in found]


# ---- the cached state of a long thread


@pytest.fixture
def caching(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Cache the state of short threads, too, and return the ids of the sessions whose entries were all read."""
    monkeypatch.setattr("gitsession.frameworks.langgraph_thread._UNCACHED_MAX", 1)
    complete: list[str] = []
    read_all = LangGraphThread.read_all

    def recording(thread: LangGraphThread) -> None:
        complete.extend([thread.sid] if thread._floor is not None else [])
        read_all(thread)

    monkeypatch.setattr(LangGraphThread, "read_all", recording)
    return complete


def cached_files(store: Store) -> list[Path]:
    return [*(store.objects.git_dir / "gitsession" / "threads").glob("*")]


def test_another_process_reads_only_what_follows_the_cached_state(store: Store, caching: list[str]) -> None:
    memory = InMemorySaver()
    ids = [f"{number:08}" for number in range(12)]
    for saver in (GitSessionSaver(store), memory):
        config = at()
        for number, id in enumerate(ids):
            values, versions = {"messages": MESSAGES[: number + 1], "n": number}, {"messages": number, "n": number}
            config = put(saver, config, values, versions, 1, id)
            saver.put_writes(config, [("n", number), (ERROR, "no")], "task")
            if number == 6 and saver is not memory:
                GitSessionSaver(store).get_tuple(at())
    [file] = cached_files(store)
    assert file.stat().st_mode & 0o777 == 0o600
    saver = GitSessionSaver(store)
    assert shown([saver.get_tuple(at())]) == shown([memory.get_tuple(at())])
    for one in (saver, memory):  # a graph continues, and replaces a write
        one.put_writes(at(id=ids[-1]), [(ERROR, "again")], "task")
        put(one, at(id=ids[-1]), {"messages": MESSAGES, "n": 0}, {"messages": 99, "n": 99}, 1, "00000099")
    assert shown([saver.get_tuple(at())]) == shown([memory.get_tuple(at())])
    assert caching == []
    assert shown(saver.list(at())) == shown(memory.list(at()))
    assert caching == [store.session("langgraph:t").id]
    assert shown(GitSessionSaver(store).list(at())) == shown(memory.list(at()))


@pytest.mark.parametrize("operation", ["find", "list", "fork", "prune", "copy", "first", "writes", "rewind"])
def test_all_entries_are_read_when_they_are_needed(store: Store, caching: list[str], operation: str) -> None:
    memory, ids = InMemorySaver(), [f"{number:08}" for number in range(5)]
    for saver in (GitSessionSaver(store), memory):
        config = at()
        for number, id in enumerate(ids):
            config = put(saver, config, {"messages": MESSAGES[: number + 1]}, {"messages": number}, number, id)
            saver.put_writes(config, [("n", number), (ERROR, "no")], "task")
    GitSessionSaver(store).get_tuple(at())
    assert len(cached_files(store)) == 1
    saver = GitSessionSaver(store)
    assert saver.get_tuple(at()) is not None and caching == []
    for one in (saver, memory):
        if operation == "find":
            assert messages_of(one.get_tuple(at(id=ids[1]))) == MESSAGES[:2]
        elif operation == "fork":
            put(one, at(id=ids[1]), {"messages": [MESSAGES[0], MESSAGES[7]]}, {"messages": 50}, 2, "00000050")
        elif operation == "first":
            put(one, at(), {"messages": MESSAGES[:1]}, {"messages": 51}, -1, "00000051")
        elif operation == "writes":
            one.put_writes(at(id=ids[2]), [("n", 2), ("m", 3), (ERROR, "again")], "task")
    if operation == "prune":
        saver.prune(["t"])
        assert shown(saver.list(at())) == shown(memory.list(at(), limit=1))
    elif operation == "copy":
        saver.copy_thread("t", "u")
        assert [messages_of(one) for one in saver.list(at("u"))] == [messages_of(one) for one in memory.list(at())]
    elif operation == "rewind":
        session = store.session("langgraph:t")
        session.branch("earlier", at=session.history()[2])
        session.switch("earlier")
        assert messages_of(saver.get_tuple(at())) == messages_of(GitSessionSaver(store).get_tuple(at())) == MESSAGES[:1]
    else:
        for one in (saver, GitSessionSaver(store)):
            assert shown(one.list(at())) == shown(memory.list(at()))
            assert shown([one.get_tuple(at())]) == shown([memory.get_tuple(at())])


@pytest.mark.parametrize("damage", [b"", b"x", b"x" * 1000])
def test_a_damaged_cached_state_is_ignored(store: Store, caching: list[str], damage: bytes) -> None:
    grown(GitSessionSaver(store), MESSAGES[:5])
    GitSessionSaver(store).get_tuple(at())
    [file] = cached_files(store)
    file.write_bytes(file.read_bytes()[: 40 if damage else 0] + damage)
    assert messages_of(GitSessionSaver(store).get_tuple(at())) == MESSAGES[:5]


def test_no_secret_is_cached_and_a_purge_deletes_the_cached_state(store: Store, caching: list[str]) -> None:
    token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    saver = GitSessionSaver(store)
    grown(saver, [HumanMessage(f"use {token}"), HumanMessage("a private word")])
    saver.get_tuple(at())
    assert cached_files(store) == []  # the state has the original
    GitSessionSaver(store).get_tuple(at())
    [file] = cached_files(store)
    assert token.encode() not in file.read_bytes() and b"private word" in file.read_bytes()
    store.purges.apply(store.purges.plan(text="private word"))
    assert cached_files(store) == []
    found = GitSessionSaver(store).get_tuple(at())
    assert "private word" not in repr(found)


# ---- threads, processes, kills


def test_threads_share_a_saver(store: Store) -> None:
    saver = GitSessionSaver(store)
    first = grown(saver, MESSAGES[:1])

    def write(number: int) -> None:
        saver.put_writes(first, [("x", number), ("y", number)], f"task{number}")
        grown(saver, MESSAGES[: number % 3 + 1], thread=f"t{number % 4}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(16)))
    for one in (saver, GitSessionSaver(store)):
        assert len(one.get_tuple(first).pending_writes) == 32
        assert sum(1 for _ in one.list(at("t1"))) == sum(number % 3 + 1 for number in range(16) if number % 4 == 1)
    assert store.verify().problems == []


def test_the_memory_of_a_saver_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitsession.frameworks.langgraph._THREADS_MAX", 2)
    saver = GitSessionSaver(store)
    for number in [1, 2, 3, 1, 2]:
        grown(saver, MESSAGES[:number], thread=f"t{number}")
        assert len(saver._threads) <= 2
    assert sum(1 for _ in saver.list(at("t2"))) == 4


WRITER = """
    import sys
    from langchain_core.messages import HumanMessage
    from langgraph.checkpoint.base import empty_checkpoint
    from gitsession import Store
    from gitsession.frameworks.langgraph import GitSessionSaver

    path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with Store.open(path) as store:
        saver, config, messages = GitSessionSaver(store), {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, []
        for step in range(1, count + 1):
            messages = [*messages, HumanMessage(f"{name} {step}", id=f"{name}-{step}")]
            checkpoint = empty_checkpoint()
            checkpoint["channel_values"] = {"messages": messages}
            checkpoint["channel_versions"] = {"messages": step}
            config = saver.put(config, checkpoint, {"source": "loop", "step": step}, {"messages": step})
            saver.put_writes(config, [("messages", [name])], name)
            print(step, flush=True)
"""


def _writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    code = textwrap.dedent(WRITER)
    arguments = [sys.executable, "-c", code, str(path), name, str(count)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def test_two_processes_write_to_one_thread(store: Store) -> None:
    writers = [_writer(store.objects.git_dir, name, 25) for name in ("one", "two")]
    assert [writer.wait() for writer in writers] == [0, 0]
    for writer in writers:
        writer.stdout.close()
    found = [*GitSessionSaver(store).list(at())]
    assert len(found) == 50 and all(len(one.pending_writes) == 1 for one in found)
    for one in found:
        names = {message.content.partition(" ")[0] for message in messages_of(one)}
        assert len(names) == 1 and len(messages_of(one)) == one.metadata["step"]
    assert store.verify().problems == []


def test_a_killed_process_loses_nothing_that_was_stored(store: Store) -> None:
    writer = _writer(store.objects.git_dir, "one", 10_000)
    acknowledged = [next(writer.stdout) for _ in range(20)]
    os.kill(writer.pid, signal.SIGKILL)
    acknowledged += writer.stdout.readlines()
    writer.wait()
    writer.stdout.close()
    done = int([line for line in acknowledged if line.endswith("\n")][-1])
    saver = GitSessionSaver(store)
    found = saver.get_tuple(at())
    assert len(messages_of(found)) in (done, done + 1)
    put(saver, found.config, {"messages": [*messages_of(found), HumanMessage("again")]}, {"messages": 99_999}, 99_999)
    said = [node.subject for node in store.session("langgraph:t").history() if node.kind == "message"]
    assert said == [f"user: one {number}" for number in range(1, len(said))] + ["user: again"]


# ---- graphs


class State(TypedDict):
    messages: Annotated[list[Any], operator.add]


def test_a_graph_is_interrupted_and_resumed_by_another_process(tmp_path: Path) -> None:
    graphs = pytest.importorskip("langgraph.graph")
    from langgraph.types import Command, interrupt

    def ask(state: State) -> Any:
        return {"messages": [AIMessage(f"The user says {interrupt('May I delete hello.txt?')}.", id="a")]}

    builder = graphs.StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_edge(graphs.START, "ask")
    config: Any = {"configurable": {"thread_id": "t"}}
    with Store.create(tmp_path / "store.git") as store:
        graph = builder.compile(checkpointer=GitSessionSaver(store))
        graph.invoke({"messages": [HumanMessage("Clean up", id="h")]}, config)
        subjects = [node.subject for node in store.session("langgraph:t").history()]
        assert "custom langgraph:interrupt: May I delete hello.txt?" in subjects
    with Store.open(tmp_path / "store.git") as store:
        graph = builder.compile(checkpointer=GitSessionSaver(store))
        assert graph.get_state(config).next == ("ask",)
        result = graph.invoke(Command(resume="yes"), config)
        assert [message.content for message in result["messages"]] == ["Clean up", "The user says yes."]
        subjects = [node.subject for node in store.session("langgraph:t").history() if node.kind == "message"]
        assert subjects == ["user: Clean up", "assistant: The user says yes."]


def test_asynchronous_graphs_have_subgraphs_and_time_travel(store: Store) -> None:
    graphs = pytest.importorskip("langgraph.graph")

    async def answer(state: State) -> Any:
        return {"messages": [AIMessage(f"answer {len(state['messages'])}")]}

    inner = graphs.StateGraph(State)
    inner.add_node("answer", answer)
    inner.add_edge(graphs.START, "answer")
    builder = graphs.StateGraph(State)
    builder.add_node("inner", inner.compile(checkpointer=True))
    builder.add_edge(graphs.START, "inner")
    graph = builder.compile(checkpointer=GitSessionSaver(store))
    config: Any = {"configurable": {"thread_id": "t"}}

    async def run() -> list[Any]:
        await graph.ainvoke({"messages": [HumanMessage("one")]}, config)
        await graph.ainvoke({"messages": [HumanMessage("two")]}, config)
        return [state async for state in graph.aget_state_history(config)]

    history = asyncio.run(run())
    assert {row.key for row in store.sessions()} == {"t", "t#inner"}
    earlier = next(state for state in history if len(state.values.get("messages", ())) == 3)
    changed = asyncio.run(graph.aupdate_state(earlier.config, {"messages": [HumanMessage("instead")]}))
    state = asyncio.run(graph.aget_state(config))
    assert state.config["configurable"]["checkpoint_id"] == changed["configurable"]["checkpoint_id"]
    assert len(store.session("langgraph:t").branches()) == 2


def joined(old: list[str], writes: Sequence[list[str]]) -> list[str]:
    return [*old, *itertools.chain(*writes)]


@pytest.mark.parametrize("frequency", [2, 1000])
def test_values_of_a_delta_channel_are_those_of_the_saver_in_memory(store: Store, frequency: int) -> None:
    graphs = pytest.importorskip("langgraph.graph")
    channels = pytest.importorskip("langgraph.channels.delta", reason="this release of LangGraph has no DeltaChannel")
    channel = channels.DeltaChannel(joined, snapshot_frequency=frequency)
    schema: Any = TypedDict(
        "schema", {"said": Annotated[list[str], channel], "other": Annotated[list[str], joined_two]}
    )

    def step(state: Any) -> Any:
        return {"said": [f"answer {len(state['said'])}"], "other": ["x"]}

    builder = graphs.StateGraph(schema)
    for name in ("one", "two"):
        builder.add_node(name, step)
        builder.add_edge(graphs.START, name)
    config: Any = {"configurable": {"thread_id": "t"}}
    savers = [GitSessionSaver(store), InMemorySaver()]
    compiled = [builder.compile(checkpointer=saver) for saver in savers]
    for text in ("a", "b", "c"):
        for graph in compiled:
            graph.invoke({"said": [text]}, config)
    for graph in compiled:
        earlier = [*graph.get_state_history(config)][3]
        graph.update_state(earlier.config, {"said": ["instead"]}, as_node="one")
        graph.invoke({"said": ["d"]}, config)
    compiled.append(builder.compile(checkpointer=GitSessionSaver(store)))
    histories = [[state.values for state in graph.get_state_history(config)] for graph in compiled]
    assert histories[0] == histories[1] == histories[2] and len(histories[0][0]["said"]) > 4
    for saver in (savers[0], GitSessionSaver(store)):
        for place in [one.config for one in saver.list(config)]:
            found = [one.get_delta_channel_history(config=place, channels=["said", "no"]) for one in (saver, savers[0])]
            assert (
                found[0]
                == found[1]
                == BaseCheckpointSaver.get_delta_channel_history(saver, config=place, channels=["said", "no"])
            )
            assert found[0] == asyncio.run(saver.aget_delta_channel_history(config=place, channels=["said", "no"]))
    savers[0].prune(["t"])
    for graph in (compiled[0], builder.compile(checkpointer=GitSessionSaver(store))):
        assert [state.values for state in graph.get_state_history(config)] == histories[1][:1]
    assert GitSessionSaver(store).get_delta_channel_history(config=at("none"), channels=["x"]) == {"x": {"writes": []}}


def joined_two(old: list[str], new: list[str]) -> list[str]:
    return [*old, *new]


def test_the_guide_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("langgraph.graph")
    page = (ROOT / "docs/how-to/keep-langgraph-threads.md").read_text("utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "guide", "exec"), {"__name__": "guide"})
    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.*)", code)
    with Store.open("agent.git") as store:
        said = [node.subject for node in store.session("langgraph:cleanup").history() if node.kind == "message"]
    assert said == ["user: Clean up", "assistant: I delete hello.txt.", "user: no", "assistant: The answer was no."]


@dataclasses.dataclass
class Place:
    name: str


def test_only_objects_of_listed_classes_are_restored(store: Store) -> None:
    put(GitSessionSaver(store), at(), {"place": Place("Paris"), "messages": MESSAGES[:2]}, {"place": 1}, 1)
    for types, expected in (([Place], Place("Paris")), ([], {"name": "Paris"})):
        found = GitSessionSaver(store, types=types).get_tuple(at())
        assert found is not None and found.checkpoint["channel_values"]["place"] == expected


def test_a_thread_from_somebody_else_runs_no_code(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(("os", "system", f"touch '{tmp_path / 'run'}'"))))
    saver = GitSessionSaver(store)
    monkeypatch.setattr(ValueCodec, "encode", lambda self, value: {"@typed": ["msgpack", evil]})
    put(saver, at(), {"place": 1}, {"place": 1}, 1)
    monkeypatch.undo()
    with contextlib.suppress(TypeError):  # the checkpoint itself is not restored
        GitSessionSaver(store).get_tuple(at())
    assert not (tmp_path / "run").exists()
