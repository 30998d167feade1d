"""Tests of the history of agents of the Microsoft Agent Framework, against the framework's own providers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agent_framework")

import agent_framework
from agent_framework import AgentResponse, AgentSession, ChatResponse, Content, InMemoryHistoryProvider, SessionContext
from agent_framework import Message as FrameworkMessage
from framework_items import JSON_TEXT, WILD_JSON, kill_after
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitsession import (
    Custom,
    Image,
    InvalidName,
    Malformed,
    Message,
    Reset,
    Store,
    Thinking,
    ToolCall,
    text,
)
from gitsession.frameworks.agent_framework import AGENT, GitSessionHistoryProvider

FileHistoryProvider = getattr(agent_framework, "FileHistoryProvider", None)

PIXEL = "data:image/png;base64,iVBORw0KGgo="

plain_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | JSON_TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(JSON_TEXT, inner, max_size=2),
    max_leaves=4,
)
more = st.dictionaries(st.sampled_from(["x", "_excluded", "list"]), plain_json, max_size=2)


def made(factory: Any, *arguments: Any, **options: Any) -> st.SearchStrategy[Content]:
    return st.builds(factory, *arguments, additional_properties=more, **options)


texts = made(Content.from_text, JSON_TEXT)
links = made(
    Content.from_uri, st.sampled_from(["https://example.org/a.png", "https://x/"]), media_type=st.just("image/png")
)
images = made(Content.from_uri, st.just(PIXEL)) | made(Content.from_data, st.binary(max_size=4), st.just("image/png"))
files = made(Content.from_data, st.binary(max_size=4), st.sampled_from(["application/pdf", "text/plain"]))
calls = made(
    Content.from_function_call,
    JSON_TEXT,
    JSON_TEXT,
    arguments=JSON_TEXT | plain_json.map(json.dumps) | st.dictionaries(JSON_TEXT, plain_json, max_size=2) | st.none(),
)
results = made(
    Content.from_function_result,
    JSON_TEXT,
    result=JSON_TEXT | plain_json | st.lists(texts | images | links, max_size=2),
    exception=st.none() | JSON_TEXT,
)
others = st.one_of(
    made(Content.from_text_reasoning, text=JSON_TEXT, protected_data=st.none() | JSON_TEXT),
    made(Content.from_usage, st.fixed_dictionaries({"input_token_count": st.integers(0, 9), "x": st.integers(0, 9)})),
    made(Content.from_error, message=JSON_TEXT, error_code=JSON_TEXT),
    made(Content.from_hosted_file, JSON_TEXT),
    made(Content.from_function_approval_request, JSON_TEXT, calls),
    made(Content.from_mcp_server_tool_call, JSON_TEXT, JSON_TEXT, arguments=plain_json),
)
contents = st.one_of(texts, links, images, files, calls, results, others)
messages = st.builds(
    FrameworkMessage,
    st.sampled_from(["user", "assistant", "system", "developer", "tool", "critic"]),
    st.lists(contents, max_size=3) | st.lists(results, min_size=1, max_size=3),
    author_name=st.none() | JSON_TEXT,
    message_id=st.none() | JSON_TEXT,
    additional_properties=more,
)
steps = st.lists(st.lists(messages, max_size=3) | st.just("reopen") | st.just("repeat"), max_size=5)
random_steps = settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))


def exact(found: list[FrameworkMessage]) -> list[str]:
    return [json.dumps(message.to_dict(), sort_keys=True) for message in found]


def run(work: Any) -> Any:
    return asyncio.run(work)


async def compare(store: Store, peer: Any, sequence: list[Any], **options: Any) -> None:
    mine, state = GitSessionHistoryProvider(store, **options), {}
    for step in sequence:
        if step == "reopen":
            mine = GitSessionHistoryProvider(store, **options)
            continue
        added = await peer.get_messages("s", state=state) if step == "repeat" else step
        await mine.save_messages("s", added)
        await peer.save_messages("s", added, state=state)
        assert exact(await mine.get_messages("s")) == exact(await peer.get_messages("s", state=state))


@pytest.mark.skipif(FileHistoryProvider is None, reason="the release has no FileHistoryProvider")
@random_steps
@given(steps, st.booleans())
def test_every_sequence_of_calls_returns_what_the_file_provider_returns(sequence: list[Any], skips: bool) -> None:
    with Store.in_memory() as store, tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the framework's file provider is experimental
        run(compare(store, FileHistoryProvider(folder, skip_excluded=skips), sequence, skip_excluded=skips))


@random_steps
@given(steps)
def test_every_sequence_of_calls_returns_what_the_provider_in_memory_returns(sequence: list[Any]) -> None:
    stable = [step if isinstance(step, str) else list(map(as_stored, step)) for step in sequence]
    with Store.in_memory() as store:
        run(compare(store, InMemoryHistoryProvider(), stable))


def as_stored(message: FrameworkMessage) -> FrameworkMessage:
    """Return a message as the framework itself reads it from a file."""
    return FrameworkMessage.from_dict(json.loads(json.dumps(message.to_dict())))


@random_steps
@given(WILD_JSON, st.text(st.characters(), max_size=8))
def test_a_message_with_any_json_is_read_as_it_was_stored(value: Any, words: str) -> None:
    message = FrameworkMessage(
        "assistant",
        [Content.from_text(words), Content.from_function_call("c", "f", arguments={"value": value})],
        additional_properties={"value": value},
    )
    with Store.in_memory() as store:
        provider = GitSessionHistoryProvider(store)
        run(provider.save_messages("s", [message]))
        assert exact(run(provider.get_messages("s"))) == exact([message])


CALL = Content.from_function_call("c1", "weather", arguments='{"city":"Rome"}')
RESULT = Content.from_function_result("c1", result="sunny")


@pytest.mark.parametrize(
    "message",
    [
        FrameworkMessage("user", ["Hello"]),
        FrameworkMessage("user", [Content.from_uri(PIXEL)]),
        FrameworkMessage("user", [Content.from_uri("https://example.org/a.png", media_type="image/png")]),
        FrameworkMessage("tool", [RESULT]),
        FrameworkMessage("tool", [Content.from_function_result("c1", result=[Content.from_uri(PIXEL)])]),
        FrameworkMessage("assistant", [Content.from_text_reasoning(text="Hm"), Content.from_text("Sunny.")]),
    ],
)
def test_nothing_is_stored_beside_an_entry_that_determines_the_message(message: FrameworkMessage) -> None:
    with Store.in_memory() as store:
        provider = GitSessionHistoryProvider(store)
        run(provider.save_messages("s", [message]))
        [entry] = [entry for _, entry in provider.stored("s").entries() if entry.kind == "message"]
        assert entry.extra == {}
        assert exact(run(provider.get_messages("s"))) == exact([message])


def test_messages_become_entries_with_their_parts() -> None:
    with Store.in_memory() as store:
        provider = GitSessionHistoryProvider(store)
        other = Content.from_function_call("c2", "weather", arguments={"city": "Oslo"})
        thought = Content.from_text_reasoning(text="Two cities", protected_data="sealed")
        both = [RESULT, Content.from_function_result("c2", result="rain", exception="ValueError")]
        run(
            provider.save_messages(
                "chat",
                [
                    FrameworkMessage("user", ["Weather?", Content.from_uri(PIXEL)]),
                    FrameworkMessage("assistant", [thought, CALL, other], author_name="Helper"),
                    FrameworkMessage("tool", both),
                    FrameworkMessage("assistant", ["Sunny and rain.", Content.from_usage({"input_token_count": 7})]),
                ],
            )
        )
        session = store.session("agent-framework:chat")
        entries = [session.read(node) for node in session.history()[1:]]
        assert [entry.role for entry in entries] == ["user", "assistant", "tool", "tool", "assistant"]
        assert entries[0].content[1] == Image(b"\x89PNG\r\n\x1a\n", "image/png")
        assert entries[1].content[0] == Thinking("Two cities", "sealed")
        assert [block.arguments for block in entries[1].content[1:]] == [{"city": "Rome"}, {"city": "Oslo"}]
        assert [(entry.tool_call_id, entry.text, entry.is_error) for entry in entries[2:4]] == [
            ("c1", "sunny", False),
            ("c2", "rain", True),
        ]
        assert entries[4].usage == {"input_tokens": 7}
        assert {hit.session.sid for hit in store.search("Sunny and rain")} == {session.id}
        request = session.context().request("anthropic")["messages"]
        assert [each["role"] for each in request] == ["user", "assistant", "user", "assistant"]


def test_the_model_and_the_token_counts_of_an_answer_are_stored_with_its_last_message() -> None:
    counts = {"input_token_count": 10, "output_token_count": 2, "reasoning": 1}
    answer = FrameworkMessage("assistant", ["Hello, Ada."])
    context = SessionContext(session_id="s", input_messages=[FrameworkMessage("user", ["I am Ada."])])
    context._response = AgentResponse(
        messages=[answer], usage_details=counts, raw_representation=ChatResponse(messages=[answer], model="gpt")
    )
    with Store.in_memory() as store:
        provider, session = GitSessionHistoryProvider(store), AgentSession(session_id="s")
        run(provider.after_run(agent=None, session=session, context=context, state={}))
        run(provider.save_messages("s", [FrameworkMessage("user", ["Bye."])]))
        entries = [entry for _, entry in provider.stored("s").entries() if entry.kind == "message"]
        assert [(entry.model, entry.usage) for entry in entries] == [
            (None, None),
            ("gpt", {"input_tokens": 10, "output_tokens": 2, "reasoning": 1}),
            (None, None),
        ]
        assert exact(run(provider.get_messages("s")))[1] == exact([answer])[0]


def test_results_of_parallel_calls_whose_message_was_cut_are_messages_of_their_own() -> None:
    with Store.in_memory() as store:
        provider = GitSessionHistoryProvider(store)
        results = [Content.from_function_result(f"c{number}", result=str(number)) for number in range(3)]
        run(provider.save_messages("s", [FrameworkMessage("tool", results, author_name="Helper")]))
        session = provider.stored("s")
        session.continue_at("leaf~1")
        session.append(Message.user("Go on"))
        found = run(provider.get_messages("s"))
        assert [[content.call_id for content in message.contents] for message in found] == [["c0"], ["c1"], [None]]


def test_entries_of_other_programs_are_messages_too() -> None:
    with Store.in_memory() as store:
        provider = GitSessionHistoryProvider(store)
        session = provider.stored("s")
        call = ToolCall("c1", "read", {"path": "a.py"})
        for entry in (
            Message.user("Hello"),
            Message.assistant([text("I read it"), call]),
            Message.tool(call, "print()"),
            Message(role="shell", command="ls", output="a.py"),
            Custom(custom_type="other", data={"role": "user"}),
        ):
            session.append(entry)
        found = run(provider.get_messages("s"))
        assert [message.role for message in found] == ["user", "assistant", "tool", "user"]
        assert found[1].contents[1].parse_arguments() == {"path": "a.py"}
        assert (found[2].contents[0].result, found[3].text) == ("print()", "$ ls\na.py")
        session.append(Reset())
        assert run(provider.get_messages("s")) == []


def test_the_provider_follows_a_switch_and_a_rewind(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    with Store.create(tmp_path / "s.git") as store:
        provider = GitSessionHistoryProvider(store, cwd=str(folder))
        run(provider.save_messages("s", [FrameworkMessage("user", ["Write a.txt"])]))
        with provider.stored("s").files.checkpoint(folder):
            (folder / "a.txt").write_text("a")
        run(provider.save_messages("s", [FrameworkMessage("assistant", ["Done"])]))
        session = store.session("agent-framework:s")
        session.files.rewind(session.files.plan_rewind("user"))
        assert not (folder / "a.txt").exists() and run(provider.get_messages("s")) == []
        run(provider.save_messages("s", [FrameworkMessage("user", ["Write b.txt"])]))
        assert [message.text for message in run(provider.get_messages("s"))] == ["Write b.txt"]
        session.switch("main")
        assert [message.text for message in run(provider.get_messages("s"))] == ["Write a.txt", "Done"]


def test_a_fork_is_continued_by_its_key_or_its_id() -> None:
    with Store.in_memory() as store:
        provider = GitSessionHistoryProvider(store)
        run(provider.save_messages("s", [FrameworkMessage("user", ["one"]), FrameworkMessage("assistant", ["two"])]))
        session = provider.stored("s")
        keyed, plain = session.fork("user", key="copy"), session.fork("user")
        other = store.new_session(agent="pi")
        for id in ("copy", plain.id):
            run(provider.save_messages(id, [FrameworkMessage("assistant", [id])]))
            assert [message.text for message in run(provider.get_messages(id))] == ["one", id]
        assert provider.stored("copy").id == keyed.id
        assert [message.text for message in run(provider.get_messages("s"))] == ["one", "two"]
        assert provider.stored(other.id).id != other.id  # the session of another agent


# ---- hostile input, failures, and several writers


class WithSet(FrameworkMessage):
    """A message of a program whose dict JSON cannot represent."""

    def to_dict(self, **options: Any) -> dict[str, Any]:
        return {**super().to_dict(**options), "tags": {1}}


def test_a_message_that_is_not_json_is_refused_and_nothing_is_stored() -> None:
    with Store.in_memory() as store:
        provider = GitSessionHistoryProvider(store)
        with pytest.raises(Malformed, match="Object of type set"):
            run(provider.save_messages("s", [FrameworkMessage("user", ["Hello"]), WithSet("user", ["a"])]))
        assert run(provider.get_messages("s")) == []


@pytest.mark.parametrize("value", [{1}, b"x", object()])
def test_a_value_that_the_framework_leaves_out_of_its_dict_is_not_stored(value: Any) -> None:
    message = FrameworkMessage("user", ["Hello"], additional_properties={"kept": 1, "tags": value})
    with Store.in_memory() as store:
        provider = GitSessionHistoryProvider(store)
        run(provider.save_messages("s", [message]))
        [found] = run(provider.get_messages("s"))
        assert found.text == "Hello" and found.additional_properties == message.to_dict()["additional_properties"]


def test_a_huge_message_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s.git") as store:
        provider = GitSessionHistoryProvider(store)
        huge = FrameworkMessage("user", ["word " * (4 * 2**20)])
        with pytest.raises(Malformed):
            run(provider.save_messages("s", [FrameworkMessage("user", ["Hello"]), huge]))
        assert run(provider.get_messages("s")) == []
        assert store.verify().problems == []


@pytest.mark.parametrize("id", ["../../etc/passwd", "a\0b", "a\nb", "x" * 5000, "é" * 300, "-rf", "main"])
def test_any_id_names_a_session_of_its_own(id: str, tmp_path: Path) -> None:
    with Store.create(tmp_path / "s.git") as store:
        provider = GitSessionHistoryProvider(store)
        run(provider.save_messages(id, [FrameworkMessage("user", ["a\0b"])]))
        run(provider.save_messages("other", [FrameworkMessage("user", ["other"])]))
        assert [message.text for message in run(provider.get_messages(id))] == ["a\0b"]
    with Store.open(tmp_path / "s.git") as store:
        assert [message.text for message in run(GitSessionHistoryProvider(store).get_messages(id))] == ["a\0b"]
        assert store.verify().problems == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.git"]


def test_without_an_id_the_history_is_that_of_the_default_session() -> None:
    with Store.in_memory() as store:
        provider = GitSessionHistoryProvider(store)
        run(provider.save_messages(None, [FrameworkMessage("user", ["Hello"])]))
        assert exact(run(provider.get_messages("default"))) == exact(run(provider.get_messages("")))
        with pytest.raises(InvalidName):
            run(provider.save_messages("  ", [FrameworkMessage("user", ["Hello"])]))


@pytest.mark.parametrize(
    "extra",
    [
        {AGENT: "not JSON"},
        {AGENT: "[1]"},
        {AGENT: '{"contents": {"7": [1]}, "role": {"x": [1]}}'},
        {AGENT: '[{"type": "message", "role": "user", "contents": [{"type": "text", "unknown": 1}]}]'},
        {AGENT: '[{"type": "session"}]'},
    ],
)
def test_a_stored_message_that_the_framework_cannot_read_is_an_error(extra: dict[str, Any]) -> None:
    with Store.in_memory() as store:
        provider = GitSessionHistoryProvider(store)
        provider.stored("s").append(Message(role="user", content=(text("Hello"),), extra=extra))
        with pytest.raises(Malformed, match="cannot read a message of the Agent Framework"):
            run(provider.get_messages("s"))


@pytest.mark.parametrize("part", [[0, 2**40], [0, -1], [1, 2], [0, 2], "x", [True, True], [0], 7, None])
def test_a_stored_message_with_a_bad_place_is_a_message_of_its_own(part: Any) -> None:
    with Store.in_memory() as store:
        provider = GitSessionHistoryProvider(store)
        provider.stored("s").append(Message(role="user", content=(text("a"),), extra={f"{AGENT}:part": part}))
        provider.stored("s").append(Message.user("b"))
        assert [message.text for message in run(provider.get_messages("s"))] == ["a", "b"]


def test_a_secret_is_redacted_in_the_store_and_returned_to_the_program(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    message = FrameworkMessage("user", [f"My token is {secret}"], additional_properties={"token": secret})
    with Store.create(tmp_path / "s.git") as store:
        provider = GitSessionHistoryProvider(store)
        run(provider.save_messages("s", [message]))
        stored = provider.stored("s")
        assert all(secret not in repr(stored.read(node)) for node in stored.history())
        assert exact(run(provider.get_messages("s"))) == exact([message])


def test_a_cancelled_call_is_completed() -> None:
    async def cancel(provider: GitSessionHistoryProvider) -> None:
        task = asyncio.ensure_future(provider.save_messages("s", [FrameworkMessage("user", ["Hello"])]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(await provider.get_messages("s")) == 1

    with Store.in_memory() as store:
        run(cancel(GitSessionHistoryProvider(store)))


WRITER = """
import asyncio, sys
from agent_framework import Message
from gitsession import Store
from gitsession.frameworks.agent_framework import GitSessionHistoryProvider

async def write(provider):
    for number in range(15):
        words = [f"{sys.argv[1]} {number} a", f"{sys.argv[1]} {number} b"]
        await provider.save_messages("s", [Message("user", [each]) for each in words])

with Store.open("s.git") as store:
    asyncio.run(write(GitSessionHistoryProvider(store)))
"""


def test_two_processes_append_to_one_session_and_lose_nothing(tmp_path: Path) -> None:
    Store.create(tmp_path / "s.git").close()
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, name], cwd=tmp_path) for name in ("one", "two")]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    with Store.open(tmp_path / "s.git") as store:
        found = [message.text for message in run(GitSessionHistoryProvider(store).get_messages("s"))]
        for name in ("one", "two"):
            own = [each for each in found if each.startswith(name)]
            assert own == [f"{name} {number} {letter}" for number in range(15) for letter in "ab"]
        at = [found.index(f"one {number} a") for number in range(15)]
        assert all(found[index + 1].endswith(f"{number} b") for number, index in enumerate(at)), "a batch was divided"
        assert store.verify().problems == []


def test_messages_survive_a_kill(tmp_path: Path) -> None:
    Store.create(tmp_path / "s.git").close()
    kill_after(
        "import asyncio\n"
        "from agent_framework import Message\n"
        "from gitsession import Store\n"
        "from gitsession.frameworks.agent_framework import GitSessionHistoryProvider\n"
        "provider = GitSessionHistoryProvider(Store.open('s.git'))\n"
        "asyncio.run(provider.save_messages('s', [Message('user', ['Hello'], message_id='1')]))",
        tmp_path,
    )
    with Store.open(tmp_path / "s.git") as store:
        [message] = run(GitSessionHistoryProvider(store).get_messages("s"))
        assert (message.text, message.message_id) == ("Hello", "1")
        assert store.verify().problems == []
