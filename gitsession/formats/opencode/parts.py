"""How single things are spelt for opencode: parts of messages, ids, and marks in messages of its own."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from gitsession.formats.base.jsonl import LineFailure, parse
from gitsession.formats.opencode.json_text import quoted
from gitsession.model.blocks import Block, File, Image, Text, Thinking, ToolCall

NOT_ANSWERED = "[Tool execution was interrupted]"

Words = dict[str, Any]


def part_of(block: Block, notes: Counter[str]) -> Words | None:
    """The part that says a block, a call without its result; ``None`` where it has no word, which ``notes`` count."""
    match block:
        case Text():
            return {"type": "text", "text": block.text} if block.text else None
        case ToolCall():
            given = dict(block.arguments)
            state = {"status": "error", "input": given, "error": NOT_ANSWERED, "time": {"start": 0, "end": 0}}
            return {"type": "tool", "callID": block.id, "tool": block.name, "state": state}
        case Image() | File(data=bytes()):
            encoded = base64.b64encode(block.data or b"").decode()
            mime = block.mime or "application/octet-stream"
            name = {"filename": block.name} if isinstance(block, File) and block.name else {}
            return {"type": "file", "mime": mime, **name, "url": f"data:{mime};base64,{encoded}"}
        case File():
            return {"type": "text", "text": block.name}
        case Thinking():
            notes["thoughts, which are left out"] += 1
    return None


def made_id(kind: str, at_ms: int, count: int, *named: str) -> str:
    """As opencode makes them: twelve digits of the time and of a counter, and fourteen that keep them apart."""
    apart = sha256("/".join((kind, str(count), *named)).encode("utf-8", "backslashreplace")).hexdigest()[:14]
    return f"{kind}_{(at_ms * 4096 + count) % (1 << 48):012x}{apart}"


def whole(value: Any) -> int:
    """A count of tokens as opencode takes it."""
    return value if type(value) is int and value > 0 else 0


def id_in(header: bytes) -> str | None:
    """What opencode calls the session of a header."""
    found = parse(header)
    info = None if isinstance(found, LineFailure) else found.get("info")
    id = info.get("id") if isinstance(info, Mapping) else None
    return id if isinstance(id, str) else None


def in_full(line: bytes) -> list[tuple[str, bytes]]:
    """What stands on ``meta`` for a record, by the id of the message that speaks."""
    if not line.startswith(b'{"in full":'):
        return []
    found = parse(line)
    listed = [] if isinstance(found, LineFailure) else found.get("in full")
    info = listed[-1].get("info") if isinstance(listed, list) and listed and isinstance(listed[-1], dict) else None
    id = info.get("id") if isinstance(info, dict) else None
    return [(id, line)] if isinstance(id, str) else []


def marked(kept: bytes, targets: set[str], key: str, at_ms: int) -> bytes:
    """A message of opencode's in which the results that are meant, all of them or single parts, are marked as old."""
    record = parse(kept)
    if isinstance(record, LineFailure):
        return kept
    changed = False
    for message in [record, *record.get("messages", []), *record.get("in full", [])]:
        parts = message.get("parts") if isinstance(message, dict) else None
        for part in parts if isinstance(parts, list) else []:
            state = part.get("state") if isinstance(part, dict) else None
            time = state.get("time") if isinstance(state, dict) and state.get("status") == "completed" else None
            if isinstance(time, dict) and "compacted" not in time and (key in targets or part.get("id") in targets):
                time["compacted"] = at_ms
                changed = True
    return quoted(record).encode() if changed else kept
