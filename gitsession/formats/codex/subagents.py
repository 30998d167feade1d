"""Which call of a thread of codex's began one of its sub-agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsession.formats.base.jsonl import Failure, Object, parse
from gitsession.model.entries import Session


def began(payload: bytes, id: str, beside: Mapping[str, bytes]) -> str:
    """``Delegating.began``: the call whose end, an event or its result, names the thread."""
    key = id.encode("utf-8", "surrogatepass")
    for raw in payload.split(b"\n") if key in payload else ():
        line = parse(raw) if key in raw else None
        said = line.get("payload") if isinstance(line, dict) else None
        if isinstance(said, dict):
            call = _by_event(said, id) or _by_result(said, id)
            if call:
                return call
    return ""


def _by_event(said: Object, id: str) -> str:
    item = said.get("item")
    item = item if isinstance(item, dict) else {}
    threads = item.get("receiver_thread_ids")
    is_it = item.get("tool") == "spawn_agent" and isinstance(threads, list) and id in threads
    return _text(item.get("id")) if is_it else ""


def _by_result(said: Object, id: str) -> str:
    output = said.get("output") if said.get("type") == "function_call_output" else None
    result = parse(output.encode("utf-8", "surrogatepass")) if isinstance(output, str) else None
    is_it = result is not None and not isinstance(result, Failure) and result.get("agent_id") == id
    return _text(said.get("call_id")) if is_it else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def is_delegated(header: Session) -> bool:
    """``Delegating.is_delegated``: a fork by the user states ``forked_from_id`` alone."""
    source = header.extra.get("source")
    is_spawned = isinstance(source, dict) and "subagent" in source
    return is_spawned or bool(header.extra.get("parent_thread_id"))
