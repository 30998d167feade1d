"""Builders for session files of Claude Code, with short ids."""

from __future__ import annotations

from typing import Any

from builders import dumps, joined

START = "2026-02-01T00:00:00.000Z"
SESSION = "11111111-2222-4333-8444-555555555555"


def uuid(id: str) -> str:
    """Return a UUID for a short id, since Claude Code requires UUIDs."""
    return f"00000000-0000-4000-8000-{id.encode().hex():0>12}"


def line(type: str, id: str, parent: str | None, at: int = 1, **fields: Any) -> bytes:
    """Return a line of the tree.

    Args:
        at: Time of the line in seconds after the start of the session.
    """
    where = {"cwd": "/work", "sessionId": SESSION, "version": "2.1.197", "gitBranch": "main", "userType": "external"}
    up = None if parent is None else uuid(parent)
    time = f"2026-02-01T{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}.000Z"
    ids = {"uuid": uuid(id), "timestamp": time}
    return dumps({"parentUuid": up, "isSidechain": False, "type": type, **fields, **ids, **where})


def user(id: str, parent: str | None, text: Any = "", at: int = 1, **fields: Any) -> bytes:
    return line("user", id, parent, at, message={"role": "user", "content": text or f"words of {id}"}, **fields)


def assistant(id: str, parent: str | None, *blocks: Any, answer: str = "", at: int = 1, **fields: Any) -> bytes:
    """Return a line with one or more blocks of an answer.

    Args:
        answer: The id that all blocks of one answer share.
    """
    content = list(blocks) or [{"type": "text", "text": f"words of {id}"}]
    usage = {"input_tokens": 10, "output_tokens": 5}
    message = {"id": answer or f"msg_{id}", "type": "message", "role": "assistant", "model": "claude-opus-4-8"}
    return line("assistant", id, parent, at, message={**message, "content": content, "usage": usage}, **fields)


def call(id: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def result(id: str, parent: str | None, of: str, text: Any = "done", at: int = 1, **fields: Any) -> bytes:
    content = [{"tool_use_id": of, "type": "tool_result", "content": text}]
    return user(id, parent, content, at, **fields)


def boundary(
    id: str, after: str | None, at: int = 1, *, keeps: tuple[str, ...] = (), anchor: str = "", **metadata: Any
) -> bytes:
    """Return a compaction boundary. The id of its summary is ``s`` followed by ``id``.

    Args:
        anchor: The entry after which the preserved messages continue. The default is the summary.
    """
    said: dict[str, Any] = {"trigger": "auto", "preTokens": 21_000, **metadata}
    if keeps:
        ids = [uuid(kept) for kept in keeps]
        anchored = {"anchorUuid": uuid(anchor or f"s{id}")}
        said["preservedSegment"] = {"headUuid": ids[0], **anchored, "tailUuid": ids[-1]}
        said["preservedMessages"] = {**anchored, "uuids": ids, "allUuids": ids}
    up = None if after is None else uuid(after)
    fields = {"logicalParentUuid": up, "subtype": "compact_boundary", "content": "Conversation compacted"}
    return line("system", id, None, at, **fields, compactMetadata=said)


def summary(of: str, text: str = "What was said.", at: int = 1) -> bytes:
    return user(f"s{of}", of, text, at, isCompactSummary=True, isVisibleInTranscriptOnly=True)


def compacted(id: str, after: str | None, **fields: Any) -> list[bytes]:
    return [boundary(id, after, **fields), summary(id)]


def note(type: str, **fields: Any) -> bytes:
    """Return a line outside of the tree."""
    return dumps({"type": type, **fields, "sessionId": SESSION})


def asked() -> list[bytes]:
    """Return the queue operations that are logged for a prompt."""
    return [
        note("queue-operation", operation="enqueue", timestamp=START, content="hi"),
        note("queue-operation", operation="dequeue", timestamp=START),
    ]


def last_prompt(leaf: str | None, **fields: Any) -> bytes:
    return note("last-prompt", lastPrompt="hi", leafUuid=leaf and uuid(leaf), **fields)


def talk(*ids: str, after: str | None = None) -> list[bytes]:
    """Return messages of the user and the assistant in turn. Each is a child of the previous one."""
    parents = (after, *ids)
    say = (user, assistant)
    return [say[n % 2](id, parents[n], at=n + 1) for n, id in enumerate(ids)]


def parallel(id: str, parent: str) -> list[bytes]:
    """Return three parallel calls as Claude Code writes them: the results come in another order."""
    first, second, third = (f"{id}{n}" for n in "123")
    return [
        assistant(f"{id}t", parent, {"type": "thinking", "thinking": "hm", "signature": "sig"}, answer=id),
        assistant(first, f"{id}t", call(f"call_{first}"), answer=id),
        assistant(second, first, call(f"call_{second}"), answer=id),
        assistant(third, second, call(f"call_{third}"), answer=id),
        result(f"r{second}", second, f"call_{second}", at=3),
        result(f"r{first}", first, f"call_{first}", at=4),
        result(f"r{third}", third, f"call_{third}", at=5),
    ]


def of(*lines: bytes) -> bytes:
    return joined(*lines)
