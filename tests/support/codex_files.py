"""Builders for rollouts of codex: one function for each kind of line."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from builders import dumps

from gitsession import Store
from gitsession.api.imports import Imports

THREAD = "01a1ffd1-326d-7a00-aa58-5bfc88e96001"
START = "2026-11-21T20:34:22.452Z"
NAME = f"rollout-2026-11-21T20-34-22-{THREAD}"
ENVIRONMENT = "<environment_context>\n  <cwd>/work</cwd>\n</environment_context>"
PERMISSIONS = "<permissions instructions>\nnone\n</permissions instructions>"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""The smallest PNG."""

Lines = list[dict[str, Any]]


def import_files(store: Store, files: Iterable[Path]) -> None:
    """Import all files of threads, including files that continue another one."""
    imports = Imports(store.agents)
    for file in sorted(files):
        imports.take(file)
    imports.import_waiting()
    imports.finish()


def rollout(*parts: Lines, thread: str = THREAD, first: int | None = None, **meta: object) -> bytes:
    """Return a file with a header and these lines.

    Args:
        first: The ordinal of the header in a paginated file.
    """
    history = {} if first is None else {"history_mode": "paginated"}
    header = at("session_meta", id=thread, timestamp=START, cwd="/work", originator="codex_exec",
                cli_version="0.169.0", source="exec", **history, **meta)  # fmt: skip
    return joined(header, *parts, first=first)


def joined(*parts: Lines, first: int | None = None) -> bytes:
    """Return the lines of a file. Each has a timestamp and, if ``first`` is given, its ordinal."""
    return b"".join(dumps(line) + b"\n" for line in _stamped(itertools.chain(*parts), first))


def _stamped(lines: Iterable[dict[str, Any]], first: int | None) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines):
        time = f"2026-11-21T20:{34 + number // 60:02}:{number % 60:02}.000Z"
        yield {"timestamp": time, **({} if first is None else {"ordinal": first + number}), **line}


def at(kind: str, /, **payload: object) -> Lines:
    return [{"type": kind, "payload": payload}]


def event(name: str, /, **fields: object) -> Lines:
    return [{"type": "event_msg", "payload": {"type": name, **fields}}]


def item(name: str, /, **fields: object) -> Lines:
    return [{"type": "response_item", "payload": {"type": name, **fields}}]


def message(role: str, /, *texts: str, **fields: object) -> dict[str, Any]:
    """Return a message as a response item, for a line or for a replacement history."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text} for text in texts], **fields}


def said(role: str, /, *texts: str, **fields: object) -> Lines:
    return [{"type": "response_item", "payload": message(role, *texts, **fields)}]


def user(text: str) -> Lines:
    """Return a prompt as a message, and as the event that codex displays."""
    return said("user", text) + event("user_message", message=text, images=[])


def assistant(text: str) -> Lines:
    return said("assistant", text) + event("agent_message", message=text)


def settings(model: str = "mock-model", **fields: object) -> Lines:
    sandbox = {"type": "danger-full-access"}
    return at("turn_context", cwd="/work", approval_policy="never", sandbox_policy=sandbox, model=model,
              summary="auto", **fields)  # fmt: skip


def call(id: str, name: str = "exec_command", arguments: str = '{"cmd":"ls"}') -> Lines:
    return item("function_call", name=name, arguments=arguments, call_id=id)


def output(id: str, text: object = "a.txt\n") -> Lines:
    return item("function_call_output", call_id=id, output=text)


def turn(name: str, *before: Lines) -> Lines:
    """Return a turn. For ``t1``, the prompt is ``U t1`` and the answer is ``A t1``.

    Args:
        before: Lines between the start of the turn and the prompt.
    """
    start = event("task_started", turn_id=name, model_context_window=200_000)
    end = event("task_complete", turn_id=name, last_agent_message=f"A {name}")
    words = user(f"U {name}") + settings(turn_id=name) + assistant(f"A {name}")
    return [*start, *itertools.chain(*before), *words, *counted(100), *end]


def counted(total: int) -> Lines:
    usage = {"input_tokens": total - 40, "output_tokens": 40, "total_tokens": total}
    return event("token_count", info={"last_token_usage": usage, "total_token_usage": usage})


def rolled_back(count: object) -> Lines:
    return event("thread_rolled_back", num_turns=count)


def compacted(text: str, items: list[dict[str, Any]] | None = None) -> Lines:
    return at("compacted", message=text, **({} if items is None else {"replacement_history": items}))


TALK = said("developer", PERMISSIONS) + said("user", ENVIRONMENT) + turn("t1") + turn("t2")
"""Two turns, with the context that codex writes before the first."""
