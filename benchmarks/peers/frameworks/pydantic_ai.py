"""Pydantic AI. Its only store is ``InMemoryConversationStore``, which stores nothing on a disk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers.frameworks.framework import Framework, Sessions, store_in, text_of


@contextmanager
def ours(place: Path) -> Iterator[Sessions]:
    from gitsession.frameworks.pydantic_ai import GitSessionConversationStore

    with store_in(place) as store, asyncio.Runner() as runner:
        yield _sessions(GitSessionConversationStore(store), runner)


@contextmanager
def theirs(place: Path) -> Iterator[Sessions]:
    from pydantic_ai.conversation_store import InMemoryConversationStore

    with asyncio.Runner() as runner:
        yield _sessions(InMemoryConversationStore(), runner)


def _sessions(store: Any, runner: asyncio.Runner) -> Sessions:
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

    known: dict[str, Conversation] = {}

    def put(id: str, number: int) -> None:
        conversation = known.setdefault(id, Conversation(messages=[], conversation_id=id))
        text = text_of(number)
        message = ModelResponse([TextPart(text)]) if number % 2 else ModelRequest([UserPromptPart(text)])
        conversation.messages.append(message)
        runner.run(store.save(conversation))

    return Sessions(
        put,
        lambda id: len(runner.run(store.load(id)).messages),
        lambda: len(runner.run(store.list_conversations())),
    )


FRAMEWORK = Framework("Pydantic AI", "InMemoryConversationStore", ("pydantic-ai-slim",), ours, theirs, is_durable=False)
