"""Tests of the working directory of sessions: ``@`` finds the newest conversation of a program in its folder."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gitsession import Message, Store


def langgraph(store: Store, **options: Any) -> str:
    pytest.importorskip("langgraph.checkpoint.base")
    from langgraph.checkpoint.base import empty_checkpoint

    from gitsession.frameworks.langgraph import GitSessionSaver
    from gitsession.frameworks.langgraph_memory import GitSessionMemoryStore

    saver = GitSessionSaver(store, **options)
    for namespace in ("", "subgraph:1"):
        place: Any = {"configurable": {"thread_id": "id", "checkpoint_ns": namespace}}
        saver.put(place, empty_checkpoint(), {"source": "loop", "step": 1}, {})
    GitSessionMemoryStore(store).put(("users",), "k", {"n": 1})
    return "langgraph"


def langchain(store: Store, **options: Any) -> str:
    messages = pytest.importorskip("langchain_core.messages")
    from gitsession.frameworks.langchain import GitSessionChatMessageHistory

    GitSessionChatMessageHistory("id", store, **options).add_messages([messages.HumanMessage("Hello")])
    return "langchain"


def openai_agents(store: Store, **options: Any) -> str:
    pytest.importorskip("agents")
    from gitsession.frameworks.openai_agents import GitSession

    asyncio.run(GitSession("id", store, **options).add_items([{"content": "Hello", "role": "user"}]))
    return "openai-agents"


def google_adk(store: Store, **options: Any) -> str:
    pytest.importorskip("google.adk")
    from gitsession.frameworks.google_adk import GitSessionService

    service, state = GitSessionService(store, **options), {"app:a": 1, "user:b": 2}
    asyncio.run(service.create_session(app_name="app", user_id="ada", session_id="id", state=state))
    asyncio.run(service.create_session(app_name="app", user_id="bob", session_id="id", state=state))
    store.trash.put(store.find_keyed("app/bob/id", agent="google-adk").id)  # only its state is left
    return "google-adk"


def pydantic_ai(store: Store, **options: Any) -> str:
    conversations = pytest.importorskip("pydantic_ai.conversation")
    from gitsession.frameworks.pydantic_ai import GitSessionConversationStore

    record = conversations.Conversation(conversation_id="id")
    asyncio.run(GitSessionConversationStore(store, **options).save(record))
    return "pydantic-ai"


def opentelemetry(store: Store, **options: Any) -> str:
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    from gitsession.frameworks.opentelemetry import GitSessionSpanExporter

    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(GitSessionSpanExporter(store, **options)))
    text = '[{"role": "user", "parts": [{"type": "text", "content": "Hello"}]}]'
    with provider.get_tracer("test").start_as_current_span("chat") as span:
        span.set_attributes(
            {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "id", "gen_ai.input.messages": text}
        )
    provider.shutdown()
    return store.sessions()[0].agent


def smolagents(store: Store, **options: Any) -> str:
    pytest.importorskip("smolagents")
    from gitsession.frameworks.smolagents import GitSessionMemory

    GitSessionMemory("id", store, **options)
    return "smolagents"


def agent_framework(store: Store, **options: Any) -> str:
    framework = pytest.importorskip("agent_framework")
    from gitsession.frameworks.agent_framework import GitSessionHistoryProvider

    messages = [framework.Message("user", ["Hello"])]
    asyncio.run(GitSessionHistoryProvider(store, **options).save_messages("id", messages))
    return "agent-framework"


def agent_framework_workflow(store: Store, **options: Any) -> str:
    framework = pytest.importorskip("agent_framework")
    from gitsession.frameworks.agent_framework import GitSessionCheckpointStorage

    checkpoint = framework.WorkflowCheckpoint("id", "hash")
    asyncio.run(GitSessionCheckpointStorage(store, **options).save(checkpoint))
    return "agent-framework-workflow"


FRAMEWORKS = [
    *(agent_framework, agent_framework_workflow),
    *(langgraph, langchain, openai_agents, google_adk, pydantic_ai, opentelemetry, smolagents),
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git") as store:
        yield store


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder, which becomes the working directory."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.mark.parametrize("write", FRAMEWORKS, ids=lambda write: write.__name__)
def test_the_folder_of_the_process_finds_its_conversation(
    store: Store, project: Path, write: Callable[..., str]
) -> None:
    agent = write(store)
    found = store.session("@")
    [row] = [row for row in store.sessions() if row.sid == found.id]
    assert row.agent == agent and "id" in (row.key or "").split("/")
    assert [each.sid for each in store.sessions_of(project)] == [found.id]
    assert store.sessions_of(project.parent.parent) == []


@pytest.mark.parametrize("write", FRAMEWORKS, ids=lambda write: write.__name__)
def test_a_program_can_choose_the_folder(store: Store, tmp_path: Path, write: Callable[..., str]) -> None:
    write(store, cwd=str(tmp_path / "elsewhere"))
    assert len(store.sessions_of(tmp_path / "elsewhere")) == 1


@pytest.mark.parametrize("write", FRAMEWORKS, ids=lambda write: write.__name__)
def test_a_deleted_folder_is_no_obstacle(store: Store, project: Path, write: Callable[..., str]) -> None:
    os.rmdir(project)
    write(store)
    assert {row.project for row in store.sessions()} == {None}


def test_a_rewind_restores_the_folder_that_was_captured_not_that_of_the_process(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, sandbox = tmp_path / "program", tmp_path / "sandbox"
    sandbox.mkdir()
    subprocess.run(["git", "init", "-q", str(program)], check=True)
    subprocess.run(
        ["git", "-C", str(program), "remote", "add", "origin", "https://example.org/program.git"], check=True
    )
    (program / "a.txt").write_text("of the program")
    monkeypatch.chdir(program)
    session = store.keyed_session("id", agent="mine", cwd=str(program))
    session.append(Message.user("Write it"))
    before = session.leaf
    with session.files.checkpoint(sandbox, call="c1", target=before):
        (sandbox / "a.txt").write_text("of the sandbox")
    session.append(Message.assistant("Done"))
    session.files.rewind(session.files.plan_rewind(before))
    assert [*sandbox.iterdir()] == [] and (program / "a.txt").read_text() == "of the program"
