"""Tests of the long-term memory for LangGraph, against LangGraph's own store in memory."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("langgraph.checkpoint.base", reason="the extra langgraph is not installed")

import ormsgpack
from langchain_core.messages import HumanMessage
from langgraph.store.base import GetOp, InvalidNamespaceError, Item, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from gitsession import Malformed, Store
from gitsession.frameworks.keyed_sessions import key_of, names_of
from gitsession.frameworks.langgraph_items import AGENT, DELETED, PUT, RENEWED
from gitsession.frameworks.langgraph_memory import GitSessionMemoryStore
from gitsession.model.entries import Custom, CustomMessage

USER = ("users", "ada")
MINUTE_MS = 60_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git") as store:
        yield store


class Clock:
    """A clock that advances by 1 ms with each reading, so that no two entries have the same time."""

    def __init__(self) -> None:
        self.now = 1_800_000_000_000

    def __call__(self) -> int:
        self.now += 1
        return self.now


# ---- comparison with LangGraph's store in memory


class Peer(InMemoryStore):
    """``InMemoryStore`` without namespaces that have no items: it lists namespaces that were only read, too."""

    def batch(self, ops: Any) -> list[Any]:
        ops, old = list(ops), {*self._data}
        found = super().batch(ops)
        last = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        new = dict.fromkeys(op.namespace for op in last.values() if op.value is not None and op.namespace not in old)
        created = {namespace: self._data[namespace] for namespace in new}
        for namespace in {*self._data} - old:  # in the order of the first operation, even if it only reads
            del self._data[namespace]
        self._data.update(created)
        return found

    def _handle_list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        kept = self._data
        self._data = {name: items for name, items in kept.items() if items}  # type: ignore[assignment]
        try:
            return super()._handle_list_namespaces(op)
        finally:
            self._data = kept


labels = st.sampled_from(["a", "b", "a/b", "ä", "%2F", "#", "0"])
namespaces = st.lists(labels, min_size=1, max_size=3).map(tuple)
keys = st.sampled_from(["k", "l", "", "a/b", "m"])
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
values = st.dictionaries(st.sampled_from(["text", "n", "@typed", "x"]), plain, max_size=3)
conditions = st.lists(
    st.builds(
        MatchCondition, st.sampled_from(["prefix", "suffix"]), st.lists(labels | st.just("*"), max_size=2).map(tuple)
    ),
    max_size=2,
).map(tuple)
small = st.integers(0, 4)
filters = st.none() | st.dictionaries(
    st.sampled_from(["n", "x"]), plain | st.builds(lambda value: {"$ne": value}, plain), max_size=1
)
operations = st.one_of(
    st.builds(GetOp, namespaces, keys),
    st.builds(PutOp, namespaces, keys, values, ttl=st.none()),
    st.builds(PutOp, namespaces, keys, values | st.none(), ttl=st.none()),
    st.builds(SearchOp, namespaces | st.just(()), filters, st.integers(0, 10), small, st.none()),
    st.builds(ListNamespacesOp, conditions, st.none() | st.integers(0, 2), st.integers(0, 10), small),
)
batches = st.lists(st.lists(operations, min_size=1, max_size=4) | st.just("reopen"), max_size=14)
random_batches = settings(deadline=None, max_examples=250, suppress_health_check=list(HealthCheck))


def shown(result: Any) -> Any:
    """Return a result as text, with the types of the values: ``1``, ``1.0`` and ``True`` are equal."""
    if isinstance(result, list):
        return [shown(one) for one in result]
    if isinstance(result, Item):
        return (result.namespace, result.key, repr(result.value), getattr(result, "score", "no search"))
    return result


@random_batches
@given(batches)
def test_random_operations_return_what_the_store_in_memory_returns(sequence: list[Any]) -> None:
    peer = Peer()
    with Store.in_memory(clock=Clock()) as store:
        mine = GitSessionMemoryStore(store)
        for ops in sequence:
            if ops == "reopen":
                mine = GitSessionMemoryStore(store)
            else:
                assert shown(mine.batch(ops)) == shown(peer.batch(ops))


@settings(random_batches, max_examples=40)
@given(batches)
def test_asynchronous_operations_return_the_same(sequence: list[Any]) -> None:
    async def compare(store: Store) -> None:
        mine, peer = GitSessionMemoryStore(store), Peer()
        for ops in sequence:
            if ops != "reopen":
                assert shown(await mine.abatch(ops)) == shown(peer.batch(ops))

    with Store.in_memory(clock=Clock()) as store:
        asyncio.run(compare(store))


def letters(texts: list[str]) -> list[list[float]]:
    """Return a vector of each text: the numbers of some letters."""
    return [[float(text.count(letter)) for letter in "abcdeg"] + [1.0] for text in texts]


async def asynchronous_letters(texts: list[str]) -> list[list[float]]:
    return letters(texts)


@settings(random_batches, max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from("klmn"), st.text("abcdeg", min_size=1, max_size=5)), max_size=6),
    st.text("abcdeg", min_size=1, max_size=3),
    st.sampled_from([letters, asynchronous_letters]),
)
def test_an_index_finds_what_the_index_of_the_store_in_memory_finds(
    puts: list[tuple[str, str]], query: str, embed: Any
) -> None:
    async def compare(store: Store) -> None:
        index: Any = {"dims": 7, "embed": embed, "fields": ["text", "others[*]"]}
        mine, peer = GitSessionMemoryStore(store, index=index), InMemoryStore(index=index)
        for number, (key, text) in enumerate(puts):
            for one in (mine, peer):  # the suffixes, because InMemoryStore accepts no two equal texts
                value = {"text": f"{text}{number}", "others": [f"{number}x", f"{number}{text}"]}
                await one.aput(USER, key, value, index=False if key == "n" else None)
        for one in (mine, GitSessionMemoryStore(store, index=index)):
            found, expected = [await each.asearch(("users",), query=query) for each in (one, peer)]
            assert [item.key for item in found] == [item.key for item in expected]
            assert [item.score for item in found] == pytest.approx([item.score for item in expected])
            if embed is letters:
                assert shown(one.search(USER, query=query)) == shown(found)

    with Store.in_memory(clock=Clock()) as store:
        asyncio.run(compare(store))


def test_vectors_of_another_length_are_not_compared(store: Store) -> None:
    short: Any = {"dims": 1, "embed": lambda texts: [[1.0] for _ in texts]}
    GitSessionMemoryStore(store, index=short).put(USER, "old", {"text": "a"})
    memory = GitSessionMemoryStore(store, index={"dims": 7, "embed": letters})
    memory.put(USER, "new", {"text": "a"})
    found = memory.search(USER, query="a")
    assert [(item.key, item.score is None) for item in found] == [("new", False), ("old", True)]


# ---- queries without an index


def found(memory: GitSessionMemoryStore, query: str, **options: Any) -> list[tuple[str, bool]]:
    return [(item.key, item.score is not None) for item in memory.search(("users",), query=query, **options)]


def test_a_query_ranks_items_by_their_words(store: Store) -> None:
    memory = GitSessionMemoryStore(store)
    memory.put(USER, "food", {"likes": ["pizza", "olives"]})
    memory.put(USER, "editor", {"text": "Vim with relative line numbers"})
    memory.put(USER, "pet", {"text": "liked her old cat"})
    memory.put(("users", "bob"), "food", {"text": "ピザが好き"})
    everything = [("food", False), ("editor", False), ("pet", False), ("food", False)]
    assert found(memory, "?!") == found(memory, "") == found(memory, "haskell") == everything
    assert found(memory, 'What does the "cat" like?')[:2] == [("pet", True), ("food", True)]
    assert found(memory, "NUMBER OR *", limit=1) == [("editor", True)]
    assert found(memory, "number", offset=1, limit=2) == [("food", False), ("pet", False)]
    assert found(memory, "ピザ")[0] == ("food", True)
    assert len(found(memory, "number", filter={"text": "liked her old cat"})) == 1


def test_the_index_argument_selects_the_words(store: Store) -> None:
    memory = GitSessionMemoryStore(store)
    memory.put(USER, "hidden", {"text": "cat"}, index=False)
    memory.put(USER, "part", {"text": "cat", "note": "dog"}, index=["note"])
    for one in (memory, GitSessionMemoryStore(store)):
        assert found(one, "cat") == [("hidden", False), ("part", False)]
        assert found(one, "dog") == [("part", True), ("hidden", False)]


# ---- what is stored


def test_each_put_is_an_entry_that_can_be_read_and_searched(store: Store) -> None:
    memory = GitSessionMemoryStore(store)
    memory.put(USER, "editor", {"text": "uses Emacs"})
    memory.put(USER, "editor", {"text": "uses Vim"})
    memory.delete(USER, "editor")
    memory.delete(USER, "editor")  # nothing to delete
    memory.delete(("nobody",), "editor")
    session = store.session("langgraph-memory:users/ada")
    subjects = [node.subject for node in session.history()[1:]]
    assert subjects == [
        'custom langgraph-memory:put: editor: {"text": "uses Emacs"}',
        'custom langgraph-memory:put: editor: {"text": "uses Vim"}',
        "custom: langgraph-memory:deleted",
    ]
    assert [hit.session.sid for hit in store.search("Emacs")] == [session.id]
    assert [row.key for row in store.sessions()] == ["users/ada"]
    assert memory.get(USER, "editor") is None and memory.list_namespaces() == []


def test_a_value_that_is_no_json_is_returned_as_it_was(store: Store) -> None:
    value = {"when": datetime(2026, 1, 2, tzinfo=UTC), "message": HumanMessage("x", id="1"), "b": b"x"}
    GitSessionMemoryStore(store).put(USER, "odd", value)
    memory = GitSessionMemoryStore(store)
    assert repr(memory.get(USER, "odd").value) == repr(value)
    assert found(memory, "2026")[0] == ("odd", True)


def test_a_returned_value_can_be_changed(store: Store) -> None:
    memory = GitSessionMemoryStore(store)
    value = {"a": [1]}
    memory.put(USER, "k", value)
    value["a"].append(2)
    for read in (lambda: memory.get(USER, "k"), lambda: memory.search(USER)[0]):
        item = read()
        assert item.value == {"a": [1]}
        item.value["a"].append(3)
    assert memory.get(USER, "k").value == {"a": [1]}


def test_the_times_are_those_of_the_first_and_of_the_last_put() -> None:
    clock = Clock()
    with Store.in_memory(clock=clock) as store:
        memory = GitSessionMemoryStore(store)
        memory.put(USER, "k", {"n": 1})
        clock.now += MINUTE_MS
        memory.put(USER, "k", {"n": 2})
        item = memory.get(USER, "k")
        assert MINUTE_MS <= (item.updated_at - item.created_at).total_seconds() * 1000 < 2 * MINUTE_MS


def test_a_rewind_restores_the_memory(store: Store) -> None:
    memory = GitSessionMemoryStore(store)
    for text in ("one", "two"):
        memory.put(USER, "k", {"text": text})
    store.session("langgraph-memory:users/ada").continue_at("leaf~1")
    assert memory.get(USER, "k").value == {"text": "one"}
    memory.put(USER, "l", {"text": "three"})  # on the branch that is now active
    for one in (memory, GitSessionMemoryStore(store)):
        assert [item.value["text"] for item in one.search(USER)] == ["one", "three"]
    store.session("langgraph-memory:users/ada").switch("main")
    assert memory.get(USER, "k").value == {"text": "two"}


def test_a_namespace_in_the_trash_is_empty_until_it_is_restored(store: Store) -> None:
    memory = GitSessionMemoryStore(store)
    memory.put(USER, "k", {"n": 1})
    sid = store.session("langgraph-memory:users/ada").id
    store.trash.put(sid)
    assert memory.get(USER, "k") is None and memory.search(()) == [] and memory.list_namespaces() == []
    store.trash.restore(sid)
    assert memory.get(USER, "k").value == {"n": 1}


def test_a_purge_deletes_the_memory_of_one_user(store: Store) -> None:
    memory = GitSessionMemoryStore(store)
    memory.put(USER, "k", {"text": "a very private fact"})
    memory.put(("users", "bob"), "k", {"text": "another fact"})
    store.purges.apply(store.purges.plan(store.session("langgraph-memory:users/ada").id))
    assert memory.get(USER, "k") is None
    assert memory.list_namespaces() == [("users", "bob")]
    assert store.search("private") == []


def test_secrets_are_redacted_in_the_store(tmp_path: Path) -> None:
    token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    with Store.create(tmp_path / "store.git") as store:
        GitSessionMemoryStore(store).put(USER, "token", {"text": f"use {token}"})
        assert GitSessionMemoryStore(store).get(USER, "token").value == {"text": f"use {token}"}  # from this machine
        session = store.session("langgraph-memory:users/ada")
        assert token not in repr(session.read("leaf")) and token not in session.leaf.subject


def test_an_encrypting_serializer_encrypts_values(store: Store) -> None:
    from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

    class Reversing:
        def encrypt(self, plain: bytes) -> tuple[str, bytes]:
            return "reversed", plain[::-1]

        def decrypt(self, name: str, data: bytes) -> bytes:
            return data[::-1]

    serde = EncryptedSerializer(Reversing())
    GitSessionMemoryStore(store, serde=serde).put(USER, "k", {"text": "hidden"})
    assert GitSessionMemoryStore(store, serde=serde).get(USER, "k").value == {"text": "hidden"}
    session = store.session("langgraph-memory:users/ada")
    assert "hidden" not in repr([session.read(node) for node in session.history()])


# ---- hostile input


@given(st.lists(st.text(st.characters(codec=None), min_size=1, max_size=4), min_size=1, max_size=3).map(tuple))
def test_a_key_determines_its_namespace(namespace: tuple[str, ...]) -> None:
    key = key_of(*namespace)
    assert names_of(key) == namespace and key.isascii()


@pytest.mark.parametrize("key", ["%FF", "users/%ED%B0", "us%65rs", "é"])
def test_a_session_with_another_key_is_no_namespace(store: Store, key: str) -> None:
    store.keyed_session(key, agent=AGENT)
    memory = GitSessionMemoryStore(store)
    memory.put(USER, "k", {"n": 1})
    assert memory.list_namespaces() == [USER]
    assert [item.key for item in memory.search(())] == ["k"]


def test_what_cannot_be_stored_is_refused_and_nothing_is_written(store: Store) -> None:
    memory = GitSessionMemoryStore(store)
    memory.put(USER, "k", {"n": 1})
    with pytest.raises((Malformed, TypeError)):  # serializers before 4.0 raise TypeError
        memory.batch([PutOp(USER, "k", {"n": 2}), PutOp(USER, "l", {"text": "\ud800"})])
    with pytest.raises(Malformed, match="too large"):
        memory.put(USER, "l", {"text": "x" * (17 << 20)})
    with pytest.raises(InvalidNamespaceError):
        memory.batch([PutOp((), "k", {"n": 2})])
    with pytest.raises(InvalidNamespaceError):
        memory.put(("langgraph",), "k", {"n": 2})
    with pytest.raises(ValueError, match="unknown operation"):
        memory.batch(["get"])  # type: ignore[list-item]
    assert [item.value for item in memory.search(())] == [{"n": 1}]


def test_entries_of_other_programs_are_ignored(store: Store) -> None:
    from gitsession import Custom, Message

    memory = GitSessionMemoryStore(store)
    memory.put(USER, "k", {"n": 1})
    session = store.session("langgraph-memory:users/ada")
    session.append(Message.user("hello"))
    session.append(Custom(custom_type="other", data={"key": "k"}))
    assert memory.get(USER, "k").value == {"n": 1}


# ---- time to live


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timed(clock: Clock) -> Iterator[Store]:
    with Store.in_memory(clock=clock) as store:
        yield store


def entries_of(store: Store) -> int:
    return len(store.session("langgraph-memory:users/ada").history())


def test_an_item_expires(timed: Store, clock: Clock) -> None:
    memory = GitSessionMemoryStore(timed)
    memory.put(USER, "short", {"n": 1}, ttl=1)
    memory.put(USER, "long", {"n": 2}, ttl=10)
    memory.put(USER, "kept", {"n": 3}, ttl=None)
    clock.now += 2 * MINUTE_MS
    for one in (memory, GitSessionMemoryStore(timed)):
        assert one.get(USER, "short", refresh_ttl=False) is None
        assert [item.key for item in one.search(USER, refresh_ttl=False)] == ["long", "kept"]
    memory.delete(USER, "short")
    memory.put(USER, "short", {"n": 4})
    assert [item.key for item in memory.search(USER)] == ["long", "kept", "short"]
    clock.now += 20 * MINUTE_MS
    memory.delete(USER, "kept")
    memory.delete(USER, "short")
    assert memory.search(()) == [] and memory.list_namespaces() == []


@pytest.mark.parametrize("read", [lambda one: one.get(USER, "k"), lambda one: one.search(("users",), query="x")])
def test_a_read_renews_the_time_to_live(
    timed: Store, clock: Clock, read: Callable[[GitSessionMemoryStore], Any]
) -> None:
    memory = GitSessionMemoryStore(timed, ttl={"default_ttl": 10, "refresh_on_read": True})
    memory.put(USER, "k", {"n": 1})
    for _ in range(4):
        clock.now += 6 * MINUTE_MS
        assert read(memory) and read(GitSessionMemoryStore(timed))
    assert entries_of(timed) == 2 + 4  # the second read of each round is not recorded
    clock.now += 11 * MINUTE_MS
    assert not read(memory) and not read(GitSessionMemoryStore(timed))


def test_a_read_does_not_renew_the_time_to_live_if_it_is_told_so(timed: Store, clock: Clock) -> None:
    memory = GitSessionMemoryStore(timed, ttl={"default_ttl": 10, "refresh_on_read": False})
    memory.put(USER, "k", {"n": 1})
    clock.now += 6 * MINUTE_MS
    assert memory.get(USER, "k") is not None and entries_of(timed) == 2
    clock.now += 6 * MINUTE_MS
    assert memory.get(USER, "k") is None


# ---- threads, processes, kills


def test_a_cancelled_put_is_completed(store: Store) -> None:
    async def run(memory: GitSessionMemoryStore) -> Any:
        task = asyncio.ensure_future(memory.aput(USER, "k", {"n": 1}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await memory.aget(USER, "k")

    assert asyncio.run(run(GitSessionMemoryStore(store))).value == {"n": 1}


def test_threads_share_a_memory(store: Store) -> None:
    memory = GitSessionMemoryStore(store)

    def write(number: int) -> None:
        memory.put(("users", f"u{number % 3}"), f"k{number}", {"n": number})
        assert memory.get(("users", f"u{number % 3}"), f"k{number}").value == {"n": number}

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(24)))
    for one in (memory, GitSessionMemoryStore(store)):
        assert sorted(item.value["n"] for item in one.search((), limit=100)) == list(range(24))
    assert len(store.sessions()) == 3


def test_the_memory_of_a_store_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitsession.frameworks.langgraph_memory._NAMESPACES_MAX", 2)
    memory = GitSessionMemoryStore(store)
    for number in range(5):
        memory.put(("users", str(number)), "k", {"n": number})
        assert len(memory._spaces) <= 2
    assert [item.value["n"] for item in memory.search(("users",))] == list(range(5))


WRITER = """
    import sys
    from gitsession import Store
    from gitsession.frameworks.langgraph_memory import GitSessionMemoryStore

    path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with Store.open(path) as store:
        memory = GitSessionMemoryStore(store)
        for number in range(1, count + 1):
            memory.put(("users", "ada"), f"{name}-{number}", {"n": number})
            print(number, flush=True)
"""


def _writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", textwrap.dedent(WRITER), str(path), name, str(count)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def test_two_processes_share_a_namespace(store: Store) -> None:
    memory = GitSessionMemoryStore(store)
    writers = [_writer(store.objects.git_dir, name, 30) for name in ("one", "two")]
    assert [writer.wait() for writer in writers] == [0, 0]
    for writer in writers:
        writer.stdout.close()
    names = {f"{name}-{number}" for name, number in itertools.product(("one", "two"), range(1, 31))}
    assert {item.key for item in memory.search(USER, limit=100)} == names
    assert [row.key for row in store.sessions() if row.agent == AGENT] == ["users/ada"]
    assert store.verify().problems == []


def test_a_killed_process_loses_nothing_that_was_stored(store: Store) -> None:
    writer = _writer(store.objects.git_dir, "one", 100_000)
    acknowledged = [next(writer.stdout) for _ in range(20)]
    os.kill(writer.pid, signal.SIGKILL)
    acknowledged += writer.stdout.readlines()
    writer.wait()
    writer.stdout.close()
    done = int([line for line in acknowledged if line.endswith("\n")][-1])
    memory = GitSessionMemoryStore(store)
    assert len(memory.search(USER, limit=100_000)) in (done, done + 1)
    memory.put(USER, "after", {"n": 0})
    assert memory.get(USER, f"one-{done}").value == {"n": done}


# ---- graphs


def test_a_graph_reads_and_writes_its_memory(store: Store) -> None:
    graphs = pytest.importorskip("langgraph.graph")
    from langgraph.config import get_store

    async def answer(state: Any) -> Any:
        memory = get_store()
        known = await memory.asearch(("notes",), query=state["messages"][-1].content)
        await memory.aput(("notes",), state["messages"][-1].content, {"text": state["messages"][-1].content})
        return {"messages": [("ai", json.dumps([item.value["text"] for item in known]))]}

    builder = graphs.StateGraph(graphs.MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(graphs.START, "answer")
    graph = builder.compile(store=GitSessionMemoryStore(store))
    answers = [
        asyncio.run(graph.ainvoke({"messages": [HumanMessage(text)]}))["messages"][-1].content
        for text in ("cats are nice", "dogs too", "a cat")
    ]
    assert answers == ["[]", '["cats are nice"]', '["cats are nice", "dogs too"]']


def test_a_key_that_is_a_uuid_is_no_secret_and_a_clone_finds_its_item(store: Store, tmp_path: Path) -> None:
    keys = [f"c196f8d4-0462-4ab0-968c-9cabe9ae700{number}" for number in range(2)]
    memory = GitSessionMemoryStore(store)
    for key in keys:
        memory.put(USER, key, {"text": f"about {key[-1]}"})
    assert not list(store.objects.vault.originals()) and not list(store.secrets.find())
    store.flush()
    other, _ = Store.clone(str(store.objects.git_dir), tmp_path / "clone.git")
    with other:
        found = GitSessionMemoryStore(other)
        assert [item.value for key in keys if (item := found.get(USER, key))] == [
            {"text": "about 0"},
            {"text": "about 1"},
        ]


# ---- a store from somebody else


def touching(path: Path) -> bytes:
    """Return a value in MessagePack that calls ``os.system`` if every class is allowed."""
    return ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(("os", "system", f"touch '{path}'"))))


def test_a_value_from_somebody_else_runs_no_code(store: Store, tmp_path: Path) -> None:
    data = {"item": "k", "value": {"x": {"@typed": ["msgpack", touching(tmp_path / "run")]}}}
    store.keyed_session("users/ada", agent=AGENT).append(Custom(custom_type=PUT, data=data))
    assert "touch" in GitSessionMemoryStore(store).get(USER, "k").value["x"]
    assert not (tmp_path / "run").exists()


@dataclasses.dataclass
class Editor:
    name: str


def test_an_object_is_restored_if_its_class_is_listed(store: Store) -> None:
    GitSessionMemoryStore(store).put(USER, "k", {"editor": Editor("Vim")})
    assert GitSessionMemoryStore(store, types=[Editor]).get(USER, "k").value == {"editor": Editor("Vim")}
    assert GitSessionMemoryStore(store).get(USER, "k").value == {"editor": {"name": "Vim"}}


@pytest.mark.parametrize(
    "entry",
    [
        Custom(custom_type=PUT, data=None),
        Custom(custom_type=PUT, data=[]),
        Custom(custom_type=PUT, data={"item": "k"}),
        Custom(custom_type=PUT, data={"item": [], "value": {}}),
        Custom(custom_type=PUT, data={"item": "k", "value": 1}),
        Custom(custom_type=PUT, data={"item": "k", "value": {"@typed": 1}}),
        Custom(custom_type=PUT, data={"item": "k", "value": {"@typed": ["pickle", b"x"]}}),
        Custom(custom_type=PUT, data={"item": "k", "value": {"@typed": ["json", b'{"lc": 1}']}}),
        Custom(custom_type=PUT, data={"item": "k", "value": {"@typed": ["msgpack", b"\xc1"]}}),
        Custom(custom_type=PUT, data={"item": "k", "value": {"@message": {"role": "x", "fields": {}}}}),
        Custom(custom_type=PUT, data={"item": "k", "value": {}, "vectors": {"a": "b"}}),
        Custom(custom_type=PUT, data={"item": "k", "value": {}, "vectors": {"a": b"123"}}),
        Custom(custom_type=PUT, data={"item": "k", "value": {}, "ttl_ms": "x"}),
        Custom(custom_type=PUT, data={"item": "k", "value": {}, "fields": 7}),
        Custom(custom_type=PUT, data={"item": "k", "value": {}}, at_ms=2**62),
        CustomMessage(custom_type=PUT, content=()),
        Custom(custom_type=DELETED, data=[]),
        Custom(custom_type=RENEWED, data=7),
        Custom(custom_type=RENEWED, data=[[]]),
    ],
)
def test_an_entry_that_the_adapter_did_not_write_does_not_hide_the_others(store: Store, entry: Any) -> None:
    GitSessionMemoryStore(store).put(USER, "good", {"text": "Vim"})
    store.session("langgraph-memory:users/ada").append(entry)
    memory = GitSessionMemoryStore(store)
    memory.put(USER, "k2", {"n": 1})
    assert memory.get(USER, "good").value == {"text": "Vim"}
    assert ("good", {"text": "Vim"}) in [(item.key, item.value) for item in memory.search(USER, query="Vim")]
    memory.get(USER, "k")
