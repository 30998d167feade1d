"""Google's ADK. Its peer is ``SqliteSessionService`` on a file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers.frameworks.framework import Framework, Sessions, store_in, text_of


@contextmanager
def ours(place: Path) -> Iterator[Sessions]:
    from gitsession.frameworks.google_adk import GitSessionService

    with store_in(place) as store, asyncio.Runner() as runner:
        yield _sessions(GitSessionService(store), runner)


@contextmanager
def theirs(place: Path) -> Iterator[Sessions]:
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    with asyncio.Runner() as runner:
        service = SqliteSessionService(str(place / "peer.db"))
        yield _sessions(service, runner)
        runner.run(service.close())


def _sessions(service: Any, runner: asyncio.Runner) -> Sessions:
    from google.adk.events.event import Event
    from google.genai import types

    user: dict[str, Any] = {"app_name": "app", "user_id": "ada"}
    known: dict[str, Any] = {}

    def put(id: str, number: int) -> None:
        if id not in known:
            known[id] = runner.run(service.create_session(**user, session_id=id))
        content = types.Content(role="model" if number % 2 else "user", parts=[types.Part(text=text_of(number))])
        event = Event(author="agent" if number % 2 else "user", content=content)
        runner.run(service.append_event(known[id], event))

    return Sessions(
        put,
        lambda id: len(runner.run(service.get_session(**user, session_id=id)).events),
        lambda: len(runner.run(service.list_sessions(**user)).sessions),
    )


FRAMEWORK = Framework("Google ADK", "SqliteSessionService", ("google-adk", "aiosqlite"), ours, theirs)
