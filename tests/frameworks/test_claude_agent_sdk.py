"""Tests of the session store of the Claude Agent SDK: its conformance suite, and its in-memory store as the model."""

from __future__ import annotations

import asyncio
import json
import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import ROOT, SHARED

sdk = pytest.importorskip("claude_agent_sdk")

from claude_agent_sdk.testing import run_session_store_conformance  # noqa: E402

from gitsession import Store  # noqa: E402
from gitsession.frameworks.claude_agent_sdk import RECORD, GitSessionStore  # noqa: E402
from gitsession.sessions.attached_files import SessionAttachments  # noqa: E402

KEY = {"project_key": "-work", "session_id": "7c1f0a52-3d9e-4b86-9a51-2f6e8d40c7b3"}


def exact(value: Any) -> str:
    """Return JSON, which distinguishes 1, 1.0 and True."""
    return json.dumps(value, sort_keys=True)


def said(uuid: str, text: str, **fields: Any) -> dict[str, Any]:
    message = {"role": "user", "content": text}
    time = "2026-01-01T00:00:00.000Z"
    links = {"uuid": uuid, "parentUuid": None, "sessionId": KEY["session_id"]}
    return {"type": "user", **links, "timestamp": time, "message": message, **fields}


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_the_conformance_suite_of_the_sdk_passes(kind: str, tmp_path: Path) -> None:
    numbers, made = count(), []

    def make() -> GitSessionStore:
        store = Store.in_memory() if kind == "memory" else Store.create(tmp_path / f"{next(numbers)}.git")
        made.append(store)
        return GitSessionStore(store)

    asyncio.run(run_session_store_conformance(make))
    assert len(made) == 15, "one store for each of the 14 contracts, and one to find the optional methods"
    for store in made:
        if kind == "disk":
            assert store.verify().problems == []
        store.close()


texts = st.text(st.characters(codec=None), max_size=8)  # with lone surrogates
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(scalars, lambda each: st.lists(each, max_size=3) | st.dictionaries(texts, each, max_size=3))
times = st.sampled_from(["2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z", "now"])
types = st.sampled_from(
    ["user", "assistant", "system", "summary", "tag", "custom-title", "last-prompt", "agent_metadata"]
)
entries = st.fixed_dictionaries(
    {"type": types},
    optional={
        "uuid": st.uuids().map(str),
        "parentUuid": st.none() | st.uuids().map(str),
        "timestamp": times,
        "isSidechain": st.booleans(),
        "cwd": st.just("/work"),
        "customTitle": texts,
        "tag": texts,
        "leafUuid": st.uuids().map(str),
        "message": st.builds(lambda role, content: {"role": role, "content": content}, types, values),
        "x": values,
    },
)
keys = st.builds(
    lambda project, session, subpath: (
        {"project_key": project, "session_id": session} | ({"subpath": subpath} if subpath else {})
    ),
    st.sampled_from(["-a", "-b"]),
    st.sampled_from(["one", "two"]),
    st.sampled_from(["", "", "subagents/agent-1", "subagents/workflows/run/agent-1", "notes"]),
)
steps = st.one_of(
    st.tuples(st.just("append"), keys, st.lists(entries, max_size=4)),
    st.tuples(st.just("delete"), keys, st.none()),
    st.tuples(st.just("reopen"), keys, st.none()),
)


async def seen(store: Any) -> list[str]:
    """Return everything that the SDK can read from a store."""
    found: list[Any] = []
    for project in ("-a", "-b"):
        listed = await store.list_sessions(project)
        summaries = {each["session_id"]: each["data"] for each in await store.list_session_summaries(project)}
        found.append([sorted(each["session_id"] for each in listed), summaries])
        for session in ("one", "two"):
            key = {"project_key": project, "session_id": session}
            subs = sorted(await store.list_subkeys(key))
            found += [subs, await store.load(key)]
            found += [await store.load({**key, "subpath": subpath}) for subpath in [*subs, "nope"]]
    return [exact(each) for each in found]


@settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, max_size=8))
def test_every_sequence_of_calls_shows_what_the_sdks_own_store_shows(sequence: list[Any]) -> None:
    async def compare(store: Store) -> None:
        mine, peer = GitSessionStore(store), sdk.InMemorySessionStore()
        for action, key, argument in sequence:
            if action == "append" and argument:
                await mine.append(key, argument)
                await peer.append(key, argument)
            elif action == "delete":
                await mine.delete(key)
                await peer.delete(key)
            elif action == "reopen":
                mine = GitSessionStore(store)
        assert await seen(mine) == await seen(peer)
        assert await seen(GitSessionStore(store)) == await seen(peer)

    with Store.in_memory() as store:
        asyncio.run(compare(store))


SAMPLES = [
    *sorted((ROOT / "docs/examples/claude/projects").glob("*/*.jsonl")),
    *sorted((SHARED / "sessions/claude/generated/projects").glob("*/*.jsonl")),
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return Claude Code's folder, which the SDK reads."""
    folder = tmp_path / "claude"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder))
    return folder


def copied(sample: Path, home: Path) -> Path:
    """Copy a session with its sub-agents to Claude Code's folder, and return the path of its file."""
    file = home / "projects" / sample.parent.name / sample.name
    file.parent.mkdir(parents=True)
    shutil.copy(sample, file)
    if sample.with_suffix("").is_dir():
        shutil.copytree(sample.with_suffix(""), file.with_suffix(""))
    return file


def lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_bytes().split(b"\n") if line]


def subpaths(file: Path) -> dict[str, Path]:
    folder = file.with_suffix("")
    return {each.relative_to(folder).with_suffix("").as_posix(): each for each in folder.glob("subagents/**/*.jsonl")}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem[:8])
@pytest.mark.parametrize("batch", [3, 500])
def test_a_stored_transcript_is_the_same_as_an_imported_file(sample: Path, batch: int, home: Path) -> None:
    file = copied(sample, home)
    with Store.in_memory() as store:
        mine = GitSessionStore(store)
        asyncio.run(sdk.import_session_to_store(file.stem, mine, batch_size=batch))
        key = {"project_key": file.parent.name, "session_id": file.stem}
        assert asyncio.run(mine.load(key)) == lines(file)
        assert sorted(asyncio.run(mine.list_subkeys(key))) == sorted(subpaths(file))
        for subpath, path in subpaths(file).items():
            stored = asyncio.run(mine.load({**key, "subpath": subpath}))
            [described] = [each for each in stored if each["type"] == "agent_metadata"]
            described = {name: value for name, value in described.items() if name != "type"}
            assert described == json.loads(path.with_suffix(".meta.json").read_bytes())
            assert stored[:-1] == lines(path)
            [sub] = store.import_file(path)
            assert sub.new == 0 and asyncio.run(mine.load({**key, "subpath": subpath})) == stored
        [done] = store.import_file(file)
        assert done.new == 0 and [row.sid for row in store.sessions() if row.source_id == file.stem] == [done.session]
        assert store.export(done.session, original=True).data == file.read_bytes()
    with Store.in_memory() as other:
        assert [each.session for each in other.import_file(file)] == [done.session]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem[:8])
def test_an_imported_file_is_a_transcript_of_the_sdk(sample: Path, home: Path) -> None:
    file = copied(sample, home)
    cwd = next(line["cwd"] for line in lines(file) if "cwd" in line)
    with Store.in_memory() as store:
        [done] = store.import_file(file)
        mine, key = GitSessionStore(store), {"session_id": file.stem, "project_key": sdk.project_key_for_directory(cwd)}
        assert asyncio.run(mine.load(key)) == lines(file)
        assert [each["session_id"] for each in asyncio.run(mine.list_sessions(key["project_key"]))] == [file.stem]
        more = {"type": "custom-title", "customTitle": "Renamed", "sessionId": file.stem}
        asyncio.run(mine.append(key, [*lines(file)[-1:], more]))
        loaded = asyncio.run(mine.load(key))
        assert loaded[: len(lines(file))] == lines(file) and loaded[-1] == more
        assert store.session(done.session).names().title == "Renamed"
        [summary] = asyncio.run(mine.list_session_summaries(key["project_key"]))
        assert summary["data"] == sdk.fold_session_summary(None, key, loaded)["data"]


def test_the_functions_of_the_sdk_work_on_the_store(home: Path) -> None:
    async def run(store: Store) -> None:
        file = copied(SAMPLES[0], home)
        cwd = next(line["cwd"] for line in lines(file) if "cwd" in line)
        mine = GitSessionStore(store)
        await sdk.import_session_to_store(file.stem, mine)
        messages = await sdk.get_session_messages_from_store(mine, file.stem, cwd)
        assert messages and {each.type for each in messages} == {"user", "assistant"}
        forked = await sdk.fork_session_via_store(mine, file.stem, cwd, title="Another way")
        copy = await sdk.get_session_messages_from_store(mine, forked.session_id, cwd)
        assert [each.message for each in copy] == [each.message for each in messages]
        await sdk.rename_session_via_store(mine, file.stem, "The first way", cwd)
        await sdk.tag_session_via_store(mine, file.stem, "done", cwd)
        listed = {each.session_id: each for each in await sdk.list_sessions_from_store(mine, cwd)}
        assert listed[file.stem].summary == "The first way" and listed[file.stem].tag == "done"
        assert listed[forked.session_id].summary == "Another way"
        assert {row.title for row in store.sessions()} == {"The first way", "Another way"}
        await sdk.delete_session_via_store(mine, file.stem, cwd)
        assert [each.session_id for each in await sdk.list_sessions_from_store(mine, cwd)] == [forked.session_id]
        [removed] = store.trash.list()
        store.trash.restore(removed.sid)
        assert len(await sdk.list_sessions_from_store(mine, cwd)) == 2

    with Store.in_memory() as store:
        asyncio.run(run(store))


def test_the_session_is_one_of_claude_code_for_every_command(home: Path) -> None:
    file = copied(SAMPLES[0], home)
    with Store.in_memory() as store:
        asyncio.run(sdk.import_session_to_store(file.stem, GitSessionStore(store)))
        [row] = store.sessions()
        session = store.session(f"claude:{file.stem}")
        assert row.agent == "claude" and session.context().profile == "claude"
        assert any(node.subject.startswith("user: ") for node in session.history())
        assert store.export(session.id, to="claude").data == file.read_bytes()
        assert store.export(session.id, to="codex").data


def test_an_entry_whose_uuid_is_stored_is_left_out() -> None:
    async def run(store: Store) -> None:
        mine, first, second = GitSessionStore(store), said("a1", "One"), said("a2", "a1")
        title = {"type": "custom-title", "customTitle": "T"}
        await mine.append(KEY, [first, title, first])
        await mine.append(KEY, [first, second, title])
        await mine.append(KEY, [second])
        assert await mine.load(KEY) == [first, title, second, title]

    with Store.in_memory() as store:
        asyncio.run(run(store))


def test_a_transcript_whose_first_entries_have_no_time_becomes_the_session_of_its_file(tmp_path: Path) -> None:
    async def run(store: Store) -> None:
        mine, mode, first = GitSessionStore(store), {"type": "mode", "mode": "plan"}, said("a1", "One", cwd="/work")
        await mine.append(KEY, [mode])
        assert await mine.load(KEY) == [mode]
        await mine.append(KEY, [first])
        assert await mine.load(KEY) == [mode, first]
        file = tmp_path / f"{KEY['session_id']}.jsonl"
        file.write_bytes(b"".join(json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in (mode, first)))
        [done] = store.import_file(file)
        assert [row.sid for row in store.sessions()] == [done.session] and done.new == 0

    with Store.in_memory() as store:
        asyncio.run(run(store))


def test_the_description_of_a_sub_agent_comes_first() -> None:
    async def run(store: Store) -> None:
        mine, key = GitSessionStore(store), {**KEY, "subpath": "subagents/agent-1"}
        described = {"type": "agent_metadata", "agentType": "explore", "toolUseId": "toolu_1"}
        call = {"type": "tool_use", "id": "toolu_1", "name": "Task", "input": {}}
        asked = said("a1", "Explore") | {"type": "assistant", "message": {"role": "assistant", "content": [call]}}
        await mine.append(KEY, [asked])
        await mine.append(key, [described])
        assert await GitSessionStore(store).load(key) == [described]
        await mine.append(key, [said("b1", "Look around", isSidechain=True, agentId="1")])
        assert await GitSessionStore(store).load(key) == [
            described,
            said("b1", "Look around", isSidechain=True, agentId="1"),
        ]
        main, sub = store.session(f"claude:{KEY['session_id']}"), store.session(f"claude:{KEY['session_id']}/agent-1")
        assert len(store.sessions()) == 2 and store.trash.list() == []
        assert (sub.origin().session, sub.origin().entry) == (main.id, main.leaf)

    with Store.in_memory() as store:
        asyncio.run(run(store))


def test_two_programs_append_to_a_transcript(tmp_path: Path) -> None:
    async def run(one: Store, two: Store) -> None:
        first, second = GitSessionStore(one), GitSessionStore(two)
        wanted = [said(f"a{number}", str(number)) for number in range(12)]
        for at, entry in enumerate(wanted):
            await (first if at % 2 else second).append(KEY, [entry])
        assert await first.load(KEY) == await second.load(KEY) == wanted
        together = [said(f"b{number}", str(number)) for number in range(8)]
        await asyncio.gather(*((first, second)[at % 2].append(KEY, [entry]) for at, entry in enumerate(together)))
        loaded = await first.load(KEY)
        assert loaded[:12] == wanted and sorted(map(exact, loaded[12:])) == sorted(map(exact, together))

    with Store.create(tmp_path / "s.git") as one, Store.open(tmp_path / "s.git") as two:
        asyncio.run(run(one, two))
        assert one.verify().problems == []


def test_a_secret_is_redacted_in_the_store_and_returned_to_the_sdk(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    entry, more = said("a1", f"My token is {secret}"), said("a2", "Hello")
    with Store.create(tmp_path / "s.git") as store:
        asyncio.run(GitSessionStore(store).append(KEY, [entry]))
        asyncio.run(GitSessionStore(store).append(KEY, [more]))
        assert asyncio.run(GitSessionStore(store).load(KEY)) == [entry, more]
        [row] = store.sessions()
        assert secret not in store.export(row.sid).data.decode()


def test_the_record_of_the_sdk_is_no_file_of_claude_code(home: Path, tmp_path: Path) -> None:
    file = copied(SAMPLES[0], home)
    with Store.create(tmp_path / "s.git") as store:
        asyncio.run(sdk.import_session_to_store(file.stem, GitSessionStore(store)))
        [row] = store.sessions()
        assert SessionAttachments(store.objects, row.sid).get(RECORD) and not store.export(row.sid).other_files
