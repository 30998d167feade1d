"""Claude Agent SDK. Its ``InMemorySessionStore`` is not durable, so the peer is the file that Claude Code writes.

A line is appended to the file with ``fdatasync``, and the SDK's own functions read it and list the files.
"""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers.frameworks.framework import Framework, Sessions, store_in, text_of

_LINE = {"isSidechain": False, "userType": "external", "version": "2.1.0", "gitBranch": ""}
_HOME = "CLAUDE_CONFIG_DIR"


@contextmanager
def ours(place: Path) -> Iterator[Sessions]:
    import claude_agent_sdk as sdk

    from gitsession.frameworks.claude_agent_sdk import GitSessionStore

    with store_in(place) as opened, asyncio.Runner() as runner:
        store, directory = GitSessionStore(opened), str(place)
        project = sdk.project_key_for_directory(directory)

        def put(id: str, number: int) -> None:
            key = {"project_key": project, "session_id": _uuid(id)}
            runner.run(store.append(key, [_line(id, number, place)]))

        yield Sessions(
            put,
            lambda id: len(runner.run(sdk.get_session_messages_from_store(store, _uuid(id), directory))),
            lambda: len(runner.run(sdk.list_sessions_from_store(store, directory))),
        )


@contextmanager
def theirs(place: Path) -> Iterator[Sessions]:
    import claude_agent_sdk as sdk

    directory, before = str(place), os.environ.get(_HOME)
    folder = place / "projects" / sdk.project_key_for_directory(directory)
    folder.mkdir(parents=True, exist_ok=True)

    def put(id: str, number: int) -> None:
        with open(folder / f"{_uuid(id)}.jsonl", "a") as file:
            file.write(json.dumps(_line(id, number, place)) + "\n")
            file.flush()
            os.fdatasync(file.fileno())

    os.environ[_HOME] = directory
    try:
        yield Sessions(
            put,
            lambda id: len(sdk.get_session_messages(_uuid(id), directory)),
            lambda: len(sdk.list_sessions(directory, include_worktrees=False)),
        )
    finally:
        os.environ.pop(_HOME)
        os.environ.update({} if before is None else {_HOME: before})


def _line(id: str, number: int, place: Path) -> dict[str, Any]:
    """Return a line of the transcript of a session."""
    role = "assistant" if number % 2 else "user"
    text = text_of(number)
    message = {"role": role, "content": [{"type": "text", "text": text}] if number % 2 else text}
    if number % 2:
        message |= {
            "id": f"msg_{number}",
            "type": "message",
            "model": "claude-sonnet-4-5",
            "usage": {"input_tokens": 9},
        }
    return {
        **_LINE,
        "parentUuid": _uuid(f"{id} {number - 1}") if number else None,
        "cwd": str(place),
        "sessionId": _uuid(id),
        "type": role,
        "message": message,
        "uuid": _uuid(f"{id} {number}"),
        "timestamp": f"2026-02-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.000Z",
    }


def _uuid(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, name))


FRAMEWORK = Framework("Claude Agent SDK", "the file of Claude Code", ("claude-agent-sdk",), ours, theirs)
