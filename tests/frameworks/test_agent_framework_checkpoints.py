"""Tests of the checkpoints of workflows of the Microsoft Agent Framework, against the framework's own storages."""

import asyncio
import base64
import copy
import json
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("agent_framework")

from agent_framework import (
    AgentExecutorResponse,
    AgentResponse,
    Content,
    Executor,
    FileCheckpointStorage,
    InMemoryCheckpointStorage,
    Message,
    WorkflowBuilder,
    WorkflowCheckpoint,
    WorkflowCheckpointException,
    WorkflowContext,
    WorkflowEvent,
    WorkflowMessage,
    handler,
    response_handler,
)
from framework_items import JSON_TEXT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from gitsession import Custom, InvalidName, Malformed, Store
from gitsession.frameworks.agent_framework import GitSessionCheckpointStorage
from gitsession.frameworks.agent_framework_values import CheckpointCodec

random_values = settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))


class Color(Enum):
    RED = 1
    BLUE = "b"


@dataclass
class Draft:
    text: str
    parts: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: Any = None


class Plain:
    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


class Form(BaseModel):
    name: str
    ages: dict[str, int] = {}


Pair = namedtuple("Pair", ["one", "two"])
TYPES = (Color, Draft, Point, Plain, Form, Pair)

hashables = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5), st.binary(max_size=5)),
    *(st.datetimes(), st.datetimes(timezones=st.timezones()), st.dates(), st.times(), st.timedeltas(), st.uuids()),
    *(st.decimals(allow_nan=False), st.complex_numbers(allow_nan=False), st.sampled_from(Color)),
    st.builds(Plain, st.text(max_size=3)),
    st.tuples(st.integers(), st.text(max_size=3)),
    st.builds(Point, st.integers(), st.integers()),
)
values = st.recursive(
    hashables,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=4) | st.just("$"), inner, max_size=3),
        st.dictionaries(hashables, inner, max_size=2),
        st.tuples(inner, inner),
        st.builds(Pair, inner, inner),
        st.builds(Draft, st.text(max_size=3), st.lists(inner, max_size=2)),
        st.builds(Point, st.integers(), inner),
        st.builds(Form, name=st.text(max_size=3), ages=st.dictionaries(st.text(max_size=2), st.integers(), max_size=2)),
        st.sets(hashables, max_size=3),
        st.frozensets(hashables, max_size=3),
        st.lists(inner, max_size=2).map(deque),
        st.dictionaries(hashables, inner, max_size=2).map(OrderedDict),
        st.dictionaries(hashables, inner, max_size=2).map(lambda pairs: defaultdict(list, pairs)),
        st.lists(st.text(max_size=2), max_size=4).map(Counter),
    ),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    """Return whether two values and their types are equal. ``==`` compares neither types nor fields of all objects."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple | deque):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return len(one) == len(other) and all(key in other and same(item, other[key]) for key, item in one.items())
    if hasattr(one, "to_dict"):
        return same(one.to_dict(), other.to_dict())
    if isinstance(one, Draft | Plain | WorkflowEvent):
        return same(vars(one), vars(other))
    return one == other


@random_values
@given(values)
def test_a_value_is_restored_as_it_was_with_its_types(value: Any) -> None:
    codec = CheckpointCodec(TYPES)
    assert same(codec.decode(json.loads(json.dumps(codec.encode(value)))), value)


@pytest.mark.parametrize(
    "value",
    [
        bool,
        Draft,
        type(None),
        list[str],
        dict[str, list[int]],
        tuple[int, ...],
        str | None,
        list[Draft] | Draft,
        datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=UTC),
        datetime(2026, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
        bytearray(b"x"),
        range(3),
        float("inf"),
        2**100,
        "\ud800\0",
    ],
)
def test_classes_and_rare_values_are_restored(value: Any) -> None:
    codec = CheckpointCodec(TYPES)
    found = codec.decode(json.loads(json.dumps(codec.encode(value))))
    assert found == value and getattr(found, "fold", 0) == getattr(value, "fold", 0)


def test_the_objects_of_the_framework_are_restored() -> None:
    event = WorkflowEvent.request_info("r1", "reviewer", Draft("a"), bool)
    answer = AgentResponse(messages=[Message("assistant", [Content.from_function_call("c", "f", arguments="{}")])])
    answer.raw_representation = object()  # that of a provider
    whole = {
        "message": WorkflowMessage(data=Draft("a"), source_id="writer", original_request_info_event=event),
        "event": WorkflowEvent[Any]("data", data=[1]),
        "answer": AgentExecutorResponse("agent", answer, full_conversation=list(answer.messages)),
        "checkpoint": WorkflowCheckpoint("w", "g", timestamp="2026-01-01T00:00:00+00:00"),
    }
    codec = CheckpointCodec([Draft])
    found = codec.decode(json.loads(json.dumps(codec.encode(whole))))
    assert found["message"].data == Draft("a") and found["message"].type is whole["message"].type
    assert same(found["message"].original_request_info_event, event)
    assert found["checkpoint"] == whole["checkpoint"]
    assert found["answer"].agent_response.to_dict() == answer.to_dict()
    assert found["answer"].agent_response.raw_representation is None
    assert found["event"].data == [1] and found["event"].origin is whole["event"].origin


# ---- what is not stored, and what is not restored


class Built:
    """A class with a pickle method, which would run on restoring."""

    def __reduce__(self) -> Any:
        return print, ("unpickled",)


@pytest.mark.parametrize(
    "value", [Draft("a"), Draft, Color.RED, list[Draft], print, lambda: 0, Path(), ValueError("x"), object(), sys, open]
)
def test_a_value_of_another_class_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        CheckpointCodec().encode({"value": [value]})


def test_a_class_with_a_pickle_method_and_a_cycle_are_refused() -> None:
    with pytest.raises(TypeError, match="a method of its own for pickle"):
        CheckpointCodec([Built]).encode(Built())
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(RecursionError):
        CheckpointCodec().encode(cycle)


PICKLED = base64.b64encode(pickle.dumps(Built(), protocol=4)).decode()

HOSTILE = {
    "a pickle of the framework": {"__pickled__": PICKLED, "__type__": "builtins:NoneType"},
    "a class of the library": {"$": "new", "class": "subprocess:Popen", "args": [["true"]]},
    "a function": {"$": "call", "class": "builtins:eval", "args": ["1"]},
    "a function of the framework": {"$": "new", "class": "agent_framework._workflows._checkpoint:_release_write"},
    "a tool of the framework": {"$": "new", "class": "agent_framework._mcp:MCPStdioTool", "state": {"command": "sh"}},
    "a module in the framework": {"$": "class", "class": "agent_framework._workflows._checkpoint:os"},
    "a path in the framework": {"$": "class", "class": "agent_framework._workflows._checkpoint:os.system"},
    "a module that is not imported": {"$": "class", "class": "agent_framework.nowhere:X"},
    "a call of a class of the framework": {"$": "call", "class": "agent_framework._types:Message", "args": ["user"]},
    "a class that is no text": {"$": "class", "class": ["builtins:int"]},
    "an unknown kind": {"$": "exec", "text": "1"},
    "a kind that is no text": {"$": ["new"]},
    "no class": {"$": "new"},
    "a member that does not exist": {"$": "enum", "class": f"{__name__}:Color", "name": "GREEN"},
    "a private slot": {
        "$": "new",
        "class": f"{__name__}:Plain",
        "state": {"$": "tuple", "items": [None, {"__class__": 1}]},
    },
    "a state that is no dict": {"$": "new", "class": f"{__name__}:Plain", "state": 7},
    "unhashable": {"$": "set", "items": [[]]},
    "not base64": {"$": "bytes", "base64": "é"},
    "not a time": {"$": "datetime", "text": "yesterday"},
    "an invalid argument": {"$": "call", "class": "decimal:Decimal", "args": ["x"]},
    "a terabyte": {"$": "new", "class": "builtins:bytes", "args": [2**40]},
    "a terabyte from a range": {
        "$": "call",
        "class": "collections:deque",
        "args": [{"$": "call", "class": "builtins:range", "args": [2**40]}],
    },
    "a terabyte by a call": {"$": "call", "class": "builtins:bytearray", "args": [2**40]},
    "not a generic class": {"$": "generic", "class": "builtins:int", "args": []},
    "an empty union": {"$": "union", "args": []},
}


@pytest.mark.parametrize("state", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_checkpoint_is_refused_and_runs_nothing(state: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with Store.in_memory() as store:
        storage = GitSessionCheckpointStorage(store, types=TYPES)
        good = asyncio.run(storage.save(checkpoint("good")))
        text = json.dumps({**checkpoint("bad").to_dict(), "state": {"value": state}})
        entry = Custom(
            custom_type="agent-framework:checkpoint",
            data={"id": "bad", "workflow": "w", "save": "1", "checkpoint": text},
        )
        storage.stored("w").append(entry)
        if "__pickled__" in state:
            assert asyncio.run(storage.load("bad")).state == {"value": state}, "it is a dict like any other"
        else:
            with pytest.raises(WorkflowCheckpointException, match="cannot restore checkpoint 'bad'"):
                asyncio.run(storage.load("bad"))
            with pytest.raises(WorkflowCheckpointException, match="cannot restore checkpoint 'bad'"):
                asyncio.run(storage.get_latest(workflow_name="w"))
            assert asyncio.run(storage.list_checkpoint_ids(workflow_name="w")) == [good]
        assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "data",
    [
        None,
        "text",
        {},
        {"id": "bad", "workflow": "w", "save": "1"},
        {"id": "bad", "workflow": "w", "save": "1", "checkpoint": "not JSON"},
        {"id": "bad", "workflow": "w", "save": "1", "checkpoint": "[" * 100_000},
        {"id": "bad", "workflow": "w", "save": "1", "checkpoint": '{"unknown": 1}'},
        {"id": ["x"], "workflow": {}, "save": ["y"], "checkpoint": 7},
    ],
)
def test_an_entry_that_is_no_checkpoint_does_not_hide_the_others(data: Any) -> None:
    with Store.in_memory() as store:
        storage = GitSessionCheckpointStorage(store)
        good = asyncio.run(storage.save(checkpoint("good")))
        for custom_type in ("agent-framework:checkpoint", "agent-framework:deleted"):
            storage.stored("w").append(Custom(custom_type=custom_type, data=data))
        assert asyncio.run(storage.list_checkpoint_ids(workflow_name="w")) == [good]
        assert asyncio.run(storage.load(good)).checkpoint_id == good
        assert asyncio.run(storage.delete(good)) and not asyncio.run(storage.delete(good))


# ---- the storage


def checkpoint(id: str, previous: str | None = None, workflow: str = "w", **fields: Any) -> WorkflowCheckpoint:
    return WorkflowCheckpoint(workflow, "hash", checkpoint_id=id, previous_checkpoint_id=previous, **fields)


ids = st.sampled_from(["a", "b", "c", "d", "e"])
workflows = st.sampled_from(["w", "w", "other"])
states = st.dictionaries(JSON_TEXT, values, max_size=2)
steps = st.one_of(
    st.tuples(st.just("save"), ids, st.none() | ids | st.just("newest"), workflows, states),
    st.tuples(st.just("load"), ids),
    st.tuples(st.just("delete"), ids),
    st.tuples(st.just("reopen")),
)
KEYS = [f"{cls.__module__}:{cls.__qualname__}" for cls in TYPES]


async def outcome(call: Any) -> Any:
    try:
        found = await call
    except WorkflowCheckpointException:
        return "WorkflowCheckpointException"
    return found.to_dict() if isinstance(found, WorkflowCheckpoint) else found


async def compare(store: Store, peer: Any, sequence: list[Any]) -> None:
    mine, clock, newest, deleted = GitSessionCheckpointStorage(store, types=TYPES), count(1), None, False
    for action, *arguments in sequence:
        if action == "reopen":
            mine = GitSessionCheckpointStorage(store, types=TYPES)
            continue
        if action == "save":
            id, previous, workflow, state = arguments
            previous = newest if previous == "newest" else previous
            stamp = datetime.fromtimestamp(next(clock), UTC).isoformat()
            saved = checkpoint(id, previous, workflow, state=copy.deepcopy(state), timestamp=stamp)
            arguments, newest = [saved], id
        deleted = action == "delete" or (deleted and action != "save")
        assert same(await outcome(getattr(mine, action)(*arguments)), await outcome(getattr(peer, action)(*arguments)))
        for workflow in ("w", "other"):
            found = [each.to_dict() for each in await mine.list_checkpoints(workflow_name=workflow)]
            expected = [each.to_dict() for each in await peer.list_checkpoints(workflow_name=workflow)]
            assert same(*(sorted(each, key=lambda row: row["checkpoint_id"]) for each in (found, expected)))
            assert sorted(await mine.list_checkpoint_ids(workflow_name=workflow)) == sorted(
                await peer.list_checkpoint_ids(workflow_name=workflow)
            )
        if not deleted and newest is not None and action == "save":  # that of the active branch is the newest one
            latest = mine.get_latest(workflow_name=saved.workflow_name)
            assert same(await outcome(latest), await outcome(peer.get_latest(workflow_name=saved.workflow_name)))


def unique_ids(sequence: list[Any]) -> list[Any]:
    """Return the calls without those that save an id for two workflows, which share it in the framework's storages."""
    home: dict[str, str] = {}
    return [step for step in sequence if step[0] != "save" or home.setdefault(step[1], step[3]) == step[3]]


@random_values
@given(st.lists(steps, max_size=7).map(unique_ids))
def test_every_sequence_of_calls_returns_what_the_storage_in_memory_returns(sequence: list[Any]) -> None:
    with Store.in_memory() as store:
        asyncio.run(compare(store, InMemoryCheckpointStorage(), sequence))


def file_storage(folder: str) -> FileCheckpointStorage:
    try:
        return FileCheckpointStorage(folder, allowed_checkpoint_types=KEYS)
    except TypeError:  # in older releases, all classes are allowed
        return FileCheckpointStorage(folder)


@random_values
@given(st.lists(steps, max_size=5).map(unique_ids))
def test_every_sequence_of_calls_returns_what_the_file_storage_returns(sequence: list[Any]) -> None:
    with Store.in_memory() as store, tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(store, file_storage(folder), list(filter(is_restored_from_a_file, sequence))))


def is_restored_from_a_file(step: Any) -> bool:
    """Return whether the framework's files restore the state: they do not restore all keys of dicts, for example."""
    from agent_framework._workflows import _checkpoint_encoding as encoding

    restricted = {"allowed_types": frozenset(KEYS)} if hasattr(encoding, "_RestrictedUnpickler") else {}
    if step[0] != "save":
        return True
    try:
        text = json.dumps(encoding.encode_checkpoint_value(step[4]), ensure_ascii=False).encode()
        return same(encoding.decode_checkpoint_value(json.loads(text), **restricted), step[4])
    except (WorkflowCheckpointException, UnicodeEncodeError):
        return False


def test_a_checkpoint_that_continues_an_older_one_is_on_another_branch() -> None:
    async def work(storage: GitSessionCheckpointStorage) -> None:
        for id, previous in [("1", None), ("2", "1"), ("3", "2"), ("2b", "1"), ("4", "3"), ("3b", "2b"), ("x", "gone")]:
            await storage.save(checkpoint(id, previous))
            latest = await storage.get_latest(workflow_name="w")
            assert latest is not None and latest.checkpoint_id == id
        session = storage.stored("w")
        assert list(session.branches()) == ["main", "branch-1"]
        on = {
            name: [entry.data["id"] for _, entry in session.entries(tip) if isinstance(entry, Custom)]
            for name, tip in session.branches().items()
        }
        assert on == {"main": ["4", "3", "2", "1"], "branch-1": ["x", "3b", "2b", "1"]}
        found = await storage.list_checkpoints(workflow_name="w")
        assert [each.checkpoint_id for each in found] == ["1", "2", "3", "2b", "4", "3b", "x"]

    with Store.in_memory(clock=count(10**12).__next__) as store:
        asyncio.run(work(GitSessionCheckpointStorage(store)))


def test_the_latest_checkpoint_follows_a_switch_a_rewind_and_a_deletion() -> None:
    async def work(storage: GitSessionCheckpointStorage) -> list[Any]:
        found = []

        async def note() -> None:
            latest = await storage.get_latest(workflow_name="w")
            found.append(None if latest is None else latest.checkpoint_id)

        for id, previous in [("1", None), ("2", "1"), ("2b", "1")]:
            await storage.save(checkpoint(id, previous))
        await note()
        storage.stored("w").switch("main")
        await note()
        await storage.delete("2")
        await note()
        storage.stored("w").continue_at("root")
        await note()
        return found

    with Store.in_memory() as store:
        assert asyncio.run(work(GitSessionCheckpointStorage(store))) == ["2b", "2", "1", None]


def test_a_storage_with_an_id_keeps_all_workflows_in_one_session_and_continues_a_fork() -> None:
    async def work(store: Store) -> None:
        mine, shared = GitSessionCheckpointStorage(store, session_id="ada"), GitSessionCheckpointStorage(store)
        await mine.save(checkpoint("1"))
        await mine.save(checkpoint("2", workflow="other"))
        assert mine.stored("w").id == mine.stored("other").id
        assert await shared.list_checkpoints(workflow_name="w") == []
        fork = GitSessionCheckpointStorage(store, session_id=mine.stored("w").fork().id)
        await fork.save(checkpoint("3", "2"))
        assert await fork.delete("1") and not await fork.delete("1")
        assert await mine.list_checkpoint_ids(workflow_name="w") == ["1"]
        assert await fork.list_checkpoint_ids(workflow_name="w") == ["3"]
        with pytest.raises(WorkflowCheckpointException):
            await mine.load("3")

    with Store.in_memory() as store:
        asyncio.run(work(store))


@pytest.mark.parametrize("name", ["../w", "a\0b", "x" * 3000, "a/b", "default"])
def test_any_name_of_a_workflow_and_any_id_can_be_stored(name: str, tmp_path: Path) -> None:
    with Store.create(tmp_path / "s.git") as store:
        storage = GitSessionCheckpointStorage(store)
        asyncio.run(storage.save(checkpoint(name, workflow=name)))
        asyncio.run(storage.save(checkpoint("other")))
        assert asyncio.run(storage.load(name)).workflow_name == name
        assert asyncio.run(storage.list_checkpoint_ids(workflow_name=name)) == [name]
        with pytest.raises(InvalidName):
            asyncio.run(storage.save(checkpoint("1", workflow="")))
        assert asyncio.run(storage.get_latest(workflow_name="")) is None
        assert store.verify().problems == []


def test_a_huge_checkpoint_is_refused_and_the_others_stay() -> None:
    with Store.in_memory() as store:
        storage = GitSessionCheckpointStorage(store)
        asyncio.run(storage.save(checkpoint("1")))
        with pytest.raises(Malformed):
            asyncio.run(storage.save(checkpoint("2", "1", state={"text": "word " * (4 * 2**20)})))
        assert asyncio.run(storage.list_checkpoint_ids(workflow_name="w")) == ["1"]


def test_a_secret_in_a_checkpoint_is_redacted_in_the_store_and_returned_to_the_program(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with Store.create(tmp_path / "s.git") as store:
        storage = GitSessionCheckpointStorage(store)
        asyncio.run(storage.save(checkpoint("1", state={"token": secret})))
        session = storage.stored("w")
        assert all(secret not in repr(session.read(node)) for node in session.history())
        assert asyncio.run(storage.load("1")).state == {"token": secret}


# ---- real workflows


class Writer(Executor):
    @handler
    async def write(self, topic: str, context: WorkflowContext[Draft]) -> None:
        context.set_state("topic", {topic})
        await context.send_message(Draft(topic, [date(2026, 1, 1), Decimal("1.5"), UUID(int=1), timedelta(1)]))


class Reviewer(Executor):
    @handler
    async def review(self, draft: Draft, context: WorkflowContext) -> None:
        await context.request_info(request_data=draft, response_type=bool)

    @response_handler
    async def decide(self, draft: Draft, good: bool, context: WorkflowContext[None, str]) -> None:
        await context.yield_output(f"{draft.text} {draft.parts[1]} {good} {context.get_state('topic')}")


def build(storage: Any) -> Any:
    writer, reviewer = Writer(id="writer"), Reviewer(id="reviewer")
    builder = WorkflowBuilder(name="w", start_executor=writer, checkpoint_storage=storage)
    return builder.add_edge(writer, reviewer).build()


@pytest.mark.parametrize("own", [True, False])
def test_a_workflow_is_resumed_as_from_the_storage_in_memory(own: bool) -> None:
    async def work(store: Store) -> None:
        storage: Any = GitSessionCheckpointStorage(store, types=[Draft]) if own else InMemoryCheckpointStorage()
        await build(storage).run("git")
        latest = await storage.get_latest(workflow_name="w")
        for answer in (True, False):
            responses = dict.fromkeys(latest.pending_request_info_events, answer)
            result = await build(storage).run(checkpoint_id=latest.checkpoint_id, responses=responses)
            assert result.get_outputs() == [f"git 1.5 {answer} {{'git'}}"]
        first = (await storage.list_checkpoints(workflow_name="w"))[0]
        await build(storage).run(checkpoint_id=first.checkpoint_id)
        assert (await storage.get_latest(workflow_name="w")).pending_request_info_events

    with Store.in_memory() as store:
        asyncio.run(work(store))


def test_a_class_that_is_not_listed_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with Store.in_memory() as store:
        storage = GitSessionCheckpointStorage(store)
        asyncio.run(build(storage).run("git"))
        assert f"class '{__name__}:Draft' is not allowed" in caplog.text and "pass it in 'types'" in caplog.text


# ---- several processes, and kills

WRITER = """
import asyncio, sys
from agent_framework import WorkflowCheckpoint
from gitsession import Store
from gitsession.frameworks.agent_framework import GitSessionCheckpointStorage

async def write(storage, name):
    previous = None
    for number in range(int(sys.argv[2])):
        id = f"{name}-{number}"
        await storage.save(WorkflowCheckpoint("w", "g", checkpoint_id=id, previous_checkpoint_id=previous))
        previous = id
        print(id, flush=True)

with Store.open("s.git") as store:
    asyncio.run(write(GitSessionCheckpointStorage(store), sys.argv[1]))
"""


def writer(folder: Path, name: str, number: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, name, str(number)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)


def chain(store: Store, id: str) -> list[str]:
    """Return the ids of the checkpoints in the history of a checkpoint's entry, the newest first."""
    session = store.session("agent-framework-workflow:w")
    node = next(n for n in session.tree().nodes.values() if n.kind == "custom" and session.read(n).data["id"] == id)
    return [entry.data["id"] for _, entry in session.entries(node) if isinstance(entry, Custom)]


def test_two_processes_run_one_workflow_and_lose_no_checkpoint(tmp_path: Path) -> None:
    Store.create(tmp_path / "s.git").close()
    for process in [writer(tmp_path, "one", 12), writer(tmp_path, "two", 12)]:
        process.communicate(timeout=120)
        assert process.returncode == 0
    with Store.open(tmp_path / "s.git") as store:
        found = asyncio.run(GitSessionCheckpointStorage(store).list_checkpoint_ids(workflow_name="w"))
        assert sorted(found) == sorted(f"{name}-{number}" for name in ("one", "two") for number in range(12))
        for name in ("one", "two"):
            own = [id for id in chain(store, f"{name}-11") if id.startswith(name)]
            assert own == [f"{name}-{number}" for number in reversed(range(12))]
        assert store.verify().problems == []


def test_each_checkpoint_that_was_saved_survives_a_kill(tmp_path: Path) -> None:
    Store.create(tmp_path / "s.git").close()
    process = writer(tmp_path, "one", 10_000)
    assert process.stdout is not None
    seen = [process.stdout.readline().strip() for _ in range(5)]
    time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    seen += process.communicate(timeout=60)[0].split()
    assert process.returncode == -signal.SIGKILL
    with Store.open(tmp_path / "s.git") as store:
        storage = GitSessionCheckpointStorage(store)
        found = asyncio.run(storage.list_checkpoint_ids(workflow_name="w"))
        assert found[: len(seen)] == seen and len(found) <= len(seen) + 1
        latest = asyncio.run(storage.get_latest(workflow_name="w"))
        assert latest is not None and latest.checkpoint_id == found[-1]
        asyncio.run(storage.save(checkpoint("next", found[-1])))
        assert chain(store, "next")[1] == found[-1] and list(storage.stored("w").branches()) == ["main"]
        assert store.verify().problems == []
