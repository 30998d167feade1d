"""OpenAI Agents SDK. Its peer is ``SQLiteSession`` on a file. The SDK lists no sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers.frameworks.framework import Framework, Sessions, store_in, text_of


@contextmanager
def ours(place: Path) -> Iterator[Sessions]:
    from gitsession.frameworks.openai_agents import GitSession

    with store_in(place) as store, asyncio.Runner() as runner:
        yield _sessions(lambda id: GitSession(id, store), runner)


@contextmanager
def theirs(place: Path) -> Iterator[Sessions]:
    from agents import SQLiteSession

    with ExitStack() as opened, asyncio.Runner() as runner:

        def open_session(id: str) -> SQLiteSession:
            session = SQLiteSession(id, place / "peer.db")
            opened.callback(session.close)
            return session

        yield _sessions(open_session, runner)


def _sessions(open_session: Callable[[str], Any], runner: asyncio.Runner) -> Sessions:
    known: dict[str, Any] = {}

    def session(id: str) -> Any:
        if id not in known:
            known[id] = open_session(id)
        return known[id]

    return Sessions(
        lambda id, number: runner.run(session(id).add_items([_item(number)])),
        lambda id: len(runner.run(session(id).get_items())),
    )


def _item(number: int) -> dict[str, Any]:
    text = text_of(number)
    if number % 2 == 0:
        return {"role": "user", "content": text}
    part = {"annotations": [], "text": text, "type": "output_text", "logprobs": []}
    return {"id": f"msg_{number}", "content": [part], "role": "assistant", "status": "completed", "type": "message"}


FRAMEWORK = Framework("OpenAI Agents SDK", "SQLiteSession", ("openai-agents",), ours, theirs)
