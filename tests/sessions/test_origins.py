"""Tests of the entry that started a sub-agent, for each agent with sub-agents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import SHARED, START_MS, Clock, joined
from claude_code import SESSION, assistant, talk, user
from claude_code import call as calls
from claude_code import result as answers
from codex_files import NAME, THREAD, Lines, call, event, output, rollout
from codex_files import user as asked
from hypothesis import given
from hypothesis import strategies as st
from opencode_files import SES, Database, answer, info, tool
from opencode_files import user as asks

from gitsession import Message
from gitsession.api import Store
from gitsession.cli import app as command_line
from gitsession.discovery import sources
from gitsession.formats import Counting, Delegating, all_with_capability
from gitsession.index.current_folder import CurrentFolder


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as opened:
        yield opened


def take(store: Store, *paths: Path) -> None:
    for path in paths:
        for found in sources.at(path):
            store.agents.import_session(found.format, found.load(), path=found.path)


def origin(store: Store, address: str) -> tuple[str | None, str] | None:
    """Return the agent's id of the session, and the text of the entry."""
    found = store.session(address).origin()
    if found is None:
        return None
    row = store.catalogue().session(found.session)
    assert row is not None
    return row.source_id, found.entry.subject if found.entry is not None else ""


def claude_files(folder: Path, *, told: dict[str, str] | None, **result: str) -> list[Path]:
    session, agent = folder / f"{SESSION}.jsonl", folder / SESSION / "subagents/agent-ab12.jsonl"
    agent.parent.mkdir(parents=True)
    lines = [user("a", None), assistant("b", "a", calls("toolu_0")), assistant("c", "b", calls("toolu_1", "Agent"))]
    session.write_bytes(joined(*lines, answers("d", "c", "toolu_1", toolUseResult=result), *talk("e", "f", after="d")))
    agent.write_bytes(joined(user("x", None, isSidechain=True), assistant("y", "x", isSidechain=True)))
    if told is not None:
        agent.with_suffix(".meta.json").write_text(json.dumps(told))
    return [session, agent]


@pytest.mark.parametrize("told", [None, {"toolUseId": "toolu_1"}], ids=["by its result", "by the file beside it"])
def test_a_sub_agent_of_claude_code_was_started_by_a_call(
    tmp_path: Path, store: Store, told: dict[str, str] | None
) -> None:
    result = {} if told else {"agentId": "ab12"}
    take(store, *claude_files(tmp_path, told=told, **result))
    assert origin(store, f"claude:{SESSION}/agent-ab12") == (SESSION, "assistant: Agent (+1 tool)")
    assert_started(store, f"claude:{SESSION}", f"claude:{SESSION}/agent-ab12")


def test_session_is_known_if_its_call_is_not(tmp_path: Path, store: Store) -> None:
    take(store, *claude_files(tmp_path, told=None))
    assert origin(store, f"claude:{SESSION}/agent-ab12") == (SESSION, "")
    assert_started(store, f"claude:{SESSION}")


def test_origin_is_unknown_if_its_session_is_missing(tmp_path: Path, store: Store) -> None:
    take(store, claude_files(tmp_path, told=None)[1])
    assert origin(store, f"claude:{SESSION}/agent-ab12") is None


def test_session_started_by_its_user_has_no_origin(tmp_path: Path, store: Store) -> None:
    take(store, *claude_files(tmp_path, told=None))
    assert origin(store, f"claude:{SESSION}") is None


CHILD = THREAD.replace("96001", "96002")
SPAWNED = {
    "by its result": output("call_1", json.dumps({"agent_id": CHILD})),
    "by an event": event(
        "item_completed", item={"id": "call_1", "tool": "spawn_agent", "receiver_thread_ids": [CHILD]}
    ),
}


@pytest.mark.parametrize("ended", SPAWNED.values(), ids=SPAWNED)
def test_a_sub_agent_of_codex_was_started_by_a_call(tmp_path: Path, store: Store, ended: Lines) -> None:
    above, below = tmp_path / f"{NAME}.jsonl", tmp_path / f"{NAME.replace(THREAD, CHILD)}.jsonl"
    above.write_bytes(rollout(asked("go"), call("call_0"), call("call_1", "spawn_agent"), ended, asked("on")))
    below.write_bytes(rollout(asked("look"), thread=CHILD, parent_thread_id=THREAD))
    take(store, above, below)
    assert origin(store, f"codex:{CHILD}") == (THREAD, "assistant: spawn_agent (+1 tool)")
    assert_started(store, f"codex:{THREAD}", f"codex:{CHILD}")


def test_a_sub_agent_of_opencode_was_started_by_a_call(tmp_path: Path, store: Store) -> None:
    made = Database(tmp_path / "opencode.db")
    started = tool("call_t", name="task", metadata={"sessionId": "ses_child"})
    made.put([asks("msg_u1", "Go", at=1), answer("msg_a1", "I will", at=2, parts=[started])])
    child = info(id="ses_child", parentID=SES, time={"created": START_MS + 2000, "updated": START_MS + 2000})
    made.put([asks("msg_cu", "Look", at=2)], child)
    take(store, made.path)
    found = origin(store, "opencode:ses_child")
    assert found is not None and found[0] == SES and found[1].startswith("assistant: ")
    assert_started(store, f"opencode:{SES}", "opencode:ses_child")


def test_first_entry_of_a_sub_agent_is_shown_with_its_origin(
    tmp_path: Path, store: Store, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    take(store, *claude_files(tmp_path, told={"toolUseId": "toolu_1"}))
    address = f"claude:{SESSION}/agent-ab12"
    found = store.session(address).origin()
    assert found is not None and found.entry is not None
    assert command_line.run(["--store", str(tmp_path / "store.git"), "show", f"{address}@root"]) == 0
    assert f"origin  {found.session}@{found.entry.oid}" in capfdbinary.readouterr()[0].decode()
    assert command_line.run(["--store", str(tmp_path / "store.git"), "show", f"{address}@root", "--json"]) == 0
    document = json.loads(capfdbinary.readouterr()[0])
    assert document["origin"] == {"session": found.session, "entry": found.entry.oid}
    begun = store.session(address).id
    call = f"{found.session}@{found.entry.oid}"
    assert command_line.run(["--store", str(tmp_path / "store.git"), "show", call]) == 0
    assert f"started  {begun}" in capfdbinary.readouterr()[0].decode()
    assert command_line.run(["--store", str(tmp_path / "store.git"), "show", call, "--json"]) == 0
    assert json.loads(capfdbinary.readouterr()[0])["started"] == [begun]


def test_markdown_names_a_sub_agent_after_the_entry_that_started_it(tmp_path: Path, store: Store) -> None:
    take(store, *claude_files(tmp_path, told={"toolUseId": "toolu_1"}))
    begun = store.catalogue().session(store.session(f"claude:{SESSION}/agent-ab12").id)
    assert begun is not None and begun.reference.endswith(begun.name)
    paragraphs = store.export(f"claude:{SESSION}", to="markdown").data.decode().split("\n\n")
    at = paragraphs.index(f"↳ `{begun.reference}`")
    assert paragraphs[at - 1].startswith("`Agent") and paragraphs[at + 1].startswith("## tool")


def test_markdown_names_a_sub_agent_of_an_unknown_entry_at_the_top(tmp_path: Path, store: Store) -> None:
    take(store, *claude_files(tmp_path, told=None))
    begun = store.catalogue().session(store.session(f"claude:{SESSION}/agent-ab12").id)
    assert begun is not None
    assert store.export(f"claude:{SESSION}", to="markdown").data.decode().split("\n\n")[2] == f"↳ `{begun.reference}`"


def assert_started(store: Store, address: str, *begun: str) -> None:
    """Check that one entry of the session started these sub-agents, and that no other entry started any."""
    session = store.session(address)
    found = [sids for node in session.history() if (sids := session.started(node))]
    assert found == ([[store.session(each).id for each in begun]] if begun else [])


KEYS = [
    "payload", "item", "output", "tool", "type", "id", "call_id", "agent_id", "receiver_thread_ids", "message",
    "content", "toolUseResult", "agentId", "tool_use_id", "parts", "state", "metadata", "sessionId", "callID", "info",
    "last_token_usage",
]  # fmt: skip
WORDS = ["ab12", "toolu_1", "spawn_agent", "function_call_output", "tool_use", "tool_result", "user", "{}"]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
)


@given(st.dictionaries(st.sampled_from(KEYS), ANYTHING), st.none() | ANYTHING)
def test_any_record_can_be_read(record: dict[str, object], told: object) -> None:
    payload = json.dumps(record).encode()
    beside = {} if told is None else {"agent-ab12.meta.json": json.dumps({"toolUseId": told}).encode()}
    for format in all_with_capability(Delegating).values():
        assert isinstance(format.starting_call(payload, "ab12", beside), str)
    for counting in all_with_capability(Counting).values():
        assert all(count.tokens > 0 for count in counting.counts(payload))


@pytest.mark.parametrize(("agent", "call_of"), [("claude", "Agent"), ("codex", "spawn_agent")])
def test_sub_agents_of_real_sessions_have_their_origin(store: Store, agent: str, call_of: str) -> None:
    folder = SHARED / "sessions" / agent / "generated"
    if not folder.is_dir():
        pytest.skip("no real sessions here")
    for path in sorted(folder.rglob("*.jsonl")):
        take(store, path)
    found = [origin(store, row.sid) for row in store.sessions()]
    assert [said for _, said in filter(None, found) if said] == [f"assistant: {call_of} (+1 tool)"]


@pytest.mark.parametrize("agent", ["claude", "codex", "opencode"])
def test_the_newest_session_here_is_no_sub_agents(tmp_path: Path, store: Store, agent: str) -> None:
    """A sub-agent often ends after the entry that started it, so its session is the newer one."""
    later = "2026-02-03T00:00:00.000Z"
    if agent == "claude":
        take(store, *claude_files(tmp_path, told=None))
        child = tmp_path / SESSION / "subagents/agent-ab12.jsonl"
        last = {**json.loads(user("z", "y", isSidechain=True)), "timestamp": later}
        child.write_bytes(child.read_bytes() + json.dumps(last).encode() + b"\n")
        take(store, child)
    elif agent == "codex":
        files = [tmp_path / f"{NAME}.jsonl", tmp_path / f"{NAME.replace(THREAD, CHILD)}.jsonl"]
        files[0].write_bytes(rollout(asked("go"), call("call_1", "spawn_agent"), SPAWNED["by its result"]))
        line = json.loads(rollout(asked("look"), thread=CHILD, parent_thread_id=THREAD).splitlines()[-1])
        data = rollout(asked("look"), thread=CHILD, parent_thread_id=THREAD)
        files[1].write_bytes(data + json.dumps({**line, "timestamp": later}).encode() + b"\n")
        take(store, *files)
    else:
        made = Database(tmp_path / "opencode.db")
        made.put([asks("msg_u1", "Go", at=1), answer("msg_a1", "I will", at=2)])
        child_info = info(id="ses_child", parentID=SES, time={"created": START_MS + 2000, "updated": START_MS + 2000})
        made.put([asks("msg_cu", "Look", at=99), answer("msg_ca", "I did", at=100)], child_info)
        take(store, made.path)
    newest, other = store.sessions()
    assert (newest.delegated, other.delegated) == (1, 0)
    here = CurrentFolder(newest.project or "")
    assert newest.project == other.project
    assert store.catalogue().find("@", here).sid == other.sid
    assert store.catalogue().find("-", here).sid == newest.sid


def test_a_fork_of_codex_is_the_newest_session_here(tmp_path: Path, store: Store) -> None:
    file = tmp_path / f"{NAME.replace(THREAD, CHILD)}.jsonl"
    file.write_bytes(rollout(asked("look"), thread=CHILD, forked_from_id=THREAD))
    take(store, file)
    assert [row.delegated for row in store.sessions()] == [0]


def test_a_session_records_the_session_that_started_it(store: Store, tmp_path: Path) -> None:
    main = store.new_session(agent="mine", cwd=str(tmp_path))
    started_at = main.append(Message.user("Ask a sub-agent"))
    sub = store.new_session(agent="mine", cwd=str(tmp_path), parent=main)
    main.append(Message.assistant("Waiting"))
    sub.append(Message.user("Count the files"))
    found = sub.origin()
    assert found is not None
    assert (found.session, found.entry and found.entry.oid) == (main.id, started_at.oid)
    assert (main.started(started_at), main.started(), main.origin()) == ([sub.id], [], None)
    assert store.session("@", cwd=str(tmp_path)).id == main.id, "@ skips the sub-agent, although it is newer"
    assert store.session("-", cwd=str(tmp_path)).id == sub.id


def test_a_fork_records_its_origin_and_has_the_next_number(store: Store) -> None:
    main = store.new_session(agent="mine")
    first = main.append(Message.user("Start"))
    main.append(Message.assistant("Done"))
    main.rename("Login")
    forks = [main.fork(first), main.fork()]
    again = forks[0].fork()
    assert [fork.names().title for fork in (*forks, again)] == ["Login (fork #1)", "Login (fork #2)", "Login (fork #3)"]
    found = forks[0].origin()
    assert found is not None
    assert (found.session, found.entry and found.entry.oid) == (main.id, first.oid)
    nested = again.origin()
    assert nested is not None and nested.session == forks[0].id
    assert main.started(first) == [], "a fork is not started by an agent"
    rows = {row.sid: row for row in store.sessions()}
    assert [rows[fork.id].parent for fork in (*forks, again)] == [main.id, main.id, forks[0].id]
    store.trash.put(main.id)
    assert forks[0].origin() is None


def test_a_long_title_leaves_room_for_the_number(store: Store) -> None:
    main = store.new_session(agent="mine")
    main.append(Message.user("Start"))
    main.rename("x" * 200)
    assert main.fork().names().title == "x" * 190 + " (fork #1)"
